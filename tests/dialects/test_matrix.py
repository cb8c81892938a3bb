"""Five dialects by all events by all verdicts: a rendered answer is never looser than the decision.

The decisions come from the real state machines; the judges know the systems, but neither the tables nor the renderer.
"""

from typing import Any, get_args

import pytest

from dialects.judges import CHANGED_AT, JUDGES, Judgement
from dialects.samples import cases, fire, gates, label, sample
from hooklatch.core.messages import Cause
from hooklatch.dialects.dialect import Dialect, EventMapping
from hooklatch.dialects.find import find_dialect
from hooklatch.dialects.rendering import render_decision
from hooklatch_worker.author.verdicts import allow, amend, append, ask, claim, deny, halt, inject, resume
from support.plays import CATALOGUE, Reply, failed
from support.tables import table

MARK = "a-mark-to-look-for"
CHANGES: dict[str, Any] = {
    "prompt": f"{MARK} prompt",
    "params": {MARK: 1},
    "request": {MARK: 1},
    "tool_name": MARK,
    "tool_input": {"command": MARK},
    "permissions": {MARK: True},
    "personality_id": MARK,
    "tool_response": MARK,
}
CAUSES = [cause for cause in get_args(Cause) if cause != "policy"]
SAYS: dict[str, Reply] = {"allow": allow(), "ask": ask("sure?"), "deny": deny("no"), "halt": halt("no")}
OUTPUTS: dict[str, Reply] = {
    "inject": inject({"role": "system", "content": MARK}),
    "append": append(MARK),
    "resume": resume(MARK),
}
GATES = gates()
REFUSALS = [(d, e, word) for d, e, f in GATES for word in ("deny", "halt") if word in f.verdicts]
PASSES = [(d, e, reply) for d, e, f in GATES for reply in (None, allow()) if reply is None or "allow" in f.verdicts]
ASKS = [(d, e) for d, e, f in GATES if "ask" in f.verdicts]
PATCHES = [(d, e, f, key) for d, e, f in GATES for key in sorted(CATALOGUE[f.event].patch)]
BESIDE = [(d, e, key, word) for d, e, f, key in PATCHES for word in ("", "ask", "allow") if word in ("", *f.verdicts)]
NOTICES = [(d, e) for d, e in cases() if not d.events[e].feeds[0].fails_closed]
HALTS = [(d, e) for d, e in NOTICES if "halt" in d.events[e].feeds[0].verdicts]
CLAIMS = [(d, e) for d, e in cases() if "claim" in d.events[e].feeds[0].verdicts]
SAID = [
    (d, e, output)
    for d, e in cases()
    for output in OUTPUTS
    if any(output in CATALOGUE[feed.event].outputs for feed in d.events[e].feeds)
]


def judged(dialect: Dialect, event: str, value: object) -> list[Judgement]:
    return JUDGES[dialect.name](event, value)


def words(dialect: Dialect, event: str, value: object) -> set[str]:
    return {judgement.word for judgement in judged(dialect, event, value)}


@table(("dialect", "event", "word"), REFUSALS, ids=label)
def test_a_refusal_stops_however_it_is_read(dialect: Dialect, event: str, word: str) -> None:
    decisions, rendered = fire(dialect, event, guard=SAYS[word])

    assert decisions[0]["verdict"] == word
    assert words(dialect, event, rendered.value) == {"stops"}
    assert "no" in str(rendered.value)


@table(("dialect", "event", "feed"), GATES, ids=label)
def test_a_refusal_without_a_reason_stops_too(dialect: Dialect, event: str, feed: EventMapping) -> None:
    _, rendered = fire(dialect, event, guard=deny(""))

    assert words(dialect, event, rendered.value) == {"stops"}


@table(("dialect", "event", "feed", "key"), PATCHES, ids=label)
def test_a_refusal_between_patches_stops_and_shows_none(
    dialect: Dialect, event: str, feed: EventMapping, key: str
) -> None:
    change = amend(**{key: CHANGES[key]})
    _, rendered = fire(dialect, event, first=change, guard=deny("no"), last=change)

    assert words(dialect, event, rendered.value) == {"stops"}
    assert MARK not in str(rendered.value)


@table(("dialect", "event"), ASKS, ids=label)
def test_an_ask_asks_or_stops(dialect: Dialect, event: str) -> None:
    decisions, rendered = fire(dialect, event, guard=ask("sure?"), other=None)

    expected = "asks" if dialect.name == "beam" else "stops"
    assert decisions[0]["verdict"] == "ask"
    assert words(dialect, event, rendered.value) == {expected}
    assert expected == "asks" or any("ask became" in warning for warning in rendered.warnings)


@table("cause", CAUSES)
@table(("dialect", "event", "feed"), GATES, ids=label)
def test_a_failure_stops_and_its_cause_is_seen(dialect: Dialect, event: str, feed: EventMapping, cause: Cause) -> None:
    decisions, rendered = fire(dialect, event, first=None, broken=failed(cause, "boom"))

    assert decisions[0]["cause"] == cause
    assert words(dialect, event, rendered.value) == {"stops"}
    assert cause in str(rendered.value)
    assert "session/broken" in str(rendered.value)


@table(("dialect", "event", "feed"), GATES, ids=label)
def test_garbage_stops(dialect: Dialect, event: str, feed: EventMapping) -> None:
    _, rendered = fire(dialect, event, liar=b'{"verdict": "perhaps"}')

    assert words(dialect, event, rendered.value) == {"stops"}


