"""Asks that wait for a person.  Knows questions, answers and moments; knows no socket, no record and no clock.

A hook's `ask` is a question about one payload.  While it is open, the fire waits, and stands as denied.  It has exactly
one end, and only a person's `allow`, in time, for exactly this payload, is one that lets the fire go on:

              open ──┬─ answered before its deadline, for its digest ──────────────────▶ policy: allow or deny
                     ├─ its deadline passed; answered at that moment or later ─────────▶ unanswered: deny
                     ├─ its client is gone ────────────────────────────────────────────▶ abandoned: deny
                     ├─ its session has ended ─────────────────────────────────────────▶ unanswered: deny
                     ├─ all places are taken, and a share with fewer needs one ────────▶ overload: deny
                     ├─ the daemon is ending ──────────────────────────────────────────▶ draining: deny
                     └─ the question or the answer could not be recorded ──────────────▶ audit: deny

What comes after the end changes nothing, and is told how it ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec.structs import replace

from hooklatch.core.decisions.decision import format_failure
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.messages import RETRYABLE, Cause, FireDecision
from hooklatch.core.text import format_duration

__all__ = [
    "MAX_ASKS",
    "MAX_OF_ONE",
    "Ask",
    "AskResolution",
    "STRANGERS",
    "NotAskedError",
    "OpenAsks",
    "AskReason",
    "Verdict",
    "apply_resolution",
    "resolve_unanswered",
]

MAX_ASKS = 100  # open at the same time; nobody reads more
MAX_OF_ONE = 16  # of one share: a session, one that a host names, or all that name none
STRANGERS = ""  # the share of these: a program that names no session has no more places for having no name
MAX_ENDED = 256  # of which it is still known how they ended
MAX_TEXT = 500  # characters of a reason and of a name that a person gives

Verdict = Literal["allow", "deny"]


class NotAskedError(LookupError):
    """There is no such open ask; the text says how it ended, if that is known."""


class AskReason(msgspec.Struct, frozen=True):
    """What one hook asks: its full name, and why."""

    hook: str
    reason: str


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """An open question.  Its id is that of the decision that waits for it; times are texts as in the record.

    `cwd` is where the agent is, cut as a reason is.  `questions` are those of all hooks that ask, in firing order, the
    agent's own last (but for `questions_omitted`); a yes is an answer to each.  `hook` and `reason` are those of the
    first.  `payload_digest` is that of the payload as hooks have finally made it, `excerpt` what it holds but for
    secrets (`excerpt_cut`, as text: more is missing), and `patch` (`patch_cut`) what they have changed in it.
    """

    id: str
    at: str
    expires_at: str
    session_id: str | None
    host: str | None
    cwd: str | None
    event: str
    tool: str | None
    hook: str
    reason: str
    questions: list[AskReason]
    questions_omitted: int
    payload_digest: str
    payload_bytes: int
    excerpt: msgspec.Raw | None
    excerpt_cut: str | None
    patch: msgspec.Raw | None
    patch_cut: str | None


class AskResolution(msgspec.Struct, frozen=True, kw_only=True):
    """How an ask ended.  `by` is who answered as that says itself; `uid` and `pid` are what the kernel says of it."""

    id: str
    verdict: Verdict
    cause: Cause
    reason: str
    by: str | None = None
    uid: int | None = None
    pid: int | None = None

    def text(self) -> str:
        """Return in one line who decided what and why."""
        if self.by is None:
            return f"denied: {self.reason}"
        word = "allowed" if self.verdict == "allow" else "denied"
        return f"{word} by {self.by}" + (f": {self.reason}" if self.reason else "")


class PendingAsk(msgspec.Struct):
    """An open ask, with its deadline on the clock of whoever tells the time, and how long it waits until then."""

    ask: Ask
    share: str
    deadline: float
    seconds: float


class OpenAsks:
    """All asks that are open, and how the last ones ended."""

    def __init__(self, *, most: int = MAX_ASKS, most_of_one: int = MAX_OF_ONE) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._open: dict[str, PendingAsk] = {}
        self._ended: dict[str, AskResolution] = {}
        self._shares: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Ask]:
        return (one.ask for one in self._open.values())

    def __len__(self) -> int:
        return len(self._open)

    def of(self, session_id: str) -> list[str]:
        """Return the ids of a session's asks.  A live session's name is its share: a host's claim cannot be it."""
        return [ask_id for ask_id, one in self._open.items() if one.share == session_id]

    def obstacle(self, share: str) -> str | None:
        """Return why no further ask of this share can wait, if so."""
        if self._shares[share] >= self._most_of_one:
            whose = "of this session" if share != STRANGERS else "that name no session"
            return f"{self._most_of_one} asks {whose} wait for a person already"
        if len(self._open) >= self._most and self.yielding_to(share) is None:
            return f"{self._most} asks wait for a person already"
        return None

    def yielding_to(self, share: str) -> str | None:
        """Return the ask that has to end for a further one of this share: the newest of the largest share.

        None if there is room; also if this share would become as large as that one is, as in a fair queue.
        """
        if len(self._open) < self._most:
            return None
        ((largest, count),) = self._shares.most_common(1)
        if count < self._shares[share] + 2:
            return None
        return next(ask_id for ask_id, one in reversed(self._open.items()) if one.share == largest)

    def open(self, ask: Ask, *, share: str, now: float, seconds: float) -> None:
        """Begin to wait for so long; whoever calls has looked for an obstacle."""
        assert ask.id not in self._open, f"{ask.id} waits already"
        self._open[ask.id] = PendingAsk(ask, share, now + seconds, seconds)
        self._shares[share] += 1

    def answer(
        self, ask_id: str, verdict: Verdict, reason: str, *, by: str, now: float, payload_digest: str | None = None
    ) -> AskResolution:
        """Return the end that an answer is, for `close`; one that comes too late ends it as unanswered.

        Raises:
            NotAskedError: there is no such open ask.
            ValueError: the answer is about another payload, or does not say who gives it.
        """
        waiting = self._open.get(ask_id)
        if waiting is None:
            raise NotAskedError(self._why_not_open(ask_id))
        if payload_digest is not None and payload_digest != waiting.ask.payload_digest:
            raise ValueError(f"{ask_id} is about the payload {waiting.ask.payload_digest}, not {payload_digest}")
        if not (name := collapse_spaces(by)):
            raise ValueError("an answer needs a name in `by`: it stays in the record")
        if now >= waiting.deadline:
            return resolve_unanswered(ask_id, waiting.seconds)
        return AskResolution(id=ask_id, verdict=verdict, cause="policy", reason=collapse_spaces(reason), by=name)

    def close(self, closed: AskResolution) -> AskResolution:
        """End an ask, and return how it ended: as an earlier call said, if there was one.

        Raises:
            NotAskedError: there was never such an ask.
        """
        waiting = self._open.pop(closed.id, None)
        if waiting is None:
            if closed.id not in self._ended:
                raise NotAskedError(self._why_not_open(closed.id))
            return self._ended[closed.id]
        self._shares[waiting.share] -= 1
        if not self._shares[waiting.share]:
            del self._shares[waiting.share]
        self._ended[closed.id] = closed
        if len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]
        return closed

    def _why_not_open(self, ask_id: str) -> str:
        ended = self._ended.get(ask_id)
        if ended is None:
            return f"no ask {ask_id!r} waits for a person; see: hooklatch asks"
        return f"the ask {ask_id} is over: {ended.text()}"


