"""The object that a hook is called with: envelope and payload as attributes.

It knows no event by name: the catalogue's classes are in `events`.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never, cast

import msgspec

from hooklatch_worker.author.call_context import CallContext
from hooklatch_worker.author.state import State

__all__ = ["EVENT_CLASSES", "CustomEvent", "Event", "find_call"]

EVENT_CLASSES: Final[dict[str, type[Event]]] = {}  # filled by the subclasses, by event name


class Event:
    """The argument of a hook: the envelope and the payload's fields, both as read-only attributes.

    A declared field that the host did not send is None.  An undeclared field is an attribute too if the host sent it.
    `payload` is the whole payload as a dict.
    """

    event: str
    session_id: str | None
    call_id: str | None
    cwd: str | None
    agent_id: str | None
    agent_type: str | None
    parent_session_id: str | None
    host: str | None
    turn: int | None
    metadata: dict[str, Any] | None
    context: dict[str, Any] | None

    payload: dict[str, Any]
    config: dict[str, Any]
    merged: dict[str, Any]
    reinvoked: bool

    __payload_fields__: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, event: str | None = None) -> None:
        fields = {name: text for name, text in cls.__annotations__.items() if name != "__payload_fields__"}
        own = {_payload_key(name): text for name, text in fields.items()}
        cls.__payload_fields__ = {**cls.__payload_fields__, **own}
        for name in {*fields, *own}:
            setattr(cls, name, _make_property(_payload_key(name)))
        if event is not None:
            EVENT_CLASSES[event] = cls

    def __init__(
        self,
        event: str,
        payload: dict[str, Any],
        envelope: dict[str, Any] | bytes,
        config: dict[str, Any] | None,
        merged: dict[str, Any] | None,
        reinvoked: bool,
        call: CallContext | None,
    ) -> None:
        fields = {
            "event": event, "payload": payload, "config": config or {}, "merged": merged or {}, "reinvoked": reinvoked,
            "_envelope": envelope, "_call": call or CallContext(),
        }  # fmt: skip
        object.__setattr__(self, "__dict__", fields)  # at once: an event is read-only

    @property
    def state(self) -> State:
        """The state that the hook's source keeps between calls, shared by all its workers."""
        call = find_call(self)
        return State(call.line, call.call_id)

    if not TYPE_CHECKING:  # so that type checkers reject misspelt fields

        def __getattr__(self, name: str) -> Any:
            # Declared fields are properties: `__getattr__` is called after the ordinary look-up has failed, which takes
            # three times as long.
            if name.startswith("_"):  # looked up by copy, pickle and the like; never a field
                raise AttributeError(name)
            key = _payload_key(name)
            if key in ENVELOPE:
                return _read_envelope(self).get(key)
            if key in self.payload:
                return self.payload[key]
            raise AttributeError(self._missing(name))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an event is read-only: return amend({name}=...) to change {name!r}")

    def __getitem__(self, key: object) -> Never:
        raise TypeError(f"an event is no dict: write event.{key}, or event.payload[{key!r}]")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.event} with {', '.join(self.payload) or 'no fields'}>"

    def _missing(self, name: str) -> str:
        from difflib import get_close_matches  # imported here, since it is only needed after a mistake

        known = {*dir(type(self)), *self.__payload_fields__, *self.payload, *ENVELOPE, *NOT_ENVELOPE}
        nearest = get_close_matches(name, sorted(known), n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        return f"event {self.event!r} has no field {name!r}{hint}"


NOT_ENVELOPE: Final = frozenset({"payload", "config", "merged", "reinvoked"})
ENVELOPE: Final = frozenset(Event.__annotations__) - NOT_ENVELOPE - {"__payload_fields__"}


def _make_property(key: str) -> property:
    """Return the attribute for a declared field: the payload's, or the envelope's of that name, or None."""

    def read(self: Event) -> Any:
        payload = self.payload
        if key in payload:
            return payload[key]
        return _read_envelope(self).get(key) if key in ENVELOPE else None

    return property(read)


def _read_envelope(event: Event) -> dict[str, Any]:
    """Return the envelope, decoded at its first use: few hooks look at it."""
    envelope: dict[str, Any] | bytes = event.__dict__["_envelope"]
    if isinstance(envelope, bytes):
        envelope = event.__dict__["_envelope"] = cast("dict[str, Any]", msgspec.json.decode(envelope))
    return envelope


def find_call(event: Event) -> CallContext:
    """Return the call that an event belongs to."""
    call: CallContext = event.__dict__["_call"]
    return call


def _payload_key(name: str) -> str:
    bare = name.removesuffix("_")
    return bare if iskeyword(bare) else name


class CustomEvent(Event):
    """An event defined in the operator's configuration; every key of its payload is an attribute."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
