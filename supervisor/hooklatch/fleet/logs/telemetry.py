"""The encoding of an entry as an OpenTelemetry log record.  Pure; knows no SDK and no network.

Names are those of OpenTelemetry's semantic conventions where it has one, else `hooklatch.<field>`.  The table is in
docs/reference/fleet.md.  `log.record.uid` is the entry's identity: an entry that is exported twice has the same, and a
backend that knows the conventions keeps one of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec

from hooklatch.fleet.logs.logs import FleetLogEntry, LogFinding

__all__ = ["OtelLogRecord", "Value", "describe_resource", "encode_log_record", "encode_finding"]

Value = str | bool | int | float | list[str]
INFO, WARN, ERROR = (9, "INFO"), (13, "WARN"), (17, "ERROR")  # OpenTelemetry's logs data model, SeverityNumber
OF_KIND = {
    "abandoned": WARN, "fault": ERROR, "unrecorded": ERROR, "quarantined": WARN, "suspended": WARN, "disk": WARN,
    "recovered": WARN,
}  # fmt: skip
CHAIN = ("seq", "prev", "at", "kind", "hash")
RENAMED = {"session": "session.id", "call_id": "gen_ai.tool.call.id"}
NOT_A_FAILURE = (None, "policy")


class OtelLogRecord(msgspec.Struct, frozen=True):
    """A log record; times are ns since the epoch, 0 if unknown."""

    time: int
    observed: int
    severity: tuple[int, str]
    name: str
    body: str
    attributes: dict[str, Value]


def describe_resource(fleet: str, host: str) -> dict[str, str]:
    """Return the resource of a host's log records."""
    return {"service.name": "hooklatch", "service.namespace": fleet, "service.instance.id": host, "host.name": host}


def encode_log_record(fleet: str, entry: FleetLogEntry) -> OtelLogRecord:
    """Return an entry as a log record."""
    record, document = entry.record, entry.record.document
    attributes: dict[str, Value] = {}
    for name, value in document.items():
        if name not in CHAIN and value is not None:
            attributes[RENAMED.get(name, f"hooklatch.{name}")] = make_attribute_value(value)
    cause, tool = document.get("cause"), cast("dict[str, object]", document.get("excerpt") or {}).get("tool_name")
    if isinstance(cause, str) and cause not in NOT_A_FAILURE:
        attributes["error.type"] = cause
    if isinstance(tool, str):
        attributes["gen_ai.tool.name"] = tool
    attributes |= {  # last: no field that a host invents may replace these
        "log.record.uid": f"{fleet}/{entry.host}/{record.seq}/{record.hash}",
        "hooklatch.epoch": entry.epoch,
        "hooklatch.seq": record.seq,
        "hooklatch.hash": record.hash,
        "hooklatch.prev": record.prev,
        "hooklatch.kind": record.kind,
    }
    return OtelLogRecord(
        parse_nanoseconds(record.at), entry.at * 1_000_000, find_severity(record.kind, document),
        f"hooklatch.{record.kind}",
        format_body(record.kind, document), attributes,
    )  # fmt: skip


def encode_finding(fleet: str, finding: LogFinding, at: int) -> OtelLogRecord:
    """Return a finding as a log record; `at` is the arrival of its batch, in ms since the epoch."""
    attributes: dict[str, Value] = {
        "log.record.uid": f"{fleet}/{finding.host}/{finding.epoch}/{finding.seq}/{finding.what}",
        "hooklatch.finding": finding.what,
    }
    if finding.epoch is not None:
        attributes["hooklatch.epoch"] = finding.epoch
    if finding.seq is not None:
        attributes["hooklatch.seq"] = make_attribute_value(finding.seq)
    return OtelLogRecord(0, at * 1_000_000, ERROR, "hooklatch.finding", finding.text, attributes)


def find_severity(kind: str, document: Mapping[str, Any]) -> tuple[int, str]:
    if kind == "decision" and document.get("verdict") in ("deny", "halt"):
        return WARN if document.get("cause") in NOT_A_FAILURE else ERROR
    return OF_KIND.get(kind, INFO)


def format_body(kind: str, document: Mapping[str, Any]) -> str:
    if kind not in ("decision", "abandoned"):
        return kind
    text = f"{document.get('verdict') or kind} {document.get('event') or ''}".rstrip()
    reason = document.get("reason")
    return f"{text}: {reason}" if isinstance(reason, str) and reason else text


def make_attribute_value(value: object) -> Value:
    """Return a value if an attribute can hold it, else its JSON."""
    if isinstance(value, str | bool | float):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value)):
        return cast("list[str]", value)
    return msgspec.json.encode(value).decode()


def parse_nanoseconds(at: str) -> int:
    """Return an entry's time, 0 for a text that is not a time, or one that OTLP cannot hold."""
    try:
        nanoseconds = int(datetime.fromisoformat(at).timestamp() * 1000) * 1_000_000
    except (ValueError, OverflowError, OSError):
        return 0
    return nanoseconds if 0 < nanoseconds < 2**63 else 0
