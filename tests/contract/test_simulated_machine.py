"""One contract for the real system and the simulated machine: sockets, waits, clocks, and workers behind a zygote."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.credentials import read_credentials
from hooklatch.processes.guardian import Guardian
from hooklatch.processes.pool import Pool
from hooklatch.processes.pool_limits import PoolLimits
from hooklatch.processes.zygote import open_zygote
from hooklatch_worker import wire
from simulation.client import connected
from simulation.kernel import Kernel, Process, Strand, UnknownCallError
from simulation.loop import run_simulated
from simulation.machine import Machine
from support.calls import LoneFire, call_of

Case = Callable[[str], Awaitable[None]]
HOOKS = """
import os, time
from hooklatch_worker import context, deny

def act(event):
    what = event.payload["do"]
    if what == "exit":
        os._exit(3)
    if what == "hang":
        time.sleep(60)
    if what == "print":
        print("printed")
    if what == "raise":
        raise ValueError("raised")
    if what == "garbage":
        return 5
    return deny(f"{what} in {os.getpid()}")
"""


def run_real(case: Case, folder: Path) -> None:
    trio.run(case, str(folder))


def run_in_simulation(case: Case, folder: Path) -> None:
    for seed in range(5):  # each has delays and short sends of its own
        play_seed(case, Kernel(seed), seed)


def play_seed(case: Case, kernel: Kernel, seed: int) -> None:
    async def main() -> None:
        os.makedirs("/sim/case", mode=0o700)
        with trio.fail_after(300):
            await case("/sim/case")

    with Machine(kernel, seed, "/sim").install():
        run_simulated(kernel, main, seed)
    assert kernel.daemon.fds == {}


def contract(case: Case) -> Callable[..., None]:
    """Return a test that runs a case on the real system, and one on the machine."""

    @pytest.mark.parametrize("run", [run_real, run_in_simulation])
    def test(run: Callable[[Case, Path], None], tmp_path: Path) -> None:
        run(case, tmp_path)

    return test


def pair() -> tuple[socket.socket, socket.socket]:
    one, two = socket.socketpair()
    one.setblocking(False)
    two.setblocking(False)
    return one, two


async def read_all(stream: socket.socket) -> bytes:
    data = b""
    while True:
        try:
            part = stream.recv(2**16)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(stream)
            continue
        if not part:
            return data
        data += part


async def write_all(stream: socket.socket, data: bytes) -> None:
    while data:
        try:
            data = data[stream.send(data) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(stream)


@contract
async def test_bytes_arrive_whole_and_in_their_order(folder: str) -> None:
    sent = bytes(range(256)) * 8000
    one, two = pair()
    with one, two:

        async def write() -> None:
            await write_all(one, sent)
            one.shutdown(socket.SHUT_WR)

        got = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            got.append(await read_all(two))
        assert got == [sent]
        await write_all(two, b"the other way is open")
        two.close()
        assert await read_all(one) == b"the other way is open"


@contract
async def test_a_full_socket_takes_no_more_until_it_is_read(folder: str) -> None:
    one, two = pair()
    with one, two:
        taken = 0
        with pytest.raises(BlockingIOError):  # noqa: PT012  (it is not known how often it takes something)
            while True:
                taken += one.send(b"x" * 4096)
        assert taken > 4096
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.wait_writable, one)
            await trio.sleep(0.01)
            while taken:
                await trio.lowlevel.wait_readable(two)
                taken -= len(two.recv(2**20))
        assert one.send(b"again") > 0


@contract
async def test_who_sends_to_a_closed_end_is_told(folder: str) -> None:
    one, two = pair()
    with one:
        two.close()
        with pytest.raises(BrokenPipeError):
            one.send(b"x")
        await trio.lowlevel.wait_readable(one)
        assert one.recv(10) == b""


@contract
async def test_an_end_that_is_closed_unread_resets_the_other(folder: str) -> None:
    one, two = pair()
    with one:
        await write_all(one, b"unread")
        await trio.lowlevel.wait_readable(two)
        two.close()
        await trio.lowlevel.wait_readable(one)
        with pytest.raises(ConnectionResetError):
            one.recv(10)


@contract
async def test_a_hangup_shows_where_nothing_else_is_asked(folder: str) -> None:
    one, two = pair()
    with one, select.epoll() as epoll:
        epoll.register(one.fileno(), 0)
        two.shutdown(socket.SHUT_WR)
        await trio.sleep(0.02)
        assert epoll.poll(0) == []  # half closed is no hangup
        two.close()
        one.shutdown(socket.SHUT_WR)
        await trio.lowlevel.wait_readable(epoll.fileno())
        [(fd, events)] = epoll.poll(0)
        assert (fd, events & select.EPOLLHUP) == (one.fileno(), select.EPOLLHUP)


@contract
async def test_a_poll_tells_what_is_ready_and_what_is_closed(folder: str) -> None:
    one, two = pair()
    with one:
        poll, number = select.poll(), two.fileno()
        poll.register(number, select.POLLIN)
        assert poll.poll(0) == []
        await write_all(one, b"x")
        await trio.lowlevel.wait_readable(two)
        assert poll.poll(0) == [(number, select.POLLIN)]
        two.close()
        assert poll.poll(0) == [(number, select.POLLNVAL)]


@contract
async def test_messages_stay_apart_and_carry_descriptors(folder: str) -> None:
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    inner, outer = pair()
    with one, two, outer:
        two.setblocking(False)
        with inner:
            socket.send_fds(one, [b"first"], [inner.fileno()])
        socket.send_fds(one, [b"second"], [])
        await trio.lowlevel.wait_readable(two)
        data, [fd], *_ = socket.recv_fds(two, 2**16, 5)
        assert data == b"first"
        await trio.lowlevel.wait_readable(two)
        assert socket.recv_fds(two, 2**16, 5)[:2] == (b"second", [])
        with socket.socket(fileno=fd) as passed:
            await write_all(outer, b"through")
            await trio.lowlevel.wait_readable(passed)
            assert b"through".startswith(passed.recv(10))
        one.close()
        await trio.lowlevel.wait_readable(two)
        assert socket.recv_fds(two, 2**16, 5)[:2] == (b"", [])


@contract
async def test_connecting_and_accepting(folder: str) -> None:
    path = os.path.join(folder, "s")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        with pytest.raises(FileNotFoundError):
            client.connect(path)
        listener.bind(path)
        listener.listen(1)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
        client.connect(path)
        await trio.lowlevel.wait_readable(listener)
        stream, _ = listener.accept()
        with stream:
            assert read_credentials(stream) == read_credentials(client) == (os.getpid(), os.geteuid())
        listener.close()
        with socket.socket(socket.AF_UNIX) as late, pytest.raises(ConnectionRefusedError):
            late.connect(path)


@contract
async def test_a_wait_ends_when_its_socket_is_closed_here(folder: str) -> None:
    one, two = pair()
    with two:

        async def wait() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await trio.lowlevel.wait_readable(one)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            trio.lowlevel.notify_closing(one)
            one.close()


@contract
async def test_time_passes_for_sleepers_in_their_order(folder: str) -> None:
    woken = list[float]()

    async def sleep(seconds: float) -> None:
        began, wall = time.monotonic(), time.time()
        await trio.sleep(seconds)
        woken.append(seconds)
        assert time.monotonic() - began >= seconds * 0.99
        assert abs((time.time() - wall) - (time.monotonic() - began)) < 0.01

    async with trio.open_nursery() as nursery:
        for seconds in (0.06, 0.02, 0.04):
            nursery.start_soon(sleep, seconds)
    assert woken == [0.02, 0.04, 0.06]
    assert await trio.to_thread.run_sync(lambda: time.sleep(0.01) or "done") == "done"


@contract
async def test_a_guardian_that_ends_by_itself_wakes_who_waits_for_it(folder: str) -> None:
    with trio.open_signal_receiver(signal.SIGCHLD):  # as the daemon has one, which the same end wakes
        guardian = Guardian()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(guardian.wait)
            await trio.testing.wait_all_tasks_blocked()
            guardian._socket.close()
        assert guardian.has_ended
        await guardian.aclose()


@contract
async def test_workers_answer_fail_and_are_replaced(folder: str) -> None:
    path = os.path.join(folder, "hooks.py")
    with open(path, "w") as file:
        file.write(HOOKS)
    async with open_zygote() as zygote, trio.open_nursery() as nursery:
        pool = Pool(
            wire.Source("file", path), 1, zygote, PoolLimits(workers=2), wire.LoadCode(HOOKS.encode(), folder),
            on_busy=str,
        )  # fmt: skip
        await nursery.start(pool.run)

        async def call(what: str, timeout: float = 10.0) -> Any:
            return await pool.call(
                call_of("act", {"do": what}), LoneFire("pre_tool_use"), trio.current_time() + timeout
            )

        said = json.loads((await call("deny")).answer)
        assert said["verdict"] == "deny"
        number = int(said["reason"].rpartition(" ")[2])
        assert number in pool.status()["pids"]
        outcomes = {what: await call(what) for what in ("exit", "raise", "garbage", "print")}
        assert {what: one.cause for what, one in outcomes.items()} == {
            "exit": "crash", "raise": "crash", "garbage": "protocol", "print": "policy"
        }  # fmt: skip
        assert "exited with code 3" in outcomes["exit"].message
        assert outcomes["print"].stdout == "printed\n"
        assert (await call("hang", timeout=0.3)).cause == "timeout"
        killed = pool.status()["pids"][0]
        os.kill(killed, 9)
        with trio.fail_after(30):
            while killed in pool.status()["pids"]:
                await trio.sleep(0.002)
        assert json.loads((await call("deny")).answer)["verdict"] == "deny"
        nursery.cancel_scope.cancel()


def test_a_client_that_finds_no_daemon_has_lost_its_connection() -> None:
    """The world's clients meet a daemon that has died a moment ago (found by seed 9013)."""
    kernel = Kernel(1)
    met: list[bool] = []

    async def meet_nobody(folder: str) -> None:
        async with connected(kernel, f"{folder}/nobody.sock") as (client, _):
            met.append(client.is_over)
            await client.call("ping")
            met.append(True)  # never

    play_seed(meet_nobody, kernel, 1)
    assert met == [True]


def test_a_call_that_is_not_simulated_ends_the_run_though_its_process_ends_at_once() -> None:
    kernel = Kernel(1)

    def work() -> None:
        try:
            os.scandir(b"/sim")
        finally:
            os._exit(0)

    async def wait(folder: str) -> None:
        Strand(Process(kernel, kernel.init, "zygote"), work)
        await trio.sleep(1.0)

    with pytest.raises(UnknownCallError, match="scandir"):
        play_seed(wait, kernel, 1)
