"""Decides one event.  Knows hooks and verdicts; does not know workers, sockets or clocks.

A fire is a state machine.  `next_calls()` says which hooks to call now: one for a sequential event, all at once for a
concurrent one, none when the fire is settled.  `receive()` takes a call's outcome.  `decide()` returns the decision.

    start(...) ─▶ next_calls() ─▶ [Call] ─▶ receive(call, outcome) ─▶ next_calls() ─▶ … ─▶ [] ─▶ decide()

A gate is denied by default; only combining its answers can change that.  So a machine that is asked too early, or that
never got an answer, refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hooklatch.core.decisions.call import Call
from hooklatch.core.decisions.combining import find_fault, join_reasons, join_texts
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.messages import RETRYABLE, Cause, Decision, DecisionVerdict, Outcome
from hooklatch.core.payload import Payload, PayloadError
from hooklatch_worker.author.verdicts import Answer, GarbageError, decode

__all__ = ["Machine", "failure_text", "refuse", "unrecorded"]

FAILURES: dict[Cause, str] = {
    "crash": "hook crashed (fail-safe deny)",
    "timeout": "hook timed out (fail-safe deny)",
    "overload": "no worker was free (fail-safe deny)",
    "protocol": "hook gave an illegal answer (fail-safe deny)",
    "quarantined": "hook is quarantined after repeated crashes (fail-safe deny)",
    "load": "hook could not be loaded (fail-safe deny)",
    "payload": "the payload cannot be judged (fail-safe deny)",
    "unsettled": "hooks did not settle on one payload (fail-safe deny)",
    "draining": "the daemon is shutting down (fail-safe deny)",
    "abandoned": "the client left while the hook ran",
    "audit": "the decision could not be recorded (fail-safe deny)",
}


class Opinion(msgspec.Struct):
    """What a hook last answered, and for which version of the payload."""

    hook: Hook
    answer: Answer
    version: int


class Machine:
    """What all four models share: outcomes, opinions, context, and building the decision."""

    def __init__(self, spec: EventSpec, payload: Payload, context: dict[str, Any]) -> None:
        self.spec = spec
        self.payload = payload
        self.context = context
        self.outcomes: list[Outcome] = []
        self.opinions: dict[int, Opinion] = {}
        self.warnings: list[str] = []  # of the fire as a whole
        self.notes: dict[int, list[str]] = {}  # what each hook, by its index, adds to them
        self.verdict: DecisionVerdict = "deny" if spec.fails_closed else "pass"
        self.cause: Cause | None = "protocol" if spec.fails_closed else None
        self.reason: str | None = "undecided" if spec.fails_closed else None
        self.decider: Hook | None = None

    def next_calls(self) -> Sequence[Call]:
        """Return the calls to start now; empty when the fire is settled."""
        raise NotImplementedError

    def receive(self, call: Call, outcome: Outcome) -> None:
        """Take the outcome of a call."""
        if outcome.cause == "policy" and not outcome.answer:
            self._take_silence(call, outcome)
            return
        answer = self.read(call, outcome)
        if answer is not None:
            self.accept(call, answer)

    def _take_silence(self, call: Call, outcome: Outcome) -> None:
        """Record that a hook has no opinion; the one that it had of an earlier payload no longer counts."""
        self.outcomes.append(as_read(call, outcome, None, "policy", outcome.message))
        self.opinions.pop(call.index, None)
        self.notes.pop(call.index, None)

    def accept(self, call: Call, answer: Answer) -> None:
        """Take a legal answer of a hook that counts."""
        raise NotImplementedError

    def fail(self, call: Call, cause: Cause, message: str) -> None:
        """Take a failure of a hook that counts; it passes unless the model denies."""

    def patch(self) -> dict[str, msgspec.Raw] | None:
        return None

    def value(self) -> msgspec.Raw | None:
        return None

    def settle(
        self,
        verdict: DecisionVerdict,
        hook: Hook | None = None,
        reason: str | None = None,
        cause: Cause = "policy",
    ) -> None:
        self.verdict = verdict
        self.decider = hook
        self.reason = reason
        self.cause = cause if hook is not None or cause != "policy" else None

    def read(self, call: Call, outcome: Outcome) -> Answer | None:
        """Record an outcome; return the answer if it is legal and its hook counts."""
        answer, cause, message = read_answer(self.spec, outcome)
        hook = call.hook
        self.outcomes.append(as_read(call, outcome, answer, cause, message))
        if hook.observe:
            self.notes[call.index] = self._observed(hook, answer, cause, message)
            return None
        if answer is None:
            if hook.optional and self.spec.fails_closed:
                skipped = f"{hook.name} is optional and was skipped: {failure_text(cause, message)}"
                self.notes.setdefault(call.index, []).append(skipped)
            else:
                self.fail(call, cause, message)
            return None
        self.notes[call.index] = list(answer.warnings)
        self.opinions[call.index] = Opinion(hook, answer, call.payload.version)
        if answer.context:
            self.context = {**self.context, **answer.context}
        return answer

    def _observed(self, hook: Hook, answer: Answer | None, cause: Cause, message: str) -> list[str]:
        if answer is None and self.spec.fails_closed:
            return [f"{hook.name} (observe) would have denied: {failure_text(cause, message)}"]
        if answer is not None and answer.verdict in ("deny", "ask", "halt"):
            return [f"{hook.name} (observe) would have said {answer.verdict}: {answer.reason}"]
        return []

    def opinions_in_order(self) -> list[Opinion]:
        """Return what hooks last answered, in firing order."""
        opinions = self.opinions
        return [opinions[index] for index in sorted(opinions)] if opinions else []

    def decide(self, *, decision_id: str, revision: int, duration_ms: float) -> Decision:
        """Return the decision on everything received so far."""
        is_refusal = self.verdict in ("deny", "halt") and self.spec.fails_closed
        answers = [opinion.answer for opinion in self.opinions_in_order()]
        hook = self.decider
        return Decision(
            decision_id=decision_id,
            event=self.spec.name,
            verdict=self.verdict,
            cause=self.cause,
            reason=self.reason,
            layer=hook.layer.label if hook else None,
            hook=hook.id if hook else None,
            name=hook.name_of_several if hook else "",
            retryable=self.cause in RETRYABLE and self.verdict == "deny",
            patch=None if is_refusal else self.patch(),
            payload_digest=self.payload.digest(),
            append=None if is_refusal else join_texts([text for answer in answers for text in answer.append]),
            resume=join_reasons([answer.resume for answer in answers]),
            value=self.value(),
            revision=revision,
            duration_ms=duration_ms,
            inject=[message for answer in answers for message in answer.inject],
            context=self.context,
            outcomes=self.outcomes,
            warnings=[*self.warnings, *[note for index in sorted(self.notes) for note in self.notes[index]]],
        )


def read_answer(spec: EventSpec, outcome: Outcome) -> tuple[Answer | None, Cause, str]:
    """Return the answer if the event allows it, or the cause and text of the failure."""
    if outcome.cause != "policy":
        return None, outcome.cause, outcome.message
    try:
        answer = decode(outcome.answer)
    except GarbageError as error:
        return None, "protocol", str(error)
    fault = find_fault(spec, answer)
    if fault is not None:
        return None, "protocol", fault
    return answer, "policy", answer.reason


def as_read(call: Call, outcome: Outcome, answer: Answer | None, cause: Cause, message: str) -> Outcome:
    """Return an outcome as viewers see it: with the hook and its answer, without what only the daemon needs."""
    hook = call.hook
    is_dropped = cause in ("overload", "quarantined", "draining")
    return Outcome(
        layer=hook.layer.label,
        hook=hook.id,
        outcome="answered" if cause == "policy" else ("dropped" if is_dropped else "failed"),
        verdict=answer.verdict if answer is not None else None,
        cause=cause,
        message=message,
        patch=answer.patch if answer is not None else None,
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        exit_code=outcome.exit_code,
        truncated=outcome.truncated,
        duration_ms=outcome.duration_ms,
        reinvoked=call.reinvoked,
        observed=hook.observe,
        last=answer is not None and answer.last,
        command=hook.target.command,
        name=hook.name_of_several,
    )


def failure_text(cause: Cause, message: str, hook: Hook | None = None) -> str:
    """Describe a failure in one text that starts with what happened and names the hook."""
    named = f": {hook.name}" if hook is not None else ""
    return f"{FAILURES.get(cause, cause)}{named}" + (f": {message}" if message else "")


def digest_or_none(payload: Payload | None) -> str | None:
    return payload.digest() if payload is not None else None


def refuse(
    spec: EventSpec,
    cause: Cause,
    message: str,
    *,
    decision_id: str,
    revision: int | None = None,
    payload: Payload | None = None,
    context: dict[str, Any] | None = None,
) -> Decision:
    """Return the decision on a fire that calls no hook: a gate denies, everything else passes with a warning."""
    is_closed = spec.fails_closed
    text = failure_text(cause, message)
    return Decision(
        decision_id=decision_id,
        event=spec.name,
        verdict="deny" if is_closed else "pass",
        cause=cause if is_closed else None,
        reason=text if is_closed else None,
        layer=None,
        hook=None,
        retryable=is_closed and cause in RETRYABLE,
        patch=None,
        payload_digest=digest_or_none(payload),
        append=None,
        resume=None,
        value=None,
        revision=revision,
        duration_ms=0.0,
        context=context or {},
        warnings=[] if is_closed else [text],
    )


def unrecorded(decision: Decision, message: str) -> Decision:
    """Return the denial that replaces a decision that could not be recorded; a refusal's own reason stays readable."""
    said = f" (it was refused in any case: {decision.reason})" if decision.is_refusal and decision.reason else ""
    return msgspec.structs.replace(
        decision,
        verdict="deny",
        cause="audit",
        reason=failure_text("audit", message) + said,
        layer=None,
        hook=None,
        name="",
        retryable=False,
        patch=None,
        append=None,
        value=None,
        record=None,
    )


def apply(payload: Payload, patch: dict[str, msgspec.Raw]) -> Payload | str:
    """Return a payload with a patch applied, or why that is impossible."""
    try:
        return payload.patched(patch)
    except PayloadError as error:
        return str(error)
