"""The ask of a fire as a person sees it: the hooks that ask and what they judge, redacted and bounded."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from hooklatch.core.decision import Machine
from hooklatch.core.messages import FireDecision
from hooklatch.record.redaction import Redactor, excerpt_object
from hooklatch.record.storage.chain import format_timestamp
from hooklatch.service.dispatch.fires import Fire, excerpt_subject, find_tool_name

if TYPE_CHECKING:
    from hooklatch.core.answers import Ask, AskReason

__all__ = ["make_ask"]

# The bounds of one ask as a person sees it, so that all asks together fit into one line of the protocol.
QUESTIONS = 20
QUESTION_BYTES = 12 * 1024  # of all of them, as JSON
REASON = 500  # characters of each, and of the folder
SHOWN = 16 * 1024  # bytes of the payload, and as many of the patches of hooks
OWN = "session:"  # the beginning of the full names of hooks that the agent itself has registered


def make_ask(fire: Fire, machine: Machine, decision: FireDecision, seconds: float, redactor: Redactor) -> Ask:
    """Return the ask of a fire's hooks as a person sees it: redacted and bounded."""
    payload, now = machine.payload, time.time()
    # Of the amended payload, which the person judges: the record holds the payload as it came.
    reasons = machine.questions()
    questions = select_shown_reasons(reasons, redactor)
    patch = msgspec.json.encode(decision.patch) if decision.patch else b""
    excerpt, excerpt_cut = excerpt_object(payload.data, SHOWN, redactor)
    changes, changes_cut = excerpt_object(patch, SHOWN, redactor) if patch else (None, None)
    tool = find_tool_name(payload)
    return {
        "id": decision.decision_id, "at": format_timestamp(now), "expires_at": format_timestamp(now + seconds),
        "session_id": fire.session_id, "host": fire.envelope.host, "cwd": clip_reason(fire.envelope.cwd or "") or None,
        "event": decision.event, "tool": tool, "subject": excerpt_subject(decision.event, tool, excerpt, excerpt_cut),
        "hook": questions[0]["hook"], "reason": questions[0]["reason"], "questions": questions,
        "questions_omitted": len(reasons) - len(questions),
        "instead": redactor.clean(decision.instead) if decision.instead is not None else None,
        "payload_digest": payload.digest(), "payload_bytes": len(payload.data), "excerpt": excerpt,
        "excerpt_cut": excerpt_cut, "patch": changes, "patch_cut": changes_cut,
    }  # fmt: skip


def select_shown_reasons(reasons: Sequence[tuple[str, str]], redactor: Redactor) -> list[AskReason]:
    """Return the reasons that a person sees, at least one: those of the operator's hooks before the agent's own.

    An agent can have its hooks called first.  Their reasons must not push out that of a guard.
    """
    shown: list[AskReason] = []
    room = QUESTION_BYTES
    for hook, reason in sorted(reasons, key=lambda pair: pair[0].startswith(OWN)):
        ask_reason: AskReason = {"hook": hook, "reason": clip_reason(redactor.clean(reason))}
        room -= len(msgspec.json.encode(ask_reason))
        if shown and (room < 0 or len(shown) == QUESTIONS):
            break
        shown.append(ask_reason)
    return shown


def clip_reason(text: str) -> str:
    return text if len(text) <= REASON else f"{text[:REASON]}…"
