"""The task that brings versions from the engine to the daemon: in order, all of them, and the bundles that it wants.

The daemon verifies and decides.  The task asks the engine for the versions after the daemon's head, again and again,
each time for a short while.  So a lost message, a restart or a partition costs one more request, and the task keeps no
state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec
import trio

from hooklatch.fleet.bundles import MAX_BUNDLE
from hooklatch.fleet.engine.engine import BehindError, Engine, EngineRefusedError
from hooklatch.fleet.link.daemon import DaemonAbsentError, DaemonRefusedError, DaemonSocket, FollowAnswer
from hooklatch.fleet.link.known import BUNDLE, DAEMON, FLEET, POLICY, LinkState
from hooklatch.fleet.link.waiting import TIMEOUT, Backoff, await_answer
from hooklatch.fleet.manifests import MAX_ENVELOPE, BundleVersion, FleetError, PolicyHead, read_envelope

__all__ = ["PolicyFollower"]

logger = logging.getLogger("hooklatch.link")
WAIT = 1.0  # seconds to wait for a version before looking whether the daemon is still there
CONTACT = 5.0  # seconds between two signs of contact, and between two looks whether the engine still has the head
LONGEST_REFUSAL = 30.0  # seconds, at most, until versions or a bundle that the daemon refused are offered again
PAGE = 100  # versions asked for at once
MAX_RUN = 6 * 2**20  # bytes of versions sent to the daemon at once; a message has at most 9 MiB
NOTHING = (  # the daemon counts that as no contact, so its host is stale
    "the engine has no version of this fleet: nothing was ever pushed to it, or [fleet] has another name or url than"
    " the publisher; until there is one, this host is not in contact with its fleet"
)
ENCODER = msgspec.json.Encoder()


class PolicyFollower:
    """The follower of a fleet's policy for one daemon; it outlives connections to the engine."""

    def __init__(
        self,
        daemon: DaemonSocket,
        state: LinkState,
        *,
        reconnect: float,
        contact: float = CONTACT,
        now: Callable[[], float],
    ) -> None:
        self._daemon = daemon
        self._state = state
        self._contact = min(CONTACT, contact)
        self._clock = now
        self._pauses = Backoff(reconnect)
        self._refusals = Backoff(LONGEST_REFUSAL, first=0.5)
        self._differences = Backoff(CONTACT, first=0.5)
        self._denials = Backoff(LONGEST_REFUSAL, first=0.2)  # a daemon records each link that it refuses
        self._is_behind = False
        self._refused_bundles: dict[BundleVersion, tuple[str, float]] = {}  # why, and when it may be offered again

    async def run(self, engine: Engine) -> None:
        """Follow until the connection to the engine ends."""
        while True:
            pauses = self._pauses
            try:
                answer = await self._daemon.follow(None)
                self._state.update(answer, self._clock())
                self._pauses.reset()
                self._denials.reset()
                await self._follow(engine, answer)
            except EngineRefusedError as error:
                self._state.set_fault(POLICY, self._explain_refusal(error))
                self._note_loss(isinstance(error, BehindError))
                pauses = self._differences
            except DaemonAbsentError as error:
                self._state.set_fault(DAEMON, str(error))
            except DaemonRefusedError as error:
                self._state.set_fault(DAEMON, str(error))
                pauses = self._denials
            await trio.sleep(pauses.next())

    async def _follow(self, engine: Engine, answer: FollowAnswer) -> None:
        contact_at = self._clock()
        while self._daemon.is_connected():
            is_due = self._clock() >= contact_at
            if is_due and (fault := await self._find_difference(engine, answer.head)) is not None:
                self._state.set_fault(POLICY, fault)
                await trio.sleep(self._differences.next())
                answer = await self._daemon.follow(None)  # an operator may have reset it
                continue
            answer = await self._fetch_bundles(engine, answer)
            if is_due:
                contact_at = self._clock() + self._contact
                answer = await self._report_contact(engine, answer)
            versions = await self._fetch_versions(engine, answer.head.version, wait=WAIT)
            if versions:
                answer = await self._send_versions(engine, answer, versions)
                contact_at = self._clock()

    async def _find_difference(self, engine: Engine, head: PolicyHead) -> str | None:
        """Return how the engine's history differs from the daemon's; None if it has the daemon's head."""
        if not head.version:
            return None
        versions = await self._fetch_versions(engine, head.version - 1, wait=0.0, limit=1)
        if not versions or versions[0][0] != head.version:
            raise BehindError(f"it does not have version {head.version}")
        try:
            digest = read_envelope(versions[0][1]).digest
        except FleetError as error:
            return f"the engine's version {head.version} cannot be read: {error}"
        if digest != head.digest:
            return (
                f"the engine has another version {head.version} than this host has read: its history was rewritten;"
                " nothing of it is applied; if that was the operator's doing, run: hooklatch fleet reset"
            )
        return None

    async def _report_contact(self, engine: Engine, answer: FollowAnswer) -> FollowAnswer:
        """Report to the daemon that it is at the engine's head, if there is nothing after it."""
        if await self._fetch_versions(engine, answer.head.version, wait=0.0, limit=1):
            return answer
        answer = await self._daemon.follow([])
        self._state.update(answer, self._clock())
        self._state.set_fault(POLICY, None)
        self._state.set_fault(FLEET, None if answer.head.version else NOTHING)
        self._note_loss(False)
        self._differences.reset()
        return answer

    async def _send_versions(
        self, engine: Engine, answer: FollowAnswer, versions: Sequence[tuple[int, bytes]]
    ) -> FollowAnswer:
        """Send the daemon all versions after its head; refused versions are offered again later, with newer ones."""
        manifests, last = await self._collect_manifests(engine, versions)
        before = answer.head
        try:
            answer = await self._daemon.follow(manifests)
            problem = "the daemon does not take them" if answer.head == before else None
        except DaemonRefusedError as error:
            problem = str(error)
        if problem is not None:
            self._state.set_fault(POLICY, f"the versions after {before.version} are refused: {problem}")
            await self._await_newer(engine, last)
            return await self._daemon.follow(None)
        self._state.update(answer, self._clock())
        self._state.set_fault(POLICY, None)
        self._state.set_fault(FLEET, None)
        self._refusals.reset()
        return answer

    async def _collect_manifests(self, engine: Engine, versions: Sequence[tuple[int, bytes]]) -> tuple[list[str], int]:
        """Return as many versions as one message holds, and the number of the last one.

        The daemon takes a run only if a trusted key has signed its last version, so a run is as long as possible.
        """
        manifests: list[str] = []
        size = 0
        while True:
            for _, data in versions:
                # One byte over the limit is enough for the daemon to refuse what is too large for a manifest.
                manifests.append(data[: MAX_ENVELOPE + 1].decode("utf-8", "replace"))
                size += len(ENCODER.encode(manifests[-1]))
                if size > MAX_RUN and len(manifests) > 1:
                    manifests.pop()
                    return manifests, versions[-1][0]
            last = versions[-1][0]
            if len(versions) < PAGE:
                return manifests, last
            versions = await self._fetch_versions(engine, last, wait=0.0)
            if not versions:
                return manifests, last

    async def _await_newer(self, engine: Engine, last: int) -> None:
        """Wait until there is a version after `last`, or until it is time to offer the same versions again."""
        until = self._clock() + self._refusals.next()
        while self._clock() < until and self._daemon.is_connected():
            if await self._fetch_versions(engine, last, wait=min(WAIT, max(0.01, until - self._clock())), limit=1):
                return

    async def _fetch_bundles(self, engine: Engine, answer: FollowAnswer) -> FollowAnswer:
        """Bring the daemon the bundle of each policy that it wants; one that it refuses holds up no other."""
        refused = self._refused_bundles
        for wanted in answer.outstanding:
            if wanted in refused and self._clock() < refused[wanted][1]:
                continue
            problem = await self._offer_bundle(engine, wanted)
            if problem is None:
                answer = await self._daemon.follow(None)
                self._state.update(answer, self._clock())
                if wanted in answer.outstanding:
                    problem = f"version {wanted.version} was sent to the daemon, and is not active"
            if problem is not None:
                refused[wanted] = problem, self._clock() + self._refusals.next()
        self._refused_bundles = {wanted: refused[wanted] for wanted in answer.outstanding if wanted in refused}
        problems = [problem for problem, _ in self._refused_bundles.values()]
        self._state.set_fault(BUNDLE, "; ".join(problems) or None)
        return answer

    async def _offer_bundle(self, engine: Engine, wanted: BundleVersion) -> str | None:
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

    async def _fetch_versions(
        self, engine: Engine, after: int, *, wait: float, limit: int = PAGE
    ) -> Sequence[tuple[int, bytes]]:
        return await await_answer(engine.versions(after, wait=wait, limit=limit), wait + TIMEOUT)

    def _note_loss(self, is_behind: bool) -> None:
        """Have shipping compare with the engine again when it is first found to have lost something."""
        if is_behind and not self._is_behind:
            self._state.loss_count += 1
        self._is_behind = is_behind

    def _explain_refusal(self, error: EngineRefusedError) -> str:
        if not isinstance(error, BehindError) or self._state.answer is None:
            return f"the engine gives no versions: {error}"
        return (
            f"the engine is behind this host, which has read version {self._state.answer.head.version}: {error};"
            " nothing is applied until it has that again, or until: hooklatch fleet reset"
        )
