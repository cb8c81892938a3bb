"""Asks that wait for a person.  Knows questions, answers and moments; knows no socket, no record and no clock.

A hook's `ask` is a question about one payload.  While it is open, the fire waits, denied so far.  An ask has exactly
one resolution.  Only a person's `allow`, in time and for exactly this payload, lets the fire continue:

              open ──┬─ answered before its deadline, for its digest ──────────────────▶ policy: allow or deny
                     ├─ its deadline passed; answered at that moment or later ─────────▶ unanswered: deny
                     ├─ its client is gone ────────────────────────────────────────────▶ abandoned: deny
                     ├─ its session has ended ─────────────────────────────────────────▶ unanswered: deny
                     ├─ all places are taken, and a share with fewer asks needs one ───▶ overload: deny
                     ├─ the daemon is ending ──────────────────────────────────────────▶ draining: deny
                     └─ the question or the answer could not be recorded ──────────────▶ audit: deny

A later answer changes nothing, and gets the resolution in response.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from hooklatch.core.failures import format_failure
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.messages import RETRYABLE, Cause, FireDecision
from hooklatch.core.text import format_duration

if TYPE_CHECKING:
    from hooklatch.core.answers import Ask, AskEnd

__all__ = [
    "MAX_ASKS", "MAX_OF_ONE", "AskResolution", "STRANGERS", "NotAskedError", "OpenAsks",
    "Verdict", "apply_resolution", "resolve_unanswered",
]  # fmt: skip

MAX_ASKS = 100  # open at the same time; a person cannot read more
MAX_OF_ONE = 16  # of one share: a live session, a session that a host names, or all programs that name none
STRANGERS = ""  # the share of programs that name no session, which gain no places by having no name
MAX_ENDED = 256  # resolutions that are still known, for answers that come too late
MAX_TEXT = 500  # characters of a reason and of a name that a person gives

Verdict = Literal["allow", "deny"]


class NotAskedError(LookupError):
    """There is no such open ask; the text gives its resolution, if that is known."""


class AskResolution(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an ask.  `by` is the name that the answering client gives; the kernel reports its `uid` and `pid`."""

    id: str
    verdict: Verdict
    cause: Cause
    reason: str
    by: str | None = None
    uid: int | None = None
    pid: int | None = None

    def describe(self) -> AskEnd:
        """Return it as it is announced."""
        return {"id": self.id, "verdict": self.verdict, "cause": self.cause, "reason": self.reason, "by": self.by}

    def text(self) -> str:
        """Return the resolution as one line, with its author and reason."""
        if self.by is None:
            return f"denied: {self.reason}"
        word = "allowed" if self.verdict == "allow" else "denied"
        return f"{word} by {self.by}" + (f": {self.reason}" if self.reason else "")


class PendingAsk(msgspec.Struct):
    """An open ask, with its deadline on the caller's clock, and its whole waiting time in seconds."""

    ask: Ask
    share: str
    deadline: float
    seconds: float


