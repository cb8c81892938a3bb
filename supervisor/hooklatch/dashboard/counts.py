"""The decisions of the last days, by hour: the record's counts, equal refusals as one group, changes of hooks.

    lines of the record, backwards once and then as they are written ─▶ Tally ─▶ Summary of any hours
    the same lines in their order, if guards named other commands ─▶ SuggestionCounter ─▶ how many were run

Each line is read once, and of each hour only sums are kept, so a page costs the same however many decisions there were.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice

import msgspec
import trio

from hooklatch.core.answers import CountsAnswer
from hooklatch.core.answers import GuardCounts as CountedGuard
from hooklatch.core.light_json import parse_own_object
from hooklatch.core.outcome_texts import read_hook_name
from hooklatch.core.subject import read_subject
from hooklatch.dashboard.feed import QueryResult
from hooklatch.errors import describe_error
from hooklatch.record.storage.chain import format_timestamp
from hooklatch.record.storage.counting import OTHERS, Hours, count_lines, summarize_counts
from hooklatch.record.storage.reading import NoRecordError, read_backwards
from hooklatch.record.storage.seeking import RecordChangedError, RecordCursor, read_seq
from hooklatch.record.storage.suggestions import SuggestionCounter
from hooklatch.threads import in_thread

__all__ = ["Bar", "GuardSums", "RecordCounts", "RefusalGroup", "Summary", "Tally", "WEEK", "count_record"]

WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)
MAX_LINES = 2_000_000  # of a record that are read for its counts
MAX_GROUPS = 1000  # equal refusals of an hour that are kept apart
MAX_CHANGES = 100
BATCH = 2000  # lines between two looks at who waits
PATIENCE = 1.0  # seconds that a page waits for counts
REFUSED = re.compile(rb'"kind":"decision".{1,400}?"verdict":"(?:deny|halt|ask)"', re.DOTALL)
CHANGED = b'"kind":"registry"'


GroupKey = tuple[str, str, str, str, str]  # verdict, cause, hook, subject, reason


class GuardSums(msgspec.Struct):
    """The calls of a guard, what it decided, and what it would have refused if it did not only observe.

    Of the commands that it named in place of what it refused, `offered`, so many were `taken`, or it is `unknown`.
    """

    calls: int = 0
    denies: int = 0
    asks: int = 0
    failures: int = 0
    would: int = 0
    last: str = ""  # when it last refused or asked
    offered: int = 0
    taken: int = 0
    unknown: int = 0

    def add(self, other: GuardSums) -> None:
        for name in ("calls", "denies", "asks", "failures", "would", "offered", "taken", "unknown"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.last = max(self.last, other.last)


class RefusalGroup(msgspec.Struct):
    """Equal refusals: how many, the first and the last of them, and the id of the last."""

    verdict: str
    cause: str
    hook: str
    subject: str
    reason: str
    count: int = 0
    first: str = ""
    last: str = ""
    id: str = ""

    @property
    def is_failure(self) -> bool:
        return self.cause not in ("", "policy")

    def add(self, other: RefusalGroup) -> None:
        self.count += other.count
        self.first = min(self.first or other.first, other.first)
        if other.last >= self.last:
            self.last, self.id = other.last, other.id


class ChangedHooks(msgspec.Struct, frozen=True):
    """A revision of the hooks: when, and what it changed."""

    at: str
    added: list[str]
    removed: list[str]
    changed: list[str]


class Bar(msgspec.Struct, frozen=True):
    """Some hours of a time line, as texts in the record's form: how many passed, asked, were refused, and failed."""

    since: str
    until: str
    counts: list[int]


class Summary(msgspec.Struct, frozen=True):
    """The decisions since a moment."""

    since: str
    until: str
    counts: CountsAnswer
    bars: list[Bar]
    guards: dict[str, GuardSums]
    groups: list[RefusalGroup]
    changes: list[ChangedHooks]
    oldest: str  # the moment of the oldest record that was counted

    @property
    def is_whole(self) -> bool:
        """Return whether the record reaches back to the beginning."""
        return bool(self.oldest) and self.oldest <= self.since

    def list_new(self, moment: str) -> list[RefusalGroup] | None:
        """Return the refusals that were not there before a moment, or None if the record does not tell."""
        if not self.oldest or self.oldest > moment:
            return None
        return [group for group in self.groups if group.first >= moment]

    def list_changes(self, moment: str) -> list[ChangedHooks]:
        """Return the revisions of the hooks since a moment."""
        return [change for change in self.changes if change.at >= moment]


