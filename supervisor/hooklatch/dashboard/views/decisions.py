"""Decisions and other records as pages show them: from the record, or from an announcement.  Pure.

Neither is trusted to have any field, or to have it in the right type: what is missing is shown as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from hooklatch.core.hooks.names import name_in
from hooklatch.dashboard.views.differences import Change, changes_of
from hooklatch.dashboard.views.text import pretty

__all__ = ["Entry", "Outcome", "announced", "entry_of"]

PLACE = ("seq", "at", "kind", "prev", "hash")
DECISIONS = ("decision", "abandoned")
SAID = {"answered": "no verdict"}  # it had no opinion, or changed the payload alone
TOLD = 60  # characters of a field in the line of another record


class Outcome(msgspec.Struct, frozen=True):
    """What one hook said; `said` is its verdict, or how its call ended, and `notes` what is special about it."""

    hook: str
    said: str
    cause: str
    message: str
    duration_ms: float | None
    notes: list[str]

    @property
    def is_failure(self) -> bool:
        return self.cause not in ("", "policy")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One record; of another one than a decision only the first four fields and `line` say something.

    `fault`: this decision is not in the record, and why.
    """

    seq: int | None
    at: Any
    kind: str
    document: str
    line: str = ""
    id: str = ""
    verdict: str = ""
    event: str = ""
    tool: str = ""
    session: str = ""
    host: str = ""
    cwd: str = ""
    hook: str = ""
    cause: str = ""
    reason: str = ""
    digest: str = ""
    duration_ms: float | None = None
    outcomes: list[Outcome] = []
    warnings: list[str] = []
    payload: str = ""
    changes: list[Change] = []
    patch_note: str = ""
    fault: str = ""

    @property
    def is_decision(self) -> bool:
        return self.kind in DECISIONS

    @property
    def is_failure(self) -> bool:
        """Return whether a failure decided, and no policy."""
        return self.cause not in ("", "policy")


def entry_of(record: Mapping[str, Any], *, fault: str = "") -> Entry:
    """Return what is shown of a record."""
    kind, seq = text(record, "kind"), record.get("seq")
    number_of, at, document = seq if isinstance(seq, int) else None, record.get("at"), pretty(record)
    if kind not in DECISIONS:
        return Entry(seq=number_of, at=at, document=document, kind=kind or "unknown", line=line_of(record), fault=fault)
    excerpt, patch = record.get("excerpt"), mapping(record.get("patch"))
    changes = changes_of(excerpt, patch.get("excerpt"))
    return Entry(
        seq=number_of,
        at=at,
        document=document,
        kind=kind,
        id=text(record, "decision_id"),
        verdict=text(record, "verdict") or kind,
        event=text(record, "event"),
        tool=text(mapping(excerpt), "tool_name"),
        session=text(record, "session"),
        host=text(record, "host"),
        cwd=text(record, "cwd"),
        hook=name_of(record),
        cause=text(record, "cause"),
        reason=text(record, "reason"),
        digest=text(record, "payload_digest"),
        duration_ms=number(record, "duration_ms"),
        outcomes=[outcome_of(mapping(one)) for one in sequence(record.get("outcomes"))],
        warnings=[str(one) for one in sequence(record.get("warnings"))],
        payload=text(record, "excerpt_cut") or (pretty(excerpt) if excerpt is not None else ""),
        changes=changes,
        patch_note=note_of(patch, changes),
        fault=fault,
    )


def announced(params: Mapping[str, Any], *, fault: str) -> Entry:
    """Return what is shown of a decision that was announced, and is not in the record: without its payload."""
    decision = mapping(params.get("decision"))
    told = {
        **{key: value for key, value in decision.items() if key not in ("patch", "value", "append", "inject")},
        "kind": "decision", "at": params.get("at"), "session": params.get("session_id"),
        "host": params.get("host"), "excerpt": {"tool_name": params["tool"]} if params.get("tool") else None,
    }  # fmt: skip
    return msgspec.structs.replace(entry_of(told, fault=fault), payload="")


def outcome_of(one: Mapping[str, Any]) -> Outcome:
    notes = [mark for mark in ("observed", "reinvoked", "unneeded", "truncated") if one.get(mark) is True]
    return Outcome(
        name_of(one),
        text(one, "verdict") or SAID.get(ended := text(one, "outcome"), ended) or "unknown",
        text(one, "cause"),
        text(one, "message"),
        number(one, "duration_ms"),
        notes,
    )


def name_of(one: Mapping[str, Any]) -> str:
    """Return the full name of the hook that a decision or an outcome is of; empty if it is of none."""
    return name_in(text(one, "layer"), text(one, "hook"), text(one, "name"))


def note_of(patch: Mapping[str, Any], changes: list[Change]) -> str:
    """Return what is known of a patch that is not shown as a difference."""
    if not patch or changes:
        return ""
    if beginning := text(patch, "excerpt_cut"):
        return f"the patch is too long for the record, which has its beginning: {beginning}"
    return f"the payload was changed ({patch.get('bytes')} bytes); the record does not say to what"


def line_of(record: Mapping[str, Any]) -> str:
    fields = [f"{key} {shown(value)}" for key, value in record.items() if key not in PLACE]
    return ", ".join(fields)


def shown(value: object) -> str:
    written = value if isinstance(value, str) else pretty(value).replace("\n", " ")
    return written if len(written) <= TOLD else f"{written[:TOLD]}…"


def text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def number(record: Mapping[str, Any], key: str) -> float | None:
    value = record.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def sequence(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list) else []
