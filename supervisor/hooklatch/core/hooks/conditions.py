"""The conditions of `where`, which select the inputs that a hook is called for.  Knows the fields of a payload.

    where = { command = ["git push", "rm"] }                    # any command of the line
    where = { path = ["~/.ssh/**", "*.pem"] }                   # any path that the tool names
    where = { "tool_input.timeout" = ">= 100", url = { glob = "http://*" } }

All conditions of a table must hold; a list gives alternatives.  If one condition does not hold, the hook is not meant.
Otherwise a field that is missing, or has another type, makes the table unreadable.  A gate must fail closed then.
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
from hooklatch.core.hooks.matchers import InvalidConditionError, MatcherError, UnreadableFieldError
from hooklatch.core.payload import Payload
from hooklatch.core.text import suggest_name
from hooklatch.shelltext.command import Command
from hooklatch.shelltext.prefixes import show_programs
from hooklatch_worker.author.tools import ARGUMENTS, KEYS, OTHER, UnclearToolError, arguments, find_tool_kind_by_name

__all__ = ["PayloadFacts", "CompiledWhere", "compile_where"]

MAX_CONDITIONS: Final = 16
MAX_ALTERNATIVES: Final = 64
MAX_DEPTH: Final = 8  # names in one field
MAX_VALUES: Final = 256  # of a field that is a list, or in lists: a guard is called for a patch of more files
OWN_KIND: Final = {"command": "command", "path": "path", "paths": "path", "cwd": "path"}
# The same for the hosts' names of these keys.  Such a value is hardly meant as a plain text.
HOSTS_OWN: Final = {
    name: OWN_KIND[key] for keys in KEYS.values() for key in OWN_KIND.keys() & keys for name in keys[key]
}
MAGIC: Final = frozenset("*?[{")  # with one of these, a part of a search's pattern may be several names
BRACES: Final = re.compile(r"\{([^{}]*)\}")
TYPED: Final = frozenset("*?[~")  # a text with one of these is hardly meant as it is
ORDERED: Final = ("<", ">", "=", "!")  # nor one that begins with one of these: "!= a", "=> 3", "> 1e3"
OBJECT: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
LIST: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
UNDECODABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
decode = msgspec.json.Decoder().decode


class Condition(NamedTuple):
    """A field, by the names that lead to it, and the comparisons with its value."""

    field: str
    names: tuple[str, ...]
    alternatives: tuple[Comparison, ...]

    def may_hold(self, facts: PayloadFacts) -> bool:
        """Return whether a value of the field may match.

        Raises:
            UnreadableFieldError: the field has no value, or a value of another type.
        """
        values = facts.values(self.names)
        if values is None:
            return True
        words = [value for value in values if isinstance(value, str)]
        if len(words) > 1 and (joining := [comparison for comparison in self.alternatives if comparison.joins]):
            line = shlex.join(words)
            if any(comparison.may_hold(line, facts) for comparison in joining):
                return True
        # Only after all values: a wrong type must not hide another value that matches.
        first_error: WrongTypeError | None = None
        for value in values:
            errors: list[WrongTypeError] = []
            for comparison in self.alternatives:
                try:
                    if comparison.may_hold(value, facts):
                        return True
                except WrongTypeError as error:
                    errors.append(error)
            if len(errors) == len(self.alternatives):
                first_error = first_error or errors[0]
        if first_error is not None:
            raise UnreadableFieldError(f"its field {self.field!r} {first_error}")
        return False


class CompiledWhere:
    """A compiled `where`; `source` is its JSON form, `text` its display form."""

    __slots__ = ("conditions", "source", "text")

    def __init__(self, source: Mapping[str, object], conditions: Sequence[Condition]) -> None:
        self.source = source
        self.conditions = tuple(conditions)
        self.text = ", ".join(format_condition(condition) for condition in self.conditions)

    def read(self, spec: EventSpec, payload: Payload, folder: str | None) -> PayloadFacts:
        """Return the facts of a payload, for this condition and all others of the same fire."""
        return PayloadFacts(spec, payload, folder)

    def may_hold(self, facts: PayloadFacts) -> bool:
        """Return whether the hook is meant, or may be.

        Raises:
            UnreadableFieldError: a field cannot be read, and no other condition says that the hook is not meant.
        """
        return self.find_failing(facts) is None

    def find_failing(self, facts: PayloadFacts) -> str | None:
        """Return the condition that does not hold, as text; None if all hold, or may.

        Raises:
            UnreadableFieldError: as for `may_hold`.
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

    def find_unknown_field(self, spec: EventSpec) -> str | None:
        """Return a message about a field that no payload of an event has; None if a payload may have all fields."""
        fields = {field.name for field in spec.fields}
        known = fields | (ARGUMENTS if "tool_input" in fields else set[str]()) | {"cwd"}
        for condition in self.conditions if fields else ():
            if condition.names[0] not in known:
                return f"{spec.name} has no field {condition.names[0]!r}{suggest_name(condition.names[0], known)}"
        return None

    def __repr__(self) -> str:
        return f"Where({self.text})"


