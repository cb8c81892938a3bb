"""`where`: on which inputs a hook is called.  Knows the fields of a payload; does not know layers, files or links.

    where = { command = ["git push", "rm"] }                    # any command of the line
    where = { path = ["~/.ssh/**", "*.pem"] }                   # any path that the tool names
    where = { "tool_input.timeout" = ">= 100", url = { glob = "http://*" } }

All conditions of a table must hold; a list gives alternatives.  A condition that does not hold settles it; otherwise a
field that is missing, or has another type, makes the table unreadable, and whoever judges a gate must not go on then.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.comparisons import (
    KINDS,
    MAX_COMMAND,
    MAX_STEPS,
    NUMBER,
    Comparison,
    ComparisonError,
    WrongTypeError,
    make_comparison,
    read_commands,
)
from hooklatch.core.hooks.matchers import MatcherError
from hooklatch.core.payload import Payload
from hooklatch.core.text import suggest_name
from hooklatch.core.tools import ARGUMENTS, KEYS, OTHER, UnclearToolError, arguments, find_tool_kind_by_name
from hooklatch.guards.command import Command
from hooklatch.guards.prefixes import show_programs

__all__ = ["PayloadFacts", "InvalidConditionError", "UnreadableFieldError", "CompiledWhere", "compile_where"]

MAX_CONDITIONS: Final = 16
MAX_ALTERNATIVES: Final = 64
MAX_DEPTH: Final = 8  # names in one field
MAX_VALUES: Final = 256  # of a field that is a list, or in lists: a patch of more files is asked about
OWN_KIND: Final = {"command": "command", "path": "path", "paths": "path", "cwd": "path"}
# The same by the names that tools have for them.  As a text, such a value would hardly be meant.
HOSTS_OWN: Final = {
    name: OWN_KIND[key] for keys in KEYS.values() for key in OWN_KIND.keys() & keys for name in keys[key]
}
MAGIC: Final = frozenset("*?[{")  # of which a part of a search's pattern has one that may be several names
BRACES: Final = re.compile(r"\{([^{}]*)\}")
TYPED: Final = frozenset("*?[~")  # a text with one of these is hardly meant as it is
ORDERED: Final = ("<", ">", "=", "!")  # nor one that begins with one of these: "!= a", "=> 3", "> 1e3"
OBJECT: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
LIST: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
UNDECODABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
decode = msgspec.json.Decoder().decode


class InvalidConditionError(ValueError):
    """A `where` that cannot be used; the text says what to write instead."""


class UnreadableFieldError(ValueError):
    """A field that a condition looks at is missing or has another type, so nobody knows whether the hook is meant."""


class Condition(NamedTuple):
    """A field, by the names that lead to it, and what its value is compared with."""

    field: str
    names: tuple[str, ...]
    alternatives: tuple[Comparison, ...]

    def may_hold(self, facts: PayloadFacts) -> bool:
        """Return whether a value of the field may be meant.

        Raises:
            UnreadableFieldError: there is none, or it has another type.
        """
        values = facts.values(self.names)
        if values is None:
            return True
        words = [one for one in values if isinstance(one, str)]
        if len(words) > 1 and (joining := [alternative for alternative in self.alternatives if alternative.joins]):
            line = shlex.join(words)
            if any(one.may_hold(line, facts) for one in joining):
                return True
        unfit: WrongTypeError | None = None
        for value in values:
            wrong: list[WrongTypeError] = []
            for one in self.alternatives:
                try:
                    if one.may_hold(value, facts):
                        return True
                except WrongTypeError as error:
                    wrong.append(error)
            if len(wrong) == len(self.alternatives):
                unfit = unfit or wrong[0]
        if unfit is not None:
            raise UnreadableFieldError(f"its field {self.field!r} {unfit}")
        return False


class CompiledWhere:
    """A compiled `where`; `source` is its JSON form, `text` how it is shown."""

    __slots__ = ("conditions", "source", "text")

    def __init__(self, source: Mapping[str, object], conditions: Sequence[Condition]) -> None:
        self.source = source
        self.conditions = tuple(conditions)
        self.text = ", ".join(format_condition(condition) for condition in self.conditions)

    def may_hold(self, facts: PayloadFacts) -> bool:
        """Return whether the hook is meant, or may be.

        Raises:
            UnreadableFieldError: a field cannot be read, and no other condition says that the hook is not meant.
        """
        return self.failing(facts) is None

    def failing(self, facts: PayloadFacts) -> str | None:
        """Return the condition that does not hold, as text; None if all hold, or may.

        Raises:
            UnreadableFieldError: as of `may_hold`.
        """
        unreadable: UnreadableFieldError | None = None
        for condition in self.conditions:
            try:
                if not condition.may_hold(facts):
                    return format_condition(condition)
            except UnreadableFieldError as error:
                unreadable = unreadable or error
        if unreadable is not None:
            raise unreadable
        return None

    def unknown_field(self, spec: EventSpec) -> str | None:
        """Return what is wrong with a field that no payload of an event has; None if there may be all."""
        fields = {field.name for field in spec.fields}
        known = fields | (ARGUMENTS if "tool_input" in fields else set[str]()) | {"cwd"}
        for condition in self.conditions if fields else ():
            if condition.names[0] not in known:
                return f"{spec.name} has no field {condition.names[0]!r}{suggest_name(condition.names[0], known)}"
        return None

    def __repr__(self) -> str:
        return f"Where({self.text})"


class PayloadFacts:
    """What conditions look at in one version of a payload; each field and each command is read once."""

    __slots__ = ("_arguments", "_fields", "_parsed", "_payload", "_steps", "_unparsed", "_values", "_visible", "folder")

    def __init__(self, spec: EventSpec, payload: Payload, folder: str | None) -> None:
        self.folder = folder if folder is not None and folder.startswith("/") else None  # the agent's, if that is known
        self._fields = {field.name for field in spec.fields} or set(payload.fields)
        self._payload = payload
        self._values: dict[tuple[str, ...], list[object] | UnreadableFieldError | None] = {}
        self._arguments: Mapping[str, msgspec.Raw] | UnreadableFieldError | None = None
        self._parsed: dict[str, list[Command] | None] = {}
        self._visible: dict[str, str | None] = {}
        self._unparsed = MAX_COMMAND  # characters that may yet be parsed
        self._steps = MAX_STEPS

    def spend(self, steps: int) -> bool:
        """Take so many steps from those that patterns may yet do; return whether there are as many."""
        self._steps -= steps
        return self._steps >= 0

    def visible(self, text: str) -> str | None:
        """Return a text in which the name of each program that it runs stands; None if one may be hidden."""
        if text not in self._visible:
            self._visible[text] = show_programs(text)
        return self._visible[text]

    def parsed(self, text: str) -> list[Command] | None:
        """Return the commands of a text; None if nobody can say which they are."""
        if text not in self._parsed:
            self._unparsed -= len(text)
            self._parsed[text] = read_commands(text) if self._unparsed >= 0 else None
        return self._parsed[text]

    def values(self, names: tuple[str, ...]) -> list[object] | None:
        """Return the values of a field, several where there are lists on the way; None if they are too many.

        Raises:
            UnreadableFieldError: there is none.
        """
        if names not in self._values:
            try:
                self._values[names] = self._read(names)
            except UnreadableFieldError as error:
                self._values[names] = error
        found = self._values[names]
        if isinstance(found, UnreadableFieldError):
            raise found
        return found

    def _read(self, names: tuple[str, ...]) -> list[object] | None:
        field, first, is_tool = ".".join(names), names[0], "tool_input" in self._fields
        try:
            if first == "cwd" and first not in self._fields:
                return [self._cwd()]
            if first in self._fields or first not in ARGUMENTS or not is_tool:
                raws = list(walk_field(self._payload.fields, names, field))
            elif names == ("path",):
                return self._paths()
            else:
                raws = list(walk_field(self._tool_arguments(), names, field))
            return [decode(raw) for raw in raws] if len(raws) <= MAX_VALUES else None
        except UNDECODABLE as error:
            raise UnreadableFieldError(f"its field {field!r} cannot be read: {error}") from None

    def _cwd(self) -> str:
        """Return where a tool runs: where it is told to, else where the agent is."""
        raw = self._tool_arguments().get("cwd") if "tool_input" in self._fields else None
        value: object = decode(raw) if raw is not None else self.folder
        if not isinstance(value, str):
            raise UnreadableFieldError("nobody says in which folder the agent is: 'cwd'")
        return value

    def _paths(self) -> list[object] | None:
        """Return all paths that a tool names; None if they are too many, or nobody can say which."""
        told = self._tool_arguments()
        raws = [raw for key in ("path", "paths") if key in told for raw in list_items(told[key])]
        if len(raws) > MAX_VALUES:
            return None
        found: list[object] = [decode(raw) for raw in raws]
        if found and "cwd" in told:  # it may be there that the tool looks for them
            found += [posixpath.join(self._cwd(), one) for one in found if isinstance(one, str)]
        if self._kind() != "search":
            if not found:
                raise UnreadableFieldError("its field 'path' is missing")
            return found
        found = found or [self._cwd()]
        pattern: object = decode(told["pattern"]) if "pattern" in told else None
        if not isinstance(pattern, str) or not pattern.strip():
            return found
        if any(map(is_out, BRACES.findall(pattern))):
            return None
        return [*found, *list_outside_places(pattern, [one for one in found if isinstance(one, str)])]

    def _kind(self) -> str:
        told = self._payload.text("tool_kind")
        return told if told not in (None, OTHER) else find_tool_kind_by_name(self._payload.text("tool_name") or "")

    def _tool_arguments(self) -> Mapping[str, msgspec.Raw]:
        """Return a tool's arguments with the keys that all hosts share: as they are told, else read from its input."""
        if self._arguments is None:
            try:
                self._arguments = self._told()
            except UNDECODABLE as error:
                self._arguments = UnreadableFieldError(f"its 'tool_args' or 'tool_input' is no object: {error}")
            except UnclearToolError as error:
                self._arguments = UnreadableFieldError(str(error))
        if isinstance(self._arguments, UnreadableFieldError):
            raise self._arguments
        return self._arguments

    def _told(self) -> Mapping[str, msgspec.Raw]:
        fields = self._payload.fields
        if "tool_args" in fields:
            return OBJECT.decode(fields["tool_args"])
        if "tool_input" not in fields:
            raise UnclearToolError("its field 'tool_input' is missing")
        given = msgspec.json.decode(fields["tool_input"], type=dict[str, Any])
        read = arguments(self._kind(), given)
        return {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in read.items()}