@table(("dialect", "event", "reply"), PASSES, ids=label)
def test_a_pass_and_an_allow_run_the_input_as_it_was(dialect: Dialect, event: str, reply: Reply) -> None:
    native = sample(dialect, event)
    _, rendered = fire(dialect, event, guard=reply)

    for judgement in judged(dialect, event, rendered.value):
        assert judgement.word == "runs"
        assert judgement.changes in ({}, native)
    assert rendered.warnings == []


@table(("dialect", "event", "key", "word"), BESIDE, ids=label)
def test_a_patch_is_in_what_runs_or_nothing_runs(dialect: Dialect, event: str, key: str, word: str) -> None:
    decisions, rendered = fire(dialect, event, amender=amend(**{key: CHANGES[key]}), other=SAYS.get(word))

    found = judged(dialect, event, rendered.value)

    assert found
    for judgement in found:
        at = CHANGED_AT.get((dialect.name, key), "")
        assert judgement.word in ("stops", "asks") or judgement.changes.get(at) == CHANGES[key]
        # A person who says yes must not wave through what the patch was there to change.
        assert judgement.word != "asks" or decisions[0]["patch"] is None
    if words(dialect, event, rendered.value) == {"stops"}:
        assert any("became" in warning for warning in rendered.warnings)


EXPRESSIBLE = set(CHANGED_AT)


@table(("dialect", "event", "feed", "key"), PATCHES, ids=label)
def test_a_patch_that_can_be_said_is_said(dialect: Dialect, event: str, feed: EventMapping, key: str) -> None:
    _, rendered = fire(dialect, event, amender=amend(**{key: CHANGES[key]}))

    runs = words(dialect, event, rendered.value) == {"runs"}
    is_known = (dialect.name, key) in EXPRESSIBLE and (dialect.name, event, key) not in {
        ("exathena", "SubagentStart", "prompt"),
        ("radium", "ToolSelection", "tool_input"),
    }
    assert runs == is_known


@table(("dialect", "event", "output"), SAID, ids=label)
def test_an_output_is_said_or_named_as_lost(dialect: Dialect, event: str, output: str) -> None:
    first = dialect.events[event].feeds[0].event
    hooks = {"hook" if output in CATALOGUE[first].outputs else "later": OUTPUTS[output]}
    _, rendered = fire(dialect, event, **hooks)  # type: ignore[arg-type]  # a key may be any parameter

    is_lost = any(warning.startswith(f"{output} was lost") for warning in rendered.warnings)
    assert (MARK in str(rendered.value)) != is_lost


@table(("dialect", "event"), HALTS, ids=label)
def test_a_wish_to_halt_is_said_or_named_as_lost(dialect: Dialect, event: str) -> None:
    _, rendered = fire(dialect, event, hook=halt("enough"))

    is_lost = any(warning.startswith("halt was lost") for warning in rendered.warnings)
    assert (words(dialect, event, rendered.value) == {"stops"}) != is_lost


@table("cause", CAUSES)
@table(("dialect", "event"), NOTICES, ids=label)
def test_a_failure_where_nothing_is_guarded_stops_nothing(dialect: Dialect, event: str, cause: Cause) -> None:
    _, rendered = fire(dialect, event, broken=failed(cause, "boom"), other=None)

    assert words(dialect, event, rendered.value) == {"runs"}


@table("value", [None, "text", {"reply": "text"}, {"handled": False}, [1]], ids=str)
@table(("dialect", "event"), CLAIMS, ids=label)
def test_a_claim_is_a_claim_whatever_its_value(dialect: Dialect, event: str, value: object) -> None:
    _, rendered = fire(dialect, event, first=None, claimer=claim(value), never=claim("second"))

    if dialect.name == "ethos":
        assert rendered.value["handled"] is True
    elif event == "ErrorInterception":
        assert rendered.value[-1]["should_continue"] is False
    else:
        assert rendered.value[-1]["modified_data"] == {"recovered_error": value}
    assert "second" not in str(rendered.value)


@pytest.mark.parametrize(("dialect", "event"), CLAIMS, ids=label)
def test_no_claim_is_none(dialect: Dialect, event: str) -> None:
    _, rendered = fire(dialect, event, first=None)

    assert rendered.value == {"handled": False} or judged(dialect, event, rendered.value) == [Judgement("runs")]


@table("verdict", [None, "", "yes", 7, ["pass"]], ids=str)
@table(("dialect", "event", "feed"), GATES, ids=label)
def test_a_verdict_that_nobody_understands_stops(
    dialect: Dialect, event: str, feed: EventMapping, verdict: object
) -> None:
    rendered = render_decision(dialect, event, {"event": feed.event, "verdict": verdict}, [], sample(dialect, event))

    assert words(dialect, event, rendered.value) == {"stops"}


def test_a_halt_of_a_later_feed_is_not_hidden_by_an_earlier_pass() -> None:
    radium = find_dialect("radium")
    assert radium is not None

    _, rendered = fire(radium, "AfterTool", hook=amend(tool_response="clean"), later=halt("enough"))

    assert words(radium, "AfterTool", rendered.value) == {"stops"}


@table("word", ["deny", "halt", "ask"])
@table(("dialect", "event", "feed", "key"), PATCHES, ids=label)
def test_a_patch_beside_a_refusal_or_an_ask_is_never_let_through_unseen(
    dialect: Dialect, event: str, feed: EventMapping, key: str, word: str
) -> None:
    decision = {"event": feed.event, "verdict": word, "reason": "no", "patch": {key: CHANGES[key]}}

    rendered = render_decision(dialect, event, decision, [], sample(dialect, event))

    assert words(dialect, event, rendered.value) == {"stops"}
    assert MARK not in str(rendered.value)
