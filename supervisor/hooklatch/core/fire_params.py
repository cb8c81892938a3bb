"""The params of a fire, from the wire or from a host's adapter, and of a host's event.  Shapes only."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from hooklatch.core.limits import CallId, Name, Names, Path

__all__ = ["EnvelopeParams", "FireParams", "HostParams", "StatedEnvelope", "WaitBudget"]


WaitBudget: TypeAlias = Annotated[float, Meta(gt=0)]


class EnvelopeParams(msgspec.Struct, frozen=True):
    """The facts that a host sends besides the payload: who fired, and where.

    `cwd` is the agent's folder, `began_in` the folder where it began, and `began_as` that folder's path with "-" for
    all but letters and digits.  `parent_session_id` is passed on to hooks, and inherits nothing from that session.
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


class StatedEnvelope(EnvelopeParams, frozen=True):
    """An envelope with the facts of its session that a native payload states.

    Its `session_id` is only passed on to hooks, in a live session too.  It never selects a session.
    """


class FireParams(msgspec.Struct, frozen=True):
    """The params of `fire`; `dialect` is the format of the event and its payload, if it is not the session's.

    `default_cwd` is the agent's folder if neither the envelope nor a native payload names one.
    """

    event: Name
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    context: dict[str, Any] | None = None
    call_id: CallId | None = None
    timeout: float | None = None
    wait: bool = True
    truncated: bool = False
    plugins: Names | None = None
    dialect: Name | None = None
    default_cwd: Path | None = None
    envelope: EnvelopeParams = EnvelopeParams()


class HostParams(msgspec.Struct, frozen=True):
    """The params of `host`: one event of a host.

    `event` is the one that the forwarder was installed for, `document` what the host wrote, as it is, and `budget`
    the seconds for which the forwarder still waits.
    """

    host: Name
    document: msgspec.Raw
    event: Name | None = None
    environ: dict[Name, Path] = {}
    budget: WaitBudget | None = None
