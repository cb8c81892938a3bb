"""State of sources: the result of each step, limits, expiry; and that nothing is evicted to make room."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.core import keyspace
from hooklatch.core.keyspace import (
    GarbageStepError,
    Keyspace,
    Namespace,
    RefusedStepError,
    StateScope,
    name_session_scope,
)
from hooklatch_worker.author.state import Operation, StateRequest
from support.profiles import examples
from support.tables import table

NAMESPACE = Namespace("global", "", "/guards.py")
PLACE = StateScope(NAMESPACE)
LIVE = StateScope(NAMESPACE, name_session_scope("s", is_claimed=False))
CLAIMED = StateScope(NAMESPACE, name_session_scope("s", is_claimed=True), idle_ttl=100.0)
NOTHING = object()


def asked(operation: Operation, value: object = NOTHING, expected: object = NOTHING, **rest: Any) -> StateRequest:
    def written(one: object) -> bytes:
        return b"" if one is NOTHING else json.dumps(one).encode()

    key = rest.pop("key", "k")
    return StateRequest(1, 1, 1, operation, key, value=written(value), expected=written(expected), **rest)


def step(space: Keyspace, asked: StateRequest, *, at: float = 0.0, place: StateScope = PLACE) -> Any:
    """Take a step as the daemon does; give what the callback gets."""
    planned = space.plan(place, asked, at)
    if planned.is_change:
        space.take(place, asked.key, planned.entry, at)
    return json.loads(planned.result) if planned.result else None


def filled(count: int, *, place: StateScope = PLACE, **rest: Any) -> Keyspace:
    space = Keyspace()
    for number in range(count):
        step(space, asked("set", 1, key=f"k{number}", **rest), place=place)
    return space


@table(
    ("steps", "results"),
    [
        ([("get",)], [None]),
        ([("set", {"a": [1]}), ("get",)], [None, {"a": [1]}]),
        ([("increment", 1), ("increment", 2), ("get",)], [1, 3, 3]),
        ([("increment", 0.5), ("increment", 1)], [0.5, 1.5]),
        ([("increment", -3), ("get",)], [-3, -3]),
        ([("set", 5), ("increment", 1)], [None, 6]),
        ([("delete",), ("set", 0), ("delete",), ("get",)], [None, None, True, None]),
        ([("compare_and_set", 1), ("compare_and_set", 2), ("get",)], [True, None, 1]),
        ([("set", 1), ("compare_and_set", 2, 1), ("get",)], [None, True, 2]),
        ([("set", 1), ("compare_and_set", 2, 1.0), ("get",)], [None, None, 1]),
        ([("set", 1), ("compare_and_set", NOTHING, 1), ("get",)], [None, True, None]),
        ([("compare_and_set", NOTHING, NOTHING), ("get",)], [True, None]),
    ],
)
def test_what_each_step_gives(steps: list[tuple[Any, ...]], results: list[object]) -> None:
    space = Keyspace()

    assert [step(space, asked(*one)) for one in steps] == results


@pytest.mark.parametrize("value", ["text", [1], {"a": 1}, True])
def test_what_is_no_number_is_not_incremented(value: object) -> None:
    space = Keyspace()
    step(space, asked("set", value))

    with pytest.raises(RefusedStepError, match="not hold a number"):
        step(space, asked("increment", 1))
    assert step(space, asked("get")) == value


@pytest.mark.parametrize(
    ("before", "by"), [(2**63 - 1, 1), (-(2**63), -1), (1e308, 1e308), (0, 2**63), (10**400, 0.5), (10**400, 1)]
)
def test_a_counter_never_wraps(before: float, by: float) -> None:
    space = Keyspace()
    step(space, asked("set", before))

    with pytest.raises(RefusedStepError, match="exceed the range of a counter"):
        step(space, asked("increment", by))
    assert step(space, asked("get")) == before


@table(
    "garbage",
    [
        StateRequest(1, 1, 1, "set", "k", value=b"{"),
        StateRequest(1, 1, 1, "set", "k", value=b'"\xff"'),
        StateRequest(1, 1, 1, "set", "k", value=b"[" * 10_000),
        StateRequest(1, 1, 1, "set", "k", value=b" null"),
        StateRequest(1, 1, 1, "set", "k", value=b"NaN"),
        StateRequest(1, 1, 1, "set", "k"),
        StateRequest(1, 1, 1, "increment", "k"),
        StateRequest(1, 1, 1, "increment", "k", value=b'"1"'),
        StateRequest(1, 1, 1, "increment", "k", value=b"true"),
        StateRequest(1, 1, 1, "increment", "k", value=b"1e999"),
        StateRequest(1, 1, 1, "get", ""),
        StateRequest(1, 1, 1, "get", "k" * 257),
        StateRequest(1, 1, 1, "set", "k", value=b'"' + b"x" * 16 * 1024 + b'"'),
        StateRequest(1, 1, 1, "compare_and_set", "k", expected=b"}"),
        StateRequest(1, 1, 1, "set", "k", value=b"1", ttl=-1.0),
        StateRequest(1, 1, 1, "set", "k", value=b"1", ttl=float("nan")),
        StateRequest(1, 1, 1, "set", "k", value=b"1", ttl=1e12),
    ],
)
def test_what_no_worker_of_ours_asks_is_garbage(garbage: StateRequest) -> None:
    space = Keyspace()

    with pytest.raises(GarbageStepError):
        space.plan(PLACE, garbage, 0.0)
    assert space.total.keys == 0


# -- ends --------------------------------------------------------------------------------------------------------


def test_a_window_ends_however_often_it_is_incremented() -> None:
    space = Keyspace()
    seen = [step(space, asked("increment", 1, ttl=10.0), at=at) for at in (0.0, 6.0, 9.9, 10.0, 19.9)]

    assert seen == [1, 2, 3, 1, 2]


def test_a_set_begins_its_time_anew_and_one_without_a_ttl_stays() -> None:
    space = Keyspace()
    step(space, asked("set", 1, ttl=10.0))
    step(space, asked("set", 2, ttl=10.0), at=9.0)
    assert step(space, asked("get"), at=18.0) == 2
    step(space, asked("set", 3), at=18.0)

    assert step(space, asked("get"), at=1e9) == 3


def test_a_claimed_session_ends_a_while_after_its_last_use_and_a_live_one_does_not() -> None:
    space = Keyspace()
    for place in (LIVE, CLAIMED):
        step(space, asked("increment", 1), place=place)
    used = [step(space, asked("get"), at=at, place=CLAIMED) for at in (99.0, 198.0, 298.1)]

    assert used == [1, 1, None]
    assert step(space, asked("get"), at=1e9, place=LIVE) == 1


def test_a_live_session_takes_up_what_lingered_over_a_restart() -> None:
    space = Keyspace()
    step(space, asked("set", 7), place=StateScope(NAMESPACE, LIVE.scope, idle_ttl=100.0))
    assert step(space, asked("get"), at=99.0, place=LIVE) == 7

    assert step(space, asked("get"), at=1e9, place=LIVE) == 7


def test_scopes_and_namespaces_do_not_see_one_another() -> None:
    space = Keyspace()
    others = [
        LIVE,
        CLAIMED,
        *(StateScope(Namespace(*one)) for one in (("global", "", "/a.py"), ("project", "/p", "/a.py"))),
    ]

    assert [step(space, asked("increment", 1), place=place) for place in (PLACE, *others)] == [1] * 5


def test_the_end_of_a_session_leaves_the_rest_and_no_trace() -> None:
    space = Keyspace()
    for place in (PLACE, LIVE):
        step(space, asked("set", 1), place=place)
    for place in space.list_scopes(LIVE.scope):
        space.end_scope(place)

    assert step(space, asked("get"), place=LIVE) is None
    assert step(space, asked("get")) == 1
    space.end_namespace(NAMESPACE)
    assert (space.total.keys, space.total.bytes, space.usage()) == (0, 0, {})


# -- bounds ------------------------------------------------------------------------------------------------------


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace, "MAX_KEYS", 3)


@pytest.mark.usefixtures("_small")
def test_what_does_not_fit_is_refused_and_nothing_that_lasts_is_forgotten() -> None:
    space = filled(3)

    with pytest.raises(RefusedStepError, match="there is no room for 'k3'"):
        step(space, asked("set", 1, key="k3"))
    assert [step(space, asked("increment", 1, key=f"k{number}")) for number in range(3)] == [2, 2, 2]
    step(space, asked("delete", key="k0"))
    step(space, asked("set", 1, key="k3"))


@pytest.mark.usefixtures("_small")
def test_what_has_ended_makes_room() -> None:
    space = filled(3, ttl=10.0)
    step(space, asked("set", 1, key="k3"), at=10.0)

    assert space.total.keys == 1


@pytest.mark.usefixtures("_small")
def test_claimed_sessions_take_no_room_from_live_ones() -> None:
    space = Keyspace()
    for number in range(3):
        step(
            space, asked("set", 1), place=StateScope(NAMESPACE, name_session_scope(f"{number}", is_claimed=True), 100.0)
        )
    with pytest.raises(RefusedStepError):
        step(space, asked("set", 1), place=CLAIMED)

    assert step(space, asked("increment", 1), place=LIVE) == 1
    assert step(space, asked("increment", 1), at=100.0, place=CLAIMED) == 1, "the others have ended"


def test_all_sources_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace, "MAX_TOTAL", 1100)
    space, other = filled(3), StateScope(Namespace("global", "", "/other.py"))

    with pytest.raises(RefusedStepError, match="all sources"):
        step(space, asked("set", "x" * 100), place=other)
    step(space, asked("set", 1), place=other)
    with pytest.raises(RefusedStepError):
        step(space, asked("set", "x" * 100), place=other)


@examples(60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([PLACE, LIVE, CLAIMED]),
            st.sampled_from(["get", "set", "increment", "delete", "compare_and_set"]),
            st.sampled_from("abc"),
            st.sampled_from([1, 2]),
            st.sampled_from([0.0, 5.0, 50.0]),
            st.floats(0, 60),
        ),
        max_size=40,
    )
)
def test_what_is_counted_is_what_is_held(steps: list[tuple[StateScope, Operation, str, int, float, float]]) -> None:
    space, now = Keyspace(), 0.0
    for place, operation, key, value, ttl, passed in steps:
        now += passed
        given = NOTHING if operation in ("get", "delete") else value
        step(space, asked(operation, given, key=key, ttl=ttl), at=now, place=place)

    held = list(space.live(0.0 if not steps else now))
    sizes = [len(key.encode()) + len(entry.value) + keyspace.OVERHEAD for _, key, entry in held]
    assert space.total.keys >= len(held)
    assert space.total.bytes >= sum(sizes)
    for account in {keyspace.find_account(place) for place, *_ in steps} & set(space._accounts):
        space._usage[account].may_end_at = 0.0
        space._drop_ended(account, now)
    assert (space.total.keys, space.total.bytes) == (len(held), sum(sizes))
