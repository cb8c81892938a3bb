"""serve --detach and stop: a daemon that keeps running, and one that is gone when the command says so.

Slow: each test has a daemon of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from select import select
from typing import Any

import pytest

from hooklatch.cli.terminal.requests import find_last_signs
from hooklatch_worker.systems import linux
from support.commands import PATIENCE, Pause, Place, held_to_schema, new_place, payload, serving

pytestmark = pytest.mark.slow


@contextmanager
def detached(place: Place) -> Iterator[dict[str, Any]]:
    """Start a daemon that stays; nothing of it is left afterwards."""
    ready = place.json("serve", "--detach")
    with ExitStack() as stack:
        ends = [os.pidfd_open(pid) for pid in (ready["pid"], *linux.list_descendants(ready["pid"]))]
        for end in ends:
            stack.callback(os.close, end)
        try:
            yield {**ready, "ends": ends}
        finally:
            if not select([ends[0]], [], [], 0)[0]:
                signal.pidfd_send_signal(ends[0], signal.SIGTERM)
            for end in ends:
                assert select([end], [], [], PATIENCE)[0], "a process outlived its daemon"


def test_a_detached_daemon_answers_when_the_command_ends_and_is_gone_when_stop_ends(place: Place) -> None:
    with detached(place) as ready:
        denied = place.fire_tool("Bash", command="rm x")
        pid, log = ready["pid"], Path(ready["log"])
        streams = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)]
        session, folder = os.getsid(pid), os.readlink(f"/proc/{pid}/cwd")
        second = place.run("serve", "--detach")
        elsewhere = place.run("status", "--runtime-dir", "other")
        stopped = place.run("stop")
        is_gone = all(select([end], [], [], 0)[0] for end in ready["ends"])
    again, status, known = place.run("stop"), place.run("status"), place.json("status", code=69)

    assert denied.returncode == 2
    assert streams == ["/dev/null", "/dev/null", str(log)]
    assert (session, folder) == (pid, "/")
    assert log == place.folder / ".local/state/hooklatch/daemon.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "hooklatch.serve: ready" in log.read_text()
    assert (second.returncode, second.stderr) == (0, "")
    assert second.stdout.startswith(f"runs already (pid {pid}, ")
    assert elsewhere.returncode == 69
    assert f"(pid {pid}) listens elsewhere" in elsewhere.stderr
    assert (stopped.returncode, stopped.stdout) == (0, f"stopped (pid {pid})\n")
    assert is_gone
    assert (again.returncode, again.stdout) == (69, "")
    assert f"the last one was stopped at {known['since']}" in again.stderr
    assert (status.returncode, known["health"]) == (69, "stopped")
    assert status.stdout == (
        f"health      stopped\nsince       {known['since']}\ndo          to start it: hooklatch serve --detach\n"
    )


def test_a_daemon_that_cannot_start_in_the_background_says_why(place: Place) -> None:
    place.runtime.mkdir()
    place.runtime.chmod(0o755)

    done = place.run("serve", "--detach", "--json")

    assert (done.returncode, done.stdout) == (69, "")
    assert f"chmod 700 {place.runtime}" in done.stderr


def test_stop_waits_for_the_gate_that_runs(place: Place) -> None:
    pause = Pause(place.folder)
    with serving(place) as daemon:
        running = pause.begin_fire(place)
        stopping = place.begin("stop", "--json")
        daemon.wait_for("draining")
        late = place.json("fire", "pre_tool_use", "--payload", "-", stdin=payload("Read"), code=4)
        pause.end()
        answered = running.end()
        code, out, _ = stopping.end()
        assert daemon.process.wait(PATIENCE) == 0

    assert late["cause"] == "draining"
    assert (answered[0], code) == (2, 0)
    assert held_to_schema(["stop"], json.loads(out))["pid"] == daemon.pid


def test_a_daemon_that_was_killed_is_not_called_stopped(place: Place) -> None:
    with serving(place) as daemon:
        daemon.signal(signal.SIGKILL)
        daemon.process.wait(PATIENCE)

    status = place.run("status")

    assert (status.returncode, status.stdout) == (69, "")
    assert "the last one was killed or crashed (its last record is from " in status.stderr
    assert "hooklatch serve --detach" in status.stderr


def test_a_lock_is_looked_at_and_not_taken() -> None:
    with new_place({}) as place:
        lock = place.folder / "daemon.lock"
        lock.write_text("4711\n")
        free = find_last_signs(str(place.folder), "nowhere")
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            found = find_last_signs(str(place.folder), "nowhere")
            deaf = find_last_signs("/nowhere", "nowhere", [str(place.runtime), str(place.folder)])

    assert free.how == "unknown"
    assert (found.how, found.pid) == ("elsewhere", 4711)
    assert (deaf.how, deaf.pid) == ("silent", 4711)
    assert "its socket was removed; wait a moment, or end it with `kill 4711`" in str(deaf)
