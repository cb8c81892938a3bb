"""The interface of the daemon to its link, over any transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hooklatch.fleet.manifests import START, PolicyHead

__all__ = ["LinkedDaemon", "DaemonAbsentError", "DaemonRefusedError", "FollowAnswer", "WantedBundle"]


class DaemonAbsentError(Exception):
    """The daemon is not there, does not answer, or is not in a fleet: try again later.  The text says which."""


class DaemonRefusedError(Exception):
    """The daemon refuses a request; it has applied nothing of it."""


class WantedBundle(msgspec.Struct, frozen=True):
    """A version and its bundle."""

    version: int
    bundle: str


class FollowAnswer(msgspec.Struct, frozen=True):
    """The state of the daemon: the versions that it has read, should have and has applied, and why they differ.

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

    Each method may raise DaemonAbsentError, and those that send versions, a bundle or a number DaemonRefusedError.
    """

    def is_connected(self) -> bool:
        """Return whether the connection of the last answer is still open, without a request."""
        ...

    async def follow(self, manifests: Sequence[str] | None) -> FollowAnswer:
        """Send the versions after the daemon's head, and return its state.

        An empty sequence says that the daemon is at the engine's head; None only asks for the state.
        """
        ...

    async def apply(self, version: int, bundle: bytes) -> None:
        """Send the bundle that the daemon wants."""
        ...

    async def report_shipped(self, seq: int) -> None:
        """Send the number of the entry up to which the engine has the record."""
        ...
