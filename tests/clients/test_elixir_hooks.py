"""Hooks that cannot be used, and what the systems' answers mean, through Elixir's adapters."""

from __future__ import annotations

from typing import Any

import pytest

from clients.adapters import Adapters
from clients.beam_calls import BLOCKING, EVENTS, FINE, NOTIFYING, adds, by_hand, context, fire, ok
from clients.beam_calls import hook as beam
from clients.elixir_form import (
    CONTEXT,
    OK,
    answers,
    binary,
    call,
    calls,
    exits,
    fun,
    gave,
    keys,
    kills,
    names,
    raises,
    struct,
    throws,
    tuple_,
)  # fmt: skip
from clients.exathena_calls import after, augment, before, deny, group, halt, hook, outputs, run
from conformance.cases.exathena import PAYLOADS
from conformance.driving import ANY, Step, has, part, step

pytestmark = pytest.mark.slow  # a process of Elixir, and a daemon


MESSAGE = struct("Message", role=":system", content="be brief", name=None)


# F: what is refused is refused alone, and somebody is told.

LOOKS_AHEAD = "^(?!read)"
RAN = hook(OK, "ran")
BROKEN: dict[str, Any] = {
    "a pattern that looks ahead": group(hook(OK), matcher=LOOKS_AHEAD),
    "a pattern that is none": group(hook(OK), matcher="[unclosed"),
    "a pattern with options": group(hook(OK), matcher={"$regex": ["bash", "x"]}),
    "a pattern that is an atom": group(hook(OK), matcher=":bash"),
    "a function of one argument": hook(OK, arity=1),
    "a function of three arguments": group(hook(OK, arity=3), matcher="bash"),
    "an atom": ":hook",
    "null": None,
    "a group without functions": keys(matcher="bash"),
    "a group whose functions are none": keys(matcher="bash", hooks=":all"),
    "a definition of BeamAgent": by_hand("pre_tool_use", FINE),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_one_hook_that_cannot_be_used_takes_no_other_with_it(adapters: Adapters, broken: Any) -> None:
    hooks = keys(
        PreToolUse=[broken, group(hook(answers(deny())), matcher="write")], Stop=[RAN], UserPromptSubmit=[RAN],
        PostToolUse=[hook(answers(augment("seen")))],
    )  # fmt: skip

    adapters.holds(
        before(hooks, "bash", {}, deny(ANY)),
        before(hooks, "write", {}, deny(ANY)),
        run(hooks, "Stop", keys(session_id="s"), ":ok", *names("ran")),
        run(hooks, "UserPromptSubmit", keys(prompt="p", session_id="s"), ":ok", *names("ran")),
        after(hooks, "bash", keys(result="r"), augment("seen")),
    )


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_one_that_cannot_be_used_where_nothing_is_refused_is_told_of(adapters: Adapters, broken: Any) -> None:
    hooks = keys(PostToolUse=[broken, hook(answers(augment("seen")), "seen")])
    found = adapters.do(call("ExAthena.run_post_tool_use", hooks, "bash", keys(result="r"), "t-1"))

    assert found["gave"] == augment("seen")
    assert "PostToolUse" in adapters.logged(found)


def test_a_pattern_that_cannot_be_used_spares_the_tools_that_it_was_not_for(adapters: Adapters) -> None:
    """A function that cannot be called keeps its matcher."""
    hooks = keys(PreToolUse=[group(hook(OK, arity=1), matcher="bash")])

    adapters.holds(before(hooks, "bash", {}, deny(ANY)), before(hooks, "read", {}, ":ok"))


def test_a_group_under_an_event_without_a_tool_stands_for_itself_alone(adapters: Adapters) -> None:
    grouped = group(hook(OK, "grouped"), matcher="bash")
    hooks = keys(Stop=[grouped, RAN], UserPromptSubmit=[grouped, RAN], SessionEnd=[keys(hooks=[RAN])])

    adapters.holds(
        run(hooks, "Stop", keys(session_id="s"), ":ok", *names("ran")),
        run(hooks, "UserPromptSubmit", keys(prompt="p"), halt(ANY)),
        run(hooks, "SessionEnd", keys(session_id="s"), ":ok", *names("ran")),
    )


def test_an_event_that_nobody_knows_is_told_of(adapters: Adapters) -> None:
    hooks = keys(PreToolUze=[hook(answers(deny("no shell")))], Stop=[RAN])

    found = adapters.do(call("ExAthena.run_lifecycle", hooks, ":Stop", keys(session_id="s")))

    assert (found["gave"], found["called"]) == (":ok", [calls("ran", keys(session_id="s"), "s")])
    assert "PreToolUze" in adapters.logged(found)


UNUSABLE: dict[str, Any] = {
    "a pattern that looks ahead": beam("pre_tool_use", FINE, "bad", LOOKS_AHEAD),
    "a pattern made by hand": by_hand("pre_tool_use", FINE, matcher=keys(tool_name="[unclosed")),
    "a matcher that is none": by_hand("pre_tool_use", FINE, matcher="Bash"),
    "a function of two arguments": by_hand("pre_tool_use", FINE, arity=2),
    "no function": keys(event=":pre_tool_use", callback=":none"),
}


@pytest.mark.parametrize("broken", UNUSABLE.values(), ids=UNUSABLE)
def test_one_hook_of_beam_agent_that_cannot_be_used_takes_no_other_with_it(adapters: Adapters, broken: Any) -> None:
    hooks = [broken, beam("stop", adds(ran=True)), beam("user_prompt_submit", adds(ran=True))]

    adapters.holds(
        fire("pre_tool_use", hooks, context(), deny(ANY)),
        fire("stop", hooks, context("stop"), ok(context("stop", ran=True))),
        fire("user_prompt_submit", hooks, context("user_prompt_submit"), ok(context("user_prompt_submit", ran=True))),
    )


def test_a_global_hook_that_cannot_be_used_takes_no_other_with_it(adapters: Adapters) -> None:
    for one in (beam("pre_tool_use", FINE, "bad", LOOKS_AHEAD), beam("stop", adds(everywhere=True))):
        adapters.holds(step(call("BeamAgent.register_global", one), gives=gave(":ok")))

    adapters.holds(
        fire("stop", [beam("stop", adds(ran=True))], context("stop"), ok(context("stop", ran=True, everywhere=True))),
        fire("pre_tool_use", [], context(), deny(ANY)),
    )


def test_a_live_session_hears_of_a_global_hook_before_anybody_fires(adapters: Adapters) -> None:
    none = {"$call": "Hooklatch.Native.session", "with": ["beam", []]}
    one = beam("stop", adds(everywhere=True))
    announced = tuple_(":hooklatch", ANY, part(topic="registry", revision=ANY))
    adapters.do(call("Kernel.elem", none, 1, keep="session"))

    adapters.holds(
        step(call("Hooklatch.subscribe", {"$kept": "session"}), gives=gave(tuple_(":ok", ANY))),
        step(call("BeamAgent.register_global", one, process="other"), gives=gave(":ok")),
        step({"do": "native", "call": "messages", "count": 1}, gives=gave([announced])),
        step(call("BeamAgent.unregister_global", one, process="other"), gives=gave(":ok")),
        step({"do": "native", "call": "messages", "count": 1}, gives=gave([announced])),
    )


def test_a_pattern_that_is_none_is_refused_where_the_hook_is_made(adapters: Adapters) -> None:
    found = adapters.do(call("BeamAgent.hook", ":pre_tool_use", fun(FINE, "f", 1), keys(tool_name="[unclosed")))

    assert "raised" in found


def test_ordinary_patterns_and_lists_hold(adapters: Adapters) -> None:
    folded = keys(PreToolUse=[group(hook(answers(deny("no shell"))), matcher={"$regex": ["^BASH$", "i"]})])
    twice = keys(Stop=[RAN, RAN])
    without = keys(PreToolUse=[group(RAN, matcher=None)])

    adapters.holds(
        before(folded, "bash", {}, deny("no shell")),
        before(folded, "bashful", {}, ":ok"),
        run(twice, "Stop", keys(session_id="s"), ":ok", *names("ran", "ran")),
        before(without, "any tool", {}, ":ok", *names("ran")),
        before(None, "any tool", {}, ":ok"),
        before(keys(PreToolUse=[], Stop=[]), "any tool", {}, ":ok"),
    )


# Gates refuse what JSON cannot say; whatever else an event is, its functions are called.
GATES = ("UserPromptSubmit", "ChatParams", "PermissionRequest", "SubagentStart", "PreCompact")


@pytest.mark.parametrize("event", PAYLOADS)
def test_a_term_that_json_cannot_say_refuses_a_gate_and_reaches_all_other_functions(
    adapters: Adapters, event: str
) -> None:
    payload, id_ = PAYLOADS[event]
    odd = {**payload, ":odd": {"$reference": "odd"}}
    hooks = keys(**{event: [hook(OK)]})
    refused = gave(halt(has("payload.odd"))) | {"called": []}
    command = call("ExAthena.run_lifecycle", hooks, f":{event}", odd)

    adapters.holds(
        step(command, gives=refused) if event in GATES else run(hooks, event, odd, ":ok", calls("hook", odd, id_)),
        run(hooks, event, payload, ":ok", calls("hook", payload, id_)),
    )


@pytest.mark.parametrize("event", NOTIFYING)
def test_every_notification_of_beam_agent_is_called_with_what_json_cannot_say(adapters: Adapters, event: str) -> None:
    odd = context(event, odd={"$reference": "odd"})

    adapters.holds(fire(event, [beam(event, adds(ran=True))], odd, ok({**odd, ":ran": True}), calls("hook", odd)))


@pytest.mark.parametrize("event", BLOCKING)
def test_every_gate_of_beam_agent_refuses_what_json_cannot_say(adapters: Adapters, event: str) -> None:
    odd = context(event, odd={"$reference": "odd"})

    adapters.holds(
        fire(event, [beam(event, FINE)], odd, deny(has("context.odd"))),
        fire(event, [beam(event, FINE)], context(event), ok(context(event)), *names("hook")),
    )


# H: what the systems mean.

REASONS = [
    ":protected_path", tuple_(":protected", "priv"), [tuple_(":a", 1)], MESSAGE, 42, "text", {"$reference": "r"},
    binary("/w=="),
]  # fmt: skip
HALTING = ("PreToolUse", "PostToolUse", "PreIteration", "ChatParams")


def reasoned(given: Any, wanted: Any) -> list[Step]:
    """Refuse and halt for a reason wherever ExAthena can."""
    refused = keys(PreToolUse=[hook(answers(deny(given)))])
    stopped = keys(**{event: [hook(answers(halt(given)))] for event in HALTING})
    chat = keys(request=keys(model="m"), messages=[])
    return [
        before(refused, "bash", {}, deny(wanted)),
        before(stopped, "bash", {}, halt(wanted)),
        after(stopped, "bash", keys(result="r"), halt(wanted)),
        run(stopped, "PreIteration", keys(iteration=0), halt(wanted)),
        run(stopped, "ChatParams", chat, halt(wanted)),
    ]


@pytest.mark.parametrize("reason", REASONS, ids=str)
def test_a_reason_comes_back_as_the_term_that_it_was(adapters: Adapters, reason: Any) -> None:
    adapters.holds(*reasoned(reason, reason))


@pytest.mark.parametrize("reason", [None, ""])
def test_a_refusal_without_a_reason_is_one(adapters: Adapters, reason: Any) -> None:
    adapters.holds(*reasoned(reason, ANY))


def test_the_second_argument_is_the_tools_id_or_the_sessions(adapters: Adapters) -> None:
    tool = keys(tool_name="bash", tool_use_id="t-7", session_id="s-7")
    hooks = keys(
        **{event: [hook(OK)] for event in ("PermissionRequest", "PermissionDenied", "SessionStart", "PreCompact")}
    )

    adapters.holds(
        run(hooks, "PermissionRequest", tool, ":ok", calls("hook", tool, "t-7")),
        run(hooks, "PermissionDenied", tool, ":ok", calls("hook", tool, "t-7")),
        run(hooks, "SessionStart", keys(session_id="s-7"), ":ok", calls("hook", keys(session_id="s-7"), "s-7")),
        run(hooks, "PreCompact", keys(estimate=1), ":ok", calls("hook", keys(estimate=1), None)),
    )


def test_augments_of_both_are_joined(adapters: Adapters) -> None:
    hooks = keys(PostToolUse=[hook(answers(augment("mine")))])

    adapters.holds(
        after(hooks, "noted", keys(result="r"), augment("the operator's remark\nmine")),
        after({}, "noted", keys(result="r"), augment("the operator's remark")),
        outputs(hooks, "PostToolUse", keys(tool_name="bash", result="r"), augments=["mine"]),
    )


def test_of_two_transforms_the_last_one_counts(adapters: Adapters) -> None:
    first, second = (hook(answers(tuple_(":transform", text)), text) for text in ("first", "second"))
    payload = keys(prompt="hello", session_id="s")
    stops = hook(answers(halt()), "stops")

    adapters.holds(
        outputs(keys(UserPromptSubmit=[first, second]), "UserPromptSubmit", payload, transform="second"),
        outputs(keys(UserPromptSubmit=[first, RAN]), "UserPromptSubmit", payload, transform="first"),
        outputs(keys(UserPromptSubmit=[RAN, first]), "UserPromptSubmit", payload, transform="first"),
        run(keys(UserPromptSubmit=[first, second]), "UserPromptSubmit", payload, ":ok"),
        run(keys(UserPromptSubmit=[first, second, stops]), "UserPromptSubmit", payload, halt()),
    )


def test_injected_messages_come_back_as_they_were_and_in_order(adapters: Adapters) -> None:
    plain = {"role": "user", "content": ":x"}
    hooks = keys(
        ChatParams=[hook(answers(tuple_(":inject", what))) for what in (MESSAGE, [{**plain, "content": "y"}, MESSAGE])]
    )
    payload = keys(request=keys(model="m"), messages=[MESSAGE], session_id="s")

    adapters.holds(outputs(hooks, "ChatParams", payload, injects=[MESSAGE, {**plain, "content": "y"}, MESSAGE]))


@pytest.mark.parametrize("event", EVENTS)
def test_a_callback_of_beam_agent_may_answer_ok_alone(adapters: Adapters, event: str) -> None:
    given = context(event, x=":y")
    hooks = [beam(event, OK, "a"), beam(event, adds(ran=True), "b"), beam(event, OK, "c")]

    adapters.holds(fire(event, hooks, given, ok({**given, ":ran": True}), *names("a", "b", "c")))


@pytest.mark.parametrize("does", [
    answers(":okay"), answers("ok"), answers(tuple_(":ok")), answers(ok([])), answers(None), answers(True),
    answers(tuple_(":deny")), answers(tuple_(":DENY", "x")), answers(CONTEXT), raises("broken"), throws(":x"),
    exits(":normal"), exits(":x"), kills(),
], ids=str)  # fmt: skip
def test_whatever_else_a_callback_does_denies_and_holds_up_no_notification(adapters: Adapters, does: Any) -> None:
    adapters.holds(
        fire("pre_tool_use", [beam("pre_tool_use", does)], context(), deny(ANY), *names("hook")),
        fire(
            "stop", [beam("stop", does, "a"), beam("stop", adds(ran=True), "b")], context("stop"),
            ok(context("stop", ran=True)), *names("a", "b"),
        ),
        before(keys(PreToolUse=[hook(does)]), "bash", {}, deny(ANY), *names("hook")),
    )  # fmt: skip
