"""Converts a callback's native answer to a canonical one.

A word that its event cannot honour is ignored with a warning, as in that system, but only if the event guards nothing.
On a gate everything that is not understood is garbage, so that it denies.  Canonical answers are accepted too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from hooklatch.dialects.dialect import Dialect, EventMapping, NativeEvent, Style
from hooklatch.dialects.exit_reading import read_exit
from hooklatch.dialects.translation import is_same, list_known_keys, translate_to_canonical
from hooklatch.dialects.verdict_mapping import STRICTER
from hooklatch_worker.author.verdicts import GarbageError

__all__ = ["AnswerContext", "translate_answer"]

OUTPUT_KEYS = frozenset({"patch", "inject", "append", "resume", "warnings", "last", "context"})
CANONICAL = OUTPUT_KEYS | {"verdict", "reason", "value"}


class AnswerContext(msgspec.Struct, frozen=True):
    """What an answer is read against: the event, and the native payload that the callback received, if known."""

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

    `shown` is the native payload that the callback received; the answer of a dialect that returns its whole context is
    read by comparing with it.

    Raises:
        UnknownNativeEventError: the dialect has no such event.
        GarbageError: the answer cannot be understood; on a gate that is a deny.
    """
    asked = AnswerContext(dialect, dialect.resolve(native_event), shown)
    if answer is None or answer == {}:
        return {}
    if is_ours(asked, answer):
        return dict(cast("dict[str, Any]", answer))
    return READERS[dialect.style](asked, answer)


def is_ours(asked: AnswerContext, answer: object) -> bool:
    """Return whether an answer is canonical: it has a verdict, or only outputs that are not native words."""
    if not isinstance(answer, dict):
        return False
    said, answers = cast("dict[str, Any]", answer), asked.event.answers
    if "verdict" in said:
        return True
    theirs = {*answers.words.values(), *answers.patch.values(), *answers.outputs.values()}
    return said.keys() <= CANONICAL and bool(said.keys() & OUTPUT_KEYS) and not said.keys() & theirs


def make_refusal_answer(asked: AnswerContext, verdict: str, reason: object) -> dict[str, Any]:
    """Return a refusal, or the nearest stricter one that the event has; a warning if the event guards nothing."""
    word = next((word for word in STRICTER[verdict] if word in asked.feed.verdicts), None)
    if word is None or (word == "halt" and verdict != "halt" and not asked.feed.fails_closed):
        return {"warnings": [f"{verdict} means nothing on {asked.name} and was ignored: {format_reason(reason)}"]}
    return {"verdict": word, "reason": format_reason(reason)}


def format_reason(reason: object) -> str:
    if isinstance(reason, str):
        return reason
    return "" if reason is None else msgspec.json.encode(reason).decode()


def convert_pair(answer: object) -> object:
    """Convert a pair, which is how a tuple arrives through JSON, to a word with its value."""
    if not isinstance(answer, list):
        return answer
    pair = cast("list[object]", answer)
    return {pair[0]: pair[1]} if len(pair) == 2 and isinstance(pair[0], str) else pair


def require_object(asked: AnswerContext, answer: object) -> dict[str, Any]:
    if isinstance(answer, dict):
        return cast("dict[str, Any]", answer)
    raise GarbageError(f"a hook on {asked.name} answers with an object, not {answer!r}")


