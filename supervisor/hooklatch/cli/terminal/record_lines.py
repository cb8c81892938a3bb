"""The records' lines for people, and their JSON.  No field of a record is trusted to be there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

from hooklatch.cli.terminal import look, output
from hooklatch.core.hooks.names import quote_name, read_full_name

__all__ = ["LABELS", "format_record", "print_record", "format_record_value"]

LABELS = 10  # characters of a label beside a value
PLACE = ("seq", "at", "kind", "prev", "hash")
REVISIONS = ("revision", "previous")
DIGEST = re.compile("[0-9a-f]{64}")
SHORT = 12  # digits of a digest at a terminal, as in `status`


def print_record(record: dict[str, Any], *, is_json: bool, is_whole: bool, of: str = "") -> None:
    """Print a record as a line, with its details if `is_whole`, or as JSON.  `of` names its host in a fleet."""
    if is_json:
        output.say_json(record)
        return
    output.print_line(*paint_record_line(record, format_record(record, of=of)))
    if is_whole:
        output.say_lines(*list_record_details(record), width=LABELS)


def paint_record_line(record: dict[str, Any], line: str) -> list[str]:
    """Return the line of a record in pieces, with its verdict painted by its meaning."""
    verdict = record.get("verdict")
    if not isinstance(verdict, str) or verdict not in look.VERDICTS:
        return [line]
    before, _, after = line.partition(f"  {verdict}")
    return [f"{before}  ", look.paint_text(verdict, look.VERDICTS[verdict]), after]


def list_record_details(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the details that a decision's line has no room for."""
    for outcome in record.get("outcomes", []):
        hook, duration = find_hook_name(outcome), outcome.get("duration_ms", 0.0)
        cause = outcome.get("cause")
        failure = f" ({cause}: {outcome.get('message', '')})" if cause not in (None, "policy") else ""
        again = " again" * (outcome.get("reinvoked") is True) + " unneeded" * (outcome.get("unneeded") is True)
        lasted = f", {duration:.1f} ms" if isinstance(duration, float | int) else ""
        yield "asked", f"{hook} {outcome.get('verdict') or outcome.get('outcome')}{failure}{again}{lasted}"
        if failure:
            yield "see", f"hooklatch hooks show {quote_name(hook)}"
    for warning in record.get("warnings", []):
        yield "warning", warning
    for label, field in (("payload", "excerpt"), ("payload", "excerpt_cut"), ("cwd", "cwd"), ("host", "host")):
        if record.get(field) is not None:
            yield label, format_record_value(record[field])


def format_record(record: dict[str, Any], *, of: str = "") -> str:
    """Format a record as one line for people; `of` names its host where there are several."""
    start = f"{record.get('at')}  {of}{record.get('seq'):>8}  "
    if record.get("kind") in ("decision", "abandoned"):
        return start + format_decision_text(record)
    facts = ((key, format_fact(key, value)) for key, value in record.items() if key not in PLACE)
    fields = ", ".join(f"{key} {text}" for key, text in facts if text)
    return f"{start}{record.get('kind')}" + (f": {fields}" if fields else "")


def format_fact(key: str, value: object) -> str:
    """Return a fact for people: empty for None, short at a terminal, and a moment as a date."""
    if value is None:
        return ""
    if key in REVISIONS and isinstance(value, int):
        return look.shorten_revision(value)
    if key == "until" and isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, list):
        names = cast("list[object]", value)
        return " ".join(
            quote_name(format_record_value(name)) if isinstance(name, str) else format_record_value(name)
            for name in names
        )
    if isinstance(value, str) and DIGEST.fullmatch(value) and look.is_terminal(sys.stdout):
        return value[:SHORT]
    return look.shorten_path(format_record_value(value))


def format_decision_text(record: dict[str, Any]) -> str:
    parts = [f"{record.get('verdict', 'abandoned'):<6}  {record.get('event')}"]
    excerpt: dict[str, Any] = record.get("excerpt") or {}
    if isinstance(excerpt.get("tool_name"), str):
        parts[0] += f" {excerpt['tool_name']}"
    if record.get("hook"):
        parts.append(f"by {find_hook_name(record)}")
    if record.get("cause") not in (None, "policy", "abandoned"):
        parts.append(f"cause {record['cause']}")
    if record.get("session"):
        parts.append(f"session {record['session']}")
    reason = record.get("reason")
    return ", ".join(parts) + (f": {reason}" if reason else "")


def find_hook_name(table: dict[str, Any]) -> str:
    """Return the full name of the hook of a decision or an outcome; empty if it has none."""
    return read_full_name(
        *(text if isinstance(text := table.get(key), str) else None for key in ("layer", "hook", "name"))
    )


def format_record_value(value: object) -> str:
    return value if isinstance(value, str) else output.format_json(value)
