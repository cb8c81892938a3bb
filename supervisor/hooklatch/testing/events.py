"""The maker of events by name and fields, as a host would send them, and a few payloads from sessions of Claude Code.

Fields are checked against the catalogue, since a test with a field that no host sends tests nothing.  Fields that a
host always sends have a default, so that a test names only the fields that it is about.  Two of the payloads are made
up, for calls that guards are written for and no recorded session has tried.
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Any, TypeVar, cast, get_type_hints, overload

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue, EventDefinition, EventSpec
from hooklatch.core.tables import InvalidTableError, read_table
from hooklatch.testing.memory import Memory, MemoryLine
from hooklatch_worker.author.call_context import CallContext
from hooklatch_worker.author.event import ENVELOPE, EVENT_CLASSES, Event
from hooklatch_worker.author.events import build_event
from hooklatch_worker.author.verdicts import GarbageError, check_plain

__all__ = ["list_recorded_events", "SESSION", "NotAnEventError", "read_envelope", "event", "find_event_spec"]


class RecordedEvent(msgspec.Struct, frozen=True):
    """A host's own document."""

    host: str
    payload: dict[str, Any]
    made_up: bool = False


def list_recorded_events() -> list[RecordedEvent]:
    """Return the payloads in the order of a session."""
    text = resources.files("hooklatch.testing").joinpath("recorded.jsonl").read_text(encoding="utf-8")
    return [msgspec.convert(json.loads(line), RecordedEvent) for line in text.splitlines()]


E = TypeVar("E", bound=Event)
SESSION = "test"  # the session of an event that names none
STANDARD = Catalogue.standard()
# What a host sends with every such event, where a test does not say.
DEFAULTS: dict[str, Any] = {
    "tool_name": "Bash",
    "tool_calls": [],
    "prompt": "a prompt",
    "command_name": "command",
    "model_id": "model",
    "to_model": "model",
    "trigger": "manual",
    "notification_type": "idle_prompt",
    "name": "worktree",
    "mcp_server_name": "server",
    "to": "default",
    "platform": "cli",
    "error_type": "error",
    "event_type": "event",
}
SOURCES = {"session_start": "startup", "config_change": "user_settings"}


class NotAnEventError(TypeError):
    """No host would send this event; the text says what is wrong, and what to write."""


@overload
def event(
    name: type[E],
    payload: dict[str, Any] | None = None,
    /,
    *,
    config: dict[str, Any] | None = None,
    memory: Memory | None = None,
    **fields: Any,
) -> E: ...
@overload
def event(
    name: str,
    payload: dict[str, Any] | None = None,
    /,
    *,
    config: dict[str, Any] | None = None,
    memory: Memory | None = None,
    defined: dict[str, Any] | None = None,
    **fields: Any,
) -> Any: ...
def event(
    name: str | type[Event],
    payload: dict[str, Any] | None = None,
    /,
    *,
    config: dict[str, Any] | None = None,
    memory: Memory | None = None,
    defined: dict[str, Any] | None = None,
    **fields: Any,
) -> Any:
    """Return an event as a hook is called with it: `event(PreToolUse, tool_name="Bash", tool_input={...})`.

    `name` is an event's class or its name.  `fields` are those of its payload and of its envelope (`session_id`, `cwd`,
    `host` …), and are checked; `payload` are keys that are taken as they are, such as those that one host alone sends.
    `config` is handed to the hook as its configuration.  `defined` is the table of an event of your own, as in
    `[[event]]` of hooks.toml: `{"model": "gate", "verdicts": ["deny"]}`.  `memory` holds what `event.state` remembers
    where the hook is called directly.

    Raises:
        NotAnEventError: there is no such event, or it has no such field, or a field has another type.
    """
    __tracebackhide__ = True
    title = name if isinstance(name, str) else find_event_name(name)
    spec = STANDARD.get(title) if defined is None else define_custom_event(title, defined)
    if spec is None:
        raise NotAnEventError(f"there is no event {title!r}{suggest_nearest(title, STANDARD)}")
    types = list_field_types(title)
    in_payload = {**fill_defaults(spec, fields, payload or {}), **(payload or {})}
    in_envelope: dict[str, Any] = {"session_id": SESSION}
    for key, value in fields.items():
        bare = key.removesuffix("_") if key.removesuffix("_") in types.keys() | {"from"} else key
        if bare in types:
            in_payload[bare] = validate_field(title, bare, value, types[bare])
        elif key in ENVELOPE - {"event"}:
            in_envelope[key] = validate_field(title, key, value, list_envelope_types()[key])
        elif defined is not None:
            in_payload[key] = value
        else:
            hint = f"; if a host sends it nevertheless: event({title!r}, {{{key!r}: ...}})"
            raise NotAnEventError(
                f"{title} has no field {key!r}{suggest_nearest(key, sorted({*types, *ENVELOPE})) or hint}"
            )
    try:
        check_plain(in_payload, "the payload")
    except GarbageError as error:
        raise NotAnEventError(f"{title}: {error}") from None
    call = CallContext(0, line=MemoryLine(memory or Memory(), "", in_envelope.get("session_id"), call_id=0))
    made = build_event(title, in_payload, in_envelope, config, None, reinvoked=False, call=call)
    made.__dict__["_spec"] = spec
    return made


