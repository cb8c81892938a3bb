"""Hooks made of hooks: the merged answer of several functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hooklatch_worker import allow, amend, append, ask, deny, warn
from hooklatch_worker.author import events
from hooklatch_worker.author.composition import Function, chain, composite, when
from hooklatch_worker.author.verdicts import GarbageError, Verdict


def event(command: str = "ls") -> events.Event:
    payload = {"tool_name": "Bash", "tool_input": {"command": command}}
    return events.build_event("pre_tool_use", payload, {"cwd": "/work"}, None, None, False)


def say(answer: object) -> Function:
    return lambda event: answer


def test_a_chain_shows_each_function_what_the_one_before_it_amended() -> None:
    seen = []
    rewrite = say(amend(tool_input={"command": "ls -l"}))

    chain(rewrite, lambda event: seen.append((event.tool_input["command"], event.cwd)))(event())

    assert seen == [("ls -l", "/work")]


def test_the_command_of_the_deciding_answer_is_kept() -> None:
    verdict = composite(say(ask("sure?", instead="ls")), say(deny("no", instead="pwd")), say(deny("nor")))(event())

    assert isinstance(verdict, Verdict)
    assert (verdict.reason, verdict.instead) == ("no", "pwd")


def test_a_refusal_ends_a_chain() -> None:
    reached = []

    verdict = chain(say(deny("no")), lambda event: reached.append(event))(event())

    assert isinstance(verdict, Verdict)
    assert (verdict.verdict, reached) == ("deny", [])


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([], None),
        ([None, None], None),
        ([allow(), None], "allow"),
        ([allow(), ask("sure?")], "ask"),
        ([deny("no"), allow()], "deny"),
    ],
)
def test_of_several_verdicts_the_strictest_counts(answers: list[object], verdict: str | None) -> None:
    said = composite(*[say(answer) for answer in answers])(event())

    assert (said.verdict if said else None) == verdict


def test_outputs_of_several_functions_add_up() -> None:
    said = composite(say(append("a").warn("x")), say(append("b")), say(warn("y")))(event())

    assert said is not None
    assert (said.texts, said.warnings) == (("a", "b"), ("x", "y"))


@pytest.mark.parametrize(("command", "verdict"), [("rm x", "deny"), ("ls", None)])
def test_a_conditional_hook_has_no_opinion_where_the_condition_does_not_hold(command: str, verdict: str | None) -> None:
    guard = when(lambda event: event.tool_input["command"].startswith("rm"), say(deny("no")))

    said = guard(event(command))

    assert (said.verdict if said else None) == verdict


@pytest.mark.parametrize("combine", [chain, composite])
def test_a_guard_made_of_guards_fails_as_each_of_them_would(combine: Callable[..., Function]) -> None:
    def broken(event: events.Event) -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        combine(broken, say(allow()))(event())
    with pytest.raises(GarbageError, match="'str'"):
        combine(say("garbage"), say(allow()))(event())
