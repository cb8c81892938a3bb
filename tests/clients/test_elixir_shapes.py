"""Terms that stay terms through Elixir's adapters: what an attacker or a careless port sends, and ordinary use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clients.adapters import Adapters
from clients.beam_calls import EVENTS, FINE, adds, context, fire, ok, registry
from clients.beam_calls import hook as beam
from clients.elixir_form import (
    CONTEXT,
    OK,
    answers,
    append,
    at,
    binary,
    call,
    calls,
    fun,
    join,
    keys,
    merge,
    names,
    struct,
    tuple_,
    when,
)  # fmt: skip
from clients.exathena_calls import after, augment, before, deny, group, halt, hook, run
from conformance.driving import ANY, has, mismatch, part

pytestmark = pytest.mark.slow  # a process of Elixir, and a daemon


MESSAGE = struct("Message", role=":system", content="be brief", name=None)


NO_SHELL = keys(PreToolUse=[group(hook(answers(deny("no shell")), "no shell"), matcher="bash")])

# A: what the host says and what the model says never share a map.

COLLIDING = {
    "another tool's name": {"command": "ls", "tool_name": "read"},
    "the same name": {"command": "ls", "tool_name": "bash"},
    "a name that is null": {"tool_name": None},
    "another id": {"command": "ls", "tool_use_id": "t-9"},
    "a name in quotation marks": {"command": "ls", '"tool_name"': "read"},
    "both": {"tool_name": "read", '"tool_name"': "write", '""tool_name""': "x"},
    "nested arguments": {"arguments": {"command": "ls"}},
    "all of the host's keys": {"tool_name": "read", "tool_use_id": "t-9", "arguments": {}, "event": "Stop", "cwd": "/"},
    "a session's": {"session_id": "other", "parent_session_id": "other", "agent_id": "x", "metadata": {}},
}


@pytest.mark.parametrize("arguments", COLLIDING.values(), ids=COLLIDING)
def test_a_model_renames_no_tool(adapters: Adapters, arguments: dict[str, Any]) -> None:
    both = {**arguments, **keys(tool_name="bash", tool_use_id="t-1")}
    observed = keys(PreToolUse=[hook(OK)])

    adapters.holds(
        before(NO_SHELL, "bash", arguments, deny("no shell"), calls("no shell", both, "t-1")),
        before({}, "forbidden", arguments, deny("forbidden is forbidden")),
        # A harmless tool may have arguments of such names, and its function sees them as they were.
        before(observed, "bash", arguments, ":ok", calls("hook", both, "t-1")),
    )


def test_a_permission_is_asked_for_the_hosts_tool(adapters: Adapters) -> None:
    hooks = keys(PermissionRequest=[group(hook(answers(deny("no shell"))), matcher="bash")])
    payload = keys(tool_name="bash", tool_use_id="t-1", arguments={"tool_name": "read"})

    adapters.holds(
        run(hooks, "PermissionRequest", payload, halt(ANY), calls("hook", payload, "t-1")),
        run(hooks, "PermissionRequest", {**payload, ":tool_name": "read"}, ":ok"),
    )


@pytest.mark.parametrize(
    "arguments", [{"deep": {":x": 1, "x": 2}}, {"list": [{":x": 1, "x": 2}]}, {":command": 1, "command": 2}]
)
def test_two_spellings_of_one_key_are_refused_at_any_depth(adapters: Adapters, arguments: dict[str, Any]) -> None:
    deep = context(tool_name="Bash", tool_input=arguments)

    adapters.holds(
        before({}, "bash", arguments, deny(ANY)),
        fire("pre_tool_use", [beam("pre_tool_use", FINE)], deep, deny(ANY)),
    )


def test_a_context_that_names_two_tools_is_refused_and_holds_up_no_notification(adapters: Adapters) -> None:
    two = {**context(), "tool_name": "Read"}
    no = beam("pre_tool_use", answers(deny("no shell")), matcher="^Bash$")
    after_two = {**two, ":event": ":post_tool_use"}

    adapters.holds(
        fire("pre_tool_use", [no], two, deny(ANY)),
        fire("pre_tool_use", [no], context(), deny("no shell")),
        fire("pre_tool_use", [], two, deny(ANY)),
        fire("post_tool_use", [beam("post_tool_use", FINE)], after_two, ok(after_two), calls("hook", after_two)),
    )


def test_a_tools_result_renames_no_tool(adapters: Adapters) -> None:
    hooks = keys(PostToolUse=[group(hook(answers(halt())), matcher="bash")])

    adapters.holds(
        after(hooks, "bash", {":result": {"tool_name": "read"}, "tool_name": "read"}, halt(), *names("hook"))
    )


# B: what a payload says of the session is used.


def test_operators_hooks_are_told_what_the_payload_says(adapters: Adapters, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    (tmp_path / "other").mkdir()

    adapters.holds(
        after({}, "bash", keys(result="r", arguments={}, cwd=other), ":ok"),
        run({}, "PreIteration", keys(iteration=0, session_id="my-run"), ":ok"),
        fire("stop", [], context("stop", session_id="s-beam"), ok(context("stop", session_id="s-beam"))),
    )
    first, second, third = adapters.seen()

    assert first["cwd"] == other
    assert second["session"] == "my-run"
    assert third["session"] == "s-beam"


# D: what a hook leaves for the next is there as it was left.

SCORE = adds(risk=":high")
TEXT = beam("pre_tool_use", adds(risk="high"))
GUARD = when(":risk", is_=":high", then=answers(deny("too risky")), otherwise=FINE)
TERMS: dict[str, Any] = {
    "an atom": ":high",
    "a text that reads like an atom": {"$text": ":high"},
    "a tuple": tuple_(":score", 9, tuple_()),
    "a struct": MESSAGE,
    "a date": struct("Date", year=2026, month=1, day=2, calendar=":Elixir.Calendar.ISO"),
    "a float": 1.0,
    "a large number": 2**70,
    "a keyword list": [tuple_(":a", 1), tuple_(":a", 2)],
    "a charlist": [104, 105],
    "a map of atoms": keys(a=keys(b=":c")),
    "null": None,
    "an empty text": "",
    "a pattern": {"$regex": ["^a", "i"]},
}
UNSAYABLE: dict[str, Any] = {
    "a reference": {"$reference": "r"},
    "a process": {"$process": "p"},
    "a function": fun(OK, "kept", 1),
    "bytes": binary("/w=="),
    "an improper list": {"$improper": [1, 2]},
    "a map of numbers": {"$map": [[1, "one"], [tuple_(), 2]]},
    "two spellings": {":x": 1, "x": 2},
    "deep bytes": keys(a=[tuple_(binary("/w=="))]),
}


def test_a_mark_that_one_hook_leaves_is_seen_by_the_next(adapters: Adapters) -> None:
    hooks = [beam("pre_tool_use", SCORE, "score"), beam("pre_tool_use", GUARD, "guard")]
    low = [beam("pre_tool_use", adds(risk=":low"), "score"), beam("pre_tool_use", GUARD, "guard")]

    adapters.holds(
        fire(
            "pre_tool_use",
            hooks,
            context(),
            deny("too risky"),
            calls("score", context()),
            calls("guard", context(risk=":high")),
        ),
        fire("pre_tool_use", low, context(), ok(context(risk=":low")), *names("score", "guard")),
        fire("pre_tool_use", hooks[1:], context(), ok(context()), *names("guard")),
        # One that is no atom is no mark.
        fire(
            "pre_tool_use", [beam("pre_tool_use", adds(risk="high")), *hooks[1:]], context(), ok(context(risk="high"))
        ),
    )


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_hands_every_term_on(adapters: Adapters, event: str) -> None:
    more = {f"added_{number}": term for number, term in enumerate(TERMS.values())}
    given = context(event, sent=tuple_(":sent", MESSAGE))
    final = {**given, **keys(**more)}

    adapters.holds(
        fire(
            event, [beam(event, adds(**more), "a"), beam(event, FINE, "b")], given, ok(final),
            calls("a", given), calls("b", final),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("term", [*TERMS.values(), *UNSAYABLE.values()], ids=[*TERMS, *UNSAYABLE])
def test_a_notification_hands_on_what_json_cannot_say_too(adapters: Adapters, term: Any) -> None:
    given, final = context("stop", sent=term), context("stop", sent=term, added=term)

    adapters.holds(
        fire(
            "stop", [beam("stop", adds(added=term), "a"), beam("stop", FINE, "b")], given, ok(final),
            calls("a", given), calls("b", final),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("term", UNSAYABLE.values(), ids=UNSAYABLE)
def test_a_gate_thins_nothing_out(adapters: Adapters, term: Any) -> None:
    """What a hook adds is handed on whole, or the call is refused; what is fired like that is refused, by its path."""
    hooks = [beam("pre_tool_use", adds(added=term), "a"), beam("pre_tool_use", FINE, "b")]

    def given(command: Any) -> Any:
        return adapters.do(command)["gave"]["$tuple"]

    found = given(call("BeamAgent.fire", ":pre_tool_use", context(), registry(*hooks)))
    refused = given(call("BeamAgent.fire", ":pre_tool_use", context(sent=keys(deep=term)), None))
    argument = given(call("ExAthena.run_pre_tool_use", {}, "bash", {"data": {"deep": term}}, "t-1"))

    assert found[0] == ":deny" or not mismatch(found, [":ok", context(added=term)], "")
    assert refused[0] == argument[0] == ":deny"
    assert "sent.deep" in refused[1]
    assert "data.deep" in argument[1]


def test_a_mark_inside_a_field_is_seen_by_the_next(adapters: Adapters) -> None:
    marked = {"command": "ls", "risk": ":high"}
    hooks = [
        beam("pre_tool_use", adds(tool_input=marked), "score"),
        beam(
            "pre_tool_use",
            when(":tool_input", "risk", is_=":high", then=answers(deny("no shell")), otherwise=FINE),
            "guard",
        ),
    ]
    after_it = [hooks[0], beam("pre_tool_use", FINE, "last")]

    adapters.holds(
        fire("pre_tool_use", hooks, context(), deny("no shell")),
        fire("pre_tool_use", after_it, context(), ok(context(tool_input=marked))),
    )


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("pre_tool_use", {"tool_name": "Other"}), ("pre_tool_use", {"session_id": "s-2"}),
    ("user_prompt_submit", {"metadata": keys(risk=":high")}), ("subagent_start", {"agent_type": "other"}),
    ("pre_compact", {"trigger": ":manual"}), ("permission_request", {"permission_suggestions": [":always"]}),
]  # fmt: skip
AMENDS: list[tuple[str, dict[str, Any]]] = [
    ("pre_tool_use", {"tool_input": keys(command=":ls")}), ("user_prompt_submit", {"params": keys(model=":slow")}),
    ("subagent_start", {"prompt": "new"}), ("permission_request", {"updated_permissions": keys(mode=":once")}),
    ("post_tool_use", {"content": ":scrubbed", "tool_name": "Other"}), ("stop", {"metadata": keys(by=tuple_(":a"))}),
]  # fmt: skip


@pytest.mark.parametrize(("event", "change"), CHANGES)
def test_a_field_that_guards_have_judged_is_not_replaced_in_silence(
    adapters: Adapters, event: str, change: dict[str, Any]
) -> None:
    adapters.holds(fire(event, [beam(event, adds(**change)), beam(event, FINE)], context(event), deny(ANY)))


@pytest.mark.parametrize(("event", "change"), AMENDS)
def test_a_field_that_may_be_changed_is_handed_on_as_it_was_changed(
    adapters: Adapters, event: str, change: dict[str, Any]
) -> None:
    changed = context(event, **change)
    hooks = [beam(event, adds(**change), "a"), beam(event, FINE, "b")]

    adapters.holds(fire(event, hooks, context(event), ok(changed), *names("a"), calls("b", changed)))


def test_marks_are_kept_where_the_operator_rewrites_the_input(adapters: Adapters) -> None:
    given = context(tool_name="rewritten", tool_input={"command": "mine", "flags": [tuple_(":a", 1)]}, who=":me")
    final = {**given, ":tool_input": {"command": "theirs", "flags": [tuple_(":a", 1)]}, ":risk": ":high"}

    adapters.holds(fire("pre_tool_use", [beam("pre_tool_use", SCORE), beam("pre_tool_use", FINE)], given, ok(final)))


def test_marks_can_be_changed_and_taken_away(adapters: Adapters) -> None:
    drop = answers(ok({"$drop": [CONTEXT, [":risk"]]}))
    hooks = [
        beam("stop", does, name) for does, name in ((SCORE, "a"), (adds(risk=":low"), "b"), (drop, "c"), (FINE, "d"))
    ]
    stop = context("stop")

    adapters.holds(
        fire(
            "stop", hooks, stop, ok(stop),
            calls("a", stop), calls("b", context("stop", risk=":high")), calls("c", context("stop", risk=":low")),
            calls("d", stop),
        ),
    )  # fmt: skip


def test_a_chain_of_many_hooks_hands_each_mark_on(adapters: Adapters) -> None:
    steps = [answers(ok(merge({":trail": append(":trail", tuple_(":step", number))}))) for number in range(30)]
    for event in ("pre_tool_use", "stop"):
        trail = [tuple_(":step", number) for number in range(30)]
        hooks = [beam(event, does, str(number)) for number, does in enumerate(steps)]

        adapters.holds(fire(event, hooks, context(event), ok(context(event, trail=trail))))


def test_of_two_hooks_that_rewrite_one_field_both_count(adapters: Adapters) -> None:
    def prefixes(text: str) -> Any:
        return answers(ok(merge({":prompt": join(text, at(":prompt"))})))

    event = "user_prompt_submit"
    hooks = [beam(event, prefixes("[a] "), "a"), beam(event, prefixes("[b] "), "b")]

    adapters.holds(fire(event, hooks, context(event, prompt="hello"), ok(context(event, prompt="[b] [a] hello"))))


def test_fires_at_the_same_time_keep_their_own_terms(adapters: Adapters) -> None:
    processes = [f"p{number}" for number in range(12)]
    registry = {
        "$call": "BeamAgent.build_registry",
        "with": [[beam("stop", adds(seen=at(":mine")), "a"), beam("stop", FINE)]],
    }
    for process in processes:
        given = context("stop", mine={"$reference": process}, who=f":{process}")
        adapters.do(call("BeamAgent.fire", ":stop", given, registry, process=process, begin=True))

    for process in processes:
        mine = {"$reference": process}
        found = adapters.do({"do": "native", "call": "end", "in": process})["gave"]
        assert not mismatch(found, ok(context("stop", mine=mine, seen=mine, who=f":{process}")), "")


# E: what JSON cannot say reaches the process's own functions, and the operator's in a plain form.


# Where only keys cannot be said the rest is there; all else is marked.
PLAIN = {"a map of numbers": "'1': 'one'", "two spellings": "'\"x\"': 2"}


@pytest.mark.parametrize("kind", UNSAYABLE)
def test_after_a_tool_its_functions_are_called_whatever_it_gave(adapters: Adapters, kind: str) -> None:
    term = UNSAYABLE[kind]
    payload = keys(result=term, arguments={"path": "a"})
    stops, remarks = (hook(answers(answer)) for answer in (halt(), augment("odd output")))
    called = calls("hook", part(**keys(result=term, arguments={"path": "a"}, tool_name="bash")), "t-1")
    message, content = keys(message=term), context("post_tool_use", tool_name="Bash", content=term)

    adapters.holds(
        after(keys(PostToolUse=[stops]), "bash", payload, halt(), called),
        after(keys(PostToolUse=[remarks]), "bash", payload, augment("odd output"), called),
        run(keys(Notification=[stops]), "Notification", message, halt(), calls("hook", message, None)),
        fire(
            "post_tool_use", [beam("post_tool_use", adds(ran=True))], content, ok({**content, ":ran": True}),
            calls("hook", content),
        ),
    )  # fmt: skip
    shown = adapters.seen()

    assert [line["event"] for line in shown] == ["post_tool_use"] * 2 + ["notification", "post_tool_use"]
    assert all(PLAIN.get(kind, "$native") in str(line["payload"]) for line in shown)


def test_what_is_too_large_for_the_daemon_is_not_lost_in_silence(adapters: Adapters) -> None:
    large = {"$join": ["x" * 1_000_000] * 9}
    hooks = keys(PostToolUse=[hook(answers(halt()))])
    found = adapters.do(call("ExAthena.run_post_tool_use", hooks, "bash", keys(result=large), "t-1"))

    assert found["gave"] == halt() or "PostToolUse" in adapters.logged(found)


def test_gates_refuse_what_cannot_be_judged_and_pass_what_can(adapters: Adapters) -> None:
    ordinary = context(
        tool_name="Bash",
        tool_input={"command": "ls"},
        metadata=keys(at=TERMS["a date"], by=MESSAGE, kind=tuple_(":a", 1)),
    )

    adapters.holds(
        before({}, "bash", {"data": binary("/w==")}, deny(has("data"))),
        before({}, "bash", {"data": "text ☃", "n": 1.0, "none": None, "list": []}, ":ok"),
        fire("pre_tool_use", [beam("pre_tool_use", FINE)], ordinary, ok(ordinary), calls("hook", ordinary)),
    )
