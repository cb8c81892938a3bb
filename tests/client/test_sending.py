"""A daemon that reads nothing ends what is being sent to it, whoever waits."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager

import anyio
import pytest

from hooklatch.client.async_connection import AsyncLink, open_tasks
from hooklatch.client.protocol.exchange import CallRequested, SkippedCounts
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.sync_connection import SyncLink

BRISK = Liveness(interval=0.05, misses=3)
PATIENT = Liveness(interval=60, misses=3)
CALL = b'{"jsonrpc":"2.0","id":1,"method":"call","params":{"hook":"h","event":"stop","payload":{}}}\n'
ANSWER = b'"' + b"a" * 7 * 2**20 + b'"'


@contextmanager
def two_ends() -> Generator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        theirs.setblocking(False)
        yield ours, theirs


def sync_link(stream: socket.socket, liveness: Liveness) -> SyncLink:
    return SyncLink(stream, liveness, serve=lambda call: ANSWER, announce=lambda one: None, skipped=SkippedCounts())


def test_an_answer_that_nobody_reads_ends_the_connection_though_no_request_waits() -> None:
    with two_ends() as (daemon, stream):
        link = sync_link(stream, BRISK)
        daemon.send(CALL)
        link.run()  # in this thread, until the connection has ended

        assert "silent" in str(link.failure)


def test_a_farewell_is_not_held_up_by_what_another_thread_sends() -> None:
    with two_ends() as (daemon, stream):
        link = sync_link(stream, PATIENT)
        reader = threading.Thread(target=link.run)
        reader.start()
        daemon.send(CALL)
        daemon.recv(1)  # it is being sent, and no more of it fits
        link.take_leave(0.0)
        link.close()
        reader.join()

    assert "closed" in str(link.failure)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_same_under_a_loop(backend: str) -> None:
    async def serve(call: CallRequested) -> bytes:
        return ANSWER

    async def play() -> str:
        with two_ends() as (daemon, stream):
            async with open_tasks() as tasks:
                counts = SkippedCounts()
                link = AsyncLink(stream, tasks, BRISK, serve=serve, announce=lambda one: None, skipped=counts)
                daemon.send(CALL)
                with anyio.fail_after(30):
                    await link.run()
                return str(link.failure)

    assert "silent" in anyio.run(play, backend=backend)
