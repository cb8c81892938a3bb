"""Hooks that one worker runs one after the other: each outcome, deadline, output and question is still its hook's.

Slow as a whole: each has real workers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.core.messages import CallOutcome
from hooklatch.processes.pool import BegunCall
from hooklatch_worker import wire
from hooklatch_worker.author.state import StateRequest
from support.calls import LoneFire, call_of
from support.pools import Workers, is_busy, running_pool, until

pytestmark = pytest.mark.slow

HASTY = """
import os, sys, threading, time
from hooklatch_worker import context, deny, wire
from hooklatch_worker.author.event import find_call

def note(event):
    with open(event.payload["began"], "a") as file:
        file.write(f"{os.getpid()}\\n")

def quiet(event): note(event)
def refuse(event): note(event); return deny("no")
def fail(event): note(event); raise ValueError("broken")
def end(event): note(event); os._exit(3)
def close_all(event): note(event); os.closerange(3, 4096)
def replace_all(event):
    note(event)
    for fd in range(3, 64): os.dup2(0, fd)
def hang(event): note(event); time.sleep(60)
def slow(event): note(event); time.sleep(0.02)
def fork(event):
    note(event)
    os.fork()
def print_some(event): note(event); print("some")
def print_and_end(event): note(event); os.write(2, b"last words"); os._exit(3)
def ask(event): note(event); event.state.increment(event.payload["key"])
def ask_wrongly(event):
    line = find_call(event).line
    line._call_id += 1
    find_call(event).call_id += 1
    event.state.get("key")
def tell_time_left(event): return context(said=find_call(event).remaining)
def hold(event):
    note(event)
    while not os.path.exists(event.payload["go"]): time.sleep(0.002)
