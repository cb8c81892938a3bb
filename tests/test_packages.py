"""What systems want beside a wheel: a manual page, a Debian package, a Homebrew formula, lines that install completion.

Slow: it builds a wheel and a package, and runs a daemon from the package.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch.cli.commands import COMMANDS, build_command_line
from hooklatch.version import VERSION
from support.commands import PATIENCE, Place, new_place
from support.repository import ROOT

PAGE = ROOT / "packaging" / "man" / "man1" / "hooklatch.1"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # three builds, on a busy machine


def run_python(*words: str, folder: Path = ROOT) -> str:
    return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True, cwd=folder).stdout


def test_the_manual_page_is_that_of_the_parser() -> None:
    code = "import sys; sys.path.insert(0, 'packaging'); import manual; sys.stdout.write(manual.make_manual())"

    assert PAGE.read_text() == run_python("-c", code), "run: python packaging/manual.py"


def test_the_manual_page_has_every_command_with_its_options() -> None:
    text = PAGE.read_text().replace("\\-", "-")

    for name, parser in build_command_line().declared().commands.items():
        assert f".B hooklatch {name} " in text
        options = {option for action in parser.declared()._actions for option in action.option_strings}
        assert {option for option in options if option not in text} <= {"-h", "--help"}
    assert text.count(".SS ") == len(COMMANDS)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_finds_no_fault_in_the_manual_page() -> None:
    done = subprocess.run(
        ["groff", "-ww", "-z", "-man", "-Kutf8", str(PAGE)], check=True, capture_output=True, text=True
    )

    assert (done.stdout, done.stderr) == ("", "")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel, the sdist and what is made of them."""
    folder = tmp_path_factory.mktemp("made")
    run_python("-m", "hatchling", "build", "-d", str(folder))
    code = (
        "import sys; sys.path.insert(0, 'packaging'); import system_packages as made; from pathlib import Path\n"
        "folder = Path(sys.argv[1])\n"
        "made.make_formula(next(folder.glob('*.tar.gz')), folder)\n"
        "import shutil\n"
        "shutil.which('dpkg-deb') and made.make_deb(next(folder.glob('*.whl')), folder, python=sys._base_executable)\n"
    )
    run_python("-c", code, str(folder))
    return folder


@pytest.fixture
def unpacked(made: Path, tmp_path: Path) -> Path:
    """Install the Debian package below a folder, as far as this user may."""
    if shutil.which("dpkg") is None:
        pytest.skip("dpkg is not installed")
    (package,) = made.glob("*.deb")
    if os.geteuid() == 0:
        for name in ("info", "updates"):
            (tmp_path / "var/lib/dpkg" / name).mkdir(parents=True)
        (tmp_path / "var/lib/dpkg/status").touch()
        subprocess.run(
            ["dpkg", f"--root={tmp_path}", "--force-depends", "--install", str(package)], check=True,
            capture_output=True,
        )  # fmt: skip
        shown = subprocess.run(
            ["dpkg", f"--root={tmp_path}", "--status", "hooklatch"], check=True, capture_output=True, text=True
        )
        assert "Status: install ok installed\n" in shown.stdout
    else:
        subprocess.run(["dpkg-deb", "--extract", str(package), str(tmp_path)], check=True)
    return tmp_path


def test_the_debian_package_installs_and_what_it_installs_decides(unpacked: Path) -> None:
    program = unpacked / "usr/lib/hooklatch/bin"
    with new_place() as place:

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [str(program / "python3"), "-I", str(program / "hooklatch"), *words], env=place.environment,
                cwd=place.folder, capture_output=True, text=True, check=False, timeout=PATIENCE,
                input=json.dumps({"tool_name": "Bash", "tool_input": {"command": "rm x"}}),
            )  # fmt: skip

        version = run("--version").stdout
        started = run("serve", "--detach", "--json")
        denied = run("fire", "pre_tool_use", "--payload", "-")
        stopped = run("stop")

    assert version == f"hooklatch {VERSION}\n"
    assert started.returncode == 0, started.stderr
    assert (denied.returncode, stopped.returncode) == (2, 0)
    assert os.readlink(unpacked / "usr/bin/hooklatch") == "../lib/hooklatch/bin/hooklatch"


def test_the_debian_package_has_units_manual_completions_and_schema(unpacked: Path) -> None:
    unit = (unpacked / "usr/lib/systemd/user/hooklatch.service").read_text()

    assert "ExecStart=/usr/bin/hooklatch serve\n" in unit
    assert (unpacked / "usr/share/man/man1/hooklatch.1.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert "hooklatch" in (unpacked / "usr/share/bash-completion/completions/hooklatch").read_text()
    assert json.loads((unpacked / "usr/share/hooklatch/hooks.schema.json").read_text())["$defs"]


def test_the_wheel_has_the_units_and_the_manual_page(made: Path) -> None:
    (wheel,) = made.glob("*.whl")
    names = subprocess.run(
        [sys.executable, "-m", "zipfile", "--list", str(wheel)], check=True, capture_output=True, text=True
    ).stdout

    assert "hooklatch/cli/daemon/units/user/hooklatch.service" in names
    assert f"hooklatch-{VERSION}.data/data/share/man/man1/hooklatch.1" in names


def test_the_formula_is_that_of_the_sdist_and_parses(made: Path) -> None:
    (sdist,) = made.glob("*.tar.gz")
    text = (made / "hooklatch.rb").read_text()
    opened = re.findall(r"^\s*(?:class|def) |\bdo$", text, re.MULTILINE)
    needed = set(re.findall(r"^  (\w+)", text, re.MULTILINE))

    assert len(opened) == len(re.findall(r"^\s*end$", text, re.MULTILINE))
    assert all(line.count('"') % 2 == 0 for line in text.splitlines())
    assert {"desc", "homepage", "url", "sha256", "license", "depends_on", "def", "test"} <= needed
    assert f"/{sdist.name}" in text
    with tarfile.open(sdist) as archive:
        assert f"hooklatch-{VERSION}/packaging/man/man1/hooklatch.1" in archive.getnames()
    if (ruby := shutil.which("ruby")) is not None:
        subprocess.run([ruby, "-c", str(made / "hooklatch.rb")], check=True, capture_output=True)


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place() as place:
        yield place


def test_completion_says_how_to_install_it_and_the_lines_work(place: Place) -> None:
    lines = place.json("completion")
    script = f"{sys.executable} -m hooklatch"
    line = lines["bash"]
    done = place.shell(f'hooklatch() {{ {script} "$@"; }}; {line}; cat ~/.bashrc', place.folder)

    assert {*lines} == {"bash", "zsh", "fish"}
    assert done.stdout == 'eval "$(hooklatch completion bash)"\n'
    assert place.run("completion").stdout.splitlines()[0] == f"bash  {line}"
