"""Open asks as a state machine: exactly one end each, and only a timely yes about this payload lets a fire go on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.core.asks import (
    MAX_ASKS,
    MAX_ENDED,
    MAX_OF_ONE,
    AskResolution,
    NotAskedError,
    OpenAsks,
    apply_resolution,
    resolve_unanswered,
)
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.messages import Cause, FireDecision
from support.asked import DIGEST, ask
from support.tables import table


def waiting(*ids: str, now: float = 100.0, seconds: float = 60.0) -> OpenAsks:
    asks = OpenAsks()
    for ask_id in ids or ("a-1",):
        asks.open(ask(ask_id), share="s", now=now, seconds=seconds)
    return asks


def denied(cause: Cause = "draining", ask_id: str = "a-1") -> AskResolution:
    return AskResolution(id=ask_id, verdict="deny", cause=cause, reason="over")


@table(
    "moment, verdict, digest, expected",
    [
        (159.9, "allow", DIGEST, ("allow", "policy")),  # a yes in time
        (100.0, "deny", DIGEST, ("deny", "policy")),  # a no in time
        (159.9, "allow", None, ("allow", "policy")),  # a yes that names no payload
        (160.0, "allow", DIGEST, ("deny", "unanswered")),  # a yes at the deadline
        (1000.0, "allow", DIGEST, ("deny", "unanswered")),  # a yes after it
        (1000.0, "deny", DIGEST, ("deny", "unanswered")),  # a no after it
    ],
)
def test_an_answer_counts_before_the_deadline(
    moment: float, verdict: Any, digest: str | None, expected: tuple[str, str]
) -> None:
    asks = waiting()

    closed = asks.close(asks.answer("a-1", verdict, "ok", by="tom", now=moment, payload_digest=digest))

    assert (closed.verdict, closed.cause) == expected
    assert list(asks) == []


@table(
    "ask_id, digest, by, error",
    [
        ("a-1", "e" * 64, "tom", "is about the payload d"),  # about another payload
        ("a-1", "", "tom", "is about the payload d"),  # about an empty digest
        ("a-1", DIGEST, " \n", "needs a name"),  # by nobody
        ("a-2", DIGEST, "tom", "no ask 'a-2' waits"),  # to no ask
    ],
)
def test_what_is_no_answer_leaves_the_ask_open(ask_id: str, digest: str, by: str, error: str) -> None:
    asks = waiting()

    with pytest.raises((ValueError, NotAskedError), match=error):
        asks.answer(ask_id, "allow", "ok", by=by, now=100.0, payload_digest=digest)

    assert [one["id"] for one in asks] == ["a-1"]


@given(st.permutations(["allow", "deny", "late", "expired", "draining", "abandoned"]))
def test_the_first_end_is_the_only_one(order: list[str]) -> None:
    asks = waiting()
    ends: list[AskResolution] = []
    told: list[str] = []

    for what in order:
        try:
            if what in ("allow", "deny", "late"):
                moment = 200.0 if what == "late" else 101.0
                verdict: Any = "deny" if what == "deny" else "allow"
                closed = asks.answer("a-1", verdict, what, by="tom", now=moment)
            else:
                closed = resolve_unanswered("a-1", 60.0) if what == "expired" else denied("abandoned")
            ends.append(asks.close(closed))
        except NotAskedError as late:
            told.append(str(late))

    assert len(set(ends)) == 1
    assert all("is over" in text for text in told), "who answers too late is not told how it ended"
    allowed = order[0] == "allow"
    assert (ends[0].verdict == "allow") is allowed
    assert len(asks) == 0


def crowd(*shares: str, maximum: int = 4, share_maximum: int = 3) -> OpenAsks:
    asks = OpenAsks(maximum=maximum, share_maximum=share_maximum)
    for number, share in enumerate(shares):
        asks.open(ask(f"a-{number}"), share=share, now=0.0, seconds=60.0)
    return asks


def test_one_session_has_so_many_places_and_no_more() -> None:
    asks = crowd("flood", "flood", "flood")

    assert "3 asks of this session" in str(asks.obstacle("flood"))
    assert asks.obstacle("other") is asks.find_evicted("other") is None
    assert asks.session_asks("flood") == ["a-0", "a-1", "a-2"]
    asks.close(denied(ask_id="a-0"))
    assert asks.obstacle("flood") is None
    assert "3 asks that name no session" in str(crowd("", "", "").obstacle(""))


@table(
    ("shares", "newcomer", "yielding"),
    [
        ("aab", "c", None),  # there is room
        ("abac", "d", "a-2"),  # the newest of the one with most
        ("aabb", "c", "a-1"),
        ("aabb", "a", None),  # no better claim
        ("aaab", "b", "a-2"),
        ("abcd", "e", None),  # all have one
    ],
)
def test_when_all_places_are_taken_whoever_has_most_makes_room(shares: str, newcomer: str, yielding: Any) -> None:
    asks = crowd(*shares)

    assert asks.find_evicted(newcomer) == yielding
    is_full = len(shares) == 4 and yielding is None
    assert (asks.obstacle(newcomer) or "").startswith("4 asks wait for a person already") is is_full


def test_what_was_never_asked_is_not_over() -> None:
    with pytest.raises(NotAskedError, match="no ask 'a-1' waits"):
        OpenAsks().close(denied())


def test_of_long_ago_it_is_not_known_any_more_how_it_ended() -> None:
    asks = OpenAsks(maximum=1000, share_maximum=1000)
    for number in range(300):
        asks.open(ask(f"a-{number}"), share="s", now=0.0, seconds=60.0)
    for number in range(300):
        asks.close(denied(ask_id=f"a-{number}"))

    with pytest.raises(NotAskedError, match="no ask 'a-0' waits"):
        asks.answer("a-0", "allow", "ok", by="tom", now=1.0)
    with pytest.raises(NotAskedError, match="a-299 is over: denied: over"):
        asks.answer("a-299", "allow", "ok", by="tom", now=1.0)


def asking(event: str = "pre_tool_use") -> FireDecision:
    return FireDecision(
        decision_id="a-1", event=event, verdict="ask", cause="policy", reason="why?", layer="global", hook="guard",
        retryable=False, patch={"tool_input": b"{}"}, payload_digest=DIGEST, append="more", resume=None, value=None,  # type: ignore[dict-item]
        revision=1, duration_ms=1.0, warnings=["careful"], instead="ls",
    )  # fmt: skip


@table(
    "event, verdict, cause, expected, keeps",
    [
        ("pre_tool_use", "allow", "policy", ("allow", "policy", False), True),  # allowed
        ("user_prompt_submit", "allow", "policy", ("pass", "policy", False), True),  # allowed where a hook cannot allow
        ("pre_tool_use", "deny", "policy", ("deny", "policy", False), False),  # denied
        ("pre_tool_use", "deny", "unanswered", ("deny", "unanswered", False), False),  # not answered
        ("pre_tool_use", "deny", "draining", ("deny", "draining", True), False),  # the daemon leaves
        ("pre_tool_use", "deny", "overload", ("deny", "overload", True), False),  # too many
        ("pre_tool_use", "deny", "audit", ("deny", "audit", False), False),  # not recorded
    ],
)
def test_an_end_becomes_a_decision(
    event: str, verdict: Any, cause: Any, expected: tuple[str, str, bool], keeps: bool
) -> None:
    spec, by = Catalogue.standard()[event], "tom" if cause == "policy" else None

    made = apply_resolution(
        spec, asking(event), AskResolution(id="a-1", verdict=verdict, cause=cause, reason="so", by=by)
    )

    assert (made.verdict, made.cause, made.retryable) == expected
    assert bool(made.patch) is bool(made.append) is keeps
    assert made.instead == ("ls" if (verdict, cause) == ("deny", "policy") else None)  # where a person refuses
    assert made.warnings == ["careful"]
    assert made.reason is not None
    assert "so" in made.reason
    assert "global/guard asked: why?" in made.reason


def test_a_share_and_all_of_them_have_a_number_of_places() -> None:
    asks = OpenAsks()
    for number in range(100):
        assert asks.obstacle(f"s-{number}") is None
        asks.open(ask(f"a-{number}"), share=f"s-{number}", now=100.0, seconds=60.0)
    of_one = waiting(*(f"a-{number}" for number in range(15)))
    before = of_one.obstacle("s")
    of_one.open(ask("a-15"), share="s", now=100.0, seconds=60.0)

    assert (MAX_ASKS, MAX_OF_ONE) == (100, 16)
    assert "100 asks wait" in str(asks.obstacle("s-100"))
    assert (before, "16 asks of this session" in str(of_one.obstacle("s"))) == (None, True)


def test_so_many_ends_are_known_to_answers_that_come_too_late() -> None:
    asks = OpenAsks()
    for number in range(MAX_ENDED + 1):
        asks.open(ask(f"a-{number}"), share="s", now=100.0, seconds=60.0)
        asks.close(denied(ask_id=f"a-{number}"))

    assert MAX_ENDED == 256
    for ask_id, text in (("a-0", "no ask 'a-0' waits"), ("a-1", "the ask a-1 is over")):
        with pytest.raises(NotAskedError, match=text):
            asks.answer(ask_id, "allow", "ok", by="tom", now=100.0, payload_digest=DIGEST)
