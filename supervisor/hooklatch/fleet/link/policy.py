"""The task that brings versions from the engine to the daemon: in order, all of them, and the bundles that it wants.

The daemon verifies and decides.  The task reads what the engine has from the daemon's head on, brings the daemon there,
and then has the engine hold one question until there is more, a minute at most:

    read from the head on ─▶ something new ─▶ to the daemon ─▶ read again
                          ├▶ a bundle is wanted ─▶ to the daemon ─▶ read again
                          └▶ nothing: a timestamp, and this host's report ─▶ wait for more ─▶ read again

So a lost message, a restart or a partition costs one more request, and the task keeps no state.  While it waits,
`attend` looks whether the daemon is still there and where it was, and ends the wait if not.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
import trio

from hooklatch.fleet.engine.engine import KEYS, TIMESTAMP, BehindError, Engine, EngineRefusedError
from hooklatch.fleet.engine.engine import POLICY as POLICY_STREAM
from hooklatch.fleet.link.daemon import DaemonAbsentError, DaemonRefusedError, DaemonSocket, FollowAnswer
from hooklatch.fleet.link.known import BUNDLE, DAEMON, FLEET, POLICY, SIGNED, TIMEOUT, Backoff, LinkState, await_answer
from hooklatch.fleet.manifests import (
    MAX_BUNDLE,
    MAX_ENVELOPE,
    RESTORE,
    REWRITTEN,
    BundleVersion,
    FleetError,
    PolicyHead,
    read_envelope,
    read_payload,
)
from hooklatch.fleet.roles import MAX_DOCUMENT

__all__ = ["PolicyFollower"]

logger = logging.getLogger("hooklatch.link")
BLOCK = 60.0  # seconds that the engine holds a question: contact is that old, and a server that hangs goes unnoticed
SHARE = 0.2  # of that, by chance less: many hosts must not ask in one moment
LOOK = 1.0  # seconds between two looks whether the daemon is still connected
ATTEND = 5.0  # seconds between two questions to the daemon for its state
LONGEST_REFUSAL = 30.0  # seconds, at most, until versions or a bundle that the daemon refused are offered again
PAGE = 100  # versions asked for at once
MAX_RUN = 6 * 2**20  # bytes of versions sent to the daemon at once; a message has at most 9 MiB
NOTHING = (  # the daemon counts that as no contact, so its host is stale
    "the engine has no version of this fleet: nothing was ever pushed to it, or [fleet] has another name or url than"
    " the publisher; until there is one, this host is not in contact with its fleet"
)
NO_BUNDLE = "the engine has no bundle"
ENCODER = msgspec.json.Encoder()


class SignedFacts(NamedTuple):
    """The key sets after the daemon's, the timestamp, and after which numbers to wait for more of them."""

    keys: list[str]
    timestamp: str | None
    heads: dict[str, int]