def is_out(choice: str) -> bool:
    """Return whether one of the names between braces may lead out of where a search is: {../a,b}."""
    names = choice.split(",")
    return len(names) > 1 and any(one.strip().startswith(("/", "~")) or ".." in one.split("/") for one in names)


def list_outside_places(pattern: str, places: Sequence[str]) -> Iterator[str]:
    """Yield what the pattern of a search names besides the places that are searched: /etc/*.conf, ../*."""
    parts = pattern.strip().split("/")
    if parts[0] in ("", "~") or ".." in parts:
        fixed = next((at for at, part in enumerate(parts) if not MAGIC.isdisjoint(part)), len(parts))
        for found in ("/".join(parts), "/".join(parts[:fixed]) or ("." if parts[0] else "/")):
            yield from [found] if found[0] == "~" else (posixpath.join(place, found) for place in places)


def walk_field(fields: Mapping[str, msgspec.Raw], names: Sequence[str], field: str) -> Iterator[msgspec.Raw]:
    """Yield the values that names lead to; of a list, those of each item.

    Raises:
        UnreadableFieldError: there is none at some place.
    """
    raw = fields.get(names[0])
    if raw is None:
        raise UnreadableFieldError(f"its field {field!r} is missing")
    found = list(list_items(raw))
    if not found:
        raise UnreadableFieldError(f"its field {field!r} holds nothing")
    for one in found[: MAX_VALUES + 1]:
        if len(names) == 1:
            yield one
            continue
        try:
            inner = OBJECT.decode(one)
        except UNDECODABLE:
            raise UnreadableFieldError(f"its field {field!r} is missing: {names[0]!r} is no object") from None
        yield from walk_field(inner, names[1:], field)