def resolve_unanswered(ask_id: str, seconds: float) -> AskResolution:
    """Return the end of an ask for which nobody had an answer in so many seconds."""
    return AskResolution(
        id=ask_id, verdict="deny", cause="unanswered", reason=f"no person answered within {format_duration(seconds)}"
    )


def apply_resolution(spec: EventSpec, decision: FireDecision, closed: AskResolution) -> FireDecision:
    """Return what a person's answer, or its absence, makes of an ask; a yes keeps its patch, everything its warnings.

    Where an event knows no allow, a yes is a pass: hooks have nothing against it, and the host's own rules go on.
    """
    name = read_full_name(decision.layer, decision.hook, decision.name)
    asked = f"{name} asked: {decision.reason}" if decision.reason else f"{name} asked"
    if closed.verdict == "allow":
        verdict: Literal["allow", "pass"] = "allow" if "allow" in spec.verdicts else "pass"
        return replace(decision, verdict=verdict, cause="policy", reason=f"{closed.text()} ({asked})")
    if closed.cause in ("policy", "overload"):  # the latter is about places here, and not about workers
        reason = f"{closed.text()} ({asked})"
    else:
        reason = format_failure(closed.cause, f"{closed.reason} ({asked})")
    return replace(
        decision,
        verdict="deny",
        cause=closed.cause,
        reason=reason,
        retryable=closed.cause in RETRYABLE,
        patch=None,
        append=None,
        value=None,
    )


def collapse_spaces(text: str) -> str:
    return " ".join(text.split())[:MAX_TEXT]