class PayloadFacts:
    """The facts of one version of a payload that conditions compare; each field and each command is read once."""

    __slots__ = ("_arguments", "_fields", "_parsed", "_payload", "_steps", "_unparsed", "_values", "_visible", "folder")

    def __init__(self, spec: EventSpec, payload: Payload, folder: str | None) -> None:
        self.folder = folder if folder is not None and folder.startswith("/") else None  # the agent's, if it is known
        self._fields = {field.name for field in spec.fields} or set(payload.fields)
        self._payload = payload
        self._values: dict[tuple[str, ...], list[object] | UnreadableFieldError | None] = {}
        self._arguments: Mapping[str, msgspec.Raw] | UnreadableFieldError | None = None
        self._parsed: dict[str, list[Command] | None] = {}
        self._visible: dict[str, str | None] = {}
        self._unparsed = MAX_COMMAND  # characters that may still be parsed, for all texts of the payload together
        self._steps = MAX_STEPS

    def spend(self, steps: int) -> bool:
        """Take so many steps from the budget of patterns, and return whether the budget has as many."""
        self._steps -= steps
        return self._steps >= 0

    def visible_text(self, text: str) -> str | None:
        """Return a text that contains the name of each program that it runs; None if a name may be hidden."""
        if text not in self._visible:
            self._visible[text] = show_programs(text)
        return self._visible[text]

    def parsed_commands(self, text: str) -> list[Command] | None:
        """Return the commands of a text; None if they are undecidable."""
        if text not in self._parsed:
            self._unparsed -= len(text)
            self._parsed[text] = read_commands(text) if self._unparsed >= 0 else None
        return self._parsed[text]

    def values(self, names: tuple[str, ...]) -> list[object] | None:
        """Return the values of a field, several where there are lists on the way; None if they are too many.

        Raises:
            UnreadableFieldError: the field has no value.
        """
        if names not in self._values:
            try:
                self._values[names] = self._read(names)
            except UnreadableFieldError as error:
                self._values[names] = error
        values = self._values[names]
        if isinstance(values, UnreadableFieldError):
            raise values
        return values

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
        """Return the folder in which a tool runs: that of its arguments, otherwise the agent's."""
        raw = self._tool_arguments().get("cwd") if "tool_input" in self._fields else None
        value: object = decode(raw) if raw is not None else self.folder
        if not isinstance(value, str):
            raise UnreadableFieldError("the fire has no 'cwd', so the folder in which the tool runs is unknown")
        return value

    def _paths(self) -> list[object] | None:
        """Return all paths that a tool names; None if they are too many, or undecidable."""
        tool_args = self._tool_arguments()
        raws = [raw for key in ("path", "paths") if key in tool_args for raw in list_items(tool_args[key])]
        if len(raws) > MAX_VALUES:
            return None
        paths: list[object] = [decode(raw) for raw in raws]
        if paths and "cwd" in tool_args:  # some tools resolve paths in the agent's folder, others in this one
            paths += [posixpath.join(self._cwd(), path) for path in paths if isinstance(path, str)]
        if self._kind() != "search":
            if not paths:
                raise UnreadableFieldError("its field 'path' is missing")
            return paths
        paths = paths or [self._cwd()]
        pattern: object = decode(tool_args["pattern"]) if "pattern" in tool_args else None
        if not isinstance(pattern, str) or not pattern.strip():
            return paths
        if any(map(leads_outside, BRACES.findall(pattern))):
            return None
        return [*paths, *list_outside_places(pattern, [path for path in paths if isinstance(path, str)])]

    def _kind(self) -> str:
        kind = self._payload.text("tool_kind")
        return kind if kind not in (None, OTHER) else find_tool_kind_by_name(self._payload.text("tool_name") or "")

    def _tool_arguments(self) -> Mapping[str, msgspec.Raw]:
        """Return a tool's arguments with the keys that all hosts share, from the payload or from its input."""
        if self._arguments is None:
            try:
                self._arguments = self._read_tool_arguments()
            except UNDECODABLE as error:
                self._arguments = UnreadableFieldError(f"its 'tool_args' or 'tool_input' is not an object: {error}")
            except UnclearToolError as error:
                self._arguments = UnreadableFieldError(str(error))
        if isinstance(self._arguments, UnreadableFieldError):
            raise self._arguments
        return self._arguments

    def _read_tool_arguments(self) -> Mapping[str, msgspec.Raw]:
        fields = self._payload.fields
        if "tool_args" in fields:
            return OBJECT.decode(fields["tool_args"])
        if "tool_input" not in fields:
            raise UnclearToolError("its field 'tool_input' is missing")
        given = msgspec.json.decode(fields["tool_input"], type=dict[str, Any])
        read = arguments(self._kind(), given)
        return {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in read.items()}


