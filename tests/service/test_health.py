"""health: over the protocol and as a command."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch.metrics import measure_daemon
from support.commands import Pause, Place, new_place, serving
from support.daemons import running_daemon
from support.pools import until

GUARD = 'from hooklatch import hook\n@hook("pre_tool_use")\ndef judge(event): ...\n'
FILES = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARD}


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place() as place:
        yield place


async def test_it_is_told_on_both_sockets_without_a_hello(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon:
        answers = []
        for path in (daemon.agent, daemon.admin):
            client = daemon.connect(path)
            answers.append(await client.call("health"))
            await client.aclose()

    for answer in answers:
        assert (answer["health"], answer["reasons"]) == ("ready", [])


async def test_red_names_the_reason_in_a_word_and_agrees_with_the_status(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        daemon.write("hooks.d/broken.toml", "[[hook]]\n")
        await admin.call("reload")
        await admin.call("suspend", id="guards:judge", seconds=60, reason="a test")
        health, status = await admin.call("health"), await admin.call("status")

    assert (health["health"], health["reasons"]) == ("red", ["files", "suspended"])
    assert status["health"] == "red"


async def test_a_dead_zygote_is_a_reason_until_the_next_one_lives(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        zygote = daemon.parts.sources.zygote
        pid = zygote.pid
        assert pid is not None
        (guardian,) = zygote.roots() - {pid}
        os.kill(guardian, signal.SIGSTOP)  # it forks the next zygote, which would else be there before one looks
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not zygote.is_alive)
        dead = await admin.call("health")
        os.kill(guardian, signal.SIGCONT)
        await until(lambda: zygote.is_alive)
        alive = await admin.call("health")

    assert "zygote" in dead["reasons"]  # a part that failed a moment ago is one more, for a while
    assert set(alive["reasons"]) <= {"parts"}


async def test_status_health_and_the_metrics_say_the_same_of_what_is_wrong(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        daemon.write("hooks.d/broken.toml", "[[hook]]\n")
        await admin.call("reload")
        health, status = await admin.call("health"), await admin.call("status")
        (metric,) = (metric for metric in measure_daemon(daemon.parts.status) if metric.name == "hooklatch_red")

    assert [one["reason"] for one in status["wrong"]] == health["reasons"] == ["files"]
    assert status["problems"][0]["message"] in status["wrong"][0]["what"]
    assert [(sample.labels, sample.value) for sample in metric.samples] == [({"reason": "files"}, 1.0)]


@pytest.mark.slow
def test_the_command_says_it_in_a_word_and_a_code(place: Place) -> None:
    """Slow: commands are processes of their own."""
    gone = place.run("health")
    with serving(place):
        ready = place.run("health")
        place.write({"guards.py": "1/0\n"})
        place.run("reload")
        red = place.run("health")
        as_json = place.json("health", code=1)

    assert (gone.returncode, gone.stdout) == (69, "")
    assert (ready.returncode, ready.stdout) == (0, "ready\n")
    assert (red.returncode, red.stdout) == (1, "red: files (see: hooklatch status)\n")
    assert (as_json["health"], as_json["reasons"]) == ("red", ["files"])


@pytest.mark.slow
def test_the_command_waits_for_a_daemon_that_starts_and_not_for_ever(place: Place) -> None:
    waiting = place.begin("health", "--wait", "30")
    with serving(place):
        code, out, _ = waiting.end()
    gone = place.run("health", "--wait", "0.2")

    assert (code, out) == (0, "ready\n")
    assert gone.returncode == 69


@pytest.mark.slow
def test_a_daemon_that_is_about_to_leave_says_so(place: Place) -> None:
    pause = Pause(place.folder)
    with serving(place) as daemon:
        running = pause.begin_fire(place)
        daemon.signal(signal.SIGTERM)
        daemon.wait_for("draining")
        leaving = place.run("health")
        pause.end()
        running.end()
        daemon.end()

    assert (leaving.returncode, leaving.stdout) == (69, "draining\n")
