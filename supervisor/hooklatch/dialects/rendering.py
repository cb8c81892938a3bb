"""The rendering of a decision in a dialect's own words, in five styles of answer.  Knows no dialect by name.

merged    one object with the keys that were set; a refusal is one of its keys, a claim a flag
tagged    "ok", or one word with its value; besides, a structured form with all outputs
exit      an exit code with standard output and error, and an outcome for each hook
results   a list with one result for each hook; a result that does not continue is a refusal
threaded  the whole context returned, or the refusing word with its reason
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from hooklatch.dialects.dialect import Dialect, Style
from hooklatch.dialects.exits import write_exit
from hooklatch.dialects.translation import is_same, list_known_keys, overlay_context
from hooklatch.dialects.verdict_mapping import (
    MappedDecision,
    express_patch,
    is_outcome_of,
    list_outcomes,
    settle_native_decision,
)

__all__ = ["NativeAnswer", "render_decision"]

WireDecision = Mapping[str, Any]


class NativeAnswer(msgspec.Struct, frozen=True):
    """The answer in the dialect's words, with warnings about what became stricter or was lost."""

    value: Any
    warnings: list[str]


def render_decision(
    dialect: Dialect,
    native_event: str,
    decision: WireDecision,
    followed_by: Sequence[WireDecision] = (),
    native_payload: Mapping[str, Any] | None = None,
) -> NativeAnswer:
    """Render the decisions on a native event, in wire form, as that system would, and never less strictly."""
    name = dialect.resolve(native_event)
    mapped = settle_native_decision(dialect, name, [decision, *followed_by], native_payload or {})
    value = WRITERS[dialect.style](mapped)
    return NativeAnswer(value, mapped.warnings)


def write_merged(mapped: MappedDecision) -> object:
    answers = mapped.event.answers
    if answers.is_empty:
        return None  # that system ignores the answer
    if "claim" in answers.words:
        flag = answers.words["claim"]
        if mapped.word != "claim":
            return {flag: False}
        if mapped.value is None:
            return {flag: True}
        is_mapping = isinstance(mapped.value, dict)
        fields = cast("dict[str, Any]", mapped.value) if is_mapping else {"value": mapped.value}
        return {**fields, flag: True}
    parts = {**mapped.patch, **{answers.outputs[key]: part for key, part in mapped.outputs.items()}}
    return parts if mapped.word == "pass" else {**parts, answers.words[mapped.word]: mapped.reason}


def write_tagged(mapped: MappedDecision) -> object:
    dialect, answers = mapped.dialect, mapped.event.answers
    result: object = "ok"
    if mapped.word != "pass":
        result = {answers.words[mapped.word]: mapped.value if mapped.word == "claim" else mapped.reason}
    elif mapped.patch:
        result = mapped.patch  # before all outputs: a caller that reads only this must not run the unpatched input
    else:
        for output in ("append", "inject", "resume"):
            if output in mapped.outputs:
                result = {answers.outputs[output]: mapped.outputs[output]}
                break
    if not dialect.structured:
        return result
    on_halt = dialect.on_halt if mapped.word == "halt" else {}
    return {"result": result, "outputs": build_structured_form(mapped), **on_halt}


def build_structured_form(mapped: MappedDecision) -> dict[str, object]:
    """Return the form without a deny: a caller that reads only this form sees any refusal as a halt."""
    parts: dict[str, object] = {
        "halt": mapped.reason if mapped.word not in ("pass", "allow", "claim") else None,
        "inject": mapped.outputs.get("inject", []),
        "patch": next(iter(mapped.patch.values()), None),
        "append": [mapped.outputs["append"]] if "append" in mapped.outputs else [],
    }
    keys = mapped.dialect.structured
    return {keys[part]: value for part, value in parts.items() if part in keys}


def write_threaded(mapped: MappedDecision) -> object:
    dialect, name = mapped.dialect, mapped.name
    if mapped.word != "pass":
        return {mapped.event.answers.words[mapped.word]: mapped.reason}
    context: dict[str, Any] = {}
    for decision in mapped.decisions:
        context.update(decision.get("context") or {})
    native = {**mapped.payload, **mapped.patch}
    if dialect.event_key is not None:
        native = {**native, dialect.event_key: name}
    known = list_known_keys(dialect, name)
    for key in sorted(context.keys() & known):
        if native.get(key) != context[key]:
            why = f"it is a field of {name}, and no guard has seen it"
            mapped.warnings.append(f"the context's {key} was left out: {why}")
    return {"ok": overlay_context(native, context, known)}


def write_results(mapped: MappedDecision) -> object:
    """Return one result per hook, plus one more if they do not add up to the decision."""
    results: list[dict[str, Any]] = []
    place: int | None = None
    for decision in mapped.decisions:
        for outcome in select_last_outcomes(decision):
            if is_outcome_of(outcome, mapped.decider):
                place = len(results)
            results.append(build_result(mapped, outcome))
    if mapped.is_refusal:
        stop = {"success": False, "message": mapped.reason, "modified_data": None, "should_continue": False}
        return [*results, stop] if place is None else [*results[:place], stop, *results[place + 1 :]]
    if mapped.word == "claim":
        return build_claim_results(mapped, results, place)
    merged: dict[str, Any] = {}
    for result in results:
        merged.update(result["modified_data"] or {})
    if mapped.patch and is_same(merged, mapped.patch):
        return results
    results = [{**result, "modified_data": None} for result in results]
    if mapped.patch:
        results.append({"success": True, "message": None, "modified_data": mapped.patch, "should_continue": True})
    return results


def select_last_outcomes(decision: WireDecision) -> list[dict[str, Any]]:
    """Return one outcome per needed hook; if it was called again, its second answer replaces its first."""
    needed = [outcome for outcome in list_outcomes(decision) if not outcome.get("unneeded")]
    return list({(outcome.get("layer"), outcome.get("hook")): outcome for outcome in needed}.values())


def build_claim_results(
    mapped: MappedDecision, results: list[dict[str, Any]], place: int | None
) -> list[dict[str, Any]]:
    word = mapped.event.answers.words["claim"]
    value = mapped.value
    text = value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
    if word == "stop":
        data = cast("dict[str, Any]", value) if isinstance(value, dict) else None
        claim = {"success": False, "message": text, "modified_data": data, "should_continue": False}
    else:
        claim = {"success": True, "message": None, "modified_data": {word: value}, "should_continue": True}
    return [*results, claim] if place is None else [*results[:place], claim]


def build_result(mapped: MappedDecision, outcome: Mapping[str, Any]) -> dict[str, Any]:
    is_last, message = bool(outcome.get("last")), outcome.get("message") or None
    is_well = outcome.get("outcome") == "answered" and outcome.get("verdict") not in ("deny", "ask", "halt")
    counts = mapped.word == "pass" and is_well and not outcome.get("observed")
    written, _ = express_patch(mapped.event, outcome.get("patch") or {}, mapped.payload) if counts else ({}, [])
    return {
        "success": is_well and not (is_last and message),  # stopping for a reason is not reported as success there
        "message": message,
        "modified_data": written or None,
        "should_continue": not is_last,
    }


WRITERS: Final[dict[Style, Callable[[MappedDecision], object]]] = {
    "merged": write_merged,
    "tagged": write_tagged,
    "exit": write_exit,
    "results": write_results,
    "threaded": write_threaded,
}
