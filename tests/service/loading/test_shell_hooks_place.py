"""Which program a command of a file runs, and what is said of those that an agent could have written.

Slow: daemons and commands are processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import Place, new_place, serving

pytestmark = pytest.mark.slow
REFUSES = "#!/bin/sh\necho the operator says no >&2\nexit 2\n"
PASSES = "#!/bin/sh\nexit 0\n"
HOOKS = """
[[hook]]
id = "beside"
event = "stop"
argv = ["./check.sh"]

[[hook]]
id = "in-file"
event = "pre_compact"
command = "./check.sh"
run_in = "file"

[[hook]]
id = "relative"
event = "session_end"
command = "./check.sh"
"""
CLAUDE = '{"hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": "./check.sh"}]}]}}'


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    files = {"hooks.d/own.toml": HOOKS, "hooks.d/check.sh": REFUSES, "hooks.d/claude.json": CLAUDE, "hooks.toml": ""}
    with new_place(files) as place:
        (place.config.parent / "hooks.d/check.sh").chmod(0o755)
        (place.folder / "check.sh").write_text(PASSES)
        (place.folder / "check.sh").chmod(0o755)
        with serving(place):
            yield place


@pytest.mark.parametrize("event", ["stop", "pre_compact"])
def test_a_command_is_that_of_its_file(event: str, place: Place) -> None:
    done = place.run("fire", event, "--payload", "-", "--cwd", str(place.folder), stdin="{}")

    assert "the operator says no" in done.stdout


def test_what_an_agent_could_have_written_is_named_and_nothing_is_red(place: Place) -> None:
    status, hints = place.json("status"), place.json("doctor", code=0)["hints"]
    warned = [one["what"] for one in status["warned"] if one["reason"] == "commands"]

    assert status["health"] == "green"
    assert [what.partition(":")[0] for what in warned] == ["global/claude", "global/relative"]
    assert all("it runs './check.sh' of the folder in which the agent works" in what for what in warned)
    assert {one["what"] for one in hints} >= set(warned)


def test_check_names_them_before_a_daemon_does(place: Place) -> None:
    (checked,) = place.json("check")["checked"]
    said = place.run("check").stdout
    file = str(place.config.parent / "hooks.d/own.toml")

    assert [(one["file"], one["line"]) for one in checked["dangers"] if one["file"] == file] == [(file, 13)]
    assert "hook 'relative': it runs './check.sh'" in said
    assert Path(file).name in said
