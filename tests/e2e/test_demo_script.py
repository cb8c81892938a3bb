"""examples/demo.sh: it installs what a demo needs and no more, and says what is missing on a bare machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.repository import ROOT

# Does what it is asked as far as a test may: it notes it, and a venv is a folder with itself in it.
PYTHON = """#!/bin/sh
echo "$@" >> {calls}
case "$*" in
*"{fails}"*) exit 1 ;;
"--version") echo "Python 3.9.1" ;;
"-m venv"*) mkdir -p {venv}/bin && cp "$0" {venv}/bin/python ;;
esac
"""


def run(
    folder: Path, fails: str = "nothing", *words: str, path: str = os.environ["PATH"]
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    python, calls, venv = folder / "python", folder / "calls", folder / "venv"
    python.write_text(PYTHON.format(calls=calls, venv=venv, fails=fails))
    python.chmod(0o755)
    calls.touch()
    environment = {"PATH": path, "PYTHON": str(python), "VENV": str(venv)}
    done = subprocess.run(
        [ROOT / "examples" / "demo.sh", *words],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env=environment,
    )
    return done, calls.read_text().splitlines()


def test_it_installs_the_package_alone_says_so_and_runs_the_demo(tmp_path: Path) -> None:
    done, calls = run(tmp_path)
    _, again = run(tmp_path)

    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["making", "installing"]
    installing = [call for call in calls if "pip install" in call]
    assert len(installing) == 1
    assert installing[0].endswith(" --editable .")
    assert calls[-1] == "examples/demo.py"
    assert len([call for call in again if "pip install" in call]) == 1  # nothing is installed twice


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        ("version_info", "Python 3.9.1 is too old: hooklatch needs 3.11 or later"),
        ("ensurepip", "apt install python3-venv"),
        ("venv --clear", "the venv could not be made"),
        ("-m pip", "could not be installed"),
    ],
)
def test_what_is_missing_is_named_with_the_remedy(tmp_path: Path, fails: str, text: str) -> None:
    done, calls = run(tmp_path, fails)

    assert done.returncode == 1
    assert text in done.stderr
    assert done.stderr.startswith("demo: ")
    assert "examples/demo.py" not in calls


def programs(folder: Path, *names: str) -> str:
    """Return a PATH with what the script itself needs, and these."""
    folder.mkdir()
    for name in ("sh", "dirname", "uname", "mkdir", "cp", "touch", "true"):
        (folder / name).symlink_to(str(shutil.which(name)))
    for name in names:
        (folder / name).symlink_to(folder / "true")
    return str(folder)


def test_a_fleet_s_demo_is_installed_with_its_extra_and_run(tmp_path: Path) -> None:
    done, calls = run(tmp_path, "nothing", "fleet", path=programs(tmp_path / "bin", "redis-server"))

    assert done.returncode == 0, done.stderr
    [installing] = [call for call in calls if "pip install" in call]
    assert installing.endswith(" --editable .[fleet]")
    assert calls[-1] == "examples/demo_fleet.py"


def test_a_fleet_s_demo_without_an_engine_says_what_to_install(tmp_path: Path) -> None:
    done, calls = run(tmp_path, "nothing", "fleet", path=programs(tmp_path / "bin"))

    assert done.returncode == 1
    assert done.stderr == (
        "demo: there is no redis-server, the engine of the demo: on Debian and Ubuntu, apt install redis-server\n"
    )
    assert calls == []
