"""The shapes that the live views print with `--json`: the daemon's announcements, and the table of `top`.

Times are texts as the record has them, or seconds since 1970; a name that ends in `_ms` is of milliseconds.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hooklatch.client.protocol.decisions import Decision
from hooklatch.core.health import HealthFinding
from hooklatch.core.hooks.registry import HookState
from hooklatch.processes.pool_limits import HookLoad
from hooklatch.service.config.toml_document import Diagnostic

__all__ = ["OUTPUTS"]


class AnnouncedDecision(msgspec.Struct, kw_only=True):
    """A decision, and facts of its fire; null for those that the fire does not have."""

    topic: Literal["decisions"]
    at: str
    session_id: str | None
    host: str | None
    tool: str | None
    decision: Decision


class AnnouncedChange(msgspec.Struct, kw_only=True):
    """A change of the global hooks: their ids."""

    topic: Literal["registry"]
    previous: int
    revision: int
    digest: str
    added: list[str]
    removed: list[str]
    changed: list[str]


class AnnouncedOperation(msgspec.Struct, kw_only=True):
    """An act of an operator or an event of the daemon; its fields depend on `kind` (docs/reference/protocol.md)."""

    topic: Literal["operations"]
    at: str
    kind: Literal["suspended", "resumed", "quarantined", "released", "reloaded", "fault", "mended", "acknowledged"]
    hook: str = ""
    until: float = 0.0
    reason: str = ""
    why: str = ""
    text: str = ""
    previous: int = 0
    revision: int = 0
    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    diagnostics: list[Diagnostic] = []
    accepted: list[str] = []


class MissedLinesOutput(msgspec.Struct, kw_only=True):
    """The number of lines of a topic that were left out, since this reader was too slow."""

    topic: Literal["decisions", "operations"]
    missed: int


class ResyncLine(msgspec.Struct, kw_only=True):
    """The revision of the hooks now, whose changes were left out, since this reader was too slow."""

    topic: Literal["registry"]
    resync: int


class TopHook(msgspec.Struct, kw_only=True):
    """A hook: its calls since the daemon's start, and the load of its workers; null where that is not known."""

    name: str
    event: str
    state: HookState
    calls: int
    calls_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    failures: dict[str, int]
    load: HookLoad | None


class TopOutput(msgspec.Struct, kw_only=True):
    """`top`: the rates between two reports; the hooks in the order of `--sort`."""

    health: Literal["green", "red"]
    wrong: list[HealthFinding]
    fires_per_s: float | None
    hooks: list[TopHook]


OUTPUTS = {
    "watch": (AnnouncedDecision, AnnouncedChange, AnnouncedOperation, MissedLinesOutput, ResyncLine),
    "top": (TopOutput,),
}