class Tally:
    """The sums of the hours of the last `span`, which any thread may read while another one adds lines."""

    def __init__(self, span: timedelta = WEEK) -> None:
        self.span = span
        self.oldest = ""
        self.lines = 0
        self._hours: Hours = {}
        self._groups: dict[str, dict[GroupKey, RefusalGroup]] = {}  # by hour
        self._changes: list[ChangedHooks] = []
        self._suggestions: SuggestionCounter | None = None
        self._lock = threading.Lock()

    def take(self, lines: Sequence[bytes]) -> None:
        """Add lines of the record, in any order."""
        with self._lock:
            self.lines += len(lines)
            count_lines(lines, self._hours)
            for line in lines:
                if self._suggestions is None and b'"instead":"' in line:
                    self._suggestions = SuggestionCounter()
                if REFUSED.search(line, 0, 1000) is not None:
                    self._add_refusal(parse_own_object(line) or {})
                elif CHANGED in line[:200]:
                    self._add_change(parse_own_object(line) or {})
            known = [hour.first for hour in self._hours.values() if hour.first]
            if known and (not self.oldest or min(known) < self.oldest):
                self.oldest = min(known)

    def take_in_order(self, lines: Iterable[bytes], since: str = "") -> None:
        """Add what guards named in place of what they refused since a moment, from lines that `take` has had."""
        rest = iter(lines)
        while self._suggestions is not None and (batch := list(islice(rest, BATCH))):
            with self._lock:
                for line in batch:
                    self._suggestions.take(line, since)

    def _add_refusal(self, record: dict[str, object]) -> None:
        at, verdict, cause, reason = (str(record.get(key) or "") for key in ("at", "verdict", "cause", "reason"))
        groups = self._groups.setdefault(at[:13], {})
        key = (verdict, cause, read_hook_name(record), read_subject(record), reason)
        if key not in groups and len(groups) >= MAX_GROUPS:
            key = (verdict, cause, key[2], OTHERS, "")
        group = RefusalGroup(*key, 1, at, at, str(record.get("decision_id") or ""))
        groups.setdefault(key, RefusalGroup(*key)).add(group)

    def _add_change(self, record: dict[str, object]) -> None:
        try:
            self._changes.append(msgspec.convert(record, ChangedHooks))
        except msgspec.ValidationError:
            return
        self._changes = sorted(self._changes, key=lambda change: change.at)[-MAX_CHANGES:]

    def forget(self, now: datetime) -> None:
        """Drop the hours before the span."""
        begin = format_hour(now - self.span)[:13]
        with self._lock:
            self._hours = {key: hour for key, hour in self._hours.items() if key >= begin or not key}
            self._groups = {key: groups for key, groups in self._groups.items() if key >= begin}

    def summarize(self, span: timedelta, now: datetime, known: Sequence[str] | None = None) -> Summary:
        """Return the sums of the last `span`, from the beginning of an hour on. `known` are the hooks there are."""
        since, until = format_hour(now - span), format_timestamp(now.timestamp())
        groups: dict[GroupKey, RefusalGroup] = {}
        failed: dict[str, int] = {}
        with self._lock:
            counts = summarize_counts(self._hours, since=since, known=known, suggestions=self._suggestions)
            for hour, held in self._groups.items():
                if hour >= since[:13]:
                    failed[hour] = sum(group.count for group in held.values() if group.is_failure)
                    for key, group in held.items():
                        groups.setdefault(key, RefusalGroup(*key)).add(group)
            changes = [change for change in self._changes if change.at >= since]
        ordered = sorted(groups.values(), key=lambda group: (group.count, group.last), reverse=True)
        decided = {hour["at"][:13]: sort_verdicts(hour["verdicts"], failed.get(hour["at"][:13], 0))
                   for hour in counts["hours"]}  # fmt: skip
        guards = {guard["name"]: sum_guard(guard) for guard in counts["guards"]}
        for group in ordered:
            if (guard := guards.get(group.hook)) is not None and not group.is_failure:
                guard.last = max(guard.last, group.last)
        return Summary(
            since, until, counts, list(draw_bars(decided, now - span, now)), guards, ordered, changes, self.oldest
        )

    def trace(self, hook: str, span: timedelta, now: datetime) -> list[Bar]:
        """Return a time line of one guard: its calls without a word, its asks, its refusals, its failures."""
        with self._lock:
            words_by_hour = {
                key: [hour.tallies["guard", hook, word] for word in ("calls", "ask", "deny", "halt", "failures")]
                for key, hour in self._hours.items()
            }
        decided = {
            hour: [max(calls - asks - denies - halts - failures, 0), asks, denies + halts, failures]
            for hour, (calls, asks, denies, halts, failures) in words_by_hour.items()
        }
        return list(draw_bars(decided, now - span, now))


