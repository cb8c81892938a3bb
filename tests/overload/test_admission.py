"""The turnstile: one request each time that the loop goes round, each session in its turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from hooklatch.service.registry.admission import Admission, FairQueueKey
from overload.floods import Answers, fires, flooded_daemon
from support.pools import until


class Passing:
    """Those who have passed, in order."""

    def __init__(self, admission: Admission, nursery: trio.Nursery) -> None:
        self.admission = admission
        self.nursery = nursery
        self.names: list[str] = []

    def start(self, name: str, flow: FairQueueKey) -> trio.CancelScope:
        scope = trio.CancelScope()

        async def go() -> None:
            with scope:
                await self.admission.turn(flow)
                self.names.append(name)

        self.nursery.start_soon(go)
        return scope


@pytest.fixture
async def passing() -> AsyncGenerator[Passing]:
    async with trio.open_nursery() as nursery:
        yield Passing(Admission(), nursery)
        nursery.cancel_scope.cancel()


async def test_flows_take_turns_however_many_wait_of_each(passing: Passing) -> None:
    many, few = FairQueueKey(), FairQueueKey()
    for _ in range(50):
        passing.start("many", many)
    await wait_all_tasks_blocked()
    passing.start("few", few)
    await wait_all_tasks_blocked()

    passing.nursery.start_soon(passing.admission.run)
    await wait_all_tasks_blocked()

    assert passing.names.index("few") == 1
    assert len(passing.names) == 51
    assert len(passing.admission) == 0


async def test_one_passes_each_time_that_the_loop_goes_round(passing: Passing) -> None:
    """Two may seem to pass: who looks is once among the first of a round, and then among the last of the next."""
    for _ in range(20):
        passing.start("one", FairQueueKey())
    await wait_all_tasks_blocked()
    passing.nursery.start_soon(passing.admission.run)

    seen = [0]
    while seen[-1] < 20:
        await trio.lowlevel.checkpoint()
        seen.append(len(passing.names))

    assert max(later - earlier for earlier, later in pairwise(seen)) <= 2
    assert len(seen) >= 20


async def test_who_leaves_the_turnstile_takes_nobodys_turn(passing: Passing) -> None:
    flow = FairQueueKey()
    scopes: list[trio.CancelScope] = []
    for number in range(4):
        scopes.append(passing.start(str(number), flow))
        await wait_all_tasks_blocked()
    scopes[1].cancel()
    scopes[2].cancel()
    await wait_all_tasks_blocked()

    passing.nursery.start_soon(passing.admission.run)
    await wait_all_tasks_blocked()

    assert passing.names == ["0", "3"]


async def test_it_works_again_after_everybody_has_passed(passing: Passing) -> None:
    passing.nursery.start_soon(passing.admission.run)
    for number in range(3):
        passing.start(str(number), FairQueueKey())
        await wait_all_tasks_blocked()

    assert passing.names == ["0", "1", "2"]


async def test_while_the_workers_are_busy_one_passes_each_millisecond(mock_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        passing = Passing(Admission(lambda: 4), nursery)
        for name in ("one", "two", "three"):
            passing.start(name, FairQueueKey())
        passing.admission.in_flight = 8
        nursery.start_soon(passing.admission.run)
        await wait_all_tasks_blocked()
        at_once = len(passing.names)

        mock_clock.jump(0.001)
        await wait_all_tasks_blocked()
        a_moment_later = len(passing.names)

        passing.admission.in_flight = 7
        mock_clock.jump(0.001)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert (at_once, a_moment_later, len(passing.names)) == (1, 2, 3)


async def test_requests_that_have_ended_are_not_under_way(tmp_path: Path) -> None:
    async with flooded_daemon(tmp_path) as daemon, daemon.session() as client:
        admission = daemon.parts.shared.admission
        answers = Answers()
        await client.send_raw(fires(100, 40, "Bash"))
        await answers.read(client, 40)

        await until(lambda: admission.in_flight == 0)

    assert set(answers.causes) == {"policy"}
