"""Functions that combine several hooks into one.  Knows events and verdicts, but no workers.

    chain(a, b)          a, then b on the event as amended by a; the first refusal ends the chain
    composite(a, b)      both on the same event; their answers are merged
    when(condition, a)   a if the condition holds, otherwise no opinion

An exception in any part propagates, so a guard composed of guards fails closed like each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

from hooklatch_worker.author import events
from hooklatch_worker.author.event import Event, find_call
from hooklatch_worker.author.verdicts import WRITE, GarbageError, Verdict, Word

__all__ = ["Function", "chain", "composite", "is_verdict", "when"]

Answer: TypeAlias = Verdict[Any] | None
Function: TypeAlias = Callable[[Any], object]  # the return value is checked at run time
STRICTNESS: dict[Word | None, int] = {None: 0, "allow": 1, "claim": 2, "ask": 3, "halt": 4, "deny": 5}
REFUSALS = ("deny", "halt")


def chain(*functions: Function) -> Function:
    """Return a hook that calls functions in order, each with the event as amended so far, up to a deny or halt."""

    def chained(event: Event) -> Answer:
        merged: Answer = None
        for function in functions:
            answer = call_member(function, event)
            merged = merge_answers(merged, answer)
            if answer is None:
                continue
            if answer.verdict in REFUSALS or answer.is_last:
                break
            if answer.patch:
                event = amend_event(event, answer.patch)
        return merged

    return chained


def composite(*functions: Function) -> Function:
    """Return a hook that calls all functions on the same event; the strictest verdict and the last patch win."""

    def composed(event: Event) -> Answer:
        merged: Answer = None
        for function in functions:
            merged = merge_answers(merged, call_member(function, event))
        return merged

    return composed


def when(condition: Callable[[Any], bool], function: Function) -> Function:
    """Return a hook that calls the function if the condition holds, and otherwise has no opinion."""

    def conditional(event: Event) -> Answer:
        return call_member(function, event) if condition(event) else None

    return conditional


def call_member(function: Function, event: Event) -> Answer:
    answer = function(event)
    if answer is None or is_verdict(answer):
        return answer
    name = getattr(function, "__name__", "a function")
    raise GarbageError(f"{name} returned a {type(answer).__name__!r}; {WRITE}")


def is_verdict(value: object) -> TypeGuard[Verdict[Any]]:
    return isinstance(value, Verdict)


def amend_event(event: Event, patch: dict[str, object]) -> Event:
    envelope = {key: getattr(event, key) for key in ("session_id", "call_id", "cwd", "host", "metadata", "context")}
    payload = {**event.payload, **patch}
    return events.build_event(
        event.event, payload, envelope, event.config, event.merged, event.reinvoked, find_call(event)
    )


def merge_answers(first: Answer, second: Answer) -> Answer:
    """Merge two answers: the stricter verdict, all outputs, the later patch of each key."""
    if first is None or second is None:
        return second if first is None else first
    decider = second if STRICTNESS[second.verdict] > STRICTNESS[first.verdict] else first
    return Verdict(
        verdict=decider.verdict,
        reason=decider.reason,
        instead=decider.instead,
        value=decider.value,
        patch={**(first.patch or {}), **(second.patch or {})} or None,
        messages=(*first.messages, *second.messages),
        texts=(*first.texts, *second.texts),
        resume_reason=second.resume_reason if first.resume_reason is None else first.resume_reason,
        warnings=(*first.warnings, *second.warnings),
        is_last=first.is_last or second.is_last,
        context_changes={**(first.context_changes or {}), **(second.context_changes or {})} or None,
    )
