"""The reader of the record: forwards, backwards, filtered.  It changes no file.

Nothing read is trusted: a line that is not JSON is skipped (`verify` reports those), and the last line may still be
incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from hooklatch.core.hooks.names import LIKE_A_NAME, is_short_name, strip_scope
from hooklatch.core.light_json import as_object, is_list, is_object, parse_own_object, quote_unicode
from hooklatch.core.text import read_duration
from hooklatch.files import open_regular_file
from hooklatch.record.storage.lines import read_lines_backwards
from hooklatch.record.storage.segments import SegmentFile, list_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

__all__ = [
    "KINDS", "MOMENTS", "Filters", "NoRecordError", "find_asked_verdict", "list_field_values",
    "read_backwards", "read_forwards", "matches_filters", "filter_entries",
    "list_entry_values", "list_record_segments", "read_newest", "read_moment",
]  # fmt: skip

KINDS = (
    *("decision", "abandoned", "started", "stopped", "registry", "source", "suspended", "resumed", "quarantined"),
    "released",
    *("settings", "segment", "retired", "recovered", "disk", "unrecorded", "mended", "fault", "acknowledged"),
    *("skipped", "fleet", "ask", "operation", "payloads"),
)
MOMENTS = "2026-01-31 or 2026-01-31T12:00:00Z, or how long ago: 90s, 15m, 2h, 7d"  # how they are written
HEAD = re.compile(rb'\{"seq":(\d{1,18}),"prev":"[0-9a-f]{64}","at":"([^"\\]{1,40})"')  # how each line of ours begins
CHAIN = ("at", "prev", "hash")  # what is not searched for a text
DECIDED = ("decision", "abandoned", "ask")  # kinds of which `by` looks for the hook that decided
PLAIN = re.compile(r"[\w.:/ -]+", re.ASCII)  # names that each encoding of JSON, and JSON in JSON, has as they are
EXACT = ("session", "run", "event", "kind", "verdict", "cause", "decision_id")  # fields that are compared as they are


class NoRecordError(Exception):
    """A directory holds no record; the text says what to do."""


class Filters:
    """A query; a record must match everything that is given.  Times are texts as in `at`, compared as strings.

    `run` identifies one live session, while a `session` id may be reused.  `hook` is a full name (`global/x`,
    `project:/srv/x`) or an id, which several hooks may share; it matches every hook that was called, `by` only the one
    that decided.  `project` is a folder, and matches those below it too; `text` is anywhere in the record, in any case.
    `before` and `after` are numbers of records.
    """

    def __init__(
        self,
        *,
        session: str | None = None,
        run: str | None = None,
        hook: str | None = None,
        by: str | None = None,
        tool: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        text: str | None = None,
        verdict: str | None = None,
        cause: str | None = None,
        event: str | None = None,
        kind: str | None = None,
        decision_id: str | None = None,
        since: str | None = None,
        until: str | None = None,
        before: int | None = None,
        after: int | None = None,
    ) -> None:
        self.session, self.run, self.hook, self.by = session, run, hook, by
        self.tool, self.agent, self.project, self.text = tool, agent, project, text
        self.verdict, self.cause = verdict, cause
        self.event, self.kind, self.decision_id = event, kind, decision_id
        self.since, self.until = since, until
        self.before, self.after = before, after

    def but(self, **changes: Any) -> Filters:
        """Return the query with other values of these fields."""
        return Filters(**{**vars(self), **changes})


def read_moment(text: str, now: datetime) -> str:
    """Return a moment as the record spells it; it is given as one, or as how long ago it was.

    Raises:
        ValueError: it is neither; the text says how to write one.
    """
    from datetime import UTC, datetime, timedelta  # imported here: few commands name a moment

    try:
        if text[-1:].isdigit() or text.endswith("Z"):
            read = datetime.fromisoformat(text).astimezone(UTC)
        else:
            read = (now - timedelta(seconds=read_duration(text))).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time; write {MOMENTS}") from None
    return f"{read:%Y-%m-%dT%H:%M:%S}.{read.microsecond // 1000:03d}Z"


def list_needles(filters: Filters) -> list[bytes]:
    """Return what each line that matches contains, so that most others are rejected before any JSON is parsed."""
    needles = [
        f'"{key}":{quote_unicode(value)}'.encode() for key in EXACT if (value := getattr(filters, key)) is not None
    ]
    if filters.agent is not None:
        needles.append(f'"host":{quote_unicode(filters.agent)}'.encode())
    if filters.project is not None:
        needles.append(f'"cwd":{quote_unicode(filters.project.rstrip("/"))[:-1]}'.encode())
    if filters.tool is not None and PLAIN.fullmatch(filters.tool):
        needles.append(filters.tool.encode())
    for hook in filter(None, (filters.hook, filters.by)):
        hook_id = strip_scope(hook) if re.match(LIKE_A_NAME, hook) else hook
        needles.append(quote_unicode(hook_id)[1:-1].removesuffix(".py").encode())
    return needles


def list_letters(filters: Filters) -> bytes:
    """Return what each line that matches contains in small letters; nothing if that cannot be told."""
    text = filters.text or ""
    return text.lower().encode() if text.isascii() and text.isprintable() and not set(text) & set('"\\') else b""


def may_match(line: bytes, filters: Filters) -> bool:
    """Return whether a line may be of a number and a time that the filters choose, before any JSON is parsed."""
    head = HEAD.match(line)
    if head is None:
        return True
    at = head[2].decode(errors="replace")
    return not (
        (filters.before is not None and int(head[1]) >= filters.before)
        or (filters.after is not None and int(head[1]) <= filters.after)
        or (filters.since is not None and at < filters.since)
        or (filters.until is not None and at > filters.until)
    )


def matches_filters(record: dict[str, Any], filters: Filters) -> bool:
    """Return whether a record is one of those that the filters choose."""
    if any((wanted := getattr(filters, key)) is not None and record.get(key) != wanted for key in EXACT):
        return False
    at = str(record.get("at"))
    if (filters.since is not None and at < filters.since) or (filters.until is not None and at > filters.until):
        return False
    seq = number if isinstance(number := record.get("seq"), int) else 0
    if (filters.before is not None and seq >= filters.before) or (filters.after is not None and seq <= filters.after):
        return False
    if filters.by is not None and not (record.get("kind") in DECIDED and is_outcome_of_hook(filters.by, record)):
        return False
    if not matches_facts(record, filters):
        return False
    return filters.hook is None or any(
        is_outcome_of_hook(filters.hook, outcome) for outcome in [record, *record.get("outcomes", [])]
    )


def matches_facts(record: dict[str, Any], filters: Filters) -> bool:
    """Return whether a record has the tool, the agent, the folder and the text that filters name."""
    if filters.agent is not None and record.get("host") != filters.agent:
        return False
    if filters.project is not None:
        folder, cwd = filters.project.rstrip("/"), record.get("cwd")
        if not isinstance(cwd, str) or (cwd != filters.project and not f"{cwd}/".startswith(f"{folder}/")):
            return False
    if filters.tool is not None:
        from hooklatch.core.subject import read_tool_name  # imported here: few look for a tool

        if read_tool_name(record) != filters.tool:
            return False
    if filters.text is None:
        return True
    # The text of a guard names all that it refuses, and would be found beside each command that it is about.
    is_source = record.get("kind") == "source" and filters.kind != "source"
    return not is_source and has_text(record, filters.text.casefold())


def has_text(value: object, text: str) -> bool:
    """Return whether a text, in small letters, is in one of the texts of a record."""
    if isinstance(value, str):
        return text in value.casefold()
    if is_object(value):
        return any(has_text(item, text) for key, item in value.items() if key not in CHAIN)
    return is_list(value) and any(has_text(item, text) for item in value)


def is_outcome_of_hook(hook: str, outcome: dict[str, Any]) -> bool:
    hook_id = outcome.get("hook")
    is_its_name = hook in (hook_id, f"{outcome.get('layer')}/{hook_id}", outcome.get("name"))
    return is_its_name or (isinstance(hook_id, str) and is_short_name(hook, hook_id))


def list_record_segments(folder: str) -> list[SegmentFile]:
    try:
        segments = list_segments(folder)
    except OSError as error:
        raise NoRecordError(
            f"there is no record in {folder} ({error.strerror}); a daemon creates it there, or name the right folder"
        ) from None
    if not segments:
        raise NoRecordError(f"{folder} holds no record; name the folder that does")
    return segments


def read_forwards(folder: str) -> Iterator[bytes]:
    """Yield every complete line, oldest first.

    Raises:
        NoRecordError: there is no record.
    """
    for place in list_record_segments(folder):
        with suppress(FileNotFoundError), open_regular_file(place.path) as file:  # it may be retired in the meantime
            yield from (line for line in file if line.endswith(b"\n"))


def read_backwards(folder: str, needles: Sequence[bytes] = (), letters: bytes = b"") -> Iterator[bytes]:
    """Yield complete lines, newest first; lines that lack one of the needles, or the small letters, may be skipped.

    Raises:
        NoRecordError: there is no record.
    """
    for place in reversed(list_record_segments(folder)):
        with suppress(FileNotFoundError), open_regular_file(place.path) as file:
            yield from read_lines_backwards(file, needles, letters)


def read_newest(folder: str, filters: Filters) -> Iterator[dict[str, Any]]:
    """Return the matching records, newest first.

    Raises:
        NoRecordError: there is no record.
    """
    return filter_entries(read_backwards(folder, list_needles(filters), list_letters(filters)), filters)


def filter_entries(lines: Iterator[bytes], filters: Filters) -> Iterator[dict[str, Any]]:
    """Yield the matching records, without a limit."""
    needles, letters = list_needles(filters), list_letters(filters)
    for line in lines:
        if not all(needle in line for needle in needles) or not may_match(line, filters):
            continue
        if letters and letters not in line.lower():
            continue
        record = parse_own_object(line)
        if record is not None and matches_filters(record, filters):
            yield record


def find_asked_verdict(
    folder: str, call_id: str, session: str, *, changed_input: str | None = None
) -> tuple[str, str] | None:
    """Return the newest decision about a call before it ran: its id and verdict; None if the record has none.

    With `changed_input`, a digest, that of a call which hooks have given this input will do, where none has the id.
    """
    filters = Filters(event="pre_tool_use", session=session or None)
    needles = list_needles(filters)
    if changed_input is None:
        needles.append(f'"call_id":{quote_unicode(call_id)}'.encode())
    changed: tuple[str, str] | None = None
    try:
        for record in filter_entries(read_backwards(folder, needles), filters):
            verdict = str(record.get("decision_id")), str(record.get("verdict"))
            if record.get("call_id") == call_id:
                return verdict
            is_allowed = verdict[1] in ("pass", "allow", "ask")
            if changed is None and is_allowed and changed_input in as_object(record.get("patch")).get("inputs", ()):
                changed = verdict
    except (NoRecordError, OSError):
        pass
    return changed


def list_field_values(folder: str, field: str, maximum: int) -> set[str]:
    """Return the values of a field in the newest `maximum` records (`hook`: with and without its layer).

    Raises:
        NoRecordError: there is no record.
    """
    values: set[str] = set()
    for record in islice(read_newest(folder, Filters()), maximum):
        values.update(list_entry_values(record, field))
    return values


def list_entry_values(record: dict[str, Any], field: str) -> Iterator[str]:
    """Yield the values of a field in a record and its outcomes (`hook`: with and without its layer)."""
    if field in ("agent", "tool"):
        from hooklatch.core.subject import read_tool_name  # imported here: few look for a tool

        name = record.get("host") if field == "agent" else read_tool_name(record)
        yield from [name] if isinstance(name, str) else []
        return
    for outcome in (record, *record.get("outcomes", [])):
        if isinstance(name := outcome.get(field), str):
            yield name
            if field == "hook" and "layer" in outcome:
                yield f"{outcome['layer']}/{name}"
