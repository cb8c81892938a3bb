"""The announcement of every change: which subscribers have yet to be told, some of them in each turn of the loop.

Knows views and who follows them; changes none, and does not know why they change.

    outdate  ─▶  subscribers are told: as many as fit in a slice at once, the rest by `announced`
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
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

SLICE = 0.002  # seconds of a turn of the loop in which subscribers are told


class RegistryChange(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A viewer's view went from `previous` to `revision`."""

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


Publish = Callable[[AgentSession | None, RegistryChange], bool]  # false when nobody listens any more


class SkipAnnouncer(Protocol):
    """Tells clients which events they need not fire, since no hook of their sessions' views listens."""

    def tell(self, session: AgentSession, view: Snapshot, catalogue: Catalogue) -> bool:
        """Tell what has changed; false when no client of the session asks for it any more."""
        ...

    async def delivered(self) -> None:
        """Return once no client that lives can act on what was taken back."""
        ...


class SessionSnapshots(Protocol):
    """What sessions see."""

    catalogue: Catalogue

    def view_of(self, session: AgentSession | None) -> Snapshot:
        """Return what a viewer sees."""
        ...


class Announcer:
    """Tells each subscriber of every change of its view, in order; it never waits for one."""

    def __init__(self, views: SessionSnapshots, publish: Publish, permits: SkipAnnouncer) -> None:
        self.publish = publish
        self._views = views
        self._permits = permits
        # The snapshot last announced to each subscribed session; it does not keep a session that has ended.
        self._told: WeakKeyDictionary[AgentSession, Snapshot] = WeakKeyDictionary()
        self._untold: OrderedDict[AgentSession, None] = OrderedDict()  # subscribed sessions whose view may have changed
        self._announcements: dict[tuple[Snapshot, Snapshot], RegistryChange] = {}  # shared by several sessions
        self._telling = trio.Lock()

    def follow(self, session: AgentSession) -> Snapshot:
        """Return what a session sees; from now on every change of that is announced to it."""
        view = self._views.view_of(session)
        if session in self._untold:
            del self._untold[session]
            self._tell(session)  # tells the existing subscribers first; the new one starts from the same snapshot
        self._told[session] = view
        return view

    def permit(self, session: AgentSession) -> None:
        """Tell a session's clients which events they need not fire, now and whenever that changes."""
        self._permits.tell(session, self.follow(session), self._views.catalogue)

    def outdate(self, session: AgentSession) -> None:
        """Note that a session's view may have changed."""
        if session in self._told:
            self._untold[session] = None

    def outdate_below(self, above: AgentSession | None) -> None:
        """Note that what a session and the ones below it see may have changed, or what all sessions see."""
        outdated = self._told if above is None else [one for one in self._told if above.has_below(one)]
        self._untold.update(dict.fromkeys(outdated))

    def forget_pairs(self) -> None:
        """Drop the announcements that were made before a change: whoever is told now is told of it too."""
        self._announcements.clear()

    async def announced(self) -> None:
        """Wait until each subscriber has been told of all changes so far, and no client skips what is hooked by now."""
        await self._told_all()
        await self._permits.delivered()

    async def _told_all(self) -> None:
        if not self._untold:
            return
        # Shielded: if the one who made the change leaves, the others are told all the same.
        with trio.CancelScope(shield=True):
            async with self._telling:  # one slice a turn, however many wait
                while self._untold:
                    await trio.lowlevel.checkpoint()
                    self.tell_some()

    def tell_some(self) -> None:
        """Tell subscribers for one slice of time, in the order in which they became due."""
        until = time.monotonic() + SLICE
        while self._untold and time.monotonic() < until:
            self._tell(self._untold.popitem(last=False)[0])
        if not self._untold:
            self._announcements.clear()

    def _tell(self, session: AgentSession) -> None:
        old, new = self._told[session], self._views.view_of(session)
        # Also where the view is the same: whether an event is a gate, and what else decides, may have changed.
        is_followed = self._permits.tell(session, new, self._views.catalogue)
        if new is old:
            return
        self._told[session] = new
        said = self._announcements.get((old, new))
        if said is None:
            said = self._announcements[old, new] = make_announcement(old, new, compare_snapshots(old, new))
        if not self.publish(session, said) and not is_followed:
            del self._told[session]


def make_announcement(old: Snapshot, new: Snapshot, change: SnapshotDiff) -> RegistryChange:
    changes = msgspec.structs.asdict(change)
    return RegistryChange(previous=old.revision, revision=new.revision, digest=new.digest, **changes)
