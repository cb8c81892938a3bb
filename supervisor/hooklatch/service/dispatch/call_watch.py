"""The watch over tool calls: each fire that reports one goes into the ledger, and what did not run as judged comes out.

A mismatch is recorded, makes the daemon red until it is acknowledged, and is an event of its own for hooks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
import trio

from hooklatch.core.call_ledger import ENCODER, FIELDS, CallKey, CallLedger, LedgerMismatch, digest_input
from hooklatch.core.fire_params import EnvelopeParams, FireParams
from hooklatch.core.messages import FireDecision
from hooklatch.core.payload import PayloadError
from hooklatch.processes.supervisor import Supervisor
from hooklatch.record.writer import RecordWriter
from hooklatch.service.dispatch.fires import Fire
from hooklatch.service.registry.budget import SMALL
from hooklatch.service.registry.sessions import AgentSession
from hooklatch.threads import in_thread

__all__ = ["CallWatch"]

logger = logging.getLogger("hooklatch.calls")
EARLIER: Final = 3600.0  # seconds after the start in which a call may end that an earlier daemon was asked about
MAX_ASKED: Final = 64  # calls that were asked about and are not in the ledger yet
EVENT: Final = "call_mismatch"
# Keys of Claude Code's own that are in one of the two reports alone: what a person answers in its dialog is in the one
# of what ran, and what it works out of `to` and `message` in the one that asks (2.1.332).
ADDED: Final = {
    "AskUserQuestion": frozenset({"answers", "annotations"}),
    "SendMessage": frozenset({"type", "recipient", "recipient_kind", "content", "request_id", "approve"}),
}
TEXTS: Final = {
    "overruled": "ran although it was refused",
    "unasked": "ran and no guard was asked",
    "altered": "ran with another input than the one that was judged",
}


class CallWatch:
    """The ledger of this daemon's sessions; `fire_later` fires an event."""

    def __init__(
        self,
        record: RecordWriter,
        background: Supervisor,
        fire_later: Callable[[FireParams, AgentSession | None], object],
    ) -> None:
        self._asked: list[tuple[Fire, FireDecision | None]] = []  # not added up yet
        self._ledger = CallLedger()
        self._record = record
        self._background = background
        self._fire_later = fire_later
        self._started = trio.current_time()

    def note(self, fire: Fire, decision: FireDecision | None) -> None:
        """Note a call that was asked about, with its decision; None: its client left before there was one."""
        asked = self._asked
        asked.append((fire, decision))
        if len(asked) >= MAX_ASKED or len(fire.payload.data) > SMALL:
            self.add_up()

    def add_up(self) -> CallLedger:
        """Return the ledger with all that was asked so far: adding up many costs a fire less than adding each."""
        asked, self._asked = self._asked, []
        for fire, decision in asked:
            tool, tool_input = read_call(fire)
            if tool in ADDED and decision is not None and decision.patch and "tool_input" in decision.patch:
                changed = strip_added(tool, decision.patch["tool_input"])
                decision = msgspec.structs.replace(decision, patch={**decision.patch, "tool_input": changed})
            if fire.spec.name == "pre_tool_use":
                self._ledger.ask(make_key(fire, tool), fire.decision_id, tool_input, decision)
            elif decision is not None:
                self._ledger.change(make_key(fire, tool), decision, tool_input)
        return self._ledger

    def run(self, fire: Fire) -> None:
        """Compare a call that ran with what was asked."""
        tool, tool_input = read_call(fire)
        key, name = make_key(fire, tool), fire.spec.name
        if (mismatch := self.add_up().run(key, tool_input)) is None:
            return
        if name != "post_tool_use" and mismatch.cause == "unasked":
            self._ledger.believe(key, None)  # hosts report so what they have not even tried: a tool that is unknown
        elif self._may_be_asked and (mismatch.cause == "unasked" or (mismatch.cause == "altered" and key.id is None)):
            self._background.spawn("a call that was not asked here", self._look_back, fire, key, mismatch)
        else:
            self._report(fire, key, mismatch)

    def fault_of(self, fire: Fire) -> str | None:
        """Return why a gate of this session is denied, None if it is not."""
        text = self._record.overruled.get(place_of(fire)) if fire.spec.fails_closed else None
        return None if text is None else f"{text}; a person has to look: hooklatch log acknowledge --reason TEXT"

    @property
    def _may_be_asked(self) -> bool:
        """True if a call that the ledger does not have may have been asked about, by this daemon or an earlier one."""
        return self._ledger.has_forgotten or trio.current_time() - self._started < EARLIER

    async def _look_back(self, fire: Fire, key: CallKey, mismatch: LedgerMismatch) -> None:
        """Report a call that was not asked about, unless the record shows that one was asked.

        Without an id it may have been taken for an altered one, of those that this daemon was asked about.
        """
        from hooklatch.record.storage.reading import find_asked_verdict

        changed = digest_input(read_call(fire)[1]) if key.id is None else None  # an id of ours is of the first input
        finding = partial(find_asked_verdict, changed_input=changed)
        verdict = await in_thread(finding, self._record.folder, str(fire.params.call_id), key.session)
        if verdict is None:
            self._report(fire, key, mismatch)
            return
        was_allowed = verdict[1] in ("pass", "allow", "ask")
        self._ledger.believe(key, None if was_allowed else "overruled", instead_of=mismatch.cause)
        if not was_allowed:
            self._report(fire, key, LedgerMismatch("overruled", verdict[0]))

    def _report(self, fire: Fire, key: CallKey, mismatch: LedgerMismatch) -> None:
        cause, tool_input = mismatch.cause, read_call(fire)[1]
        where = f"session {key.session}" + (f" of {key.host}" if key.host else "")
        text = f"{cause}: {key.tool or 'a tool'} {TEXTS[cause]}, in {where}"
        self._record.note_mismatch(
            text, cause=cause, session=key.session, host=key.host or None, tool=key.tool, call_id=key.id,
            contradicts=mismatch.decision_id, decision_id=fire.decision_id,
        )  # fmt: skip
        fields = {"cause": cause, "tool_name": key.tool, "tool_input": tool_input, "tool_use_id": key.id,
                  "decision_id": mismatch.decision_id, "reason": text}  # fmt: skip
        envelope = EnvelopeParams(
            session_id=None if fire.session is not None else fire.session_id,
            cwd=fire.envelope.cwd,
            host=key.host or None,
        )
        self._fire_later(FireParams(EVENT, msgspec.Raw(msgspec.json.encode(fields)), envelope=envelope), fire.session)


def read_call(fire: Fire) -> tuple[str, msgspec.Raw | None]:
    """Return the tool's name and input in a payload, without what a program adds; both empty if it cannot be read."""
    try:
        tool, tool_input = fire.payload.text("tool_name") or "", fire.payload.fields.get("tool_input")
    except PayloadError:
        return "", None
    return tool, strip_added(tool, tool_input)


def strip_added(tool: str, tool_input: msgspec.Raw | None) -> msgspec.Raw | None:
    """Return the input of a tool without what a program adds to it in one of its reports."""
    if tool not in ADDED or tool_input is None:
        return tool_input
    with suppress(msgspec.MsgspecError):
        fields = FIELDS.decode(tool_input)
        return msgspec.Raw(ENCODER.encode({k: v for k, v in fields.items() if k not in ADDED[tool]}))
    return tool_input


def make_key(fire: Fire, tool: str) -> CallKey:
    given = None if fire.report == "in order" or fire.params.call_id is None else str(fire.params.call_id)
    return CallKey(*place_of(fire), tool, given, fire.report != "by a client")


def place_of(fire: Fire) -> tuple[str, str]:
    session = fire.session.id if fire.session is not None else fire.session_id
    return fire.envelope.host or "", session or ""
