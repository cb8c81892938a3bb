"""Small functions that make one hook of several.  Knows events and verdicts; knows no worker.

    chain(a, b)          a, then b on the event as a has amended it; the first refusal ends it
    composite(a, b)      both on the same event; what they say is put together
    when(condition, a)   a where the condition holds, else no opinion

An exception anywhere is an exception of the whole, so a guard made of guards fails closed as each of them would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

from hooklatch_worker.author import events
from hooklatch_worker.author.event import Event, call_of
from hooklatch_worker.author.verdicts import GarbageError, Verdict, Word

__all__ = ["Function", "chain", "composite", "when"]

Answer: TypeAlias = Verdict[Any] | None
Function: TypeAlias = Callable[[Any], object]  # what it returns is checked when it does
STRICTNESS: dict[Word | None, int] = {None: 0, "allow": 1, "claim": 2, "ask": 3, "halt": 4, "deny": 5}
REFUSALS = ("deny", "halt")


def chain(*functions: Function) -> Function:
    """One after the other, each shown the event as amended so far; the first deny or halt ends it."""

    def chained(event: Event) -> Answer:
        said: Answer = None
        for function in functions:
            answer = checked(function, event)
            said = together(said, answer)
            if answer is None:
                continue
            if answer.verdict in REFUSALS or answer.is_last:
                break
            if answer.patch:
                event = amended(event, answer.patch)
        return said

    return chained


def composite(*functions: Function) -> Function:
    """Each on the same event; the strictest verdict counts, a later patch of a key wins."""

    def composed(event: Event) -> Answer:
        said: Answer = None
        for function in functions:
            said = together(said, checked(function, event))
        return said

    return composed


def when(condition: Callable[[Any], bool], function: Function) -> Function:
    """The function where the condition holds, else no opinion."""

    def conditional(event: Event) -> Answer:
        return checked(function, event) if condition(event) else None

    return conditional


def checked(function: Function, event: Event) -> Answer:
    answer = function(event)
    if answer is None or is_verdict(answer):
        return answer
    name = getattr(function, "__name__", "a function")
    raise GarbageError(f"{name} returned a {type(answer).__name__!r}, expected a verdict or None")


def is_verdict(value: object) -> TypeGuard[Verdict[Any]]:
    return isinstance(value, Verdict)


def amended(event: Event, patch: dict[str, object]) -> Event:
    envelope = {key: getattr(event, key) for key in ("session_id", "call_id", "cwd", "host", "metadata", "context")}
    payload = {**event.payload, **patch}
    return events.build(event.event, payload, envelope, event.config, event.merged, event.reinvoked, call_of(event))


def together(first: Answer, second: Answer) -> Answer:
    """Put two answers together: the stricter verdict, all outputs, the later patch of a key."""
    if first is None or second is None:
        return second if first is None else first
    decider = second if STRICTNESS[second.verdict] > STRICTNESS[first.verdict] else first
    return Verdict(
        verdict=decider.verdict,
        reason=decider.reason,
        value=decider.value,
        patch={**(first.patch or {}), **(second.patch or {})} or None,
        messages=(*first.messages, *second.messages),
        texts=(*first.texts, *second.texts),
        resume_reason=second.resume_reason if first.resume_reason is None else first.resume_reason,
        warnings=(*first.warnings, *second.warnings),
        is_last=first.is_last or second.is_last,
        context_changes={**(first.context_changes or {}), **(second.context_changes or {})} or None,
    )