class OpenAsks:
    """All open asks, and the resolutions of the latest closed ones."""

    def __init__(self, *, maximum: int = MAX_ASKS, share_maximum: int = MAX_OF_ONE) -> None:
        self._maximum = maximum
        self._share_maximum = share_maximum
        self._open: dict[str, PendingAsk] = {}
        self._ended: dict[str, AskResolution] = {}
        self._shares: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Ask]:
        return (pending.ask for pending in self._open.values())

    def __len__(self) -> int:
        return len(self._open)

    def session_asks(self, session_id: str) -> list[str]:
        """Return the ids of a live session's asks.  Its id is the share, which no host can claim."""
        return [ask_id for ask_id, pending in self._open.items() if pending.share == session_id]

    def obstacle(self, share: str) -> str | None:
        """Return why no further ask of this share can wait; None if one can."""
        if self._shares[share] >= self._share_maximum:
            whose = "of this session" if share != STRANGERS else "that name no session"
            return f"{self._share_maximum} asks {whose} wait for a person already; answer some first: hooklatch asks"
        if len(self._open) >= self._maximum and self.find_evicted(share) is None:
            return f"{self._maximum} asks wait for a person already; answer some first: hooklatch asks"
        return None

    def find_evicted(self, share: str) -> str | None:
        """Return the ask that has to end for a further one of this share: the newest of the largest share.

        None if there is room, and also if this share would become as large as the largest is, as in a fair queue.
        """
        if len(self._open) < self._maximum:
            return None
        ((largest, count),) = self._shares.most_common(1)
        if count < self._shares[share] + 2:
            return None
        return next(ask_id for ask_id, pending in reversed(self._open.items()) if pending.share == largest)

    def open(self, ask: Ask, *, share: str, now: float, seconds: float) -> None:
        """Begin to wait for so many seconds; the caller has looked for an obstacle before."""
        assert ask["id"] not in self._open, f"{ask['id']} waits already"
        self._open[ask["id"]] = PendingAsk(ask, share, now + seconds, seconds)
        self._shares[share] += 1

    def answer(
        self, ask_id: str, verdict: Verdict, reason: str, *, by: str, now: float, payload_digest: str | None = None
    ) -> AskResolution:
        """Return an answer as a resolution for `close`; an answer that comes too late is one of an unanswered ask.

        Raises:
            NotAskedError: there is no such open ask.
            ValueError: the answer is about another payload, or does not name its author.
        """
        waiting = self._open.get(ask_id)
        if waiting is None:
            raise NotAskedError(self._explain_not_open(ask_id))
        if payload_digest is not None and payload_digest != waiting.ask["payload_digest"]:
            raise ValueError(f"{ask_id} is about the payload {waiting.ask['payload_digest']}, not {payload_digest}")
        if not (name := collapse_spaces(by)):
            raise ValueError("an answer needs a name in `by`: it stays in the record")
        if now >= waiting.deadline:
            return resolve_unanswered(ask_id, waiting.seconds)
        return AskResolution(id=ask_id, verdict=verdict, cause="policy", reason=collapse_spaces(reason), by=name)

    def close(self, resolution: AskResolution) -> AskResolution:
        """End an ask, and return its resolution, which is that of the first call.

        Raises:
            NotAskedError: there was never such an ask.
        """
        waiting = self._open.pop(resolution.id, None)
        if waiting is None:
            if resolution.id not in self._ended:
                raise NotAskedError(self._explain_not_open(resolution.id))
            return self._ended[resolution.id]
        self._shares[waiting.share] -= 1
        if not self._shares[waiting.share]:
            del self._shares[waiting.share]
        self._ended[resolution.id] = resolution
        if len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]
        return resolution

    def _explain_not_open(self, ask_id: str) -> str:
        ended = self._ended.get(ask_id)
        if ended is None:
            return f"no ask {ask_id!r} waits for a person; see: hooklatch asks"
        return f"the ask {ask_id} is over: {ended.text()}"


def resolve_unanswered(ask_id: str, seconds: float) -> AskResolution:
    """Return the resolution of an ask that no person answered in so many seconds."""
    return AskResolution(
        id=ask_id, verdict="deny", cause="unanswered", reason=f"no person answered within {format_duration(seconds)}"
    )


def apply_resolution(spec: EventSpec, decision: FireDecision, resolution: AskResolution) -> FireDecision:
    """Return the decision on an ask after its resolution; a yes keeps its patch, and both keep its warnings.

    Where an event has no allow, a yes is a pass: hooks do not object, and the host's own rules apply.
    """
    name = read_full_name(decision.layer, decision.hook, decision.name)
    asked = f"{name} asked: {decision.reason}" if decision.reason else f"{name} asked"
    if resolution.verdict == "allow":
        verdict: Literal["allow", "pass"] = "allow" if "allow" in spec.verdicts else "pass"
        return replace(decision, verdict=verdict, cause="policy", reason=f"{resolution.text()} ({asked})", instead=None)
    if resolution.cause in ("policy", "overload"):  # the latter is about places here, and not about workers
        reason = f"{resolution.text()} ({asked})"
    else:
        reason = format_failure(resolution.cause, f"{resolution.reason} ({asked})")
    return replace(
        decision, verdict="deny", cause=resolution.cause, reason=reason, retryable=resolution.cause in RETRYABLE,
        patch=None, append=None, value=None, instead=decision.instead if resolution.cause == "policy" else None,
    )  # fmt: skip


def collapse_spaces(text: str) -> str:
    return " ".join(text.split())[:MAX_TEXT]
