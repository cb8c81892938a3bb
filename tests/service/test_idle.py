"""A daemon with nothing to do lets the machine sleep: its wake-ups are counted over some seconds of a real idleness."""

from __future__ import annotations

import os
import select
import socket
from contextlib import closing
from pathlib import Path

import pytest

from hooklatch_worker.systems import linux, system
from support.commands import Daemon, new_place, serving

SECONDS = 6
MOST_A_SECOND = 5  # 1.4 were measured, and 13 when workers at rest were measured ten times a second


def count_wake_ups(daemon: Daemon) -> int:
    """Return the voluntary context switches of all threads of the daemon, and of all processes below it."""
    total = 0
    for pid in (daemon.pid, *linux.list_descendants(daemon.pid)):
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return total


def wait_while_it_runs(daemon: Daemon, seconds: float) -> None:
    pidfd = system.watch_process(daemon.pid)
    try:
        assert not select.select([pidfd], [], [], seconds)[0]
    finally:
        os.close(pidfd)


@pytest.mark.slow
def test_an_idle_daemon_with_clients_wakes_the_machine_a_few_times_in_some_seconds() -> None:
    """Slow: nothing happens for some seconds, which is what is tested."""
    with new_place() as place, serving(place) as daemon, closing(socket.socket(socket.AF_UNIX)) as client:
        client.connect(daemon.ready["agent"])
        assert place.fire_tool("Bash", command="ls").returncode == 0
        wait_while_it_runs(daemon, 3.0)  # until what the start and the fire began has come to rest
        before = count_wake_ups(daemon)
        wait_while_it_runs(daemon, SECONDS)

        assert count_wake_ups(daemon) - before <= MOST_A_SECOND * SECONDS
