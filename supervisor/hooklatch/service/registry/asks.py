"""The asks that wait for a person: each is recorded when it opens and when it ends, and shown to administrators.

The core decides which resolution counts.  A resolution is recorded before any client gets it, and if it cannot be
recorded, the ask is denied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from hooklatch.core.asks import AskResolution, OpenAsks, Verdict, resolve_unanswered
from hooklatch.core.messages import Cause
from hooklatch.record.writer import RecordError
from hooklatch.service.registry.admission import Admission, FairQueueKey

if TYPE_CHECKING:
    from hooklatch.core.answers import Ask

__all__ = ["AskBroker"]

logger = logging.getLogger("hooklatch.asks")
Append = Callable[..., object]
Notify = Callable[[Mapping[str, object]], None]


class WaitingFire:
    """A fire that waits for a person, and the resolution of its ask."""

    __slots__ = ("ended", "resolution")

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.resolution: AskResolution | None = None


class AskBroker:
    """The open asks, and the fires that wait for them.

    `wait` is the time in seconds that a person has. With 0, asks go to the host.  So do those of hosts that can ask a
    person themselves, unless `is_for_all`.  `append` writes into the record.  `listeners` hear of each opened and
    closed ask, and may not raise.  Requests that wait are not counted by the admission.
    """

    def __init__(self, append: Append, notify: Notify, admission: Admission) -> None:
        self.wait = 0.0
        self.is_for_all = True
        self._append = append
        self.listeners = [notify]
        self._admission = admission
        self._open = OpenAsks()
        self._waiting: dict[str, WaitingFire] = {}

    def __iter__(self) -> Iterator[Ask]:
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)

    def ask_timeout(self, *, asks_itself: bool) -> float:
        """Return how many seconds a person has to answer a fire. `asks_itself` says that its host can ask a person."""
        return self.wait if self.is_for_all or not asks_itself else 0.0

    async def hold(self, ask: Ask, *, share: str, flow: FairQueueKey | None, seconds: float) -> AskResolution:
        """Wait for the resolution of an ask, for `seconds` at most.  If the caller is cancelled, the ask is denied."""
        obstacle = self._open.obstacle(share)
        if obstacle is not None:
            return deny_ask(ask["id"], "overload", obstacle)
        if seconds <= 0:
            return deny_ask(ask["id"], "unanswered", "no time was left in which a person could answer")
        try:
            self._append("ask", action="opened", **collect_ask_facts(ask))
        except RecordError as error:
            return deny_ask(ask["id"], "audit", str(error))
        # From here on there is no checkpoint until the ask is open and announced, so no answer can come too early.
        if (yielding := self._open.find_evicted(share)) is not None:
            self._end(deny_ask(yielding, "overload", "an ask of a session with fewer took its place"))
        waiting = self._waiting[ask["id"]] = WaitingFire()
        now = trio.current_time()
        self._open.open(ask, share=share, now=now, seconds=seconds)
        self._notify({"opened": ask})
        logger.info("an ask waits", extra={"ask": ask["id"], "session": ask["session_id"], "hook": ask["hook"]})
        try:
            with trio.move_on_at(now + seconds), self._admission.set_aside(flow):
                await waiting.ended.wait()
        except trio.Cancelled:
            self._end(deny_ask(ask["id"], "abandoned", "its client left before a person answered"))
            raise
        # An answer that came in time has ended it, even if the deadline passed before this task went on.
        return waiting.resolution or self._end(resolve_unanswered(ask["id"], seconds))

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
        """Resolve an ask as a person says. Return the real resolution: a late or unrecorded answer is a deny.

        Raises:
            NotAskedError: there is no such open ask.
            ValueError: the answer is about another payload, or has no name of the person.
        """
        now = trio.current_time()
        resolution = self._open.answer(ask_id, verdict, reason, by=by, now=now, payload_digest=payload_digest)
        return self._end(msgspec.structs.replace(resolution, uid=uid, pid=pid))

    def end_session(self, session_id: str) -> None:
        """Deny the open asks of a session that has ended."""
        for ask_id in self._open.session_asks(session_id):
            self._end(deny_ask(ask_id, "unanswered", "its session ended before a person answered"))

    def end_all(self) -> None:
        """Deny all open asks, since the daemon is about to end."""
        for ask in list(self._open):
            self._end(deny_ask(ask["id"], "draining", "the daemon ended before a person answered"))

    def _notify(self, content: Mapping[str, object]) -> None:
        for listener in self.listeners:
            listener(content)

    def _end(self, resolution: AskResolution) -> AskResolution:
        waiting = self._waiting.pop(resolution.id, None)
        if waiting is None:
            return self._open.close(resolution)  # it has ended already, and that counts
        try:
            self._append("ask", action="closed", **describe_resolution(resolution))
        except RecordError as error:
            logger.error("the end of an ask is not recorded: %s", error, extra={"ask": resolution.id})
            resolution = deny_ask(resolution.id, "audit", str(error))
        waiting.resolution = self._open.close(resolution)
        self._notify({"closed": resolution.describe()})
        logger.info(
            "an ask has ended", extra={"ask": resolution.id, "verdict": resolution.verdict, "cause": resolution.cause}
        )
        waiting.ended.set()
        return waiting.resolution


RECORDED = ("event", "tool", "subject", "hook", "reason", "questions", "host", "payload_digest", "expires_at")


def deny_ask(ask_id: str, cause: Cause, reason: str) -> AskResolution:
    return AskResolution(id=ask_id, verdict="deny", cause=cause, reason=reason)


def collect_ask_facts(ask: Ask) -> dict[str, Any]:
    """Return the fields of an ask for the record. The record of its decision has the payload."""
    facts = {name: value for name, value in ask.items() if name in RECORDED}
    return {"decision_id": ask["id"], "session": ask["session_id"], **facts}


def describe_resolution(resolution: AskResolution) -> dict[str, Any]:
    """Return the fields of a resolution for the record."""
    facts = msgspec.structs.asdict(resolution)
    return {"decision_id": facts.pop("id"), **{name: value for name, value in facts.items() if value is not None}}
