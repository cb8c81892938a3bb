"""doctor: everything that can be wrong, and what it says to do.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hooklatch.cli.commands import build_command_line
from hooklatch.cli.daemon.doctor import diagnose_pythons, run_doctor
from hooklatch.cli.daemon.serve import run_serve
from hooklatch.cli.hosts.machine_files import System
from support.commands import Place, new_place, serving
from support.tables import table

pytestmark = pytest.mark.slow

SOUND = {"hooks.toml": '[[hook]]\nid = "sound"\nevent = "pre_tool_use"\nmatch = "Bash"\ncommand = "true"\n'}
SHELL = '[[hook]]\nid = "sh"\nevent = "stop"\ncommand = "no-such-program --now"\n'


def problems(place: Place) -> list[dict[str, Any]]:
    done = place.run("doctor", "--json")
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    assert done.returncode == (1 if found["problems"] else 0)
    return found["problems"]


def test_no_daemon_is_a_problem_and_the_file_is_looked_at() -> None:
    with new_place({"hooks.toml": "\n[[hok]]\n"}) as place:
        daemon, file = problems(place)

        assert "no daemon is reachable" in daemon["what"]
        assert daemon["do"] == "hooklatch serve --detach"
        assert "hooks.toml:2: the file has no key 'hok'; did you mean 'hook'?" in file["what"]


def test_what_status_calls_red_is_named() -> None:
    with new_place({"hooks.toml": "[[hok]]\n"}) as place, serving(place):
        (problem,) = problems(place)

        assert "did you mean 'hook'?" in problem["what"]


def test_an_unsafe_file_is_named_with_the_command_that_mends_it() -> None:
    with new_place() as place:
        (place.config.parent / "guards.py").chmod(0o666)
        with serving(place):
            assert "fix it with: chmod go-w" in problems(place)[0]["what"]


def test_a_configuration_that_is_not_there_is_not_passed_over_in_silence() -> None:
    with new_place({}) as place:
        del place.environment["HOOKLATCH_CONFIG"]  # one that is named is refused
        with serving(place) as daemon:
            daemon.wait_for("so no guard of yours is active")
            status, doctor = place.run("status"), place.run("doctor")

    assert "does not exist, nor a hooks.d beside it" in status.stdout
    assert doctor.returncode == 1
    assert "hooklatch init --config " in doctor.stdout


def test_a_sound_daemon_has_no_problems_and_hooks_on_events_that_nobody_fires_are_a_hint() -> None:
    with new_place(SOUND) as place, serving(place):
        place.run("fire", "notification")
        found = place.json("doctor")
        place.fire_tool("Read")
        done = place.run("doctor")

    assert found["problems"] == []
    assert "no host has fired pre_tool_use since the daemon started" in found["hints"][0]["what"]
    assert (done.returncode, done.stdout) == (0, "all is well\n")


def test_what_is_not_well_around_a_daemon_is_named_with_what_to_do() -> None:
    """A program that is gone, an untrusted project here, and a suspension."""
    with new_place({"hooks.toml": SHELL}) as place, serving(place):
        (program,) = problems(place)
        (place.folder / ".hooklatch").mkdir()
        place.run("suspend", "--all", "--for", "60s", "--reason", "a test")
        found = problems(place)

    assert program["what"].startswith("global/sh runs 'no-such-program', which is not on the daemon's PATH")
    assert "hooklatch hooks disable global/sh" in program["do"]
    rest = {problem["what"]: problem["do"] for problem in found}
    assert "hooklatch resume --all" in rest.pop("every hook is suspended: a test")
    assert rest.pop(program["what"]) == program["do"]
    assert [*rest.values()] == ["look at them, then: hooklatch trust"]


@table(
    ("target", "is_named"),
    [
        ("python3 -c 'import json'", True),
        ("cat | python3", True),
        ("python3 -I -c 'import json'", False),
        ("python3.12 -c 'import json'", False),
        ("my-python3", False),
    ],
)
def test_a_python_that_imports_from_where_the_agent_works_is_named(target: str, is_named: bool, tmp_path: Path) -> None:
    (tmp_path / "python3.9").touch(0o755)
    (tmp_path / "python3").unlink(missing_ok=True)
    (tmp_path / "python3").symlink_to("python3.9")
    hook = {"name": "global/a", "kind": "shell", "enabled": True, "target": target}

    found = list(diagnose_pythons({"path": str(tmp_path)}, [hook]))

    assert [one.is_problem for one in found] == [False] * is_named
    assert all("a Python older than 3.11" in one.what for one in found)


@pytest.mark.parametrize(("platform", "shown"), [("linux", False), ("darwin", True)])
def test_on_a_mac_serve_and_doctor_say_once_that_it_was_not_run_on_one(
    platform: System, shown: bool, place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "macOS: built and tested against its interfaces, not yet run on one; please report"
    place.enter(monkeypatch)

    with serving(place):
        for run, words in ((run_serve, ["serve", "--detach"]), (run_doctor, ["doctor"])):
            arguments = build_command_line().parse_args(words)
            arguments.daemon_uid = None
            run(arguments, platform)

            assert " ".join(capsys.readouterr().err.split()).count(line) == shown
