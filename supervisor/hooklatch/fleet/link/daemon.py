"""What the link asks of its daemon, whatever carries the question.  Knows the answers' shapes; opens no connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hooklatch.fleet.policy.manifests import START, PolicyHead

__all__ = ["LinkedDaemon", "DaemonAbsentError", "DaemonRefusedError", "FollowAnswer", "WantedBundle"]


class DaemonAbsentError(Exception):
    """There is no daemon, or it does not answer, or it is in no fleet: try again later.  The text says which."""


class DaemonRefusedError(Exception):
    """The daemon refuses what it was given; nothing of it was applied."""


class WantedBundle(msgspec.Struct, frozen=True):
    """A version and its bundle."""

    version: int
    bundle: str


class FollowAnswer(msgspec.Struct, frozen=True):
    """Where the daemon stands: what it has read, what it should have, what is in force, and why they differ.

    `stale_s`: seconds since it was last known to be at the engine's head, None if it never was.
    """

    head: PolicyHead = START
    wanted: WantedBundle | None = None
    applied: WantedBundle | None = None
    problem: str | None = None
    host: str | None = None
    labels: tuple[str, ...] = ()
    health: str = "ready"
    revision: int = 0
    stale_s: float | None = None


class LinkedDaemon(Protocol):
    """A daemon that has accepted this process as its link.

    Each method may raise DaemonAbsentError, and what gives the daemon something DaemonRefusedError.
    """

    def is_connected(self) -> bool:
        """Return whether the connection of the last answer still stands, without asking."""
        ...

    async def follow(self, manifests: Sequence[str] | None) -> FollowAnswer:
        """Give the versions after the daemon's head; none: it is at the engine's head.  None: only ask."""
        ...

    async def apply(self, version: int, bundle: bytes) -> None:
        """Give the bundle that it wants."""
        ...

    async def shipped(self, seq: int) -> None:
        """Tell up to which record the engine has the record."""
        ...