def list_items(raw: msgspec.Raw) -> Sequence[msgspec.Raw]:
    """Return the items of a list, or the value alone."""
    if bytes(memoryview(raw)[:1]) != b"[":
        return (raw,)
    try:
        return LIST.decode(raw)
    except UNDECODABLE as error:
        raise UnreadableFieldError(f"a list cannot be read: {error}") from None


def format_condition(condition: Condition) -> str:
    return f"{condition.field} is {' or '.join(alternative.text for alternative in condition.alternatives)}"


def compile_where(source: object) -> CompiledWhere | None:
    """Compile a `where` from its JSON form; None says that there is no condition.

    Raises:
        InvalidConditionError: it has another form, or holds what cannot be compared.
    """
    if source is None:
        return None
    if not isinstance(source, Mapping) or not source:
        raise InvalidConditionError(
            f'it is a table of fields, such as {{ command = "git push" }}, not {source!r:.100}; remove it to match all'
        )
    table = cast("Mapping[object, object]", source)
    if len(table) > MAX_CONDITIONS:
        raise InvalidConditionError(f"it has at most {MAX_CONDITIONS} fields, not {len(table)}")
    conditions = [compile_condition(field, wanted) for field, wanted in table.items()]
    return CompiledWhere(cast("Mapping[str, object]", source), conditions)


