"""The announcement of every change of the registry to its subscribers, some of them in each turn of the loop.

Knows snapshots and their subscribers, and not the reasons of changes.

    outdate  ─▶  subscribers are notified: as many as fit in a slice at once, the rest by `wait_announced`
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Protocol
from weakref import WeakKeyDictionary

import msgspec
import trio

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.snapshots import Snapshot, SnapshotDiff, compare_snapshots
from hooklatch.core.protocol import encode_notification
from hooklatch.service.registry.sessions import AgentSession

__all__ = ["RegistryChange", "Announcer", "SkipAnnouncer", "Publish", "make_announcement"]

SLICE = 0.002  # seconds of a turn of the loop in which subscribers are notified


class RegistryChange(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The change of a viewer's snapshot from revision `previous` to `revision`."""

    previous: int
    revision: int
    digest: str
    added: list[str]
    removed: list[str]
    changed: list[str]
    topic: str = "registry"

    @cached_property
    def line(self) -> bytes:
        """Return the line to send, encoded once for all viewers with the same change."""
        return encode_notification("announce", self)


Publish = Callable[[AgentSession | None, RegistryChange], bool]  # false when no subscriber is left


class SkipAnnouncer(Protocol):
    """The part of the permissions to skip events that a change of hooks needs."""

    def notify(self, session: AgentSession, snapshot: Snapshot, catalogue: Catalogue) -> bool:
        """Notify a session's clients of their permissions. Return false when no client of it subscribes any more."""
        ...

    @property
    def late(self) -> Collection[object]:
        """Return the connections that a withdrawal has not reached."""
        ...

    async def wait_delivered(self) -> None:
        """Wait until no living client can act on a permission that was taken back."""
        ...


class SessionSnapshots(Protocol):
    """The snapshots that sessions see."""

    catalogue: Catalogue

    def view_of(self, session: AgentSession | None) -> Snapshot:
        """Return the snapshot of a viewer."""
        ...


class Announcer:
    """The notifier of subscribers: each gets every change of its snapshot, in order. It never waits for them."""

    def __init__(self, views: SessionSnapshots, publish: Publish, permits: SkipAnnouncer) -> None:
        self.publish = publish
        self._views = views
        self._permits = permits
        # The snapshot last announced to each subscribed session; it does not keep a session that has ended.
        self._announced: WeakKeyDictionary[AgentSession, Snapshot] = WeakKeyDictionary()
        self._outdated: OrderedDict[AgentSession, None] = (
            OrderedDict()
        )  # subscribed sessions whose view may have changed
        self._announcements: dict[tuple[Snapshot, Snapshot], RegistryChange] = {}  # shared by several sessions
        self._notifying = trio.Lock()

    def follow(self, session: AgentSession) -> Snapshot:
        """Return the snapshot of a session, and announce every change of it from now on."""
        snapshot = self._views.view_of(session)
        if session in self._outdated:
            del self._outdated[session]
            self._notify(session)  # the existing subscribers first: the new one starts from the same snapshot
        self._announced[session] = snapshot
        return snapshot

    def permit(self, session: AgentSession) -> None:
        """Notify a session's clients of the events that they may skip, now and at each change."""
        self._permits.notify(session, self.follow(session), self._views.catalogue)

    def outdate(self, session: AgentSession) -> None:
        """Note that a session's snapshot may have changed."""
        if session in self._announced:
            self._outdated[session] = None

    def outdate_below(self, ancestor: AgentSession | None) -> None:
        """Note that the snapshots of a session and its descendants, or of all sessions, may have changed."""
        outdated = (
            self._announced
            if ancestor is None
            else [session for session in self._announced if ancestor.has_below(session)]
        )
        self._outdated.update(dict.fromkeys(outdated))

    def forget_pairs(self) -> None:
        """Drop the cached announcements before a change, since later ones have to contain it."""
        self._announcements.clear()

    async def wait_announced(self) -> None:
        """Wait until each subscriber has all changes so far, and no client skips an event that has a hook by now."""
        if self._outdated:
            # Shielded: the other clients are notified even if the client that made the change leaves.
            with trio.CancelScope(shield=True):
                async with self._notifying:  # one slice a turn, however many wait
                    while self._outdated:
                        await trio.lowlevel.checkpoint()
                        self.notify_some()
        if self._permits.late:
            await self._permits.wait_delivered()

    def notify_some(self) -> None:
        """Notify subscribers for one slice of time, in the order in which they became due."""
        until = trio.current_time() + SLICE
        while self._outdated and trio.current_time() < until:
            self._notify(self._outdated.popitem(last=False)[0])
        if not self._outdated:
            self._announcements.clear()

    def _notify(self, session: AgentSession) -> None:
        old, new = self._announced[session], self._views.view_of(session)
        # Even if the snapshot is the same: an event may have become a gate, or another term may have changed.
        is_followed = self._permits.notify(session, new, self._views.catalogue)
        if new is old:
            return
        self._announced[session] = new
        announcement = self._announcements.get((old, new))
        if announcement is None:
            announcement = self._announcements[old, new] = make_announcement(old, new, compare_snapshots(old, new))
        if not self.publish(session, announcement) and not is_followed:
            del self._announced[session]


def make_announcement(old: Snapshot, new: Snapshot, change: SnapshotDiff) -> RegistryChange:
    changes = msgspec.structs.asdict(change)
    return RegistryChange(previous=old.revision, revision=new.revision, digest=new.digest, **changes)
