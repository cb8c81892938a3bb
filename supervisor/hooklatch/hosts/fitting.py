"""The fitting of a decision to a host: the same one, or the nearest stricter one that it can express, with warnings.

It knows the answers that an event enforces, as a table, but no host's form.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, cast

import msgspec

from hooklatch.core.messages import FireDecision
from hooklatch.core.refusal_texts import ASKED, RULE, STATUS, UNJUDGED, frame_for_model, tell_model, tell_person
from hooklatch.core.text import escape_text

__all__ = [
    "HostVerdicts", "explain_bug", "explain_decision", "explain_rule", "explain_to_person", "fit_decision",
    "format_model_text", "decode_patch", "turn_into_deny", "add_warning",
]  # fmt: skip

MAX_LINE: Final = 400  # characters of a line for a person: four of a narrow terminal
VERDICTS: Final = frozenset({"pass", "allow", "deny", "ask", "halt"})


class HostVerdicts(Protocol):
    """The answers that a host can express at one event; see `HostEventSpec`."""

    @property
    def kind(self) -> str: ...
    @property
    def enforces(self) -> frozenset[str]: ...
    @property
    def patch(self) -> frozenset[str]: ...


def fit_decision(title: str, name: str, event: HostVerdicts, decision: FireDecision) -> FireDecision:
    """Return a decision that the event can express; `title` is the host's name and `name` the event's, for people."""
    if event.kind == "gate":
        decision = _fit_to_gate(title, name, event, decision)
    else:
        decision = _fit_to_notice(title, name, event, decision)
    has_text = decision.inject or decision.append
    if has_text and "context" not in event.enforces and format_model_text(decision):
        decision = add_warning(decision, f"text for the model was lost: {title} takes none at {name}")
    return decision


def _fit_to_gate(title: str, name: str, event: HostVerdicts, decision: FireDecision) -> FireDecision:
    enforced, patch = event.enforces, decode_patch(decision) if decision.patch else dict[str, Any]()
    if decision.verdict not in VERDICTS:
        return turn_into_deny(decision, f"{title} has no form for {decision.verdict} at {name}, so this was blocked")
    if decision.verdict == "deny":
        return decision
    if decision.verdict == "halt":
        if "halt" in enforced:
            return decision
        return turn_into_deny(
            decision, f"{title} cannot end the run at {name}, so this was blocked and the run goes on"
        )
    if decision.verdict == "ask" and "ask" not in enforced:
        return turn_into_deny(decision, f"{ASKED}{title} cannot ask for it at {name}")
    unknown = sorted(patch.keys() - event.patch)
    if unknown:
        return turn_into_deny(decision, f"{title} cannot change {', '.join(unknown)} at {name}, so this was blocked")
    if not isinstance(patch.get("tool_input", {}), dict):
        return turn_into_deny(decision, "a hook changed tool_input to what is not an object, so this was blocked")
    if decision.verdict == "allow" and "allow" not in enforced:
        weaker = msgspec.structs.replace(decision, verdict="pass")
        return add_warning(weaker, f"{title} takes no allow at {name}: its own rules decide")
    return decision


def _fit_to_notice(title: str, name: str, event: HostVerdicts, decision: FireDecision) -> FireDecision:
    enforced, verdict = event.enforces, decision.verdict
    if verdict in ("deny", "ask", "halt") and verdict not in enforced:
        decision = add_warning(decision, f"{title} does not enforce {verdict} at {name}: {explain_decision(decision)}")
    if decision.patch and not (decision.patch.keys() <= event.patch):
        unknown = ", ".join(sorted(decision.patch.keys() - event.patch))
        decision = add_warning(decision, f"{title} cannot change {unknown} at {name}")
    if decision.resume is not None and "resume" not in enforced:
        decision = add_warning(decision, f"{title} cannot be kept working at {name}: {decision.resume or 'go on'}")
    return decision


def add_warning(decision: FireDecision, warning: str) -> FireDecision:
    return msgspec.structs.replace(decision, warnings=[*decision.warnings, warning])


def turn_into_deny(decision: FireDecision, explanation: str) -> FireDecision:
    """Return a decision turned into a deny, with an explanation before its own reason."""
    reason = f"{explanation}: {decision.reason}" if decision.reason else explanation
    return msgspec.structs.replace(
        decision, verdict="deny", cause=decision.cause or "policy", reason=reason, patch=None, append=None,
        warnings=[*decision.warnings, explanation],
    )  # fmt: skip


def decode_patch(decision: FireDecision) -> dict[str, Any]:
    """Return the decoded patch of a decision."""
    return {key: msgspec.json.decode(raw) for key, raw in (decision.patch or {}).items()}


def explain_decision(decision: FireDecision) -> str:
    """Return the deciding hook and its reason as a text for the model; never empty for a refusal."""
    if decision.verdict in ("pass", "allow"):
        return decision.reason or ""
    return escape_text(tell_model(decision), kept="\n\t")


def explain_rule(decision: FireDecision) -> FireDecision:
    """Return the first refusal of a session, with whose rule it is."""
    return msgspec.structs.replace(decision, reason=f"{decision.reason or ''}{RULE}")


def explain_bug(reason: str) -> str:
    """Return the text of a refusal where not even an adapter could word it."""
    before, after = frame_for_model(UNJUDGED, STATUS)
    return f"{before}: {reason}{after}"


def explain_to_person(decision: FireDecision) -> str:
    """Return why something is refused, or is asked, in one line for the person; "" for any other decision."""
    line = escape_text(" ".join(tell_person(decision).split()))
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"


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
