"""The mapping of a decision to one that a dialect can express, and that is never less strict.

    cannot be expressed     becomes
    ask                     deny, else halt
    deny                    halt
    halt                    deny
    allow                   no opinion
    a patch, on a gate      deny: the unpatched input must not run
    a patch, elsewhere      lost, with a warning
    inject, append, resume  lost, with a warning

It knows no styles of answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from hooklatch.core.failures import format_failure
from hooklatch.core.refusal_texts import add_instead
from hooklatch.dialects.dialect import OUTPUT_WORDS, REFUSALS, Dialect, NativeEvent
from hooklatch.dialects.translation import MISSING, find_at_path, is_same

__all__ = [
    "STRICTER", "MappedDecision", "express_patch", "format_refusal_reason", "is_outcome_of", "list_outcomes",
    "settle_native_decision",
]  # fmt: skip

STRICTER: Final[dict[str, tuple[str, ...]]] = {
    "ask": ("ask", "deny", "halt"),
    "deny": ("deny", "halt"),
    "halt": ("halt", "deny"),
    "allow": ("allow",),
    "claim": ("claim",),
}
# In these styles an answer can hold more besides an ask or a refusal; in the others that is the whole answer.
CARRIES_PATCH_WITH_ASK = frozenset({"merged"})
CARRIES_OUTPUTS_WITH_REFUSAL = frozenset({"merged", "tagged"})


class MappedDecision(msgspec.Struct, kw_only=True):
    """The decision as the dialect expresses it; `word` is "pass" if no word is needed, which excludes a refusal.

    `name` and `payload` are those of the native event; `decisions` are on its feeds, in wire form and in order.
    """

    dialect: Dialect
    name: str
    decisions: Sequence[Mapping[str, Any]]
    payload: Mapping[str, Any]
    word: str
    reason: str
    decider: Mapping[str, Any]
    patch: dict[str, Any] = {}  # by native key
    outputs: dict[str, Any] = {}  # inject, append, resume, if the answer has a key for them
    value: object = None
    warnings: list[str] = []

    @property
    def event(self) -> NativeEvent:
        return self.dialect.events[self.name]

    @property
    def is_refusal(self) -> bool:
        return self.word in REFUSALS


def settle_native_decision(
    dialect: Dialect, name: str, decisions: Sequence[Mapping[str, Any]], payload: Mapping[str, Any]
) -> MappedDecision:
    """Return the answer to one native event, from the decisions on all its feeds in order."""
    event = dialect.events[name]
    decider = max(decisions, key=rank_severity)
    verdict = read_verdict(decider)
    word = next((word for word in STRICTER.get(verdict, ()) if word in event.answers.words), "pass")
    mapped = MappedDecision(
        dialect=dialect, name=name, decisions=decisions, payload=payload, word=word,
        reason=format_refusal_reason(decider),
        decider=decider, value=decider.get("value"),
    )  # fmt: skip
    if word == "pass" and verdict not in ("pass", "allow"):
        mapped.warnings.append(f"{verdict} was lost: {dialect.name} has no word for it on {name}")
    elif word != verdict and verdict != "allow":
        mapped.warnings.append(f"{verdict} became {word}: {dialect.name} has no word for {verdict} on {name}")
    if not mapped.is_refusal:
        map_patch(mapped)
    map_outputs(mapped)
    return mapped


def rank_severity(decision: Mapping[str, Any]) -> int:
    return {"pass": 0, "allow": 1, "claim": 2, "ask": 3}.get(read_verdict(decision), 4)


def read_verdict(decision: Mapping[str, Any]) -> str:
    verdict = decision.get("verdict")
    # An unknown verdict must not be taken for permission.
    return verdict if verdict in ("pass", "allow", "ask", "halt", "claim") else "deny"


def map_patch(mapped: MappedDecision) -> None:
    dialect, name, event = mapped.dialect, mapped.name, mapped.event
    for index, decision in enumerate(mapped.decisions):
        changes = cast("dict[str, Any]", decision.get("patch") or {})
        written, inexpressible = express_patch(event, changes, mapped.payload)
        is_crowded_out = bool(changes) and mapped.word == "ask" and dialect.style not in CARRIES_PATCH_WITH_ASK
        if is_gate(event, decision, index) and (inexpressible or is_crowded_out):
            keys = ", ".join(inexpressible or changes)
            beside = " beside an ask" if is_crowded_out and not inexpressible else ""
            mapped.warnings.append(
                f"{mapped.word} became deny: {dialect.name} cannot express a change of {keys}{beside} on {name}"
            )
            mapped.word = next(word for word in REFUSALS if word in event.answers.words)
            mapped.reason = (
                f"{find_patcher(decision, keys)} changed {keys}, which {dialect.name} cannot express (fail-safe deny)"
            )
            mapped.decider, mapped.patch = decision, {}
            return
        for key in inexpressible:
            mapped.warnings.append(f"a change of {key} was lost: {dialect.name} cannot express it on {name}")
        mapped.patch.update(written)


def is_gate(event: NativeEvent, decision: Mapping[str, Any], index: int) -> bool:
    mapping = next((feed for feed in event.feeds if feed.event == decision.get("event")), None)
    return (mapping or event.feeds[min(index, len(event.feeds) - 1)]).fails_closed


def express_patch(
    event: NativeEvent, changes: Mapping[str, Any], payload: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return a patch by native key, and the canonical keys that have none.

    Of a value that has several native keys only the parts that differ from the native `payload` are changes.
    """
    table, written, inexpressible = event.answers.patch, dict[str, Any](), list[str]()
    for key, value in changes.items():
        inner = {path.partition(".")[2]: native for path, native in table.items() if path.startswith(f"{key}.")}
        if key in table:
            written[table[key]] = value
        elif inner and isinstance(value, dict) and cast("dict[str, Any]", value).keys() <= inner.keys():
            # The whole value is replaced, so parts that it no longer contains are unset.
            old_parts = {part: find_given_value(event, payload, f"{key}.{part}") for part in inner}
            new_parts = {part: cast("dict[str, Any]", value).get(part) for part in inner}
            written.update(
                {inner[part]: new_parts[part] for part in inner if not is_same(new_parts[part], old_parts[part])}
            )
        else:
            inexpressible.append(key)
    return written, inexpressible