"""
SOURCE = f"""{HASTY}
from hooklatch_worker.runtime import calls
calls.MAX_RUN_SECONDS = 60.0  # a busy machine ends no run
"""


async def call(workers: Workers, first: str, *then: str, fire: LoneFire | None = None, **more: Any) -> CallOutcome:
    timeouts = {"timeout": more.pop("timeout", None)}
    files = {"began": str(workers.folder / "began"), "go": str(workers.folder / "go")}
    asked = call_of(first, files | more, then=then, **timeouts)
    return await workers.pool.call(asked, fire or LoneFire(), trio.current_time() + 10.0)


@pytest.mark.parametrize(
    ("last", "cause", "is_lost", "text"),
    [
        ("refuse", "policy", False, ""),
        ("fail", "crash", False, "ValueError: broken"),
        ("end", "crash", True, "the worker exited with code 3"),
        ("close_all", "crash", True, "the worker exited with code 1"),
        ("replace_all", "crash", True, "the worker exited with code 1"),
        ("nobody", "crash", False, "the source has no function 'nobody'"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 3])
async def test_what_a_hook_says_or_does_is_its_own_and_ends_the_run(
    tmp_path: Path, place: int, last: str, cause: str, is_lost: bool, text: str
) -> None:
    functions = ["quiet", "quiet", "quiet", "quiet"]
    functions[place] = last
    async with running_pool(tmp_path, SOURCE, workers=2) as workers:
        outcome = await call(workers, *functions)

        assert len(set(workers.began)) <= 1, "they had one worker"
        assert len(workers.began) == place + (last != "nobody"), "nobody was called after it"
        assert (await call(workers, "quiet", "quiet")).earlier_ms  # and there is a worker again

    assert (outcome.cause, outcome.is_lost, len(outcome.earlier_ms)) == (cause, is_lost, place)
    assert text in outcome.message


async def test_all_have_one_worker_and_each_its_time(tmp_path: Path) -> None:
    async with running_pool(tmp_path, SOURCE, workers=2) as workers:
        began = trio.current_time()
        outcome = await call(workers, *["quiet"] * 5)
        elapsed = (trio.current_time() - began) * 1000
        calls = [worker.calls for worker in workers.pool.live_workers() if worker.calls]

        assert len(set(workers.began)) == 1
        assert calls == [5], "each counts until the worker is replaced"

    assert (outcome.cause, outcome.answer, len(outcome.earlier_ms)) == ("policy", b"", 4)
    assert 0 < sum(outcome.earlier_ms) + outcome.duration_ms <= elapsed


@pytest.mark.parametrize(("first", "later"), [(0.3, 0.6), (60.0, 0.4)])
async def test_the_deadline_of_a_later_one_holds_from_when_it_began(tmp_path: Path, first: float, later: float) -> None:
    async with running_pool(tmp_path, SOURCE, workers=2) as workers:
        began = trio.current_time()
        asked = call_of("quiet", {"began": str(tmp_path / "began")}, then=["hang", "quiet"], timeout=later)
        outcome = await workers.pool.call(asked, LoneFire(), began + first)
        elapsed = trio.current_time() - began

    assert (outcome.cause, outcome.is_lost, outcome.is_orphaned, len(outcome.earlier_ms)) == ("timeout", True, False, 1)
    assert later <= elapsed < 60.0
    assert outcome.message.startswith("no answer within")


async def test_none_runs_beyond_the_end_of_its_fire(tmp_path: Path) -> None:
    async with running_pool(tmp_path, SOURCE, workers=2) as workers:
        fire = LoneFire()
        fire.deadline = trio.current_time() + 0.5
        outcome = await call(workers, "quiet", "hang", fire=fire, timeout=30.0)

        fire.deadline = trio.current_time() + 20.0
        told = await call(workers, "quiet", "tell_time_left", fire=fire, timeout=30.0)

    assert (outcome.cause, len(outcome.earlier_ms)) == ("timeout", 1)
    assert 0 < json.loads(told.answer)["context"]["said"] <= 20.0


async def test_one_that_takes_long_ends_the_run(tmp_path: Path) -> None:
    """Others may wait for the worker."""
    async with running_pool(tmp_path, HASTY, workers=2) as workers:
        outcome = await call(workers, "slow", "quiet", "quiet")

        assert (len(workers.began), outcome.earlier_ms, outcome.answer) == (1, (), b"")


async def test_what_one_prints_is_its_own(tmp_path: Path) -> None:
    async with running_pool(tmp_path, SOURCE, workers=2) as workers:
        printed = await call(workers, "quiet", "print_some", "quiet")
        died = await call(workers, "quiet", "print_and_end", "quiet")
        after = await call(workers, "quiet", "quiet")

    assert (printed.stdout, len(printed.earlier_ms), printed.cause) == ("some\n", 1, "policy")
    assert (died.stderr, len(died.earlier_ms), died.cause) == ("last words", 1, "crash")
    assert (after.stdout, after.stderr) == ("", "")


async def test_what_one_asks_is_asked_by_it(tmp_path: Path) -> None:
    asked_by: list[str] = []

    class Fire(LoneFire):
        def answer(self, call: Any, asked: StateRequest) -> wire.StateResponse:
            asked_by.append(call.hook.id)
            return wire.StateResponse(asked.generation, asked.call_id, asked.number, b"1")

    async with running_pool(tmp_path, SOURCE + "\ndef other(event): ask(event)\n", workers=2) as workers:
        outcome = await call(workers, "ask", "quiet", "other", "ask", "quiet", key="k", fire=Fire())
        wrongly = await call(workers, "quiet", "ask_wrongly", fire=Fire())

    assert (outcome.cause, len(outcome.earlier_ms)) == ("policy", 4)
    assert asked_by == ["ask", "other", "ask"]
    assert (wrongly.cause, wrongly.is_lost) == ("protocol", True)


async def test_a_child_that_one_forked_runs_no_other(tmp_path: Path) -> None:
    async with running_pool(tmp_path, SOURCE, workers=2) as workers:
        outcome = await call(workers, "fork", "quiet", "quiet")

        assert (len(workers.began), len(set(workers.began))) == (3, 1)
        assert (outcome.cause, len(outcome.earlier_ms)) == ("policy", 2)


async def test_a_worker_at_the_end_of_its_calls_runs_no_more_than_these(tmp_path: Path) -> None:
    async with running_pool(tmp_path, SOURCE, workers=2, calls=1) as workers:
        outcome = await call(workers, "quiet", "quiet")

    assert outcome.earlier_ms == ()


async def test_an_abandoned_run_costs_no_worker(tmp_path: Path) -> None:
    async with running_pool(tmp_path, SOURCE, workers=2) as workers:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, workers, "hold", "quiet")
                await until(lambda: bool(workers.began))
                scope.cancel()
        workers.let_go()
        await until(lambda: not is_busy(workers.pool))

        assert workers.pool.counts["lost"] == 0


async def test_a_call_that_is_too_long_with_those_after_it_goes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME", 2000)
    async with running_pool(tmp_path, SOURCE, workers=2) as workers:
        asked = call_of("quiet", {"began": str(tmp_path / "began")}, {"text": "x" * 600}, then=["quiet"] * 4)
        outcome = await workers.pool.call(asked, LoneFire(), trio.current_time() + 10.0)

    assert (outcome.cause, outcome.earlier_ms) == ("policy", ())


async def test_a_call_that_was_never_sent_keeps_no_worker_when_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME", 2000)
    async with running_pool(tmp_path, SOURCE, workers=1) as workers:
        asked = call_of("quiet", {"began": str(tmp_path / "began")}, {"text": "x" * 3000})
        begun = workers.pool.begin(asked, LoneFire(), trio.current_time() + 10.0, trio.current_time())
        assert isinstance(begun, BegunCall)
        workers.pool.abandon(begun)

        assert not is_busy(workers.pool)
        assert (await call(workers, "quiet")).cause == "policy"
