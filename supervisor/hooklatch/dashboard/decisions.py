"""The rows of decisions and other records on pages: from the record, or from an announcement.  Pure.

Neither is trusted to have any field, or to have it in the right type. A missing field is shown as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from hooklatch.core.outcome_texts import name_result, read_hook_name
from hooklatch.core.subject import read_subject
from hooklatch.dashboard.rendering import format_page_json
from hooklatch.dashboard.revisions import FieldChange, list_field_changes

__all__ = ["RecordRow", "OutcomeRow", "build_announced_row", "build_record_row"]

PLACE = ("seq", "at", "kind", "prev", "hash")
DECISIONS = ("decision", "abandoned")
SAME = ("event", "session", "host", "cwd", "cause", "reason", "instead")  # texts of the record that a row has too
MAX_FIELD = 60  # characters of a field in the line of another record


class OutcomeRow(msgspec.Struct, frozen=True):
    """The outcome of one hook. `result` is its verdict, or how its call ended, and `notes` are its marks."""

    hook: str
    result: str
    cause: str
    message: str
    duration_ms: float | None
    notes: list[str]
    began_ms: float = 0

    @property
    def is_failure(self) -> bool:
        return self.cause not in ("", "policy")


class RecordRow(msgspec.Struct, frozen=True, kw_only=True):
    """One record. Only the first four fields and `line` have a value if it is not a decision.

    A `fault` says that this decision is not in the record, and why.
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
    subject: str = ""
    session: str = ""
    host: str = ""
    cwd: str = ""
    hook: str = ""
    cause: str = ""
    reason: str = ""
    instead: str = ""
    digest: str = ""
    duration_ms: float | None = None
    outcomes: list[OutcomeRow] = []
    warnings: list[str] = []
    payload: str = ""
    changes: list[FieldChange] = []
    patch_note: str = ""
    fault: str = ""

    @property
    def is_decision(self) -> bool:
        return self.kind in DECISIONS

    @property
    def is_failure(self) -> bool:
        """Return whether a failure decided, and not a policy."""
        return self.cause not in ("", "policy")

    @property
    def length_ms(self) -> float:
        """Return the length of a waterfall of its calls."""
        return max(
            [self.duration_ms or 0, *(outcome.began_ms + (outcome.duration_ms or 0) for outcome in self.outcomes)]
        )


def build_record_row(record: Mapping[str, Any], *, fault: str = "") -> RecordRow:
    """Return the row of a record."""
    kind, seq = read_text_field(record, "kind"), record.get("seq")
    number_of, at, document = seq if isinstance(seq, int) else None, record.get("at"), format_page_json(record)
    if kind not in DECISIONS:
        return RecordRow(
            seq=number_of,
            at=at,
            document=document,
            kind=kind or "unknown",
            line=format_record_summary(record),
            fault=fault,
        )
    excerpt, patch = record.get("excerpt"), read_mapping(record.get("patch"))
    changes = list_field_changes(excerpt, patch.get("excerpt"))
    return RecordRow(
        seq=number_of,
        at=at,
        document=document,
        kind=kind,
        id=read_text_field(record, "decision_id"),
        verdict=read_text_field(record, "verdict") or kind,
        tool=read_text_field(read_mapping(excerpt), "tool_name"),
        subject=read_subject(record),
        hook=read_hook_name(record),
        **{name: read_text_field(record, name) for name in SAME},
        digest=read_text_field(record, "payload_digest"),
        duration_ms=read_number_field(record, "duration_ms"),
        outcomes=[build_outcome_row(read_mapping(outcome)) for outcome in read_sequence(record.get("outcomes"))],
        warnings=[str(warning) for warning in read_sequence(record.get("warnings"))],
        payload=read_text_field(record, "excerpt_cut") or (format_page_json(excerpt) if excerpt is not None else ""),
        changes=changes,
        patch_note=describe_patch(patch, changes),
        fault=fault,
    )


def build_announced_row(params: Mapping[str, Any], *, fault: str) -> RecordRow:
    """Return the row of a decision that was announced and is not in the record. It has no payload."""
    decision = read_mapping(params.get("decision"))
    tool = params.get("tool")
    record = {
        **{key: value for key, value in decision.items() if key not in ("patch", "value", "append", "inject")},
        "kind": "decision", "at": params.get("at"), "session": params.get("session_id"), "host": params.get("host"),
        "subject": params.get("subject"), "excerpt": {"tool_name": tool} if tool else None,
    }  # fmt: skip
    return msgspec.structs.replace(build_record_row(record, fault=fault), payload="")


def build_outcome_row(table: Mapping[str, Any]) -> OutcomeRow:
    notes = [mark for mark in ("observed", "reinvoked", "unneeded", "truncated") if table.get(mark) is True]
    return OutcomeRow(
        read_hook_name(table),
        name_result(table),
        read_text_field(table, "cause"),
        read_text_field(table, "message"),
        read_number_field(table, "duration_ms"),
        notes,
        max(read_number_field(table, "began_ms") or 0, 0),
    )


def describe_patch(patch: Mapping[str, Any], changes: list[FieldChange]) -> str:
    """Return a note on a patch that is not shown as a difference."""
    if not patch or changes:
        return ""
    if beginning := read_text_field(patch, "excerpt_cut"):
        return f"the patch is too long for the record, which has its beginning: {beginning}"
    return f"the payload was changed ({patch.get('bytes')} bytes); the record does not say to what"


def format_record_summary(record: Mapping[str, Any]) -> str:
    fields = [f"{key} {clip_value(value)}" for key, value in record.items() if key not in PLACE]
    return ", ".join(fields)


def clip_value(value: object) -> str:
    written = value if isinstance(value, str) else format_page_json(value).replace("\n", " ")
    return written if len(written) <= MAX_FIELD else f"{written[:MAX_FIELD]}…"


def read_text_field(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def read_number_field(record: Mapping[str, Any], key: str) -> float | None:
    value = record.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def read_mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def read_sequence(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list) else []
