"""What the daemon tells its service manager, over a real datagram socket."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import trio

from hooklatch.service.service_manager import Notifier
from support.service_manager import Manager, leave, managing


@pytest.fixture
def manager() -> Generator[Manager]:
    with managing() as manager:
        yield manager


@pytest.mark.slow
def test_a_life_is_told_from_its_start_to_its_end(manager: Manager) -> None:
    daemon = manager.start("--json")
    ready = manager.hear()
    revision = daemon.line()
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    daemon.signal(signal.SIGHUP)
    reloading, again = manager.hear(), manager.hear()
    leave(daemon)
    stopping = manager.hear()

    assert (ready["READY"], ready["MAINPID"]) == ("1", str(daemon.pid))
    assert str(daemon.pid) in revision
    assert reloading["RELOADING"] == "1"
    assert before <= int(reloading["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert again["READY"] == "1"
    assert stopping["STOPPING"] == "1"
    assert "draining" in stopping["STATUS"]


@pytest.mark.slow
def test_the_watchdog_is_fed_again_and_again_but_not_by_a_daemon_that_is_stopped(manager: Manager) -> None:
    daemon = manager.start(environment={"WATCHDOG_USEC": "200000"})
    manager.hear_of("READY")
    fed = [manager.hear_of("WATCHDOG") for _ in range(3)]
    daemon.signal(signal.SIGSTOP)
    manager.told.settimeout(0.5)  # more than two of its rounds, of which one may be on its way
    heard = list(until_silent(manager))
    daemon.signal(signal.SIGCONT)
    manager.told.settimeout(10)
    manager.hear_of("WATCHDOG")
    leave(daemon)

    assert fed == [{"WATCHDOG": "1"}] * 3
    assert len(heard) <= 1


def until_silent(manager: Manager) -> Iterator[dict[str, str]]:
    try:
        while True:
            yield manager.hear()
    except TimeoutError:
        return


@pytest.mark.slow
def test_workers_do_not_learn_where_to_tell(manager: Manager) -> None:
    manager.place.write({"guards.py": ENVIRONMENT})
    daemon = manager.start(environment={"WATCHDOG_USEC": "60000000"})
    manager.hear_of("READY")
    said = manager.place.fire_tool("Bash")
    leave(daemon)

    assert "no (nothing)" in said.stdout


ENVIRONMENT = """
import os
from hooklatch import deny, hook

@hook("pre_tool_use")
def tell(event):
    found = [name for name in os.environ if name.startswith(("NOTIFY", "LISTEN", "WATCHDOG"))]
    return deny(f"no ({' '.join(found) or 'nothing'})")
"""


def receiver(address: str) -> socket.socket:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.bind(address)
    one.settimeout(5)
    return one


@pytest.mark.linux_only("abstract names of sockets")
async def test_an_abstract_socket_is_told_too() -> None:
    with receiver(f"\0hooklatch-{os.getpid()}") as told:
        await Notifier(f"@hooklatch-{os.getpid()}").notify(READY=1, STATUS="one\ntwo")

        assert told.recv(100) == b"READY=1\nSTATUS=one two"


async def test_a_manager_that_is_gone_or_full_holds_nobody_up(tmp_path: Path) -> None:
    address = str(tmp_path / "n")
    await Notifier(address).notify(READY=1)
    with receiver(address), trio.fail_after(20):
        for _ in range(40):  # net.unix.max_dgram_qlen is 10 to 512
            await flood(address)
        await Notifier(address).notify(READY=1)


async def flood(address: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.setblocking(False)
        try:
            for _ in range(100):
                one.sendto(b"x", address)
        except BlockingIOError:
            return


async def test_what_is_not_well_feeds_no_watchdog(tmp_path: Path) -> None:
    asked: list[bool] = []

    def is_well() -> bool:
        asked.append(len(asked) >= 5)
        if asked[-1]:
            assert not select.select([told], [], [], 0)[0], "it was fed while something was not well"
        return asked[-1]

    with receiver(str(tmp_path / "n")) as told:
        told.setblocking(False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Notifier(str(tmp_path / "n"), watchdog=0.02).keep_alive, is_well)
            with trio.fail_after(5):
                await trio.lowlevel.wait_readable(told)
            nursery.cancel_scope.cancel()

        assert told.recv(100) == b"WATCHDOG=1"
    assert asked[:6] == [False] * 5 + [True]


@pytest.mark.parametrize(
    ("variables", "watchdog"),
    [
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "5000000"}, 5.0),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "7"}, 5.0),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "8"}, None),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "soon"}, None),
        ({"NOTIFY_SOCKET": "vsock:2:1234"}, None),
        ({}, None),
    ],
)
def test_the_variables_are_read_and_forgotten(variables: dict[str, str], watchdog: float | None) -> None:
    notifier = Notifier.from_environment(variables, 7)

    assert notifier.watchdog == watchdog
    assert variables == {}
