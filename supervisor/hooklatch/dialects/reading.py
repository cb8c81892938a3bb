"""A reader of a hook's native answer, which converts it to a canonical one.

A word that its event cannot honour is ignored with a warning, as in that system, but only if the event guards nothing.
On a gate an answer that is not understood is garbage, so the gate denies.  Canonical answers are accepted too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from hooklatch.dialects.dialect import Dialect, EventMapping, NativeEvent, Style
from hooklatch.dialects.exits import format_output_value, read_exit
from hooklatch.dialects.translation import is_same, list_known_keys, translate_to_canonical
from hooklatch.dialects.verdict_mapping import STRICTER
from hooklatch_worker.author.verdicts import GarbageError

__all__ = ["AnswerContext", "translate_answer"]

OUTPUT_KEYS = frozenset({"patch", "inject", "append", "resume", "warnings", "last", "context"})
CANONICAL = OUTPUT_KEYS | {"verdict", "reason", "value", "instead"}


class AnswerContext(msgspec.Struct, frozen=True):
    """The context of an answer: the event, and the native payload that the hook received, if known."""

    dialect: Dialect
    name: str
    shown: Mapping[str, Any] | None

    @property
    def event(self) -> NativeEvent:
        return self.dialect.events[self.name]

    @property
    def feed(self) -> EventMapping:
        return self.event.feeds[0]


AnswerReader = Callable[[AnswerContext, object], dict[str, Any]]


def translate_answer(
    dialect: Dialect, native_event: str, answer: object, *, shown: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the answer as a canonical verdict object, for the first event that the native one feeds.

    `shown` is the native payload that the hook received; the answer of a dialect that returns its whole context is
    read by comparing with it.

    Raises:
        UnknownNativeEventError: the dialect has no such event.
        GarbageError: the answer cannot be understood; on a gate that is a deny.
    """
    context = AnswerContext(dialect, dialect.resolve(native_event), shown)
    if answer is None or answer == {}:
        return {}
    if is_ours(context, answer):
        return dict(cast("dict[str, Any]", answer))
    return READERS[dialect.style](context, answer)


def is_ours(context: AnswerContext, answer: object) -> bool:
    """Return whether an answer is canonical: it has a verdict, or only outputs that are not native words."""
    if not isinstance(answer, dict):
        return False
    table, answers = cast("dict[str, Any]", answer), context.event.answers
    if "verdict" in table:
        return True
    theirs = {*answers.words.values(), *answers.patch.values(), *answers.outputs.values()}
    return table.keys() <= CANONICAL and bool(table.keys() & OUTPUT_KEYS) and not table.keys() & theirs


def make_refusal_answer(context: AnswerContext, verdict: str, reason: object) -> dict[str, Any]:
    """Return a refusal, or the nearest stricter one that the event has; on an event that is not a gate, a warning."""
    word = next((word for word in STRICTER[verdict] if word in context.feed.verdicts), None)
    if word is None or (word == "halt" and verdict != "halt" and not context.feed.fails_closed):
        return {
            "warnings": [f"{verdict} means nothing on {context.name} and was ignored: {format_output_value(reason)}"]
        }
    return {"verdict": word, "reason": format_output_value(reason)}


def convert_pair(answer: object) -> object:
    """Convert a pair, which is how a tuple arrives through JSON, to a word with its value."""
    if not isinstance(answer, list):
        return answer
    pair = cast("list[object]", answer)
    return {pair[0]: pair[1]} if len(pair) == 2 and isinstance(pair[0], str) else pair


def require_object(context: AnswerContext, answer: object) -> dict[str, Any]:
    if isinstance(answer, dict):
        return cast("dict[str, Any]", answer)
    raise GarbageError(f"a hook on {context.name} answers with an object, not {answer!r}")


