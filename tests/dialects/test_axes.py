"""Axes reorder and tighten events; none loosens a gate."""

from typing import get_args

import pytest

from dialects.samples import cases, gates, label
from hooklatch.core.hooks.registry import Layer
from hooklatch.core.messages import Cause
from hooklatch.dialects.beam import BEAM
from hooklatch.dialects.dialect import Dialect, EventMapping, adapt_spec, feed, is_due, order_dialect_hooks
from hooklatch.dialects.ethos import ETHOS
from hooklatch.dialects.exathena import EXATHENA
from hooklatch.dialects.radium import RADIUM
from hooklatch.dialects.reasonix import REASONIX
from hooklatch_worker.author.verdicts import amend, ask, context, deny
from support.plays import BASH, CATALOGUE, failed, hook, play
from support.tables import table

CAUSES = [cause for cause in get_args(Cause) if cause != "policy"]
ASIDE = {"prompt": "p", "model_id": "m", "agent_type": "a", "trigger": "auto", "source": "s"}


@table(("dialect", "event"), cases(), ids=label)
def test_axes_change_neither_model_nor_words(dialect: Dialect, event: str) -> None:
    assert dialect.events[event].feeds
    for fed in dialect.events[event].feeds:
        before = CATALOGUE[fed.event]
        after = adapt_spec(fed, before)
        assert (after.model, after.verdicts, after.outputs, after.patch, after.timeout) == (
            (before.model, before.verdicts, before.outputs, before.patch, before.timeout)
        )


@table("cause", CAUSES)
@table(("dialect", "event", "fed"), gates(), ids=label)
def test_a_gate_fails_closed_under_the_axes_of_every_dialect(
    dialect: Dialect, event: str, fed: EventMapping, cause: Cause
) -> None:
    spec = adapt_spec(fed, CATALOGUE[fed.event])

    played = play(spec, payload={**BASH, **ASIDE}, first=None, broken=failed(cause), last=None)

    assert (played.decision.verdict, played.decision.cause) == ("deny", cause)


def axes(dialect: Dialect, event: str, index: int = 0) -> dict[str, object]:
    fed = dialect.events[event].feeds[index]
    spec = adapt_spec(fed, CATALOGUE[fed.event])
    return {"flow": spec.flow, "view": spec.view, "combine": spec.combine, "ends_at": set(spec.ends_at)}


def test_ethos_asks_all_and_lets_the_error_decide() -> None:
    fed = ETHOS.events["before_tool_call"].feeds[0]
    played = play(adapt_spec(fed, CATALOGUE[fed.event]), a=deny("first"), b=amend(tool_input={}), c=deny("second"))

    assert played.asked == ["a", "b", "c"]
    assert (played.decision.verdict, played.decision.reason, played.decision.patch) == ("deny", "first", None)


def test_beam_stops_at_the_first_ask() -> None:
    fed = BEAM.events["pre_tool_use"].feeds[0]
    played = play(adapt_spec(fed, CATALOGUE[fed.event]), a=ask("sure?"), b=deny("no"))

    assert (played.decision.verdict, played.asked) == ("ask", ["a"])


def test_beam_threads_its_context_through_a_notification() -> None:
    fed = BEAM.events["stop"].feeds[0]
    played = play(adapt_spec(fed, CATALOGUE[fed.event]), payload={}, a=context(trail=["a"]), b=None)

    assert [call.context for call in played.calls] == [{}, {"trail": ["a"]}]


def test_radium_shows_the_original_and_takes_the_last() -> None:
    fed = RADIUM.events["BeforeTool"].feeds[0]
    played = play(adapt_spec(fed, CATALOGUE[fed.event]), a=amend(tool_input={"n": 1}), b=amend(tool_input={"n": 2}))

    assert played.shown[:2] == [BASH, BASH]
    assert played.patch == {"tool_input": {"n": 2}}


def test_the_axes_are_those_of_the_table() -> None:
    first_wins = {"flow": "sequential", "view": "original", "combine": "first_wins", "ends_at": set[str]()}

    assert axes(ETHOS, "before_tool_call") == first_wins
    assert axes(ETHOS, "agent_done")["flow"] == "concurrent"
    assert axes(RADIUM, "AfterModel")["combine"] == "last_wins"
    assert axes(RADIUM, "AfterTool", 1)["flow"] == "sequential"
    assert axes(REASONIX, "PostToolUse")["flow"] == "sequential"
    assert axes(BEAM, "pre_tool_use")["ends_at"] == {"deny", "ask", "halt"}


def test_the_hooks_of_a_gate_never_run_side_by_side() -> None:
    with pytest.raises(ValueError, match="run in order"):
        adapt_spec(feed("pre_tool_use", flow="concurrent"), CATALOGUE["pre_tool_use"])


def test_a_feed_sets_no_axes_of_another_event() -> None:
    with pytest.raises(ValueError, match="sets no axes"):
        adapt_spec(feed("pre_tool_use"), CATALOGUE["stop"])


DUE = [([], True), (["pass"], True), (["allow"], True), (["ask"], False), (["deny"], False), (["halt"], False)]


@pytest.mark.parametrize(("verdicts", "expected"), DUE, ids=str)
def test_started_is_fired_only_after_a_passed_start(verdicts: list[str], expected: bool) -> None:
    assert is_due(BEAM.events["subagent_start"].feeds[1], verdicts) is expected
    assert is_due(BEAM.events["subagent_start"].feeds[0], verdicts)


HOOKS = (
    hook("fleet", layer=Layer.FLEET, priority=0),
    hook("global", layer=Layer.GLOBAL, priority=50),
    hook("plugin", layer=Layer.PLUGIN, priority=200),
    hook("project", layer=Layer.PROJECT),
    hook("session", layer=Layer.SESSION, priority=200),
)
ORDERS = [
    (ETHOS, ["fleet", "global", "plugin", "project", "session"]),
    (REASONIX, ["fleet", "project", "plugin", "global", "session"]),
    (RADIUM, ["fleet", "plugin", "session", "project", "global"]),
]


@pytest.mark.parametrize(("dialect", "expected"), ORDERS, ids=label)
def test_hooks_stand_in_the_order_of_their_system(dialect: Dialect, expected: list[str]) -> None:
    assert [one.id for one in order_dialect_hooks(dialect, HOOKS)] == expected


def test_exathenas_transforms_are_each_of_the_prompt_as_it_came_and_the_last_one_counts() -> None:
    fed = EXATHENA.events["UserPromptSubmit"].feeds[0]
    spec = adapt_spec(fed, CATALOGUE[fed.event])
    first, last = amend(prompt="first"), amend(prompt="last")

    settled = play(spec, payload={"prompt": "p"}, a=[first, None], b=last, guard=None)
    again = play(spec, payload={"prompt": "p"}, a=first, b=last, guard=None)
    refused = play(spec, payload={"prompt": "p"}, a=[first, None], b=last, guard=[None, deny("not that")])

    assert settled.asked == ["a", "b", "guard", "a again", "guard again"]
    assert [payload["prompt"] for payload in settled.shown] == ["p", "p", "p", "last", "last"]
    assert (settled.decision.verdict, settled.patch) == ("pass", {"prompt": "last"})
    assert (again.asked, again.shown, again.patch) == (settled.asked, settled.shown, settled.patch)
    assert (refused.decision.verdict, refused.decision.patch) == ("deny", None)
