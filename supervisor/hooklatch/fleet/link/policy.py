"""Brings versions from the engine to the daemon, which checks them: in order, all of them, and the bundle it wants.

Decides nothing about them.  It asks the engine for what follows the daemon's head, again and again, each time for a
short while: so a lost message, a restart or a partition costs one question more, and nothing has to be remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec
import trio

from hooklatch.fleet.engine.engine import BehindError, Engine, EngineRefusedError
from hooklatch.fleet.link.asking import PATIENCE, await_answer
from hooklatch.fleet.link.daemon import DaemonAbsentError, DaemonRefusedError, FollowAnswer, LinkedDaemon, WantedBundle
from hooklatch.fleet.link.known import BUNDLE, DAEMON, FLEET, POLICY, LinkState
from hooklatch.fleet.link.pauses import Backoff
from hooklatch.fleet.policy.bundles import MAX_BUNDLE
from hooklatch.fleet.policy.manifests import MAX_ENVELOPE, FleetError, PolicyHead, read_envelope

__all__ = ["PolicyFollower"]

logger = logging.getLogger("hooklatch.link")
WAIT = 1.0  # seconds to wait for a version before looking whether the daemon is still there
CONTACT = 5.0  # seconds between two signs of contact, and between two looks whether the engine still has the head
LONGEST_REFUSAL = 30.0  # seconds, at most, until what the daemon refused is offered again
PAGE = 100  # versions asked for at once
MAX_RUN = 6 * 2**20  # bytes of versions given to the daemon at once, as they are in its message of at most 9 MiB
NOTHING = (  # the daemon counts that as no contact, so its host is stale
    "the engine has no version of this fleet: nothing was ever pushed to it, or [fleet] has another name or url than"
    " the publisher; until there is one, this host is not in contact with its fleet"
)
ENCODER = msgspec.json.Encoder()


class PolicyFollower:
    """Follows a fleet's policy for one daemon, over the life of any connection to the engine."""

    def __init__(
        self,
        daemon: LinkedDaemon,
        known: LinkState,
        *,
        reconnect: float,
        contact: float = CONTACT,
        now: Callable[[], float],
    ) -> None:
        self._daemon = daemon
        self._known = known
        self._contact = min(CONTACT, contact)
        self._now = now
        self._pauses = Backoff(reconnect)
        self._refusals = Backoff(LONGEST_REFUSAL, first=0.5)
        self._differences = Backoff(CONTACT, first=0.5)
        self._strangers = Backoff(LONGEST_REFUSAL, first=0.2)  # a daemon records each link that it refuses
        self._is_behind = False
        self._refused_bundle: tuple[WantedBundle, float] | None = None  # and when it may be offered again

    async def run(self, engine: Engine) -> None:
        """Follow until the connection to the engine ends.

        Raises:
            EngineError: it has.
        """
        while True:
            pauses = self._pauses
            try:
                answer = await self._daemon.follow(None)
                self._known.hear(answer, self._now())
                self._pauses.reset()
                self._strangers.reset()
                await self._follow(engine, answer)
            except EngineRefusedError as error:
                self._known.fault(POLICY, self._refused(error))
                self._doubt(isinstance(error, BehindError))
                pauses = self._differences
            except DaemonAbsentError as error:
                self._known.fault(DAEMON, str(error))
            except DaemonRefusedError as error:
                self._known.fault(DAEMON, str(error))
                pauses = self._strangers
            await trio.sleep(pauses.next())

    async def _follow(self, engine: Engine, answer: FollowAnswer) -> None:
        """Follow until the daemon is gone."""
        contact_at = self._now()
        while self._daemon.is_connected():
            is_due = self._now() >= contact_at
            if is_due and (fault := await self._difference(engine, answer.head)) is not None:
                self._known.fault(POLICY, fault)
                await trio.sleep(self._differences.next())
                answer = await self._daemon.follow(None)  # it may have been reset
                continue
            answer = await self._fetch_bundle(engine, answer)
            if is_due:
                contact_at = self._now() + self._contact
                answer = await self._tell_of_contact(engine, answer)
            found = await self._versions(engine, answer.head.version, wait=WAIT)
            if found:
                answer = await self._give(engine, answer, found)
                contact_at = self._now()

    async def _difference(self, engine: Engine, head: PolicyHead) -> str | None:
        """Return how the engine differs from what the daemon has read; None if it has that, and maybe more."""
        if not head.version:
            return None
        found = await self._versions(engine, head.version - 1, wait=0.0, limit=1)
        if not found or found[0][0] != head.version:
            raise BehindError(f"it does not have version {head.version}")
        try:
            digest = read_envelope(found[0][1]).digest
        except FleetError as error:
            return f"the engine's version {head.version} cannot be read: {error}"
        if digest != head.digest:
            return (
                f"the engine has another version {head.version} than this host has read: its history was rewritten;"
                " nothing of it is applied; if that was the operator's doing, run: hooklatch fleet reset"
            )
        return None

    async def _tell_of_contact(self, engine: Engine, answer: FollowAnswer) -> FollowAnswer:
        """Tell the daemon that it is at the engine's head, if there is nothing after it."""
        if await self._versions(engine, answer.head.version, wait=0.0, limit=1):
            return answer
        answer = await self._daemon.follow([])
        self._known.hear(answer, self._now())
        self._known.fault(POLICY, None)
        self._known.fault(FLEET, None if answer.head.version else NOTHING)
        self._doubt(False)
        self._differences.reset()
        return answer

    async def _give(self, engine: Engine, answer: FollowAnswer, found: Sequence[tuple[int, bytes]]) -> FollowAnswer:
        """Give the daemon all versions after its head; what it refuses is offered again later, with what came since."""
        manifests, last = await self._run_of(engine, found)
        before = answer.head
        try:
            answer = await self._daemon.follow(manifests)
            problem = "the daemon does not take them" if answer.head == before else None
        except DaemonRefusedError as error:
            problem = str(error)
        if problem is not None:
            self._known.fault(POLICY, f"the versions after {before.version} are refused: {problem}")
            await self._await_newer(engine, last)
            return await self._daemon.follow(None)
        self._known.hear(answer, self._now())
        self._known.fault(POLICY, None)
        self._known.fault(FLEET, None)
        self._refusals.reset()
        return answer

    async def _run_of(self, engine: Engine, found: Sequence[tuple[int, bytes]]) -> tuple[list[str], int]:
        """Return as many versions as one message holds, and the number of the last one.

        Only the last of a run has to be signed by a key that is believed, so a run is as long as possible.
        """
        manifests: list[str] = []
        size = 0
        while True:
            for _, data in found:
                # What is too large for a manifest is shown to the daemon as that, and no longer.
                manifests.append(data[: MAX_ENVELOPE + 1].decode("utf-8", "replace"))
                size += len(ENCODER.encode(manifests[-1]))
                if size > MAX_RUN and len(manifests) > 1:
                    manifests.pop()
                    return manifests, found[-1][0]
            last = found[-1][0]
            if len(found) < PAGE:
                return manifests, last
            found = await self._versions(engine, last, wait=0.0)
            if not found:
                return manifests, last

    async def _await_newer(self, engine: Engine, last: int) -> None:
        """Wait until there is a version after this one, or until it is time to offer the same again."""
        until = self._now() + self._refusals.next()
        while self._now() < until and self._daemon.is_connected():
            if await self._versions(engine, last, wait=min(WAIT, max(0.01, until - self._now())), limit=1):
                return

    async def _fetch_bundle(self, engine: Engine, answer: FollowAnswer) -> FollowAnswer:
        """Give the daemon the bundle that it wants and does not have."""
        wanted = answer.wanted
        if wanted is None or wanted == answer.applied:
            self._refused_bundle = None
            self._known.fault(BUNDLE, None)
            return answer
        refused, until = self._refused_bundle or (None, 0.0)
        if wanted == refused and self._now() < until:
            return answer
        problem = await self._offered(engine, wanted)
        if problem is None:
            answer = await self._daemon.follow(None)
            self._known.hear(answer, self._now())
            if answer.wanted == wanted != answer.applied:
                problem = f"version {wanted.version} was given to the daemon, and is not in force"
        if problem is not None:
            self._refused_bundle = wanted, self._now() + self._refusals.next()
        self._known.fault(BUNDLE, problem)
        return answer

    async def _offered(self, engine: Engine, wanted: WantedBundle) -> str | None:
        """Give the daemon a bundle; return why it has not got it."""
        data = await await_answer(engine.bundle(wanted.bundle))
        if data is None:
            return f"the engine has no bundle {wanted.bundle}, which version {wanted.version} names: push it again"
        if len(data) > MAX_BUNDLE:
            return f"the engine's bundle of version {wanted.version} has {len(data)} bytes; the most is {MAX_BUNDLE}"
        try:
            await self._daemon.apply(wanted.version, data)
        except DaemonRefusedError as error:
            return f"version {wanted.version} was refused: {error}"
        logger.info("applied", extra={"version": wanted.version, "bundle": wanted.bundle})
        return None

    async def _versions(
        self, engine: Engine, after: int, *, wait: float, limit: int = PAGE
    ) -> Sequence[tuple[int, bytes]]:
        return await await_answer(engine.versions(after, wait=wait, limit=limit), wait + PATIENCE)

    def _doubt(self, is_behind: bool) -> None:
        """Have others look again at what the engine has, when it is first seen to have lost something."""
        if is_behind and not self._is_behind:
            self._known.doubts += 1
        self._is_behind = is_behind

    def _refused(self, error: EngineRefusedError) -> str:
        if not isinstance(error, BehindError) or self._known.answer is None:
            return f"the engine gives no versions: {error}"
        return (
            f"the engine is behind this host, which has read version {self._known.answer.head.version}: {error};"
            " nothing is applied until it has that again, or until: hooklatch fleet reset"
        )