def translate_patch(context: AnswerContext, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the native keys of an answer to a patch; null means "not set"."""
    paths = {native: path for path, native in context.event.answers.patch.items()}
    patch: dict[str, Any] = {}
    for native, value in changes.items():
        if native not in paths:
            raise GarbageError(f"a hook on {context.name} cannot answer with {native!r}")
        if value is not None:
            key, _, part = paths[native].partition(".")
            if part:
                patch.setdefault(key, read_whole_field(context, key))[part] = value
            else:
                patch[key] = value
    return {"patch": patch} if patch else {}


def read_whole_field(context: AnswerContext, key: str) -> dict[str, Any]:
    """Return the whole field as the hook received it, since a patch replaces whole values."""
    if context.shown is None:
        return {}
    whole = translate_to_canonical(context.dialect, context.name, dict(context.shown))[0].payload.get(key)
    return dict(cast("dict[str, Any]", whole)) if isinstance(whole, dict) else {}


def read_merged(context: AnswerContext, answer: object) -> dict[str, Any]:
    answers = context.event.answers
    if answers.is_empty:
        return {"warnings": [f"an answer on {context.name} has no effect; it was ignored"]}
    table = require_object(context, answer)
    if "claim" in answers.words:
        return read_claim(context, table, answers.words["claim"])
    for verdict in ("halt", "deny", "ask"):
        word = answers.words.get(verdict)
        if word is not None and table.get(word) is not None:
            # An empty text refuses as well: anything that looks like a refusal is one.
            return make_refusal_answer(context, verdict, table[word])
    outputs = {output: table[key] for output, key in answers.outputs.items() if table.get(key) is not None}
    taken = {*answers.outputs.values(), *answers.words.values()}
    changes, unknown = select_known_changes(context, {key: value for key, value in table.items() if key not in taken})
    return {**outputs, **unknown, **translate_patch(context, changes)}


def select_known_changes(
    context: AnswerContext, changes: Mapping[str, Any]
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the changes that the event has keys for, and a warning that names the others.

    On a gate the other keys stay, and make the answer garbage: one of them could be a refusal.
    """
    others = changes.keys() - set(context.event.answers.patch.values())
    if not others or context.feed.fails_closed:
        return changes, {}
    names = ", ".join(sorted(map(repr, others)))
    known = {key: value for key, value in changes.items() if key not in others}
    return known, {"warnings": [f"a hook on {context.name} cannot answer with {names:.200}, which was ignored"]}


def read_claim(context: AnswerContext, table: dict[str, Any], flag: str) -> dict[str, Any]:
    is_handled = table.get(flag, False)
    if not isinstance(is_handled, bool):
        raise GarbageError(f"{flag} is true or false, not {is_handled!r}")
    if not is_handled:
        return {}
    rest = {key: value for key, value in table.items() if key != flag}
    return {"verdict": "claim", "value": rest["value"] if rest.keys() == {"value"} else rest or None}


def read_tagged(context: AnswerContext, answer: object) -> dict[str, Any]:
    if answer == "ok":
        return {}
    table = require_object(context, convert_pair(answer))
    plural = context.dialect.structured
    if plural and table.keys() <= set(plural.values()) and (len(table) > 1 or not is_one_word(context, table)):
        return read_structured(context, {part: table.get(key) for part, key in plural.items()})
    if len(table) != 1:
        raise GarbageError(f"an answer on {context.name} is one word with its value, not {answer!r}")
    return read_word(context, *next(iter(table.items())))


def is_one_word(context: AnswerContext, table: dict[str, Any]) -> bool:
    answers = context.event.answers
    return next(iter(table)) in {"deny", "halt", *answers.patch.values(), *answers.outputs.values()}


def read_word(context: AnswerContext, word: str, carried: object) -> dict[str, Any]:
    answers = context.event.answers
    for verdict in {*answers.words, "deny", "halt"}:
        if word == answers.words.get(verdict, verdict):
            if verdict == "claim":
                return {"verdict": "claim", "value": carried}
            return make_refusal_answer(context, verdict, carried)
    for output, key in answers.outputs.items():
        if word == key:
            return {output: carried}
    return translate_patch(context, {word: carried})


def read_structured(context: AnswerContext, table: dict[str, Any]) -> dict[str, Any]:
    answers = context.event.answers
    if table.get("halt") is not None:
        return make_refusal_answer(context, "halt", table["halt"])
    verdict: dict[str, Any] = {}
    for output in ("inject", "append"):
        if table.get(output):
            if output not in answers.outputs:
                raise GarbageError(f"a hook on {context.name} cannot {output} anything")
            verdict[output] = table[output]
    if table.get("patch") is not None:
        key = next(iter(answers.patch.values()), "transform")
        verdict |= translate_patch(context, {key: table["patch"]})
    return verdict


def read_results(context: AnswerContext, answer: object) -> dict[str, Any]:
    result = require_object(context, answer)
    unknown = result.keys() - {"success", "message", "modified_data", "should_continue"}
    is_well, continues = result.get("success"), result.get("should_continue", True)
    if unknown or not isinstance(is_well, bool) or not isinstance(continues, bool):
        raise GarbageError(f"a result has success, message, modified_data and should_continue, not {answer!r}")
    message, data = result.get("message"), result.get("modified_data")
    if not is_well and continues:
        # A failure without a refusal: on a gate, a guard could not decide; elsewhere the hook is skipped.
        reason, failure = format_output_value(message), f"the hook on {context.name} reports an error"
        raise GarbageError(f"{failure}: {reason}" if context.feed.fails_closed else reason or failure)
    if "claim" in context.event.answers.words:
        return read_claiming_result(context, message, data, continues=continues)
    if context.feed.fails_closed and not continues:
        return make_refusal_answer(context, "deny", message)
    end = make_chain_end(continues=continues, message=message)
    if not context.feed.fails_closed and not context.event.answers.patch and data is not None:
        return {"warnings": [f"modified data on {context.name} has no effect; it was ignored"], **end}
    changes, ignored = select_known_changes(context, require_object(context, data) if data is not None else {})
    warnings = {"warnings": [format_output_value(message)]} if not is_well and message else {}
    return {**translate_patch(context, changes), **ignored, **warnings, **end}


def make_chain_end(*, continues: bool, message: object) -> dict[str, Any]:
    """Return the end of the chain, if it ends, and the hook's message, which is shown with any decision."""
    reason = {"reason": format_output_value(message)} if message or not continues else {}
    return reason if continues else {"last": True, **reason}


def read_claiming_result(context: AnswerContext, message: object, data: object, *, continues: bool) -> dict[str, Any]:
    word = context.event.answers.words["claim"]
    if word == "stop":
        if continues:
            return make_chain_end(continues=True, message=message)
        return {"verdict": "claim", "value": message if data is None else data}
    if isinstance(data, dict) and word in data:
        return {"verdict": "claim", "value": cast("dict[str, Any]", data)[word]}
    if data is not None:
        raise GarbageError(f"the data of {context.name} has no {word!r}")
    return make_chain_end(continues=continues, message=message)


def read_threaded(context: AnswerContext, answer: object) -> dict[str, Any]:
    if answer == "ok":
        return {}
    table = require_object(context, convert_pair(answer))
    if len(table) != 1:
        raise GarbageError(f"an answer on {context.name} is ok, or deny or ask with its value, not {answer!r}")
    word, carried = next(iter(table.items()))
    if word in ("deny", "ask"):
        return make_refusal_answer(context, word, carried)
    if word != "ok" or not isinstance(carried, dict):
        raise GarbageError(
            f"an answer on {context.name} is ok with a context, deny or ask with a reason, not {answer!r}"
        )
    return read_context(context, cast("dict[str, Any]", carried))


def read_context(context: AnswerContext, returned: dict[str, Any]) -> dict[str, Any]:
    """Separate changed fields from changed context by comparing with the payload that the hook received."""
    known, shown = list_known_keys(context.dialect, context.name), context.shown
    fields: dict[str, Any] = {}
    free: dict[str, Any] = {}
    for key, value in returned.items():
        if shown is not None and key in shown and is_same(shown[key], value):
            continue
        (fields if key in known else free)[key] = value
    free.update({key: None for key in shown or {} if key not in returned and key not in known})
    fixed = sorted(fields.keys() - set(context.event.answers.patch.values()))
    if fixed and shown is not None and context.feed.fails_closed:
        raise GarbageError(f"a hook on {context.name} cannot change {', '.join(fixed)}")
    patch = translate_patch(context, {key: value for key, value in fields.items() if key not in fixed})
    return {**patch, **({"context": free} if free else {})}


READERS: Final[dict[Style, AnswerReader]] = {
    "merged": read_merged,
    "tagged": read_tagged,
    "exit": lambda context, answer: read_exit(context.event, context.name, answer),
    "results": read_results,
    "threaded": read_threaded,
}
