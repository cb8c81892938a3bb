"""The reader of tables that a person wrote: it converts one into a struct, and explains what is wrong with it.

The struct is the whole description of the table: its types and their `Meta` say what is allowed.  Three things in a
`Meta` are for the messages:

    extra={"is": ...}     what a value is, where the type does not say it well: "a port", "a list of names"
    extra={"note": ...}   an addition in brackets: "seconds, not milliseconds"
    examples=[...]        what to write where the key is missing

A check of several keys at once is the struct's `__post_init__`, which raises an `InvalidTableError`.

    class Server(msgspec.Struct, forbid_unknown_fields=True):
        port: Annotated[int, Meta(ge=1, le=65535, extra={"is": "a port"})]

    read_table({"port": 0}, Server, "server")    # InvalidTableError: port is a port, not 0
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from hooklatch.core.text import suggest_name
from hooklatch_worker.author.failures import clip_error_text

__all__ = ["InvalidTableError", "Path", "describe_unknown_key", "read_table"]

T = TypeVar("T")
Path: TypeAlias = tuple[str | int, ...]
AT = re.compile(r" - at (?:`key` in )?`\$([^`]*)`$")  # how msgspec ends a message that is not about the whole
STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
MISSING = re.compile(r"Object missing required field `(.*)`")


class InvalidTableError(ValueError):
    """A table that is not accepted: the `table`, what is wrong with it, and the `path` to the key."""

    def __init__(self, reason: str, path: Path = (), *, table: str = "") -> None:
        self.reason = clip_error_text(reason)
        self.path = path
        super().__init__(f"{table}: {self.reason}" if table else self.reason)


def read_table(value: object, into: type[T], noun: str) -> T:
    """Convert a table into a struct; messages call the table `noun`: "hook", or "file" for a whole file.

    Raises:
        InvalidTableError: the struct does not accept the table; the text says what to write instead.
    """
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as error:
        raise explain_validation_error(error, value, into, noun) from None


def list_table_keys(struct: type[msgspec.Struct]) -> list[str]:
    """Return the keys of a table, its own before inherited ones."""
    return sorted(struct.__struct_fields__, key=lambda key: key not in struct.__annotations__)


def describe_unknown_key(table: str, key: str, known: Collection[str]) -> str:
    """Return a message that a table has no such key, with the key that was probably meant."""
    return f"{table} has no key {key!r}" + (suggest_name(key, known) or f"; it takes {', '.join(known)}")


class TablePosition:
    """A position in a table: the value there, the type that it should have, and its name in messages."""

    def __init__(self, value: object, hint: object, noun: str) -> None:
        self.value = value
        self.hint: Any = hint
        self.path: Path = ()
        self._noun = noun
        self.owner = format_entry_label(value, noun)  # the enclosing entry, by its name; empty where it has none
        self._keys: list[str] = []  # below the last table that has a noun

    @property
    def key(self) -> str:
        return self._keys[-1] if self._keys else ""

    @property
    def table(self) -> str:
        """The name of a table at this position."""
        if self._keys:
            name = ".".join(self._keys)
            return f"[{name}]" if self._noun == "file" else name
        if self._noun == "file":
            return "the file"
        return f"{'an' if self._noun[0] in 'aeiou' else 'a'} {self._noun}"

    @property
    def this(self) -> str:
        return "it" if self.owner else self.table if self._keys else f"this {self._noun}"

    def enter(self, key: str, index: str) -> bool:
        """Go one step down, except into a list or table of plain values, which is a value itself."""
        if key:
            self._go(key, cast("Mapping[str, Any]", self.value)[key], read_type_hints(find_struct_type(self.hint))[key])
            self._keys.append(key)
            return True
        items = find_item_type(self.hint, *([dict] if index == "..." else [list, tuple]))
        if items is None:
            return False
        if index == "...":
            tables = cast("Mapping[str, Any]", self.value)
            name = next(name for name, value in tables.items() if not is_accepted(value, items))
            self._go(name, tables[name], items)
            self._keys.append(name)
        else:
            value = cast("list[Any]", self.value)[int(index)]
            self._noun, self._keys = self._keys[-1], []
            self._go(int(index), value, items)
            self.owner = format_entry_label(value, self._noun)
        return True

    def _go(self, step: str | int, value: object, hint: object) -> None:
        self.path, self.value, self.hint = (*self.path, step), value, hint


def explain_validation_error(error: msgspec.ValidationError, value: object, into: type, noun: str) -> InvalidTableError:
    """Return our message for an error of msgspec and its path.  No other function reads msgspec's texts."""
    text, place = str(error), TablePosition(value, into, noun)
    if (at := AT.search(text)) is not None:
        text = text[: at.start()]
        for key, index in STEP.findall(at[1]):
            if not place.enter(key, index):
                break
    cause = error.__cause__
    if isinstance(cause, InvalidTableError):
        return InvalidTableError(cause.reason, (*place.path, *cause.path), table=place.owner)
    if cause is not None:
        return InvalidTableError(str(cause), place.path, table=place.owner)
    if (match := UNKNOWN.fullmatch(text)) is not None:
        reason = describe_unknown_key(place.table, match[1], list_table_keys(find_struct_type(place.hint)))
        return InvalidTableError(reason, (*place.path, match[1]), table=place.owner)
    if (match := MISSING.fullmatch(text)) is not None:
        reason = (
            f"{place.this} has no {match[1]}; write "
            f"{format_example(match[1], read_type_hints(find_struct_type(place.hint))[match[1]])}"
        )
        return InvalidTableError(reason, place.path, table=place.owner)
    is_what = describe_type(place.hint) if place.key else "a table"
    reason = (
        f"{place.key or place.table} is {is_what}, not "
        f"{format_table_value(place.value)}{suggest_allowed_word(place.value, place.hint)}"
    )
    return InvalidTableError(reason, place.path, table=place.owner)


