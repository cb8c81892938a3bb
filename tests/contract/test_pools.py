"""What every pool does, the fake of tests/model and the real one alike: one outcome a call, by its deadline."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.core.messages import CallOutcome
from hooklatch.processes.pool import Pool
from hooklatch_worker import deny
from support.calls import LoneFire, call_of
from support.fake_pool import Died, FakePool
from support.pools import running_pool, until

pytestmark = pytest.mark.slow  # half of them have real processes, and wait for a deadline

REAL = """
import os, time
from hooklatch_worker import deny

def refuse(event): return deny(event.payload["text"])
def say_nothing(event): return None
def fail(event): raise ValueError("broken")
def garble(event): return {"verdict": "deny"}
def hold_infinity(event): return deny("a").amend(tool_input={"n": float("inf")})
def end(event): os._exit(3)
def hang(event): time.sleep(60)

def answer_late(event):
    try: time.sleep(60)
    except BaseException: pass
    return deny("late")

def wait(event):
    open(event.payload["began"], "w").close()
    while not os.path.exists(event.payload["go"]): time.sleep(0.002)
    return deny("went on")
"""
SHORT = 0.2  # seconds; the deadline of what never answers
OUTCOMES = {
    "refuse": ("policy", False, {"verdict": "deny", "reason": "no"}),
    "say_nothing": ("policy", False, None),
    "fail": ("crash", False, None),
    "garble": ("protocol", False, None),
    "hold_infinity": ("protocol", False, None),
    "end": ("crash", True, None),
    "hang": ("timeout", True, None),
    "answer_late": ("timeout", True, None),
}


class Fakes:
    """The same functions, for the fake: what ends or stops a process is done without one."""

    async def refuse(self, event: Any) -> object:
        return deny(event.payload["text"])

    async def say_nothing(self, event: Any) -> object:
        return None

    async def fail(self, event: Any) -> object:
        raise ValueError("broken")

    async def garble(self, event: Any) -> object:
        return {"verdict": "deny"}

    async def hold_infinity(self, event: Any) -> object:
        return deny("a").amend(tool_input={"n": float("inf")})

    async def end(self, event: Any) -> object:
        raise Died

    async def hang(self, event: Any) -> object:
        return await trio.sleep_forever()

    async def answer_late(self, event: Any) -> object:
        with suppress(trio.Cancelled):  # nothing stops it from answering, as nothing stops a real one
            await trio.sleep_forever()
        return deny("late")

    async def wait(self, event: Any) -> object:
        touch(event.payload["began"])
        await until(Path(event.payload["go"]).exists)
        return deny("went on")


@asynccontextmanager
async def running(kind: str, folder: Path) -> AsyncGenerator[Pool]:
    if kind == "fake":
        fakes = Fakes()
        yield FakePool({name: getattr(fakes, name) for name in [*OUTCOMES, "wait"]})
    else:
        async with running_pool(folder, REAL) as workers:
            yield workers.pool


async def ask(pool: Pool, function: str, timeout: float = 10.0, **payload: Any) -> CallOutcome:
    return await pool.call(call_of(function, payload), LoneFire(), trio.current_time() + timeout)


def shape(outcome: CallOutcome) -> tuple[str, bool, Any]:
    return outcome.cause, outcome.is_lost, json.loads(outcome.answer) if outcome.answer else None


def touch(path: str) -> None:
    Path(path).touch()


@pytest.mark.parametrize("kind", ["fake", "real"])
async def test_a_pool_tells_what_came_of_each_call(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as pool:
        for function, expected in OUTCOMES.items():
            timeout = SHORT if expected[0] == "timeout" else 10.0
            assert shape(await ask(pool, function, timeout, text="no")) == expected, function

            assert shape(await ask(pool, "refuse", text="next"))[2]["reason"] == "next", f"after {function}"


@pytest.mark.parametrize("kind", ["fake", "real"])
async def test_calls_at_once_get_each_their_own_answer(kind: str, tmp_path: Path) -> None:
    said: dict[str, str] = {}

    async def one(text: str) -> None:
        said[text] = shape(await ask(pool, "refuse", text=text))[2]["reason"]

    async with running(kind, tmp_path) as pool, trio.open_nursery() as nursery:
        for number in range(12):
            nursery.start_soon(one, str(number))

    assert said == {str(number): str(number) for number in range(12)}


@pytest.mark.parametrize("kind", ["fake", "real"])
async def test_a_call_that_is_cancelled_leaves_the_pool_fit_for_others(kind: str, tmp_path: Path) -> None:
    began, go = tmp_path / "called", tmp_path / "may-go-on"
    async with running(kind, tmp_path) as pool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: ask(pool, "wait", began=str(began), go=str(go)))
            await until(began.exists)
            nursery.cancel_scope.cancel()
        go.touch()

        assert shape(await ask(pool, "refuse", text="next")) == ("policy", False, {"verdict": "deny", "reason": "next"})


@pytest.mark.parametrize("kind", ["fake", "real"])
async def test_one_call_that_waits_keeps_no_other_waiting(kind: str, tmp_path: Path) -> None:
    began, go = tmp_path / "called", tmp_path / "may-go-on"
    replies: list[CallOutcome] = []

    async def wait() -> None:
        replies.append(await ask(pool, "wait", began=str(began), go=str(go)))

    async with running(kind, tmp_path) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await until(began.exists)
        assert shape(await ask(pool, "refuse", text="meanwhile"))[2]["reason"] == "meanwhile"
        go.touch()

    assert shape(replies[0])[2]["reason"] == "went on"
