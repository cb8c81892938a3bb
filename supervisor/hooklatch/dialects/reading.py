"""Reads what a callback answered in its system's own words, as an answer of ours.

A word that its event cannot honour there is ignored with a warning, as that system ignores it, but only where nothing
is guarded.  On a gate all that is not understood is garbage, so that it denies.  An answer in our own words is one too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from hooklatch.dialects.dialect import Dialect, Feed, NativeEvent, Style
from hooklatch.dialects.exit_reading import read_exit
from hooklatch.dialects.translation import is_same, known_keys, to_canonical
from hooklatch.dialects.verdict_mapping import STRICTER
from hooklatch_worker.author.verdicts import GarbageError

__all__ = ["Seen", "read_answer"]

OUTPUT_KEYS = frozenset({"patch", "inject", "append", "resume", "warnings", "last", "context"})
CANONICAL = OUTPUT_KEYS | {"verdict", "reason", "value"}


class Seen(msgspec.Struct, frozen=True):
    """What a reader may look at: the event, and the native payload that the callback was shown, where it is known."""

    dialect: Dialect
    name: str
    shown: Mapping[str, Any] | None

    @property
    def event(self) -> NativeEvent:
        return self.dialect.events[self.name]

    @property
    def feed(self) -> Feed:
        return self.event.feeds[0]


Reader = Callable[[Seen, object], dict[str, Any]]


def read_answer(
    dialect: Dialect, native_event: str, answer: object, *, shown: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the answer as a verdict object of ours, for the first event that the native one feeds.

    `shown` is the native payload that the callback was called with; a dialect that hands its whole context back is
    read by what differs from it.

    Raises:
        UnknownNativeEventError: the dialect has no such event.
        GarbageError: nobody can say what was meant; on a gate that is a deny.
    """
    seen = Seen(dialect, dialect.resolve(native_event), shown)
    if answer is None or answer == {}:
        return {}
    if is_ours(seen, answer):
        return dict(cast("dict[str, Any]", answer))
    return READERS[dialect.style](seen, answer)


def is_ours(seen: Seen, answer: object) -> bool:
    """Return whether an answer is in our words: it has a verdict, or only outputs that are no word of theirs."""
    if not isinstance(answer, dict):
        return False
    said, answers = cast("dict[str, Any]", answer), seen.event.answers
    if "verdict" in said:
        return True
    theirs = {*answers.words.values(), *answers.patch.values(), *answers.outputs.values()}
    return said.keys() <= CANONICAL and bool(said.keys() & OUTPUT_KEYS) and not said.keys() & theirs


def refusing(seen: Seen, verdict: str, reason: object) -> dict[str, Any]:
    """Say a refusal, or the nearest stricter one that our event knows; where it knows none, nothing is guarded."""
    word = next((word for word in STRICTER[verdict] if word in seen.feed.verdicts), None)
    if word is None or (word == "halt" and verdict != "halt" and not seen.feed.fails_closed):
        return {"warnings": [f"{verdict} means nothing on {seen.name} and was ignored: {text_of(reason)}"]}
    return {"verdict": word, "reason": text_of(reason)}


def text_of(reason: object) -> str:
    if isinstance(reason, str):
        return reason
    return "" if reason is None else msgspec.json.encode(reason).decode()


def untupled(answer: object) -> object:
    """Read a pair, as a tuple comes through JSON, as one word with what it carries."""
    if not isinstance(answer, list):
        return answer
    pair = cast("list[object]", answer)
    return {pair[0]: pair[1]} if len(pair) == 2 and isinstance(pair[0], str) else pair


def object_of(seen: Seen, answer: object) -> dict[str, Any]:
    if isinstance(answer, dict):
        return cast("dict[str, Any]", answer)
    raise GarbageError(f"a hook on {seen.name} answers with an object, not {answer!r}")


