"""Says a decision in a dialect's own words.  Knows five styles of answer; knows no dialect by name.

merged    one object with the keys that were set; a refusal is a key of it, a claim a flag
tagged    "ok", or one word with what it carries; beside it a structured form with all outputs
exit      an exit code with standard output and error, and an outcome for each hook
results   a list with one result for each hook; a result that does not continue is a refusal
threaded  the whole context handed back, or the refusing word with its reason
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from hooklatch.dialects.dialect import Dialect, Style
from hooklatch.dialects.exits import write_exit
from hooklatch.dialects.translation import is_same, known_keys, overlaid
from hooklatch.dialects.verdict_mapping import Said, express, settle

__all__ = ["Rendered", "render"]

WireDecision = Mapping[str, Any]
Writer = Callable[[Dialect, str, Said, Sequence[WireDecision], Mapping[str, Any]], object]


class Rendered(msgspec.Struct, frozen=True):
    """The answer in the dialect's words, and what became stricter or was lost on the way."""

    value: Any
    warnings: list[str]


def render(
    dialect: Dialect,
    native_event: str,
    decision: WireDecision,
    followed_by: Sequence[WireDecision] = (),
    native_payload: Mapping[str, Any] | None = None,
) -> Rendered:
    """Say the decisions on a native event, in their wire form, as that system would; never looser than they are.

    Raises:
        UnknownNativeEventError: the dialect has no such event.
    """
    name = dialect.resolve(native_event)
    decisions = [decision, *followed_by]
    said = settle(dialect, name, decisions)
    value = WRITERS[dialect.style](dialect, name, said, decisions, native_payload or {})
    return Rendered(value, said.warnings)


def write_merged(
    dialect: Dialect, name: str, said: Said, _decisions: Sequence[WireDecision], _payload: Mapping[str, Any]
) -> object:
    answers = dialect.events[name].answers
    if answers.is_empty:
        return None  # nobody there looks at an answer
    if "claim" in answers.words:
        flag = answers.words["claim"]
        if said.word != "claim":
            return {flag: False}
        value = said.value
        return {**(cast("dict[str, Any]", value) if isinstance(value, dict) else beside(value)), flag: True}
    parts = {**said.patch, **{answers.outputs[key]: part for key, part in said.outputs.items()}}
    return parts if said.word == "pass" else {**parts, answers.words[said.word]: said.reason}


def beside(value: object) -> dict[str, object]:
    return {} if value is None else {"value": value}


def write_tagged(
    dialect: Dialect, name: str, said: Said, _decisions: Sequence[WireDecision], _payload: Mapping[str, Any]
) -> object:
    answers = dialect.events[name].answers
    result: object = "ok"
    if said.word != "pass":
        result = {answers.words[said.word]: said.value if said.word == "claim" else said.reason}
    elif said.patch:
        result = said.patch  # before all else: whoever reads only this must not run the unpatched input
    else:
        for output in ("append", "inject", "resume"):
            if output in said.outputs:
                result = {answers.outputs[output]: said.outputs[output]}
                break
    if not dialect.structured:
        return result
    return {
        "result": result,
        "outputs": structured(dialect, said),
        **(dialect.on_halt if said.word == "halt" else {}),
    }


def structured(dialect: Dialect, said: Said) -> dict[str, object]:
    """Write the form that has no deny: a caller who reads only this one sees any refusal as a halt."""
    parts: dict[str, object] = {
        "halt": said.reason if said.word not in ("pass", "allow", "claim") else None,
        "inject": said.outputs.get("inject", []),
        "patch": next(iter(said.patch.values()), None),
        "append": [said.outputs["append"]] if "append" in said.outputs else [],
    }
    return {dialect.structured[part]: value for part, value in parts.items() if part in dialect.structured}


def write_threaded(
    dialect: Dialect, name: str, said: Said, decisions: Sequence[WireDecision], payload: Mapping[str, Any]
) -> object:
    if said.word != "pass":
        return {dialect.events[name].answers.words[said.word]: said.reason}
    context: dict[str, Any] = {}
    for decision in decisions:
        context.update(decision.get("context") or {})
    native = {**payload, **said.patch}
    if dialect.event_key is not None:
        native = {**native, dialect.event_key: name}
    known = known_keys(dialect, name)
    for key in sorted(context.keys() & known):
        if native.get(key) != context[key]:
            said.warnings.append(f"the context's {key} was left out: it is a field of {name}, and no guard has seen it")
    return {"ok": overlaid(native, context, known)}


def write_results(
    dialect: Dialect, name: str, said: Said, decisions: Sequence[WireDecision], _payload: Mapping[str, Any]
) -> object:
    """Write one result a hook, then one more where theirs would not add up to what was decided."""
    results: list[dict[str, Any]] = []
    place: int | None = None
    for decision in decisions:
        for outcome in last_words(decision):
            if is_of(outcome, said.decider):
                place = len(results)
            results.append(result_of(dialect, name, outcome, has_patch=said.word == "pass"))
    if said.is_refusal:
        stop = {"success": False, "message": said.reason, "modified_data": None, "should_continue": False}
        return [*results, stop] if place is None else [*results[:place], stop, *results[place + 1 :]]
    if said.word == "claim":
        return claimed(dialect, name, said, results, place)
    merged: dict[str, Any] = {}
    for result in results:
        merged.update(result["modified_data"] or {})
    if said.patch and not is_same(merged, said.patch):
        results = [{**result, "modified_data": None} for result in results]
        results.append({"success": True, "message": None, "modified_data": said.patch, "should_continue": True})
    elif not said.patch:
        results = [{**result, "modified_data": None} for result in results]
    return results


def last_words(decision: WireDecision) -> list[dict[str, Any]]:
    """Return one outcome a hook: the second answer of one that was asked again replaces its first."""
    outcomes = cast("list[dict[str, Any]]", decision.get("outcomes") or [])
    return list({(outcome.get("layer"), outcome.get("hook")): outcome for outcome in outcomes}.values())


def claimed(
    dialect: Dialect, name: str, said: Said, results: list[dict[str, Any]], place: int | None
) -> list[dict[str, Any]]:
    word = dialect.events[name].answers.words["claim"]
    value = said.value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if word == "stop":
        data = cast("dict[str, Any]", value) if isinstance(value, dict) else None
        claim = {"success": False, "message": text, "modified_data": data, "should_continue": False}
    else:
        claim = {"success": True, "message": None, "modified_data": {word: value}, "should_continue": True}
    return [*results, claim] if place is None else [*results[:place], claim]


def is_of(outcome: Mapping[str, Any], decision: WireDecision) -> bool:
    hook = decision.get("hook")
    return hook is not None and outcome.get("hook") == hook and outcome.get("layer") == decision.get("layer")


def result_of(dialect: Dialect, name: str, outcome: Mapping[str, Any], *, has_patch: bool) -> dict[str, Any]:
    is_last, message = bool(outcome.get("last")), outcome.get("message") or None
    is_well = outcome.get("outcome") == "answered" and outcome.get("verdict") not in ("deny", "ask", "halt")
    counts = has_patch and is_well and not outcome.get("observed")
    written, _ = express(dialect.events[name], outcome.get("patch") or {}) if counts else ({}, [])
    return {
        "success": is_well and not (is_last and message),  # a stop for a reason reports no success there
        "message": message,
        "modified_data": written or None,
        "should_continue": not is_last,
    }


WRITERS: Final[dict[Style, Writer]] = {
    "merged": write_merged,
    "tagged": write_tagged,
    "exit": write_exit,
    "results": write_results,
    "threaded": write_threaded,
}