def format_hour(moment: datetime) -> str:
    return format_timestamp(moment.replace(minute=0, second=0, microsecond=0).timestamp())


def sort_verdicts(verdicts: dict[str, int], failed: int) -> list[int]:
    """Return how many passed, asked, were refused, and were decided by a failure."""
    asked, refused = verdicts.get("ask", 0), verdicts.get("deny", 0) + verdicts.get("halt", 0)
    return [sum(verdicts.values()) - asked - refused, asked, max(refused - failed, 0), failed]


def sum_guard(guard: CountedGuard) -> GuardSums:
    verdicts, instead = guard["verdicts"], guard["instead"] or {"offered": 0, "taken": 0, "unknown": 0}
    return GuardSums(
        guard["calls"], verdicts.get("deny", 0) + verdicts.get("halt", 0), verdicts.get("ask", 0), guard["failures"],
        sum(count for verdict, count in guard["would"].items() if verdict in ("deny", "halt", "ask")),
        offered=instead["offered"], taken=instead["taken"], unknown=instead["unknown"],
    )  # fmt: skip


def draw_bars(hours: dict[str, list[int]], begin: datetime, now: datetime) -> Iterator[Bar]:
    """Yield the time line of hours, in bars of some hours if it is long."""
    width = max(1, round((now - begin) / HOUR / 168))
    begin = begin.replace(minute=0, second=0, microsecond=0)
    while begin <= now:
        held = (hours.get(format_hour(begin + number * HOUR)[:13], (0, 0, 0, 0)) for number in range(width))
        end = begin + width * HOUR
        yield Bar(format_hour(begin), format_hour(end), list(map(sum, zip(*held, strict=True))))
        begin = end


def count_record(folder: str, tally: Tally, now: datetime) -> None:
    """Add the record's lines of the tally's span, newest first.

    Raises:
        NoRecordError: there is no record.
        OSError: it cannot be read.
    """
    begin, oldest = format_hour(now - tally.span), 0
    lines = islice(read_backwards(folder), MAX_LINES)
    while batch := list(islice(lines, BATCH)):
        tally.take(batch)
        oldest = read_seq(batch[-1]) or oldest
        if tally.oldest and tally.oldest < begin:
            break
    cursor = RecordCursor(folder)
    cursor.seek(max(oldest - 1, 0))
    with suppress(RecordChangedError):  # then what guards named instead is counted in part
        tally.take_in_order(cursor.read_new(), begin)


class RecordCounts:
    """The task that keeps a tally of the daemon's record for pages that ask for it, while `run` runs."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._folder = ""
        self._cursor: RecordCursor | None = None
        self._fault = ""
        self._wanted, self._done = trio.Event(), trio.Event()

    async def look(self, folder: str) -> QueryResult[Tally]:
        """Return the tally of a record, up to now, or why there is none."""
        self._folder = folder
        self._wanted.set()
        done = self._done
        with trio.move_on_after(PATIENCE):
            await done.wait()
            return QueryResult(fault=self._fault) if self._fault else QueryResult(self._tally)
        return QueryResult(fault=f"{self._tally.lines} records are counted so far, and more are to come; load it again")

    async def run(self) -> None:
        """Bring the tally up to date whenever a page asks, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            self._fault = await in_thread(self._catch_up, self._folder, abandon_on_cancel=True)
            done, self._done = self._done, trio.Event()
            done.set()

    def _catch_up(self, folder: str) -> str:
        """Read what is new in the record, or all of it; return why that cannot be."""
        now = datetime.now(UTC)
        try:
            if self._cursor is not None and self._cursor.folder == folder:
                try:
                    while lines := self._cursor.read():
                        self._tally.take(lines)
                        self._tally.take_in_order(lines)
                    self._tally.forget(now)
                    return ""
                except RecordChangedError:
                    pass  # it is another record now
            self._cursor, self._tally = None, Tally()
            cursor = RecordCursor.at_end(folder)
            count_record(folder, self._tally, now)
            self._cursor = cursor
        except (NoRecordError, OSError) as error:
            return describe_error(error)
        return ""
