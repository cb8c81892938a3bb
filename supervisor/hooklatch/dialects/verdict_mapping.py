"""Decides what of a decision a dialect can say, and never says less than was decided.

    cannot be said          becomes
    ask                     deny, else halt
    deny                    halt
    halt                    deny
    allow                   no opinion
    a patch, on a gate      deny: the unpatched input must not run
    a patch, elsewhere      lost, with a warning
    inject, append, resume  lost, with a warning

Knows decisions and answer tables; knows no style in which an answer is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from hooklatch.core.decisions.decision import failure_text
from hooklatch.core.messages import Cause
from hooklatch.dialects.dialect import OUTPUT_WORDS, REFUSALS, Dialect, NativeEvent

__all__ = ["STRICTER", "Said", "express", "reason_of", "settle"]

STRICTER: Final[dict[str, tuple[str, ...]]] = {
    "ask": ("ask", "deny", "halt"),
    "deny": ("deny", "halt"),
    "halt": ("halt", "deny"),
    "allow": ("allow",),
    "claim": ("claim",),
}
# In these styles an ask or a refusal leaves room for what else was decided; in the others it is the whole answer.
CARRIES_PATCH_WITH_ASK = frozenset({"merged"})
CARRIES_OUTPUTS_WITH_REFUSAL = frozenset({"merged", "tagged"})


class Said(msgspec.Struct, kw_only=True):
    """What will be said; `word` is "pass" where no word is needed, and then no refusal was decided."""

    word: str
    reason: str
    decider: Mapping[str, Any]
    patch: dict[str, Any] = {}  # by native key
    outputs: dict[str, Any] = {}  # inject, append, resume: only those that the answer has a key for
    value: object = None
    warnings: list[str] = []

    @property
    def is_refusal(self) -> bool:
        return self.word in REFUSALS


def settle(dialect: Dialect, name: str, decisions: Sequence[Mapping[str, Any]]) -> Said:
    """Settle the answer to one native event from the decisions on all that it feeds, in their order."""
    event = dialect.events[name]
    decider = max(decisions, key=severity)
    verdict = verdict_of(decider)
    word = next((word for word in STRICTER.get(verdict, ()) if word in event.answers.words), "pass")
    said = Said(word=word, reason=reason_of(decider), decider=decider, value=decider.get("value"), warnings=[])
    if word == "pass" and verdict not in ("pass", "allow"):
        said.warnings.append(f"{verdict} was lost: {dialect.name} has no word for it on {name}")
    elif word != verdict and verdict != "allow":
        said.warnings.append(f"{verdict} became {word}: {dialect.name} has no word for {verdict} on {name}")
    if not said.is_refusal:
        patch(dialect, name, decisions, said)
    outputs(dialect, name, decisions, said)
    return said


def severity(decision: Mapping[str, Any]) -> int:
    return {"pass": 0, "allow": 1, "claim": 2, "ask": 3}.get(verdict_of(decision), 4)


def verdict_of(decision: Mapping[str, Any]) -> str:
    verdict = decision.get("verdict")
    # What nobody understands is no permission.
    return verdict if verdict in ("pass", "allow", "ask", "halt", "claim") else "deny"


def patch(dialect: Dialect, name: str, decisions: Sequence[Mapping[str, Any]], said: Said) -> None:
    event = dialect.events[name]
    for index, decision in enumerate(decisions):
        changes = cast("dict[str, Any]", decision.get("patch") or {})
        written, unsaid = express(event, changes)
        is_crowded_out = bool(changes) and said.word == "ask" and dialect.style not in CARRIES_PATCH_WITH_ASK
        if is_gate(event, decision, index) and (unsaid or is_crowded_out):
            keys = ", ".join(unsaid or changes)
            beside = " beside an ask" if is_crowded_out and not unsaid else ""
            said.warnings.append(
                f"{said.word} became deny: {dialect.name} cannot say a change of {keys}{beside} on {name}"
            )
            said.word = next(word for word in REFUSALS if word in event.answers.words)
            said.reason = (
                f"{patcher(decision, keys)} changed {keys}, which {dialect.name} cannot be told (fail-safe deny)"
            )
            said.decider, said.patch = decision, {}
            return
        for key in unsaid:
            said.warnings.append(f"a change of {key} was lost: {dialect.name} cannot say it on {name}")
        said.patch.update(written)


def is_gate(event: NativeEvent, decision: Mapping[str, Any], index: int) -> bool:
    named = next((feed for feed in event.feeds if feed.event == decision.get("event")), None)
    return (named or event.feeds[min(index, len(event.feeds) - 1)]).fails_closed


def express(event: NativeEvent, changes: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a patch by native key, and the canonical keys for which there is none."""
    table, written, unsaid = event.answers.patch, dict[str, Any](), list[str]()
    for key, value in changes.items():
        inner = {path.partition(".")[2]: native for path, native in table.items() if path.startswith(f"{key}.")}
        if key in table:
            written[table[key]] = value
        elif inner and isinstance(value, dict) and cast("dict[str, Any]", value).keys() <= inner.keys():
            # The whole value is replaced, so a part that is not in it any more is unset.
            written.update({native: cast("dict[str, Any]", value).get(part) for part, native in inner.items()})
        else:
            unsaid.append(key)
    return written, unsaid


def patcher(decision: Mapping[str, Any], key: str) -> str:
    for outcome in reversed(cast("list[dict[str, Any]]", decision.get("outcomes") or [])):
        if key in (outcome.get("patch") or {}):
            return f"hook {outcome.get('layer')}/{outcome.get('hook')}"
    return "a hook"


def outputs(dialect: Dialect, name: str, decisions: Sequence[Mapping[str, Any]], said: Said) -> None:
    answers = dialect.events[name].answers
    has_room = not said.is_refusal or dialect.style in CARRIES_OUTPUTS_WITH_REFUSAL
    for output in OUTPUT_WORDS:
        given = [decision[output] for decision in decisions if decision.get(output) not in (None, [], "")]
        if output == "resume":
            given += [decision[output] for decision in decisions if decision.get(output) == ""]
        if given and output in answers.outputs and has_room:
            said.outputs[output] = [m for part in given for m in part] if output == "inject" else "\n".join(given)
        elif given:
            said.warnings.append(f"{output} was lost: {dialect.name} has no room for it on {name}")


def reason_of(decision: Mapping[str, Any]) -> str:
    """Return a reason that is never empty, names its hook, and shows the failure that it was made for."""
    reason, cause = str(decision.get("reason") or ""), decision.get("cause")
    who = "/".join(str(part) for part in (decision.get("layer"), decision.get("hook")) if part)
    if cause in (None, "policy"):
        return reason or (f"hook {who} gave no reason" if who else "no reason was given")
    begins = failure_text(cast("Cause", cause), "")
    text = reason if reason.startswith(begins) else f"{begins}: {reason}" if reason else begins
    if who and who not in text:
        text = f"{text} ({who})"
    return text if str(cause) in text else f"{text} [{cause}]"