def leads_outside(choice: str) -> bool:
    """Return whether one of the names between braces may lead out of the searched folder: {../a,b}."""
    names = choice.split(",")
    return len(names) > 1 and any(name.strip().startswith(("/", "~")) or ".." in name.split("/") for name in names)


def list_outside_places(pattern: str, places: Sequence[str]) -> Iterator[str]:
    """Yield the paths outside of the searched places that the pattern of a search names: /etc/*.conf, ../*."""
    parts = pattern.strip().split("/")
    if parts[0] in ("", "~") or ".." in parts:
        fixed = next((index for index, part in enumerate(parts) if not MAGIC.isdisjoint(part)), len(parts))
        for path in ("/".join(parts), "/".join(parts[:fixed]) or ("." if parts[0] else "/")):
            yield from [path] if path[0] == "~" else (posixpath.join(place, path) for place in places)


def walk_field(fields: Mapping[str, msgspec.Raw], names: Sequence[str], field: str) -> Iterator[msgspec.Raw]:
    """Yield the values that names lead to, for each item where a value is a list.

    Raises:
        UnreadableFieldError: a name is missing.
    """
    raw = fields.get(names[0])
    if raw is None:
        raise UnreadableFieldError(f"its field {field!r} is missing")
    items = list(list_items(raw))
    if not items:
        raise UnreadableFieldError(f"its field {field!r} is an empty list")
    for item in items[: MAX_VALUES + 1]:  # one more than the maximum shows the caller that there are too many
        if len(names) == 1:
            yield item
            continue
        try:
            inner = OBJECT.decode(item)
        except UNDECODABLE:
            raise UnreadableFieldError(f"its field {field!r} is missing: {names[0]!r} is not an object") from None
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
    """Compile a `where` from its JSON form; None means that there is no condition.

    Raises:
        InvalidConditionError: it has another form, or a value that cannot be compared.
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
    conditions = [compile_condition(field, expected) for field, expected in table.items()]
    return CompiledWhere(cast("Mapping[str, object]", source), conditions)


def compile_condition(field: object, expected: object) -> Condition:
    if not isinstance(field, str) or not all(names := tuple(field.split("."))) or len(names) > MAX_DEPTH:
        raise InvalidConditionError(f"{field!r:.80} is not a field; write its name, or names with a point between them")
    values = cast("list[object]", expected) if isinstance(expected, list) else [expected]
    if not 0 < len(values) <= MAX_ALTERNATIVES:
        raise InvalidConditionError(f"{field}: a list has 1 to {MAX_ALTERNATIVES} alternatives, not {len(values)}")
    try:
        alternatives = tuple(comparison for value in values for comparison in compile_comparisons(field, value))
    except (ComparisonError, MatcherError) as error:
        raise InvalidConditionError(f"{field}: {error}") from None
    if len(alternatives) > MAX_ALTERNATIVES:
        raise InvalidConditionError(f"{field}: it has at most {MAX_ALTERNATIVES} alternatives, not {len(alternatives)}")
    return Condition(field, names, alternatives)


def compile_comparisons(field: str, expected: object) -> list[Comparison]:
    """Return the comparisons of one alternative: a table names the kind, otherwise the field and the value imply it."""
    if isinstance(expected, Mapping):
        table = cast("Mapping[str, object]", expected)
        kind: str = next(iter(table), "")
        if len(table) != 1 or kind not in KINDS:
            inner = f'; write "{field}.{kind}" = …, in quotes, for a field inside another' if len(table) == 1 else ""
            raise ComparisonError(f"a table has one of {', '.join(KINDS)}, not {', '.join(table) or 'nothing'}{inner}")
        given = table[kind]
        values = cast("list[object]", given) if isinstance(given, list) else [given]
        if not values:
            raise ComparisonError(f"{kind} is an empty list; write at least one value")
        return [make_comparison(kind, value) for value in values]
    if field in OWN_KIND:
        return [make_comparison(OWN_KIND[field], expected)]
    if isinstance(expected, str):
        if NUMBER.fullmatch(expected.strip()):
            return [make_comparison("number", expected)]
        if expected.lstrip().startswith(ORDERED):
            raise ComparisonError(
                f'a number is compared as ">= 100", with <, <=, > or >=, and there is no negation; write'
                f" {{ equals = {expected!r:.80} }} for exactly this text"
            )
        within, _, name = field.rpartition(".")
        kind = HOSTS_OWN.get(name, "") if within in ("tool_input", "tool_args") else ""
        if kind or not TYPED.isdisjoint(expected):
            forms = f"{{ {kind} = … }}" if kind else "{ path = … }, { glob = … }"
            raise ComparisonError(f"say what {expected!r} is: {forms}, or {{ equals = … }} for exactly this text")
    return [make_comparison("equals", expected)]
