"""The result of an event: the decision and its reasons, in words for the reader of a failed test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hooklatch.core.messages import CallOutcome, Cause, DecisionVerdict, FireDecision

__all__ = ["Result", "list_result_details", "list_printed_output"]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The decision on one event.  `error` is the exception that a hook raised in this process."""

    decision: FireDecision
    error: BaseException | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> DecisionVerdict:
        return self.decision.verdict

    @property
    def cause(self) -> Cause | None:
        """The cause of a refusal: `policy`, or a failure."""
        return self.decision.cause

    @property
    def reason(self) -> str:
        return self.decision.reason or ""

    @property
    def instead(self) -> str:
        """The command that the hook names in place of what it refuses, or asks about; empty for none."""
        return self.decision.instead or ""

    @property
    def patch(self) -> dict[str, Any]:
        """The changes of hooks: whole values by key; empty for none."""
        return {key: msgspec.json.decode(value) for key, value in (self.decision.patch or {}).items()}

    @property
    def value(self) -> Any:
        """The value of a claim; None without one."""
        return msgspec.json.decode(self.decision.value) if self.decision.value is not None else None

    @property
    def append(self) -> str:
        return self.decision.append or ""

    @property
    def resume(self) -> str:
        return self.decision.resume or ""

    @property
    def inject(self) -> list[dict[str, Any]]:
        return self.decision.inject

    @property
    def warnings(self) -> list[str]:
        return self.decision.warnings

    @property
    def failures(self) -> list[CallOutcome]:
        """The hooks that failed, even where that decided nothing: on an event that cannot be refused."""
        return [outcome for outcome in self.decision.outcomes if outcome.cause != "policy"]

    def explained(self) -> list[tuple[str, str]]:
        """Return the decision as labels and texts, one line or several each."""
        return [*list_result_details(self.decision), *(("note", note) for note in self.notes)]


def list_result_details(decision: FireDecision) -> Iterator[tuple[str, str]]:
    """Yield the details of a decision for a person, the most important first."""
    by = f" by {decision.hook}" if decision.hook else ""
    cause = f" ({decision.cause})" if decision.cause not in (None, "policy") else ""
    yield "verdict", f"{decision.verdict}{cause}{by}, {decision.duration_ms:.1f} ms"
    texts = {
        "reason": decision.reason,
        "instead": decision.instead,
        "append": decision.append,
        "resume": decision.resume,
    }
    for label, text in texts.items():
        if text:
            yield label, text
    if decision.patch:
        yield "patch", "\n".join(f"{key} = {bytes(value).decode()}" for key, value in decision.patch.items())
    if decision.value is not None:
        yield "value", bytes(decision.value).decode()
    if decision.inject:
        yield "inject", "\n".join(msgspec.json.encode(message).decode() for message in decision.inject)
    for warning in decision.warnings:
        yield "warning", warning
    for outcome in decision.outcomes:
        yield "asked", f"{outcome.hook}: {format_outcome_answer(outcome)}"
        yield from list_printed_output(outcome)


def format_outcome_answer(outcome: CallOutcome) -> str:
    if outcome.cause != "policy":
        return f"failed ({outcome.cause}): {outcome.message}"
    answer = outcome.verdict or ("changes " + ", ".join(outcome.patch) if outcome.patch else "no opinion")
    unneeded = ", which was not needed" if outcome.unneeded else ""
    return f"{answer}, {outcome.duration_ms:.1f} ms{unneeded}"


def list_printed_output(outcome: CallOutcome) -> Iterator[tuple[str, str]]:
    """Yield the output of a hook; a traceback is on its standard error."""
    for label, text in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        if text.strip():
            yield label, text.rstrip()
    if outcome.truncated:
        yield "note", "it printed more than that; only the end was kept"
