"""The counts of decisions, from the record alone: who decided what, how often, and when.

So they outlive a restart, agree with what `log` shows, and cover what retention has left.  They are kept by the hour.
No line is trusted: one that cannot be read is counted as unread.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.light_json import parse_own_object
from hooklatch.core.subject import read_subject
from hooklatch.record.storage.seeking import RecordChangedError, RecordCursor
from hooklatch.record.storage.segments import list_segments
from hooklatch.record.storage.suggestions import SuggestionCounter

if TYPE_CHECKING:
    from hooklatch.core.answers import CountedName, CountsAnswer, GuardCounts, LastRefusal

__all__ = ["DIMENSIONS", "OTHERS", "DecisionCounter", "Hours", "count_lines", "find_counter", "summarize_counts"]

DIMENSIONS = ("tool", "agent", "project", "reason")  # besides the guard
TOP = 100  # names of each of these in an answer: those with the most decisions
MAX_TALLIES = 20_000  # of an hour: agents choose names of tools and folders, and there may be no end of them
OTHERS = "(others)"
NEEDLE = re.compile(rb'"kind":"(?:decision|abandoned|ask)"')
TOOL = re.compile(r'"tool_name":"([^"\\]*)"')


class CountedOutcome(msgspec.Struct, gc=False):
    """The counted part of one hook's call."""

    cause: str
    layer: str = ""
    hook: str = ""
    name: str = ""
    verdict: str | None = None
    observed: bool = False
    warned: bool = False


class CountedPayload(msgspec.Struct, gc=False):
    """The counted part of a payload."""

    tool_name: object = None


class CountedRecord(msgspec.Struct, gc=False):
    """The counted part of a decision, or of an ask."""

    at: str
    kind: str
    verdict: str | None = None
    cause: str | None = None
    reason: str | None = None
    layer: str | None = None
    hook: str | None = None
    name: str = ""
    host: str | None = None
    cwd: str | None = None
    action: str | None = None
    excerpt: CountedPayload | None = None
    excerpt_cut: str | None = None
    outcomes: list[CountedOutcome] = []

    @property
    def tool(self) -> str:
        if self.excerpt is not None:
            return self.excerpt.tool_name if isinstance(self.excerpt.tool_name, str) else ""
        match = TOOL.search(self.excerpt_cut or "")
        return match[1] if match is not None else ""


class HourCounts(msgspec.Struct):
    """The tallies of an hour by (dimension, name, word), and the line of the last refusal of each guard."""

    first: str
    tallies: Counter[tuple[str, str, str]] = msgspec.field(default_factory=lambda: Counter[tuple[str, str, str]]())
    refusals: dict[str, bytes] = {}
    unread: int = 0


Hours = dict[str, HourCounts]  # by their beginning, such as 2026-01-31T12
decode = msgspec.json.Decoder(CountedRecord).decode


def count_lines(
    lines: Iterable[bytes], hours: Hours, *, since: str = "", suggestions: SuggestionCounter | None = None
) -> None:
    """Add the lines of a record from a moment on to the counts of their hours, and, if they come in order, to these."""
    for line in lines:
        if suggestions is not None:
            suggestions.take(line, since)
        if NEEDLE.search(line) is None:
            continue
        try:
            record = decode(line)
        except (msgspec.MsgspecError, RecursionError):
            hours.setdefault("", HourCounts("")).unread += 1
            continue
        if record.at < since:
            continue
        hour = hours.get(record.at[:13])
        if hour is None:
            hour = hours[record.at[:13]] = HourCounts(record.at)
        if record.kind != "ask":
            count_decision(record, hour, line)
        elif record.action == "opened" and record.hook:
            hour.tallies["guard", record.hook, "ask"] += 1


def count_decision(record: CountedRecord, hour: HourCounts, line: bytes) -> None:
    tallies, verdict = hour.tallies, record.verdict or record.kind
    tallies["", "", verdict] += 1
    is_refusal = verdict in ("deny", "halt")
    reason = (record.reason or record.cause or "") if is_refusal or verdict == "ask" else ""
    for dimension, name in (
        ("tool", record.tool), ("agent", record.host), ("project", record.cwd), ("reason", reason),
    ):  # fmt: skip
        if name:
            key = dimension, name, verdict
            tallies[key if len(tallies) < MAX_TALLIES or key in tallies else (dimension, OTHERS, verdict)] += 1
    for outcome in record.outcomes:
        hook = outcome.name or f"{outcome.layer}/{outcome.hook}"
        tallies["guard", hook, "calls"] += 1
        if outcome.cause != "policy":
            tallies["guard", hook, "failures"] += 1
        if outcome.warned:
            tallies["guard", hook, "warnings"] += 1
        if outcome.observed and outcome.verdict:
            tallies["guard", hook, f"would {outcome.verdict}"] += 1
    if record.hook and record.cause == "policy":
        hook = read_full_name(record.layer, record.hook, record.name)
        tallies["guard", hook, verdict] += 1
        if is_refusal:
            hour.refusals[hook] = line


