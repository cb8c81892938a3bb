"""A disk that hangs is the fault of what lies on it, and holds up nothing else: no gate, no reload, no start, no end.

Slow as a whole: real daemons, whose looks at that disk last as long as they may.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from support.commands import serving
from support.hung_disk import PlaceWithDisk

pytestmark = pytest.mark.slow

GUARD = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def no(event):
    return deny("{0}")
"""
NOTE = """
from hooklatch import hook

@hook("post_tool_use")
def note(event):
    pass
"""
CONFIG = '[[source]]\npath = "here.py"\n[[source]]\npath = "../disk/note.py"\n'


@pytest.fixture
def place() -> Iterator[PlaceWithDisk]:
    with tempfile.TemporaryDirectory(prefix="hl-") as folder:
        place = PlaceWithDisk(Path(folder))
        place.write({"hooks.toml": CONFIG, "here.py": GUARD.format("here")})
        (place.shown / "note.py").write_text(NOTE)
        project = place.shown / "project" / ".hooklatch" / "hooks.d"
        project.mkdir(parents=True, mode=0o755)
        (project / "own.py").write_text(GUARD.format("project"))
        try:
            yield place
        finally:
            place.clear()


def test_a_disk_that_hangs_holds_up_nothing_else(place: PlaceWithDisk) -> None:
    mine = str(place.folder / "disk" / "project")
    with serving(place):
        place.json("trust", mine)
        with place.disk.stopped():
            status = until(place, lambda status: status["health"] == "red")
            judged = [decision(place) for _ in range(3)]
            reloaded = place.json("reload", code=1)
            noted = place.json("fire", "post_tool_use", "--payload", "-", stdin='{"tool_name": "Bash"}')
            lost, found = decision(place, mine), decision(place, str(place.folder))
        mended = until(place, lambda status: status["health"] == "green")
        again = decision(place, mine)

    problems = [one for one in status["problems"] if "disk/note.py" in one["file"]]
    assert "has not answered since" in problems[0]["message"]
    assert "the last good version stays active" in problems[0]["message"]
    assert judged == [("deny", "here")] * 3
    assert "disk/note.py" in json.dumps(reloaded["diagnostics"])
    assert "here.py" not in json.dumps(reloaded["diagnostics"])
    assert noted["cause"] is None
    assert lost[0] == "deny"
    assert "cannot determine which project's guards apply" in lost[1]
    assert found == ("deny", "here")
    assert mended["problems"] == []
    assert again in (("deny", "here"), ("deny", "project"))


def test_a_daemon_starts_and_ends_while_a_disk_hangs(place: PlaceWithDisk) -> None:
    metrics = f"{place.folder}/disk/metrics"
    place.write({"hooks.toml": f'{CONFIG}[daemon]\nmetrics_file = "{metrics}"\n'})
    with place.disk.stopped(), serving(place) as daemon:
        judged, wrong = decision(place), daemon.ready["wrong"]
        until(place, lambda status: f"no metrics at {metrics}" in str(status["faults"]))

    assert judged == ("deny", "here")
    assert "disk/note.py" in json.dumps(wrong)


def test_a_thread_that_cannot_be_ended_holds_up_no_stop_and_no_next_daemon(place: PlaceWithDisk) -> None:
    with serving(place) as daemon:
        place.disk.take_without_answer()
        until(place, lambda status: status["health"] == "red")
        stopped = place.run("stop")
        with serving(place):
            judged = decision(place)
            place.disk.end()  # or this one could not be waited for either
        daemon.process.wait()

    assert (stopped.returncode, judged) == (0, ("deny", "here")), stopped.stderr


def decision(place: PlaceWithDisk, *cwd: str) -> tuple[str, str]:
    words = ("--cwd", *cwd) if cwd else ()
    done = place.fire_tool("Bash", "--json", *words, command="ls")
    answer = json.loads(done.stdout)
    return answer["verdict"], answer["reason"]


def until(place: PlaceWithDisk, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        with trio.fail_after(30):
            while True:
                done = place.run("status", "--json")
                if is_so(status := json.loads(done.stdout)):
                    return status
                await trio.sleep(0.05)  # nobody tells

    return trio.run(ask)