def patch_of(seen: Seen, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Read native keys of an answer as a patch; null is "not set"."""
    paths = {native: path for path, native in seen.event.answers.patch.items()}
    patch: dict[str, Any] = {}
    for native, value in changes.items():
        if native not in paths:
            raise GarbageError(f"a hook on {seen.name} cannot say {native!r}")
        if value is not None:
            key, _, part = paths[native].partition(".")
            if part:
                patch.setdefault(key, whole_of(seen, key))[part] = value
            else:
                patch[key] = value
    return {"patch": patch} if patch else {}


def whole_of(seen: Seen, key: str) -> dict[str, Any]:
    """Return the field of which a part is changed, as it was shown: a patch replaces whole values."""
    if seen.shown is None:
        return {}
    whole = to_canonical(seen.dialect, seen.name, dict(seen.shown))[0].payload.get(key)
    return dict(cast("dict[str, Any]", whole)) if isinstance(whole, dict) else {}


def read_merged(seen: Seen, answer: object) -> dict[str, Any]:
    answers = seen.event.answers
    if answers.is_empty:
        return {"warnings": [f"nobody looks at an answer on {seen.name}; it was ignored"]}
    said = object_of(seen, answer)
    if "claim" in answers.words:
        return read_claim(seen, said, answers.words["claim"])
    for verdict in ("halt", "deny", "ask"):
        word = answers.words.get(verdict)
        if word is not None and said.get(word) is not None:
            # An empty text refuses too: what looks like a refusal is one.
            return refusing(seen, verdict, said[word])
    outputs = {output: said[key] for output, key in answers.outputs.items() if said.get(key) is not None}
    taken = {*answers.outputs.values(), *answers.words.values()}
    return {**outputs, **patch_of(seen, {key: value for key, value in said.items() if key not in taken})}


def read_claim(seen: Seen, said: dict[str, Any], flag: str) -> dict[str, Any]:
    is_handled = said.get(flag, False)
    if not isinstance(is_handled, bool):
        raise GarbageError(f"{flag} is true or false, not {is_handled!r}")
    if not is_handled:
        return {}
    rest = {key: value for key, value in said.items() if key != flag}
    return {"verdict": "claim", "value": rest["value"] if rest.keys() == {"value"} else rest or None}


def read_tagged(seen: Seen, answer: object) -> dict[str, Any]:
    if answer == "ok":
        return {}
    said = object_of(seen, untupled(answer))
    plural = seen.dialect.structured
    if plural and said.keys() <= set(plural.values()) and (len(said) > 1 or not is_one_word(seen, said)):
        return read_structured(seen, {part: said.get(key) for part, key in plural.items()})
    if len(said) != 1:
        raise GarbageError(f"an answer on {seen.name} is one word with what it carries, not {answer!r}")
    return read_word(seen, *next(iter(said.items())))


def is_one_word(seen: Seen, said: dict[str, Any]) -> bool:
    answers = seen.event.answers
    return next(iter(said)) in {"deny", "halt", *answers.patch.values(), *answers.outputs.values()}


def read_word(seen: Seen, word: str, carried: object) -> dict[str, Any]:
    answers = seen.event.answers
    for verdict in {*answers.words, "deny", "halt"}:
        if word == answers.words.get(verdict, verdict):
            return {"verdict": "claim", "value": carried} if verdict == "claim" else refusing(seen, verdict, carried)
    for output, key in answers.outputs.items():
        if word == key:
            return {output: carried}
    return patch_of(seen, {word: carried})


def read_structured(seen: Seen, said: dict[str, Any]) -> dict[str, Any]:
    answers = seen.event.answers
    if said.get("halt") is not None:
        return refusing(seen, "halt", said["halt"])
    verdict: dict[str, Any] = {}
    for output in ("inject", "append"):
        if said.get(output):
            if output not in answers.outputs:
                raise GarbageError(f"a hook on {seen.name} has nothing to {output}")
            verdict[output] = said[output]
    if said.get("patch") is not None:
        key = next(iter(answers.patch.values()), "transform")
        verdict |= patch_of(seen, {key: said["patch"]})
    return verdict


def read_results(seen: Seen, answer: object) -> dict[str, Any]:
    said = object_of(seen, answer)
    unknown = said.keys() - {"success", "message", "modified_data", "should_continue"}
    is_well, goes_on = said.get("success"), said.get("should_continue", True)
    if unknown or not isinstance(is_well, bool) or not isinstance(goes_on, bool):
        raise GarbageError(f"a result has success, message, modified_data and should_continue, not {answer!r}")
    message, data = said.get("message"), said.get("modified_data")
    if "claim" in seen.event.answers.words:
        return read_claiming_result(seen, message, data, goes_on=goes_on)
    if seen.feed.fails_closed:
        if not goes_on:
            return refusing(seen, "deny", message)
        if not is_well:
            # Such a result looks like a refusal and carries none; it may be a guard that could not decide.
            raise GarbageError(f"the hook on {seen.name} reports an error: {text_of(message)}")
    elif not seen.event.answers.patch and data is not None:
        warning = f"nobody looks at modified data on {seen.name}; it was ignored"
        return {"warnings": [warning], **ending(goes_on, message)}
    patch = patch_of(seen, object_of(seen, data)) if data is not None else {}
    warnings = {"warnings": [text_of(message)]} if not is_well and message else {}
    return {**patch, **warnings, **ending(goes_on, message)}


def ending(goes_on: bool, message: object) -> dict[str, Any]:
    return {} if goes_on else {"last": True, "reason": text_of(message)}


def read_claiming_result(seen: Seen, message: object, data: object, *, goes_on: bool) -> dict[str, Any]:
    word = seen.event.answers.words["claim"]
    if word == "stop":
        return {} if goes_on else {"verdict": "claim", "value": message if data is None else data}
    if isinstance(data, dict) and word in data:
        return {"verdict": "claim", "value": cast("dict[str, Any]", data)[word]}
    if data is not None:
        raise GarbageError(f"the data of {seen.name} has no {word!r}")
    return ending(goes_on, message)


def read_threaded(seen: Seen, answer: object) -> dict[str, Any]:
    if answer == "ok":
        return {}
    said = object_of(seen, untupled(answer))
    if len(said) != 1:
        raise GarbageError(f"an answer on {seen.name} is ok, deny or ask with what it carries, not {answer!r}")
    word, carried = next(iter(said.items()))
    if word in ("deny", "ask"):
        return refusing(seen, word, carried)
    if word != "ok" or not isinstance(carried, dict):
        raise GarbageError(f"an answer on {seen.name} is ok with a context, deny or ask with a reason, not {answer!r}")
    return read_context(seen, cast("dict[str, Any]", carried))


def read_context(seen: Seen, context: dict[str, Any]) -> dict[str, Any]:
    """Tell a changed field from a changed context by what the callback was shown."""
    known, shown = known_keys(seen.dialect, seen.name), seen.shown
    fields: dict[str, Any] = {}
    free: dict[str, Any] = {}
    for key, value in context.items():
        if shown is not None and key in shown and is_same(shown[key], value):
            continue
        (fields if key in known else free)[key] = value
    free.update({key: None for key in shown or {} if key not in context and key not in known})
    fixed = sorted(fields.keys() - set(seen.event.answers.patch.values()))
    if fixed and shown is not None and seen.feed.fails_closed:
        raise GarbageError(f"a hook on {seen.name} cannot change {', '.join(fixed)}")
    patch = patch_of(seen, {key: value for key, value in fields.items() if key not in fixed})
    return {**patch, **({"context": free} if free else {})}


READERS: Final[dict[Style, Reader]] = {
    "merged": read_merged,
    "tagged": read_tagged,
    "exit": lambda seen, answer: read_exit(seen.event, seen.name, answer),
    "results": read_results,
    "threaded": read_threaded,
}