def summarize_counts(
    hours: Hours,
    *,
    since: str = "",
    known: Iterable[str] | None = None,
    suggestions: SuggestionCounter | None = None,
) -> CountsAnswer:
    """Return the counts of the hours from that of a moment on.  `known` are the hooks that there are now."""
    chosen = [hours[hour] for hour in sorted(hours) if hour and hour >= since[:13]]
    total: Counter[tuple[str, str, str]] = Counter()
    refusals: dict[str, bytes] = {}
    for hour in chosen:
        total.update(hour.tallies)
        refusals.update(hour.refusals)
    names: dict[str, dict[str, Counter[str]]] = {}
    for (dimension, name, word), count in total.items():
        names.setdefault(dimension, {}).setdefault(name, Counter())[word] += count
    verdicts = names.get("", {}).get("", Counter[str]())
    guards = [
        make_guard_counts(name, words, refusals.get(name)) for name, words in sorted(names.get("guard", {}).items())
    ]
    if suggestions is not None:
        for guard in guards:
            guard["instead"] = suggestions.count(guard["name"], since)
    called = {guard["name"] for guard in guards}
    return {
        "since": since or None, "first": chosen[0].first if chosen else None, "decisions": sum(verdicts.values()),
        "verdicts": dict(verdicts), "guards": sorted(guards, key=rank_guard),
        "never": sorted(set(known) - called) if known is not None else None,
        "tools": list_counted(names.get("tool", {})), "agents": list_counted(names.get("agent", {})),
        "projects": list_counted(names.get("project", {})), "reasons": list_counted(names.get("reason", {})),
        "hours": [{"at": f"{hour.first[:13]}:00:00.000Z", "verdicts": count_verdicts(hour)} for hour in chosen],
        "unread": sum(hour.unread for hour in hours.values()),
    }  # fmt: skip


def count_verdicts(hour: HourCounts) -> dict[str, int]:
    return {word: count for (dimension, _, word), count in hour.tallies.items() if not dimension}


def rank_guard(guard: GuardCounts) -> tuple[int, int, str]:
    """Return the place of a guard in a list: those that refused most come first."""
    return -guard["verdicts"].get("deny", 0) - guard["verdicts"].get("halt", 0), -guard["calls"], guard["name"]


def make_guard_counts(name: str, words: Counter[str], line: bytes | None) -> GuardCounts:
    counted = ("calls", "failures", "warnings")
    return {
        "name": name, "calls": words["calls"], "failures": words["failures"], "warnings": words["warnings"],
        "verdicts": {word: count for word, count in words.items() if word not in counted and " " not in word},
        "would": {word.removeprefix("would "): count for word, count in words.items() if word.startswith("would ")},
        "last_refusal": read_refusal(line) if line is not None else None, "instead": None,
    }  # fmt: skip


def read_refusal(line: bytes) -> LastRefusal | None:
    record = parse_own_object(line)
    if record is None:
        return None
    return {
        "at": str(record.get("at")), "decision_id": str(record.get("decision_id")), "subject": read_subject(record),
        "reason": str(record.get("reason") or ""),
    }  # fmt: skip


def list_counted(names: dict[str, Counter[str]]) -> list[CountedName]:
    ranked = sorted(names.items(), key=lambda item: (-item[1].total(), item[0]))
    return [{"name": name, "decisions": words.total(), "verdicts": dict(words)} for name, words in ranked[:TOP]]


class DecisionCounter:
    """The counts of a record that grows: each line is read once, and all again once retention has removed some."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._cursor = RecordCursor(folder)
        self._hours: Hours = {}
        self._suggestions = SuggestionCounter()
        self._first: object = None
        self._lock = Lock()

    def count(self, since: str, known: Sequence[str]) -> CountsAnswer:
        """Return the counts from the hour of a moment on; from any thread.

        Raises:
            OSError: the record cannot be read.
            RecordChangedError: it changed once more while it was read again.
        """
        with self._lock:
            try:
                self._read()
            except RecordChangedError:
                self._first = None  # something else than retention removed lines: all of it again
                self._read()
            return summarize_counts(self._hours, since=since, known=known, suggestions=self._suggestions)

    def _read(self) -> None:
        segments = list_segments(self._folder)
        first = segments[0].path if segments else None
        if first != self._first or self._cursor.missed:
            self._first, self._hours, self._cursor = first, {}, RecordCursor(self._folder)
            self._suggestions = SuggestionCounter()
        count_lines(self._cursor.read_new(), self._hours, suggestions=self._suggestions)


@lru_cache(maxsize=4)
def find_counter(folder: str) -> DecisionCounter:
    """Return the counter of a record, which goes on where it was when it was last asked."""
    return DecisionCounter(folder)