def compile_condition(field: object, wanted: object) -> Condition:
    if not isinstance(field, str) or not all(names := tuple(field.split("."))) or len(names) > MAX_DEPTH:
        raise InvalidConditionError(f"{field!r:.80} is no field; write its name, or names with a point between them")
    listed = cast("list[object]", wanted) if isinstance(wanted, list) else [wanted]
    if not 0 < len(listed) <= MAX_ALTERNATIVES:
        raise InvalidConditionError(f"{field}: a list has 1 to {MAX_ALTERNATIVES} alternatives, not {len(listed)}")
    try:
        alternatives = tuple(comparison for value in listed for comparison in compile_comparisons(field, value))
    except (ComparisonError, MatcherError) as error:
        raise InvalidConditionError(f"{field}: {error}") from None
    if len(alternatives) > MAX_ALTERNATIVES:
        raise InvalidConditionError(f"{field}: it has at most {MAX_ALTERNATIVES} alternatives, not {len(alternatives)}")
    return Condition(field, names, alternatives)


def compile_comparisons(field: str, wanted: object) -> list[Comparison]:
    """Return the comparisons of one alternative: a table says which kind, else the field and the value do."""
    if isinstance(wanted, Mapping):
        table = cast("Mapping[str, object]", wanted)
        kind: str = next(iter(table), "")
        if len(table) != 1 or kind not in KINDS:
            inner = f'; write "{field}.{kind}" = …, in quotes, for a field inside another' if len(table) == 1 else ""
            raise ComparisonError(f"a table has one of {', '.join(KINDS)}, not {', '.join(table) or 'nothing'}{inner}")
        given = table[kind]
        values = cast("list[object]", given) if isinstance(given, list) else [given]
        if not values:
            raise ComparisonError(f"{kind} is an empty list, which nothing is")
        return [make_comparison(kind, value) for value in values]
    if field in OWN_KIND:
        return [make_comparison(OWN_KIND[field], wanted)]
    if isinstance(wanted, str):
        if NUMBER.fullmatch(wanted.strip()):
            return [make_comparison("number", wanted)]
        if wanted.lstrip().startswith(ORDERED):
            raise ComparisonError(
                f'a number is compared as ">= 100", with <, <=, > or >=, and nothing is negated; write'
                f" {{ equals = {wanted!r:.80} }} for exactly this text"
            )
        within, _, name = field.rpartition(".")
        kind = HOSTS_OWN.get(name, "") if within in ("tool_input", "tool_args") else ""
        if kind or not TYPED.isdisjoint(wanted):
            said = f"{{ {kind} = … }}" if kind else "{ path = … }, { glob = … }"
            raise ComparisonError(f"say what {wanted!r} is: {said}, or {{ equals = … }} for exactly this text")
    return [make_comparison("equals", wanted)]
