"""The asks that wait for a person: each is recorded when it opens and when it ends, and shown to administrators.

Knows the record, subscribers and time; which end counts is for the core.  An end is recorded before anybody is told of
it, and what cannot be recorded is a deny.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import trio

from hooklatch.core.decisions.asks import Ask, AskResolution, OpenAsks, Verdict, resolve_unanswered
from hooklatch.core.messages import Cause
from hooklatch.record.writer import RecordError
from hooklatch.service.registry.admission import Admission, FairQueueKey

__all__ = ["AskBroker"]

logger = logging.getLogger("hooklatch.asks")
Append = Callable[..., object]
Tell = Callable[[Mapping[str, object]], None]


class WaitingFire:
    """A fire that waits, and how its ask ended."""

    __slots__ = ("closed", "ended")

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.closed: AskResolution | None = None


class AskBroker:
    """The open asks, and the fires that wait for them.

    `wait` is how many seconds a person has; 0: asks go to the host.  So do those of hosts that can ask a person
    themselves, unless `is_for_all`.  `append` writes into the record, and `tell` shows an administrator's subscribers
    what opened and closed.  Requests that wait are not counted by the admission.
    """

    def __init__(self, append: Append, tell: Tell, admission: Admission) -> None:
        self.wait = 0.0
        self.is_for_all = True
        self._append = append
        self._tell = tell
        self._admission = admission
        self._open = OpenAsks()
        self._held: dict[str, WaitingFire] = {}

    def __iter__(self) -> Iterator[Ask]:
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)

    def wait_of(self, *, asks_itself: bool) -> float:
        """Return how many seconds a person has to answer a fire; `asks_itself`: its host can ask a person."""
        return self.wait if self.is_for_all or not asks_itself else 0.0

    async def hold(self, ask: Ask, *, share: str, flow: FairQueueKey | None, seconds: float) -> AskResolution:
        """Wait until an ask has ended, for so many seconds at most; return how.  A cancelled caller denies it."""
        obstacle = self._open.obstacle(share)
        if obstacle is not None:
            return deny_ask(ask.id, "overload", obstacle)
        if seconds <= 0:
            return deny_ask(ask.id, "unanswered", "no time was left in which a person could answer")
        try:
            self._append("ask", action="opened", **collect_ask_facts(ask))
        except RecordError as error:
            return deny_ask(ask.id, "audit", str(error))
        # From here on there is no checkpoint until it is open, and whoever can answer it has been told.
        if (yielding := self._open.find_evicted(share)) is not None:
            self._end(deny_ask(yielding, "overload", "an ask of a session with fewer took its place"))
        held = self._held[ask.id] = WaitingFire()
        now = trio.current_time()
        self._open.open(ask, share=share, now=now, seconds=seconds)
        self._tell({"opened": ask})
        logger.info("an ask waits", extra={"ask": ask.id, "session": ask.session_id, "hook": ask.hook})
        try:
            with trio.move_on_at(now + seconds), self._admission.set_aside(flow):
                await held.ended.wait()
        except trio.Cancelled:
            self._end(deny_ask(ask.id, "abandoned", "its client left before a person answered"))
            raise
        # An answer that came in time has ended it, even if the deadline passed before this task went on.
        return held.closed or self._end(resolve_unanswered(ask.id, seconds))

    def answer(
        self,
        ask_id: str,
        verdict: Verdict,
        reason: str,
        *,
        by: str,
        uid: int,
        pid: int,
        payload_digest: str | None = None,
    ) -> AskResolution:
        """End an ask as a person says, and return how it really ended: too late, or unrecorded, is a deny.

        Raises:
            NotAskedError: there is no such open ask.
            ValueError: the answer is about another payload, or does not say who gives it.
        """
        now = trio.current_time()
        closed = self._open.answer(ask_id, verdict, reason, by=by, now=now, payload_digest=payload_digest)
        return self._end(msgspec.structs.replace(closed, uid=uid, pid=pid))

    def end_session(self, session_id: str) -> None:
        """Deny what a session that has ended still asks."""
        for ask_id in self._open.session_asks(session_id):
            self._end(deny_ask(ask_id, "unanswered", "its session ended before a person answered"))

    def end_all(self) -> None:
        """Deny everything that waits: the daemon is about to leave."""
        for ask in list(self._open):
            self._end(deny_ask(ask.id, "draining", "the daemon ended before a person answered"))

    def _end(self, closed: AskResolution) -> AskResolution:
        held = self._held.pop(closed.id, None)
        if held is None:
            return self._open.close(closed)  # it has ended already, and that counts
        try:
            self._append("ask", action="closed", **describe_resolution(closed))
        except RecordError as error:
            logger.error("the end of an ask is not recorded: %s", error, extra={"ask": closed.id})
            closed = deny_ask(closed.id, "audit", str(error))
        held.closed = self._open.close(closed)
        self._tell({"closed": {name: getattr(closed, name) for name in TOLD}})
        logger.info("an ask has ended", extra={"ask": closed.id, "verdict": closed.verdict, "cause": closed.cause})
        held.ended.set()
        return held.closed


TOLD = ("id", "verdict", "by", "reason", "cause")
RECORDED = ("event", "tool", "hook", "reason", "questions", "host", "payload_digest", "expires_at")


def deny_ask(ask_id: str, cause: Cause, reason: str) -> AskResolution:
    return AskResolution(id=ask_id, verdict="deny", cause=cause, reason=reason)


def collect_ask_facts(ask: Ask) -> dict[str, Any]:
    """Return what is recorded of a question; the record of its decision shows the payload."""
    facts = {name: getattr(ask, name) for name in RECORDED}
    return {"decision_id": ask.id, "session": ask.session_id, **facts}


def describe_resolution(closed: AskResolution) -> dict[str, Any]:
    """Return what is recorded of an end."""
    facts = msgspec.structs.asdict(closed)
    return {"decision_id": facts.pop("id"), **{name: value for name, value in facts.items() if value is not None}}