def find_given_value(event: NativeEvent, payload: Mapping[str, Any], path: str) -> object:
    """Return the value that a native payload has for a canonical path, None if it has none."""
    value = next((find_at_path(payload, key) for key, own in event.feeds[0].keys.items() if own == path), None)
    return None if value is MISSING else value


def is_outcome_of(outcome: Mapping[str, Any], decision: Mapping[str, Any]) -> bool:
    """Return whether an outcome is that of the hook that decided."""
    hook = decision.get("hook")
    return hook is not None and outcome.get("hook") == hook and outcome.get("layer") == decision.get("layer")


def list_outcomes(decision: Mapping[str, Any]) -> list[dict[str, Any]]:
    return decision.get("outcomes") or []


def find_patcher(decision: Mapping[str, Any], key: str) -> str:
    for outcome in reversed(list_outcomes(decision)):
        if key in (outcome.get("patch") or {}):
            return f"hook {outcome.get('layer')}/{outcome.get('hook')}"
    return "a hook"


def map_outputs(mapped: MappedDecision) -> None:
    dialect, name, decisions, answers = mapped.dialect, mapped.name, mapped.decisions, mapped.event.answers
    has_room = not mapped.is_refusal or dialect.style in CARRIES_OUTPUTS_WITH_REFUSAL
    for output in OUTPUT_WORDS:
        given = [decision[output] for decision in decisions if decision.get(output) not in (None, [], "")]
        if output == "resume":
            given += [decision[output] for decision in decisions if decision.get(output) == ""]
        if given and output in answers.outputs and has_room:
            mapped.outputs[output] = [m for part in given for m in part] if output == "inject" else "\n".join(given)
        elif given:
            mapped.warnings.append(f"{output} was lost: {dialect.name} has no room for it on {name}")


def format_refusal_reason(decision: Mapping[str, Any]) -> str:
    """Return a reason that is never empty, and names the hook and the failure behind it."""
    reason, cause = str(decision.get("reason") or ""), decision.get("cause")
    hook_name = "/".join(str(part) for part in (decision.get("layer"), decision.get("hook")) if part)
    if cause in (None, "policy"):
        text = reason or (f"hook {hook_name} gave no reason" if hook_name else "no reason was given")
        return add_instead(text, decision.get("instead"))
    failure = format_failure(str(cause), "")
    text = reason if reason.startswith(failure) else f"{failure}: {reason}" if reason else failure
    if hook_name and hook_name not in text:
        text = f"{text} ({hook_name})"
    return text if str(cause) in text else f"{text} [{cause}]"