class PolicyFollower:
    """The follower of a fleet's policy for one daemon; it outlives connections to the engine."""

    def __init__(
        self,
        daemon: DaemonSocket,
        state: LinkState,
        *,
        reconnect: float,
        contact: float,
        now: Callable[[], float],
        before_wait: Callable[[Engine], Awaitable[None]] | None,
    ) -> None:
        self._daemon = daemon
        self._state = state
        self._block = min(BLOCK, contact)
        self._clock = now
        self._before_wait = before_wait
        self._waiting: trio.CancelScope | None = None
        self._has_news = True  # what is signed besides versions has to be read again
        self._pauses = Backoff(reconnect)
        self._refusals = Backoff(LONGEST_REFUSAL, first=0.5)
        self._differences = Backoff(ATTEND, first=0.5)
        self._denials = Backoff(LONGEST_REFUSAL, first=0.2)  # a daemon records each link that it refuses
        self._is_behind = False
        self._refused_bundles: dict[BundleVersion, tuple[str, float]] = {}  # why, and when it may be offered again
        self._offered: tuple[PolicyHead, int] | None = None  # the head of the daemon that was offered another history
        self._offer_at = 0.0

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
                is_behind = isinstance(error, BehindError)
                self._state.set_fault(POLICY, self._explain_refusal(error), "behind" if is_behind else "refused")
                self._note_loss(is_behind)
                pauses = self._differences
            except DaemonAbsentError as error:
                self._state.set_fault(DAEMON, str(error))
            except DaemonRefusedError as error:
                self._state.set_fault(DAEMON, str(error))
                pauses = self._denials
            await trio.sleep(pauses.next())

    async def attend(self) -> None:
        """End a wait at the engine when the daemon has gone, or is not where it was, until cancelled."""
        asked_at = 0.0
        while True:
            await trio.sleep(LOOK)
            waiting, before = self._waiting, self._state.answer
            if waiting is None or before is None:
                continue
            if self._daemon.is_connected() and self._clock() >= asked_at + ATTEND:
                asked_at = self._clock()
                with suppress(DaemonAbsentError, DaemonRefusedError):
                    answer = await self._daemon.follow(None)
                    self._state.update(answer, self._clock())
                    if get_place(answer) == get_place(before):
                        continue
                    waiting.cancel()
            if not self._daemon.is_connected():
                waiting.cancel()

    async def _follow(self, engine: Engine, answer: FollowAnswer) -> None:
        signed: SignedFacts | None = None
        while self._daemon.is_connected():
            head = answer.head
            if signed is None or self._has_news or SIGNED in self._state.faults:
                # Before the versions: one is there before a timestamp names it.
                signed = await self._fetch_signed(engine, answer.key_set)
            versions = await await_answer(engine.versions(max(0, head.version - 1), limit=PAGE))
            if head.version and (fault := find_difference(versions, head)) is not None:
                if (offered := await self._offer_history(engine, answer, signed)) is not None:
                    answer = offered
                    continue
                self._state.set_fault(POLICY, fault, "rewritten")
                await trio.sleep(self._differences.next())
                answer = await self._daemon.follow(None)  # an operator may have reset it
                continue
            newer = versions[1:] if head.version else versions
            if (fetched := await self._fetch_bundles(engine, answer)) is not None:
                answer = fetched
            elif newer:
                answer = await self._send_versions(engine, answer, newer, signed, has_more=len(versions) == PAGE)
            else:
                answer = await self._report_contact(signed)
                if self._before_wait is not None:
                    await self._before_wait(engine)
                answer = await self._await_news(
                    engine, answer, {POLICY_STREAM: answer.head.version, **signed.heads}, self._block
                )

    async def _offer_history(self, engine: Engine, answer: FollowAnswer, signed: SignedFacts) -> FollowAnswer | None:
        """Offer the daemon the whole history if that gives up what the daemon has read; None if it is not taken.

        Also where the daemon has read another one than that which was active there, and which may be back now.
        """
        versions = await await_answer(engine.versions(0, limit=PAGE))
        if not versions:
            return None
        manifests, last = await self._collect_manifests(engine, versions, has_more=len(versions) == PAGE)
        offer, head = (answer.head, last), answer.head
        is_meant = answer.floor.version > head.version or any(releases(text, head, last) for text in manifests)
        if not is_meant or (offer == self._offered and self._clock() < self._offer_at):
            return None
        self._offered, self._offer_at = offer, self._clock() + LONGEST_REFUSAL
        try:
            taken = await self._daemon.follow(manifests, None, signed.keys)
        except DaemonRefusedError as error:
            logger.warning("the daemon does not take a history that begins anew: %s", error)
            return None
        self._state.update(taken, self._clock())
        return taken if taken.head != head else None

    async def _await_news(
        self, engine: Engine, answer: FollowAnswer, heads: Mapping[str, int], seconds: float
    ) -> FollowAnswer:
        """Return the daemon's state once a stream has more than a number, or it is time, or the daemon changed."""
        seconds = min([seconds, *(retry_at - self._clock() for _, retry_at in self._refused_bundles.values())])
        seconds = max(0.01, seconds * (1 - SHARE * random.random()))
        self._has_news = True
        with trio.CancelScope() as self._waiting:
            try:
                self._has_news = bool(await await_answer(engine.wait(heads, seconds), seconds + TIMEOUT))
            finally:
                self._waiting = None
            return self._state.answer or answer
        return await self._daemon.follow(None)

    async def _report_contact(self, signed: SignedFacts) -> FollowAnswer:
        """Report to the daemon that it is at the engine's head."""
        answer = await self._daemon.follow([], signed.timestamp, signed.keys)
        self._state.update(answer, self._clock())
        is_behind = 0 < answer.head.version < answer.floor.version
        self._state.set_fault(POLICY, answer.problem if is_behind else None, "behind")
        self._state.set_fault(FLEET, None if answer.head.version else NOTHING, "empty")
        self._note_loss(is_behind)
        self._differences.reset()
        return answer

    async def _fetch_signed(self, engine: Engine, key_set: int) -> SignedFacts:
        """Return what the engine has besides versions; one that refuses some of it brings versions all the same."""
        keys, timestamp, heads = list[str](), None, dict[str, int]()
        try:
            keys = [decode_text(data) for data in await await_answer(engine.key_sets(key_set))]
            heads[KEYS] = key_set + len(keys)
            stored = await await_answer(engine.timestamp())
            heads[TIMESTAMP], timestamp = (stored[0], decode_text(stored[1])) if stored is not None else (0, None)
            self._state.set_fault(SIGNED, None)
        except EngineRefusedError as error:
            what = "timestamp, so nothing is contact" if heads else "key sets"
            is_behind = isinstance(error, BehindError)
            text = f"the engine gives no {what}: {error}" + (f"; {RESTORE}" if is_behind else "")
            self._state.set_fault(SIGNED, text, "behind" if is_behind else "")
        return SignedFacts(keys, timestamp, heads)

    async def _send_versions(
        self,
        engine: Engine,
        answer: FollowAnswer,
        versions: Sequence[tuple[int, bytes]],
        signed: SignedFacts,
        *,
        has_more: bool,
    ) -> FollowAnswer:
        """Send the daemon all versions after its head; refused versions are offered again later, with newer ones."""
        manifests, last = await self._collect_manifests(engine, versions, has_more=has_more)
        before = answer.head
        try:
            answer = await self._daemon.follow(manifests, None, signed.keys)  # they may need these keys
            problem = "the daemon does not take them" if answer.head == before else None
        except DaemonRefusedError as error:
            problem = str(error)
        if problem is not None:
            self._state.set_fault(POLICY, f"the versions after {before.version} are refused: {problem}")
            return await self._await_news(engine, answer, {POLICY_STREAM: last, **signed.heads}, self._refusals.next())
        self._state.update(answer, self._clock())
        self._state.set_fault(POLICY, None)
        self._state.set_fault(FLEET, None)
        self._refusals.reset()
        return answer

    async def _collect_manifests(
        self, engine: Engine, versions: Sequence[tuple[int, bytes]], *, has_more: bool
    ) -> tuple[list[str], int]:
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
            if not has_more:
                return manifests, last
            versions = await await_answer(engine.versions(last, limit=PAGE))
            has_more = len(versions) == PAGE
            if not versions:
                return manifests, last

    async def _fetch_bundles(self, engine: Engine, answer: FollowAnswer) -> FollowAnswer | None:
        """Bring the daemon the bundle of each policy that it wants, and return its state then; None if none is due.

        A bundle that it refuses holds up no other.
        """
        refused = {bundle: why for bundle, why in self._refused_bundles.items() if bundle in answer.outstanding}
        due = [bundle for bundle in answer.outstanding if self._clock() >= refused.get(bundle, ("", 0.0))[1]]
        for wanted in due:
            problem = await self._offer_bundle(engine, wanted)
            answer = await self._daemon.follow(None)
            self._state.update(answer, self._clock())
            if problem is None and wanted in answer.outstanding:
                problem = f"version {wanted.version} was sent to the daemon, and is not active"
            refused.pop(wanted, None)
            if problem is not None:
                refused[wanted] = problem, self._clock() + self._refusals.next()
        self._refused_bundles = refused
        problems = [problem for problem, _ in refused.values()]
        is_lost = any(NO_BUNDLE in problem for problem in problems)
        self._state.set_fault(BUNDLE, "; ".join(problems) or None, "behind" if is_lost else "")
        return answer if due else None

    async def _offer_bundle(self, engine: Engine, wanted: BundleVersion) -> str | None:
        data = await await_answer(engine.bundle(wanted.bundle))
        if data is None:
            return f"{NO_BUNDLE} {wanted.bundle}, which version {wanted.version} names; {RESTORE}"
        if len(data) > MAX_BUNDLE:
            return f"the engine's bundle of version {wanted.version} has {len(data)} bytes; the most is {MAX_BUNDLE}"
        try:
            await self._daemon.apply(wanted.version, data)
        except DaemonRefusedError as error:
            return f"version {wanted.version} was refused: {error}"
        logger.info("applied", extra={"version": wanted.version, "bundle": wanted.bundle})
        return None

    def _note_loss(self, is_behind: bool) -> None:
        """Have shipping compare with the engine again when it is first found to have lost something."""
        if is_behind and not self._is_behind:
            self._state.loss_count += 1
        self._is_behind = is_behind

    def _explain_refusal(self, error: EngineRefusedError) -> str:
        if not isinstance(error, BehindError) or self._state.answer is None:
            return f"the engine gives no versions: {error}"
        return (
            f"the engine is behind this host, which has read version {self._state.answer.head.version}: versions were"
            f" lost, and nothing is applied; {RESTORE} ({error})"
        )


def decode_text(data: bytes) -> str:
    """Return a document as text; one byte over the limit is enough for the daemon to refuse it."""
    return data[: MAX_DOCUMENT + 1].decode("utf-8", "replace")


def get_place(answer: FollowAnswer) -> tuple[object, ...]:
    return answer.head, answer.wanted, answer.applied


def find_difference(versions: Sequence[tuple[int, bytes]], head: PolicyHead) -> str | None:
    """Return how the engine's history, read from the daemon's head on, differs from it; None if it has that head.

    Raises:
        BehindError: the engine does not have that version.
    """
    if not versions or versions[0][0] != head.version:
        raise BehindError(f"it does not have version {head.version}")
    try:
        digest = read_envelope(versions[0][1]).digest
    except FleetError as error:
        return f"the engine's version {head.version} cannot be read: {error}"
    if digest != head.digest:
        return f"the engine has another version {head.version} than this host has read: {REWRITTEN}"
    return None


def releases(text: str, head: PolicyHead, newest: int) -> bool:
    """Return whether a stored manifest gives up a version that was read, in a history up to `newest`."""
    try:
        return read_payload(read_envelope(text.encode())).releases(head, newest)
    except (FleetError, UnicodeError):  # the daemon says what is wrong with it
        return False