def find_event_spec(event: Event) -> EventSpec:
    """Return the spec of an event, from the catalogue or from the definition of a custom event.

    Raises:
        NotAnEventError: it was not made by `event`.
    """
    spec = getattr(event, "__dict__", {}).get("_spec")
    if not isinstance(spec, EventSpec):
        raise NotAnEventError(f"{event!r} was not made by hooklatch.testing.event")
    return spec


def read_envelope(event: Event) -> dict[str, Any]:
    """Return the envelope of an event."""
    envelope = event.__dict__["_envelope"]
    return cast("dict[str, Any]", envelope if isinstance(envelope, dict) else msgspec.json.decode(envelope))


def find_event_name(event_class: type[Event]) -> str:
    for name, known in EVENT_CLASSES.items():
        if known is event_class:
            return name
    raise NotAnEventError(f"{event_class.__name__} is not the class of one event; name the event itself")


def define_custom_event(name: str, table: dict[str, Any]) -> EventSpec:
    try:
        definition = read_table({"name": name, **table}, EventDefinition, "event")
        return STANDARD.with_custom([definition])[name]
    except InvalidTableError as error:
        raise NotAnEventError(str(error)) from None


@cache
def list_field_types(name: str) -> dict[str, Any]:
    """Return the types of an event's payload fields, by the keys that they have in the payload."""
    event_class = EVENT_CLASSES.get(name)
    if event_class is None:
        return {}
    hints = get_type_hints(event_class)
    return {key: hints.get(key, hints.get(f"{key}_", Any)) for key in event_class.__payload_fields__}


@cache
def list_envelope_types() -> dict[str, Any]:
    return get_type_hints(Event)


def fill_defaults(spec: EventSpec, fields: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a host always sends, and that the test leaves out."""
    defaults: dict[str, Any] = {}
    given = fields.keys() | payload.keys()
    for field in spec.fields:
        if field.name in given or f"{field.name}_" in given or "None" in field.type or field.type == "Any":
            continue
        if field.name == "tool_input":
            defaults["tool_input"] = {} if "tool_name" in given else {"command": "true"}
        elif field.name == "source":
            defaults["source"] = SOURCES.get(spec.name, "default")
        elif field.name in DEFAULTS:
            defaults[field.name] = DEFAULTS[field.name]
    return defaults


def validate_field(title: str, key: str, value: object, kind: Any) -> object:
    __tracebackhide__ = True
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        text = str(error).replace("`", "").replace("Expected ", "expected ")
        raise NotAnEventError(f"{title}: {key} cannot be {value!r:.100}: {text}") from None
    return value


def suggest_nearest(word: str, known: Any) -> str:
    found = get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