def translate_patch(asked: AnswerContext, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the native keys of an answer to a patch; null means "not set"."""
    paths = {native: path for path, native in asked.event.answers.patch.items()}
    patch: dict[str, Any] = {}
    for native, value in changes.items():
        if native not in paths:
            raise GarbageError(f"a hook on {asked.name} cannot say {native!r}")
        if value is not None:
            key, _, part = paths[native].partition(".")
            if part:
                patch.setdefault(key, read_whole_field(asked, key))[part] = value
            else:
                patch[key] = value
    return {"patch": patch} if patch else {}


def read_whole_field(asked: AnswerContext, key: str) -> dict[str, Any]:
    """Return the whole field as the callback received it, since a patch replaces whole values."""
    if asked.shown is None:
        return {}
    whole = translate_to_canonical(asked.dialect, asked.name, dict(asked.shown))[0].payload.get(key)
    return dict(cast("dict[str, Any]", whole)) if isinstance(whole, dict) else {}


def read_merged(asked: AnswerContext, answer: object) -> dict[str, Any]:
    answers = asked.event.answers
    if answers.is_empty:
        return {"warnings": [f"an answer on {asked.name} has no effect; it was ignored"]}
    said = require_object(asked, answer)
    if "claim" in answers.words:
        return read_claim(asked, said, answers.words["claim"])
    for verdict in ("halt", "deny", "ask"):
        word = answers.words.get(verdict)
        if word is not None and said.get(word) is not None:
            # An empty text refuses as well: anything that looks like a refusal is one.
            return make_refusal_answer(asked, verdict, said[word])
    outputs = {output: said[key] for output, key in answers.outputs.items() if said.get(key) is not None}
    taken = {*answers.outputs.values(), *answers.words.values()}
    changes, unknown = select_known_changes(asked, {key: value for key, value in said.items() if key not in taken})
    return {**outputs, **unknown, **translate_patch(asked, changes)}


def select_known_changes(asked: AnswerContext, changes: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the changes that the event has keys for, and a warning that names the others.

    On a gate the others are left: what an answer there says of them could be a refusal.
    """
    others = changes.keys() - set(asked.event.answers.patch.values())
    if not others or asked.feed.fails_closed:
        return changes, {}
    names = ", ".join(sorted(map(repr, others)))
    known = {key: value for key, value in changes.items() if key not in others}
    return known, {"warnings": [f"a hook on {asked.name} cannot say {names:.200}, which was ignored"]}


def read_claim(asked: AnswerContext, table: dict[str, Any], flag: str) -> dict[str, Any]:
    is_handled = table.get(flag, False)
    if not isinstance(is_handled, bool):
        raise GarbageError(f"{flag} is true or false, not {is_handled!r}")
    if not is_handled:
        return {}
    rest = {key: value for key, value in table.items() if key != flag}
    return {"verdict": "claim", "value": rest["value"] if rest.keys() == {"value"} else rest or None}


def read_tagged(asked: AnswerContext, answer: object) -> dict[str, Any]:
    if answer == "ok":
        return {}
    said = require_object(asked, convert_pair(answer))
    plural = asked.dialect.structured
    if plural and said.keys() <= set(plural.values()) and (len(said) > 1 or not is_one_word(asked, said)):
        return read_structured(asked, {part: said.get(key) for part, key in plural.items()})
    if len(said) != 1:
        raise GarbageError(f"an answer on {asked.name} is one word with its value, not {answer!r}")
    return read_word(asked, *next(iter(said.items())))


def is_one_word(asked: AnswerContext, table: dict[str, Any]) -> bool:
    answers = asked.event.answers
    return next(iter(table)) in {"deny", "halt", *answers.patch.values(), *answers.outputs.values()}


def read_word(asked: AnswerContext, word: str, carried: object) -> dict[str, Any]:
    answers = asked.event.answers
    for verdict in {*answers.words, "deny", "halt"}:
        if word == answers.words.get(verdict, verdict):
            return (
                {"verdict": "claim", "value": carried}
                if verdict == "claim"
                else make_refusal_answer(asked, verdict, carried)
            )
    for output, key in answers.outputs.items():
        if word == key:
            return {output: carried}
    return translate_patch(asked, {word: carried})


def read_structured(asked: AnswerContext, table: dict[str, Any]) -> dict[str, Any]:
    answers = asked.event.answers
    if table.get("halt") is not None:
        return make_refusal_answer(asked, "halt", table["halt"])
    verdict: dict[str, Any] = {}
    for output in ("inject", "append"):
        if table.get(output):
            if output not in answers.outputs:
                raise GarbageError(f"a hook on {asked.name} cannot {output} anything")
            verdict[output] = table[output]
    if table.get("patch") is not None:
        key = next(iter(answers.patch.values()), "transform")
        verdict |= translate_patch(asked, {key: table["patch"]})
    return verdict


def read_results(asked: AnswerContext, answer: object) -> dict[str, Any]:
    said = require_object(asked, answer)
    unknown = said.keys() - {"success", "message", "modified_data", "should_continue"}
    is_well, goes_on = said.get("success"), said.get("should_continue", True)
    if unknown or not isinstance(is_well, bool) or not isinstance(goes_on, bool):
        raise GarbageError(f"a result has success, message, modified_data and should_continue, not {answer!r}")
    message, data = said.get("message"), said.get("modified_data")
    if not is_well and goes_on:
        # It failed and does not refuse: on a gate it may be a guard that could not decide, elsewhere it is skipped.
        begins = f"the hook on {asked.name} reports an error"
        raise GarbageError(
            format_reason(message) or begins if not asked.feed.fails_closed else f"{begins}: {format_reason(message)}"
        )
    if "claim" in asked.event.answers.words:
        return read_claiming_result(asked, message, data, goes_on=goes_on)
    if asked.feed.fails_closed:
        if not goes_on:
            return make_refusal_answer(asked, "deny", message)
    elif not asked.event.answers.patch and data is not None:
        warning = f"modified data on {asked.name} has no effect; it was ignored"
        return {"warnings": [warning], **make_chain_end(goes_on=goes_on, message=message)}
    changes, ignored = select_known_changes(asked, require_object(asked, data) if data is not None else {})
    warnings = {"warnings": [format_reason(message)]} if not is_well and message else {}
    return {
        **translate_patch(asked, changes),
        **ignored,
        **warnings,
        **make_chain_end(goes_on=goes_on, message=message),
    }


def make_chain_end(*, goes_on: bool, message: object) -> dict[str, Any]:
    """Return whether the chain ends, and what a hook says of its result: it is shown, whatever is decided."""
    said = {"reason": format_reason(message)} if message or not goes_on else {}
    return said if goes_on else {"last": True, **said}


def read_claiming_result(asked: AnswerContext, message: object, data: object, *, goes_on: bool) -> dict[str, Any]:
    word = asked.event.answers.words["claim"]
    if word == "stop":
        if goes_on:
            return make_chain_end(goes_on=True, message=message)
        return {"verdict": "claim", "value": message if data is None else data}
    if isinstance(data, dict) and word in data:
        return {"verdict": "claim", "value": cast("dict[str, Any]", data)[word]}
    if data is not None:
        raise GarbageError(f"the data of {asked.name} has no {word!r}")
    return make_chain_end(goes_on=goes_on, message=message)


def read_threaded(asked: AnswerContext, answer: object) -> dict[str, Any]:
    if answer == "ok":
        return {}
    said = require_object(asked, convert_pair(answer))
    if len(said) != 1:
        raise GarbageError(f"an answer on {asked.name} is ok, or deny or ask with its value, not {answer!r}")
    word, carried = next(iter(said.items()))
    if word in ("deny", "ask"):
        return make_refusal_answer(asked, word, carried)
    if word != "ok" or not isinstance(carried, dict):
        raise GarbageError(f"an answer on {asked.name} is ok with a context, deny or ask with a reason, not {answer!r}")
    return read_context(asked, cast("dict[str, Any]", carried))


def read_context(asked: AnswerContext, context: dict[str, Any]) -> dict[str, Any]:
    """Separate changed fields from changed context by comparing with what the callback received."""
    known, shown = list_known_keys(asked.dialect, asked.name), asked.shown
    fields: dict[str, Any] = {}
    free: dict[str, Any] = {}
    for key, value in context.items():
        if shown is not None and key in shown and is_same(shown[key], value):
            continue
        (fields if key in known else free)[key] = value
    free.update({key: None for key in shown or {} if key not in context and key not in known})
    fixed = sorted(fields.keys() - set(asked.event.answers.patch.values()))
    if fixed and shown is not None and asked.feed.fails_closed:
        raise GarbageError(f"a hook on {asked.name} cannot change {', '.join(fixed)}")
    patch = translate_patch(asked, {key: value for key, value in fields.items() if key not in fixed})
    return {**patch, **({"context": free} if free else {})}


READERS: Final[dict[Style, AnswerReader]] = {
    "merged": read_merged,
    "tagged": read_tagged,
    "exit": lambda asked, answer: read_exit(asked.event, asked.name, answer),
    "results": read_results,
    "threaded": read_threaded,
}
