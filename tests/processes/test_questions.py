"""Questions about state that no code of ours asks: each ends the worker, and none is taken for another's.

Slow as a whole: each has real workers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from hooklatch.core.messages import CallOutcome
from hooklatch_worker import wire
from hooklatch_worker.author.state import StateRequest
from support.calls import LoneFire, call_of
from support.pools import Workers, is_busy, running_pool, until

pytestmark = pytest.mark.slow

SOURCE = """
import json, os, socket, time
from hooklatch_worker.author.state import StateRequest
from hooklatch_worker import context
from hooklatch_worker.author.event import find_call
from hooklatch_worker import wire

def send(event):
    '''Send frames of the test's making, then answer as if nothing were.'''
    line = find_call(event).line
    def asked(generation, call_id, *rest):
        return StateRequest(line._generation + generation, line._call_id + call_id, *rest)
    os.write(3, b"".join(wire.encode_frame(asked(*one)) for one in event.payload["frames"]))
    time.sleep(event.payload.get("wait", 0))

def garble(event):
    line = find_call(event).line
    body = wire.encode_body(StateRequest(line._generation, line._call_id, 1, "get", "k")).replace(b"get", b"got")
    os.write(3, wire.HEADER.pack(len(body)) + body)
    time.sleep(60)

def ask(event):
    return context(said=[event.state.increment("k") for _ in range(event.payload["count"])])

def ask_when_told(event):
    open(event.payload["began"], "a").close()
    while not os.path.exists(event.payload["go"]): time.sleep(0.002)
    return context(said=event.state.increment("k"))
"""


class Counter:
    """Answers an increment by the number of them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, asked: StateRequest) -> wire.StateResponse:
        self.count += 1
        return wire.StateResponse(asked.generation, asked.call_id, asked.number, json.dumps(self.count).encode())


async def call(
    workers: Workers, function: str, on_asked: Callable[[StateRequest], wire.StateResponse] | None, **payload: object
) -> CallOutcome:
    files = {"began": str(workers.folder / "began"), "go": str(workers.folder / "go")}
    fire = LoneFire(on_asked=on_asked)
    return await workers.pool.call(call_of(function, files | payload), fire, trio.current_time() + 10.0)


FRAMES = {
    "of another life": [[1, 0, 1, "get", "k"]],
    "of another call": [[0, 1, 1, "get", "k"]],
    "out of its turn": [[0, 0, 2, "get", "k"]],
    "two at once": [[0, 0, 1, "get", "k"], [0, 0, 2, "get", "k"]],
}


async def test_what_is_out_of_turn_ends_the_worker_and_is_garbage(tmp_path: Path) -> None:
    async with running_pool(tmp_path, SOURCE, workers=2) as workers:
        for what, frames in FRAMES.items():
            reply = await call(workers, "send", Counter(), frames=frames, wait=60)
            assert (reply.cause, reply.is_lost) == ("protocol", True), what
            assert "an unexpected question about state" in reply.message
        reply = await call(workers, "garble", Counter())
        assert (reply.cause, reply.is_lost) == ("protocol", True)
        assert "undecodable" in reply.message
        # One that does not read what it is told leaves it to the next call, which fails: it never gets that as its own.
        reply = await call(workers, "send", Counter(), frames=[[0, 0, 1, "get", "k"]])
        assert (reply.cause, reply.is_lost) in {("protocol", True), ("policy", False)}
        reply = await call(workers, "ask", Counter(), count=1)
        assert reply.cause in ("crash", "policy")
        # Nobody serves state here.
        assert (await call(workers, "ask", None, count=1)).cause == "protocol"

        reply = await call(workers, "ask", Counter(), count=3)
        assert json.loads(reply.answer)["context"]["said"] == [1, 2, 3]


async def test_what_the_daemon_itself_takes_for_garbage_ends_the_worker(tmp_path: Path) -> None:
    def refuse(asked: StateRequest) -> wire.StateResponse:
        raise wire.FrameError("about state: a value that is no JSON")

    async with running_pool(tmp_path, SOURCE, workers=2) as workers:
        reply = await call(workers, "ask", refuse, count=1)

    assert (reply.cause, reply.is_lost) == ("protocol", True)
    assert "no JSON" in reply.message


async def test_a_call_that_nobody_waits_for_still_counts(tmp_path: Path) -> None:
    """Its callback runs to its end; what it counts, it counts, and its worker is used again."""
    counter = Counter()
    async with running_pool(tmp_path, SOURCE, workers=2) as workers, trio.open_nursery() as nursery:
        nursery.start_soon(call, workers, "ask_when_told", counter)
        await until((tmp_path / "began").exists)
        nursery.cancel_scope.cancel()
        workers_before = set(workers.pool.status()["pids"])
        with trio.CancelScope(shield=True):
            workers.let_go()
            await until(lambda: not is_busy(workers.pool))
            assert counter.count == 1
            reply = await call(workers, "ask", counter, count=2)
            assert json.loads(reply.answer)["context"]["said"] == [2, 3]
            assert workers_before <= set(workers.pool.status()["pids"])


async def test_one_who_asks_without_end_leaves_everybody_a_turn(tmp_path: Path) -> None:
    """Each question is one turn of the loop: a task that is ready gets a turn for each."""
    counter, turns = Counter(), [0]

    async def take_turns() -> None:
        while True:
            turns[0] += 1
            await trio.lowlevel.checkpoint()

    async with running_pool(tmp_path, SOURCE, workers=2) as workers, trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        before = turns[0]
        reply = await call(workers, "ask", counter, count=1000)
        nursery.cancel_scope.cancel()

    assert reply.cause == "policy"
    assert turns[0] - before >= 1000