def format_entry_label(value: object, noun: str) -> str:
    """Return an entry's noun and its id or name; an empty string where it has neither."""
    if not isinstance(value, Mapping):
        return ""
    table = cast("Mapping[str, object]", value)
    name = table.get("id") or table.get("name")
    return f"{noun} {clip_error_text(name)!r}" if isinstance(name, str) else ""


def list_type_alternatives(hint: Any) -> Iterator[Any]:
    """Yield the types that a hint allows, without its unions and annotations."""
    if get_origin(hint) is Annotated:
        yield from list_type_alternatives(get_args(hint)[0])
    elif get_origin(hint) in (Union, UnionType):
        for argument in get_args(hint):
            yield from list_type_alternatives(argument)
    else:
        yield hint


def find_struct_type(hint: Any) -> Any:
    structs = (
        alternative
        for alternative in list_type_alternatives(hint)
        if isinstance(alternative, type) and issubclass(alternative, msgspec.Struct)
    )
    return next(structs, None)


def find_item_type(hint: Any, *containers: type) -> Any:
    """Return the type of the tables in a list or a table, or None where the items are not tables."""
    item_types = (
        get_args(alternative)[1 if get_origin(alternative) is dict else 0]
        for alternative in list_type_alternatives(hint)
        if get_origin(alternative) in containers
    )
    return next((item_type for item_type in item_types if find_struct_type(item_type) is not None), None)


def read_type_hints(struct: Any) -> dict[str, Any]:
    return get_type_hints(struct, include_extras=True)


def is_accepted(value: object, hint: Any) -> bool:
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError:
        return False
    return True


def format_example(key: str, hint: Any) -> str:
    examples = next(
        (argument.examples for argument in get_args(hint) if isinstance(argument, msgspec.Meta) and argument.examples),
        None,
    )
    return f"{key} = {json.dumps(examples[0])}" if examples else describe_type(hint)


def suggest_allowed_word(value: object, hint: Any) -> str:
    """Return the end of a message about a word that is not allowed, with the nearest allowed word."""
    words = [
        word
        for alternative in list_type_alternatives(hint)
        if get_origin(alternative) is Literal
        for word in get_args(alternative)
    ]
    return suggest_name(value, words) if isinstance(value, str) else ""


def describe_type(hint: Any) -> str:
    """Describe a value of a type: "a port", "a number from 1 to 9"."""
    origin: Any = get_origin(hint)
    arguments: list[Any] = [*get_args(hint)]
    if origin is Annotated:
        meta = next(argument for argument in arguments if isinstance(argument, msgspec.Meta))
        extra = meta.extra or {}
        description: str = extra.get("is") or f"{describe_type(arguments[0])}{describe_bounds(meta)}"
        return f"{description} ({extra['note']})" if "note" in extra else description
    if origin in (Union, UnionType):
        return " or ".join(
            describe_type(argument) for argument in arguments if argument not in (NoneType, msgspec.UnsetType)
        )
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}" if len(arguments) > 1 else repr(arguments[0])
    if origin in (list, tuple, frozenset):
        description = describe_type(arguments[0])
        return (
            f"a list of {description.removeprefix('a ')}s"
            if description.startswith("a ")
            else f"a list, each {description}"
        )
    if origin is dict and arguments[1] is str:
        return "a table of strings"
    return WORDS.get(hint, "a table")


def describe_bounds(meta: msgspec.Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f" from {meta.ge} to {meta.le}"
    limits = (("over", meta.gt), ("at least", meta.ge), ("under", meta.lt), ("at most", meta.le))
    bounds = " and ".join(f"{word} {limit}" for word, limit in limits if limit is not None)
    return f" {bounds}" if bounds else ""


def format_table_value(value: object) -> str:
    try:
        return clip_error_text(repr(value))
    except RecursionError:
        return "something nested too deep"
