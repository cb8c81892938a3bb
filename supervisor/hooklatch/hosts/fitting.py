"""Makes a decision one that a host can be told: the same, or the nearest stricter one, and says so in its warnings.

Knows what an event can express, as a table; does not know any host's form.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, cast

import msgspec

from hooklatch.core.messages import FireDecision

__all__ = [
    "HostVerdicts",
    "explain_decision",
    "fit_decision",
    "format_model_text",
    "decode_patch",
    "turn_into_deny",
    "add_warning",
]

VERDICTS: Final = frozenset({"pass", "allow", "deny", "ask", "halt"})


class HostVerdicts(Protocol):
    """What a host can be told at one event: see `NativeEvent`."""

    @property
    def kind(self) -> str: ...
    @property
    def can(self) -> frozenset[str]: ...
    @property
    def patch(self) -> frozenset[str]: ...


def fit_decision(title: str, name: str, event: HostVerdicts, decision: FireDecision) -> FireDecision:
    """Return a decision that the event can express; `title` is the host's name and `name` the event's, for people."""
    if event.kind == "gate":
        decision = _fit_to_gate(title, name, event, decision)
    else:
        decision = _fit_to_notice(title, name, event, decision)
    if format_model_text(decision) and "context" not in event.can:
        decision = add_warning(decision, f"text for the model was lost: {title} takes none at {name}")
    return decision


def _fit_to_gate(title: str, name: str, event: HostVerdicts, decision: FireDecision) -> FireDecision:
    can, patch = event.can, decode_patch(decision)
    if decision.verdict not in VERDICTS:
        return turn_into_deny(decision, f"{title} has no form for {decision.verdict} at {name}, so this was blocked")
    if decision.verdict == "deny":
        return decision
    if decision.verdict == "halt":
        if "halt" in can:
            return decision
        return turn_into_deny(
            decision, f"{title} cannot end the run at {name}, so this was blocked and the run goes on"
        )
    if decision.verdict == "ask" and "ask" not in can:
        return turn_into_deny(decision, f"{title} cannot ask at {name}, so this was blocked")
    unknown = sorted(patch.keys() - event.patch)
    if unknown:
        return turn_into_deny(decision, f"{title} cannot change {', '.join(unknown)} at {name}, so this was blocked")
    if not isinstance(patch.get("tool_input", {}), dict):
        return turn_into_deny(decision, "a hook changed tool_input to what is not an object, so this was blocked")
    if decision.verdict == "allow" and "allow" not in can:
        weaker = msgspec.structs.replace(decision, verdict="pass")
        return add_warning(weaker, f"{title} takes no allow at {name}: its own rules decide")
    return decision


def _fit_to_notice(title: str, name: str, event: HostVerdicts, decision: FireDecision) -> FireDecision:
    can, verdict = event.can, decision.verdict
    if verdict in ("deny", "ask", "halt") and verdict not in can:
        decision = add_warning(decision, f"{title} does not enforce {verdict} at {name}: {explain_decision(decision)}")
    if decision.patch and not (decision.patch.keys() <= event.patch):
        unknown = ", ".join(sorted(decision.patch.keys() - event.patch))
        decision = add_warning(decision, f"{title} cannot change {unknown} at {name}")
    if decision.resume is not None and "resume" not in can:
        decision = add_warning(decision, f"{title} cannot be kept working at {name}: {decision.resume or 'go on'}")
    return decision


def add_warning(decision: FireDecision, warning: str) -> FireDecision:
    return msgspec.structs.replace(decision, warnings=[*decision.warnings, warning])


def turn_into_deny(decision: FireDecision, why: str) -> FireDecision:
    """Return a decision turned into a deny, with the reason for that before its own."""
    reason = f"{why}: {decision.reason}" if decision.reason else why
    return msgspec.structs.replace(
        decision, verdict="deny", cause=decision.cause or "policy", reason=reason, patch=None, append=None,
        warnings=[*decision.warnings, why],
    )  # fmt: skip


def decode_patch(decision: FireDecision) -> dict[str, Any]:
    """Return what a decision changes, decoded."""
    return {key: msgspec.json.decode(raw) for key, raw in (decision.patch or {}).items()}


def explain_decision(decision: FireDecision) -> str:
    """Return which hook decided and why, in one text for the model and the person; never empty for a refusal."""
    reason, cause = decision.reason or "", decision.cause or ""
    who = "/".join([part for part in (decision.layer, decision.hook) if part])
    if decision.verdict in ("pass", "allow"):
        return reason
    if cause in ("", "policy"):
        by = f"hooklatch hook {who!r}" if who else "hooklatch"
        return f"{reason} ({by})" if reason else f"refused by {by}"
    record = f" (hooklatch log --decision {decision.decision_id})" if decision.decision_id else ""
    named = f"hook {who!r}: " if who and who not in reason else ""
    return f"hooklatch: {named}{reason or 'refused'} ({cause}){record}"


def format_model_text(decision: FireDecision) -> str:
    """Return the text for the model: injected messages, then appended text."""
    parts = [format_injected_text(message) for message in decision.inject]
    parts.append(decision.append or "")
    return "\n".join([part for part in parts if part])


def format_injected_text(message: object) -> str:
    content = cast("dict[str, object]", message).get("content") if isinstance(message, dict) else message
    if isinstance(content, list):
        return "\n".join([block_text(block) for block in cast("list[object]", content)])
    return "" if content is None else format_injected_value(content)


def block_text(block: object) -> str:
    if not isinstance(block, dict):
        return format_injected_value(block)
    known = cast("dict[str, object]", block)
    return format_injected_value(known.get("text", known))


def format_injected_value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
