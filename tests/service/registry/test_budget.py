"""The budget for what is large: nobody has all of it, who waits is let in by turns, and nothing of it is lost."""

from __future__ import annotations

from collections import Counter

import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from hooklatch.service.registry.budget import Budget, BudgetShare


def test_a_holder_has_at_most_half_of_what_the_others_leave() -> None:
    budget = Budget(Counter(), limit=100)

    assert not budget.take("a", 51)
    assert budget.take("a", 30)
    assert not budget.take("a", 21)
    assert budget.take("a", 20)
    assert not budget.take("b", 26)
    assert budget.take("b", 25)
    assert budget.take("c", 12)
    budget.give_back("a", 50)
    assert budget.take("b", 19)
    assert budget.held == 56


async def test_who_waits_is_let_in_in_order_and_passes_a_holder_that_has_its_half(
    autojump_clock: trio.testing.MockClock,
) -> None:
    budget, order = Budget(Counter(), limit=100), list[str]()
    assert budget.take("greedy", 50)
    assert budget.take("other", 25)

    async def wait(holder: str) -> None:
        assert await budget.wait(holder, 20, timeout=5.0)
        order.append(holder)

    async with trio.open_nursery() as nursery:
        for holder in ("greedy", "first", "second", "greedy"):
            nursery.start_soon(wait, holder)
            await wait_all_tasks_blocked()
        assert len(budget) == 4

        budget.give_back("other", 25)
        await wait_all_tasks_blocked()
        assert order == ["first"]
        budget.give_back("greedy", 50)
        budget.give_back("first", 20)

    assert sorted(order[1:]) == ["greedy", "greedy", "second"]
    assert (len(budget), budget.held) == (0, 60)


async def test_who_finds_no_room_in_time_or_leaves_keeps_nothing(autojump_clock: trio.testing.MockClock) -> None:
    dropped = Counter[str]()
    budget = Budget(dropped, limit=100)
    assert budget.take("a", 50)
    room = BudgetShare(budget, "a")

    assert not await room.wait(10, timeout=4.0)
    with trio.move_on_after(1.0):
        await room.wait(10, timeout=4.0)

    assert (len(budget), budget.held, room.size) == (0, 50, 0)
    assert dropped == {"overload": 1}
    budget.give_back("a", 50)
    assert await room.wait(50, timeout=4.0)
    room.shrink(20)
    assert budget.held == 20
    room.shrink(0)
    assert budget.held == 0
