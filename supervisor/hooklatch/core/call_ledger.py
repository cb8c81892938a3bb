"""The ledger of tool calls: what was asked, what was answered, and what ran.  Pure: knows no hook, disk or clock.

asked     pre_tool_use opens a call: by the host's id, or by session, tool and order where the host has none
answered  its decision says which inputs may run: the one that was judged, or what hooks have made of it; or none
ran       post_tool_use, or post_tool_use_failure, closes it, or shows that something went around the guards

overruled   it ran, though it was refused or never answered
unasked     it ran, and no guard had been asked
altered     it ran with another input than the one that was judged
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from hooklatch.core.messages import FireDecision, Mismatch
from hooklatch.core.payload import PayloadError, canonicalize_json

if TYPE_CHECKING:
    from hooklatch.core.answers import CallCounts

__all__ = ["CallKey", "CallLedger", "LedgerMismatch", "SessionCalls", "digest_input", "digest_inputs"]

MAX_CALLS: Final = 1024  # that are remembered, also after they have run
MAX_SESSIONS: Final = 1024
FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
ENCODER: Final = msgspec.json.Encoder()
SHORT: Final = 256  # bytes of an input that is kept as it is; of a longer one the digest is


class CallKey(NamedTuple):
    """The names of a call: the host, the session (or its run), the tool, and the id if the host gave one.

    `is_hosts` says that an agent's program reported it, which asks before each call.  A client of our own may report
    what it has not asked about.
    """

    host: str
    session: str
    tool: str
    id: str | None
    is_hosts: bool

    @property
    def place(self) -> tuple[str, str]:
        return self.host, self.session


class LedgerMismatch(msgspec.Struct, frozen=True):
    """A call that did not run as it was judged; `decision_id` is the decision that it contradicts, if there is one."""

    cause: Mismatch
    decision_id: str | None


class OpenCall(msgspec.Struct):
    """A call that was asked.  Until it is answered nothing may run."""

    id: str | None
    tool: str
    decision_id: str
    asked: bytes | None
    may_run: tuple[bytes, ...] = ()
    is_allowed: bool = False
    has_run: bool = False


class SessionCalls(msgspec.Struct):
    """The calls of one session: how many ran, how many of them were asked, and what did not run as judged."""

    ran: int = 0
    ran_asked: int = 0
    mismatches: Counter[Mismatch] = msgspec.field(default_factory=Counter[Mismatch])
    calls: dict[int, OpenCall] = {}

    def describe(self) -> CallCounts:
        """Return the counts; the words for what did not run as judged only where there is such a call."""
        judged = self.ran - sum(self.mismatches.values())
        counts: CallCounts = {"ran": self.ran, "asked": self.ran_asked, "as_judged": judged}
        for cause, count in self.mismatches.items():
            counts[cause] = count
        return counts


class CallLedger:
    """The calls of all sessions, as far as they are remembered: the oldest are forgotten first."""

    def __init__(self) -> None:
        self.sessions: dict[tuple[str, str], SessionCalls] = {}
        self._calls: dict[int, tuple[str, str]] = {}  # by number, in the order in which they were asked
        self._number = 0
        self.has_forgotten = False  # so that a call may have been asked about although it is not here

    def ask(
        self, key: CallKey, decision_id: str, tool_input: msgspec.Raw | None, decision: FireDecision | None
    ) -> None:
        """Note a call that was asked, and what may run of it by its decision; None: it was never answered."""
        session = self._session(key.place)
        call = OpenCall(key.id, key.tool, decision_id, keep(tool_input))
        if decision is not None and not decision.is_refusal:
            call.is_allowed, call.may_run = True, list_inputs(tool_input, decision.patch)
        self._number += 1
        session.calls[self._number] = call
        self._calls[self._number] = key.place
        if len(self._calls) > MAX_CALLS:
            oldest, self.has_forgotten = next(iter(self._calls)), True
            forgetting = self.sessions.get(self._calls.pop(oldest))
            if forgetting is not None:
                forgetting.calls.pop(oldest, None)

    def change(self, key: CallKey, decision: FireDecision, tool_input: msgspec.Raw | None) -> None:
        """Let a call run with the input that hooks have made of it when the host asked for permission."""
        session = self.sessions.get(key.place)
        if session is None or decision.is_refusal or not decision.patch:
            return
        kept = keep(tool_input)
        for call in reversed([*session.calls.values()]):
            if call.is_allowed and (call.id == key.id if key.id is not None else is_among(kept, call.may_run)):
                call.may_run += list_inputs(tool_input, decision.patch)
                return

    def run(self, key: CallKey, tool_input: msgspec.Raw | None) -> LedgerMismatch | None:
        """Return in what a call that ran differs from what was judged, None if in nothing."""
        session = self._session(key.place)
        ran = keep(tool_input)
        call = find_call(session.calls, key, ran)
        if call is None and not key.is_hosts:
            return None  # a client that only reports
        session.ran += 1
        mismatch: LedgerMismatch | None
        if call is None:
            mismatch = LedgerMismatch("unasked", None)
        else:
            session.ran_asked += 1
            call.has_run = True
            if not call.is_allowed:
                mismatch = LedgerMismatch("overruled", call.decision_id)
            elif ran is not None and call.may_run and not is_among(ran, call.may_run):
                mismatch = LedgerMismatch("altered", call.decision_id)
            else:
                mismatch = None
        if mismatch is not None:
            session.mismatches[mismatch.cause] += 1
        return mismatch

    def believe(self, key: CallKey, mismatch: Mismatch | None, *, instead_of: Mismatch = "unasked") -> None:
        """Correct a call that an earlier daemon was asked about: it ran as judged, or was overruled."""
        session = self._session(key.place)
        session.ran_asked += instead_of == "unasked"
        session.mismatches[instead_of] -= 1
        if mismatch is not None:
            session.mismatches[mismatch] += 1
        session.mismatches = +session.mismatches

    def _session(self, place: tuple[str, str]) -> SessionCalls:
        session = self.sessions.get(place)
        if session is None:
            session = self.sessions[place] = SessionCalls()
            if len(self.sessions) > MAX_SESSIONS:
                for number in self.sessions.pop(next(iter(self.sessions))).calls:
                    self._calls.pop(number, None)
        return session


def find_call(calls: Mapping[int, OpenCall], key: CallKey, ran: bytes | None) -> OpenCall | None:
    """Return the call that ran: the one with its id, else one that may run so, else the oldest of its tool.

    One that was refused with this input comes before one that ran with it already: it is seldom reported twice.
    """
    if key.id is not None:
        call = next((call for call in reversed([*calls.values()]) if call.id == key.id), None)
        return call or find_equal([call for call in calls.values() if call.id is None], ran)
    with_tool = [call for call in calls.values() if call.id is None and call.tool == key.tool]
    waiting = [call for call in with_tool if not call.has_run]
    refused = next((call for call in waiting if not call.is_allowed and is_among(ran, (call.asked,))), None)
    other = find_equal(with_tool, ran) or find_equal(calls.values(), ran)
    allowed = (call for call in waiting if call.is_allowed)
    return find_equal(waiting, ran) or refused or other or next(allowed, None)


def find_equal(calls: Iterable[OpenCall], ran: bytes | None) -> OpenCall | None:
    """Return the first call that was allowed to run with this input."""
    return next((call for call in calls if call.is_allowed and is_among(ran, call.may_run)), None)


def list_inputs(tool_input: msgspec.Raw | None, patch: Mapping[str, msgspec.Raw] | None) -> tuple[bytes, ...]:
    """Return the inputs that may run: as hooks have made it, also where the host lays their keys over its own."""
    changed = (patch or {}).get("tool_input")
    if changed is None:
        kept = keep(tool_input)
        return () if kept is None else (kept,)
    inputs = [keep(changed)]
    with suppress(msgspec.MsgspecError, UnicodeError):
        inputs.append(
            keep(msgspec.Raw(ENCODER.encode({**FIELDS.decode(tool_input or b"{}"), **FIELDS.decode(changed)})))
        )
    return tuple(each for each in inputs if each is not None)


def keep(tool_input: msgspec.Raw | None) -> bytes | None:
    """Return what is kept of an input: its bytes if it is short, else the digest of its one spelling."""
    if tool_input is None:
        return None
    data = bytes(tool_input)
    return data if len(data) <= SHORT else digest(data)


def digest(kept: bytes) -> bytes:
    """Return the digest of the one spelling of what is kept of an input, which may be that digest already."""
    if kept.startswith(b"#"):
        return kept
    with suppress(PayloadError):  # then only the same bytes are the same input
        kept = canonicalize_json(kept)
    return b"#" + hashlib.sha256(kept).digest()


def digest_input(tool_input: msgspec.Raw | None) -> str | None:
    """Return the digest of an input in words, as the record has it."""
    kept = keep(tool_input)
    return None if kept is None else digest(kept)[1:].hex()


def digest_inputs(tool_input: msgspec.Raw | None, patch: Mapping[str, msgspec.Raw]) -> list[str]:
    """Return the digests of the inputs that may run as hooks have made them."""
    return [digest(each)[1:].hex() for each in list_inputs(tool_input, patch)]


def is_among(ran: bytes | None, inputs: tuple[bytes | None, ...]) -> bool:
    """Return whether an input is one of these, in any spelling."""
    if ran is None or ran in inputs:
        return ran is not None
    return digest(ran) in [digest(each) for each in inputs if each is not None]
