"""What is said of a fire: its params, its envelope, and how another system runs it.  Knows shapes; does nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.limits import CallId, Name, Names, Path

__all__ = ["Envelope", "EnvelopeParams", "FireParams", "Plan", "Question", "Settled"]


class EnvelopeParams(msgspec.Struct, frozen=True):
    """What a host says about the moment, beside the payload.

    `cwd` is where the agent is, `began_in` where it began, and `began_as` that folder's path with "-" for all but
    letters and digits.  `parent_session_id` is told to hooks, and brings nothing of that session.
    """

    session_id: Name | None = None
    cwd: Path | None = None
    began_in: Path | None = None
    began_as: Path | None = None
    agent_id: Name | None = None
    agent_type: Name | None = None
    parent_session_id: Name | None = None
    host: Name | None = None
    turn: CallId | None = None
    metadata: dict[str, Any] | None = None


class FireParams(msgspec.Struct, frozen=True):
    """The params of `fire`; `dialect` says in whose words the event and its payload are, if not in the session's."""

    event: Name
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    context: dict[str, Any] | None = None
    call_id: CallId | None = None
    timeout: float | None = None
    wait: bool = True
    truncated: bool = False
    plugins: Names | None = None
    dialect: Name | None = None
    envelope: EnvelopeParams = EnvelopeParams()


class Envelope(msgspec.Struct, frozen=True):
    """What a callback is told beside the payload; null where unknown."""

    event: str
    session_id: str | None
    call_id: str | int | None
    cwd: str | None
    agent_id: str | None
    agent_type: str | None
    parent_session_id: str | None
    host: str | None
    turn: int | str | None
    metadata: dict[str, Any] | None
    context: dict[str, Any]


class Plan(msgspec.Struct, frozen=True):
    """How another system runs an event: its axes in the spec, and its order of hooks."""

    spec: EventSpec
    arrange: Callable[[Sequence[Hook]], Sequence[Hook]]


class Settled(msgspec.Struct, frozen=True):
    """The projects whose hooks fire beside those that the session itself sees.

    A `fault` says that it cannot be told which these are, or that their hooks are not there in time.
    """

    folders: frozenset[str] = frozenset()
    fault: str | None = None


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a client is asked about a hook that it serves: the params of `call`, but for the envelope.

    `config` is the hook's own table, where it has one.
    """

    hook: str
    call_id: str
    event: str
    payload: msgspec.Raw
    merged: dict[str, Any] | None = None
    reinvoked: bool = False
    config: msgspec.Raw | None = None
