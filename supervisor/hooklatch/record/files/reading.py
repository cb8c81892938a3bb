"""Reads the record for people and programs: forwards, backwards, filtered, as it grows.  Knows files; changes none.

It trusts nothing: a line that is no JSON is passed over (`verify` is what says so), and the last line may be in the
middle of being written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import msgspec

from hooklatch.core.hooks.names import bare, is_like_a_name
from hooklatch.core.messages import Cause, DecisionVerdict
from hooklatch.record.files.chain import read_link
from hooklatch.record.files.segments import Place, places

__all__ = [
    "KINDS",
    "Filters",
    "NoRecordError",
    "names",
    "of_kind",
    "Tailer",
    "backwards",
    "forwards",
    "matching",
    "newest",
    "query",
]

BLOCK = 256 * 1024
MAX_RECORDS = 10_000
MAX_ANSWER = 4 * 2**20  # bytes of one answer over a socket
KINDS = (
    *("decision", "abandoned", "started", "stopped", "registry", "source", "suspended", "resumed", "quarantined"),
    *("settings", "segment", "retired", "recovered", "disk", "unrecorded", "mended", "fault", "acknowledged"),
)
DOCUMENTS: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
ENCODER = msgspec.json.Encoder()


class NoRecordError(Exception):
    """There is no record in this folder: what to do."""


class Filters(msgspec.Struct, frozen=True):
    """What is asked for; all that is given must hold.  Moments are texts as in `at`, compared letter by letter.

    `run` is one live session, where `session` is an id that may come again.  `hook` is a hook's name (`global/x`,
    `project:/srv/x`) or an id, which may be several hooks'; every hook that was called counts, not the decider alone.
    """

    session: str | None = None
    run: str | None = None
    hook: str | None = None
    verdict: DecisionVerdict | None = None
    cause: Cause | None = None
    event: str | None = None
    kind: str | None = None
    decision_id: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int = 100


class Sieve:
    """Says of a line whether it is asked for.  Most lines are put aside by their bytes, before any JSON is read."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self.needles = [
            b'"%b":%b' % (key.encode(), ENCODER.encode(value))
            for key in ("session", "run", "event", "kind", "verdict", "cause", "decision_id")
            if (value := getattr(filters, key)) is not None
        ]
        if filters.hook is not None:
            hook_id = bare(filters.hook) if is_like_a_name(filters.hook) else filters.hook
            self.needles.append(b'"hook":%b' % ENCODER.encode(hook_id))

    def record_of(self, line: bytes) -> dict[str, Any] | None:
        """Return a line's record if it is one, and asked for."""
        for needle in self.needles:
            if needle not in line:
                return None
        try:
            record = DOCUMENTS.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return record if self._holds(record) else None

    def _holds(self, record: dict[str, Any]) -> bool:
        filters = self._filters
        for key in ("session", "run", "event", "kind", "verdict", "decision_id"):
            if (wanted := getattr(filters, key)) is not None and record.get(key) != wanted:
                return False
        at = str(record.get("at"))
        if (filters.since is not None and at < filters.since) or (filters.until is not None and at > filters.until):
            return False
        outcomes = [record, *record.get("outcomes", [])]
        if filters.cause is not None and record.get("cause") != filters.cause:
            return False
        return filters.hook is None or any(is_of(filters.hook, one) for one in outcomes)


def is_of(hook: str, outcome: dict[str, Any]) -> bool:
    return hook in (outcome.get("hook"), f"{outcome.get('layer')}/{outcome.get('hook')}", outcome.get("name"))


def segments_of(folder: str) -> list[Place]:
    try:
        found = places(folder)
    except OSError as error:
        raise NoRecordError(
            f"there is no record in {folder} ({error.strerror}); a daemon writes it there, or name its folder"
        ) from None
    if not found:
        raise NoRecordError(f"{folder} holds no record; name the folder that does")
    return found


def forwards(folder: str) -> Iterator[bytes]:
    """Yield every line, oldest first; a last one without an end is left out.

    Raises:
        NoRecordError: there is none.
    """
    for place in segments_of(folder):
        try:
            with open(place.path, "rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        yield line
        except FileNotFoundError:
            continue  # retired meanwhile


def backwards(folder: str, needles: Sequence[bytes] = ()) -> Iterator[bytes]:
    """Yield every line, newest first; a last one without an end is left out.  Lines without all needles may be too.

    Raises:
        NoRecordError: there is none.
    """
    for place in reversed(segments_of(folder)):
        try:
            with open(place.path, "rb") as file:
                yield from lines_backwards(file, needles)
        except FileNotFoundError:
            continue


def lines_backwards(file: BinaryIO, needles: Sequence[bytes] = ()) -> Iterator[bytes]:
    position = file.seek(0, os.SEEK_END)
    rest: bytes | None = None  # the end of a line whose beginning is not read yet; None before the last line's end
    while position > 0:
        start = max(0, position - BLOCK)
        file.seek(start)
        block = file.read(position - start)
        position = start
        if rest is None:
            end = block.rfind(b"\n")
            if end < 0:
                continue
            block = block[:end]
            rest = b""
        text = block + rest
        if all(needle in text for needle in needles):
            rest, *whole = text.split(b"\n")
            yield from reversed(whole)
        else:  # most blocks hold nothing that is asked for, and cutting them into lines is what costs
            rest = text[:end] if (end := text.find(b"\n")) >= 0 else text
    if rest:
        yield rest


def of_kind(segments: Sequence[Place], kind: str, *, since: int) -> Iterator[dict[str, Any]]:
    """Yield the sound records of one kind with numbers above `since`, newest first; older segments are not read."""
    needle = b'"kind":"%b"' % kind.encode()
    for place in reversed(segments):
        try:
            with open(place.path, "rb") as file:
                for line in lines_backwards(file, [needle]):
                    link = read_link(line) if needle in line else None
                    if link is not None and link.kind == kind and link.seq > since:
                        yield DOCUMENTS.decode(line)
        except FileNotFoundError:
            continue
        if place.first <= since:
            return


def newest(folder: str, filters: Filters) -> Iterator[dict[str, Any]]:
    """Return the records that are asked for, newest first.

    Raises:
        NoRecordError: there is none.
    """
    return matching(backwards(folder, Sieve(filters).needles), filters)


def matching(lines: Iterator[bytes], filters: Filters) -> Iterator[dict[str, Any]]:
    """Yield the records that are asked for, of any number."""
    sieve = Sieve(filters)
    for line in lines:
        record = sieve.record_of(line)
        if record is not None:
            yield record


def query(folder: str, filters: Filters) -> dict[str, Any]:
    """Return the newest records that are asked for, oldest of them first; `more` says that there are older ones.

    Raises:
        NoRecordError: there is none.
    """
    found: list[dict[str, Any]] = []
    size = 0
    for record in newest(folder, filters):
        size += len(ENCODER.encode(record))
        if len(found) >= max(0, min(filters.limit, MAX_RECORDS)) or size > MAX_ANSWER:
            return {"records": found[::-1], "more": True}
        found.append(record)
    return {"records": found[::-1], "more": False}


def names(folder: str, field: str, most: int) -> set[str]:
    """Return what the newest records have in a field (`hook`: with its layer and without); of so many records.

    Raises:
        NoRecordError: there is none.
    """
    found: set[str] = set()
    for record in islice(newest(folder, Filters()), most):
        for one in (record, *record.get("outcomes", [])):
            if isinstance(name := one.get(field), str):
                found.add(name)
                if field == "hook" and "layer" in one:
                    found.add(f"{one['layer']}/{name}")
    return found


class Tailer:
    """Gives the lines that are written from now on, over the ends of segments."""

    def __init__(self, folder: str) -> None:
        """Begin at the end of what there is.

        Raises:
            NoRecordError: there is none.
        """
        self._folder = folder
        self._place = segments_of(folder)[-1]
        self._position = whole_size(self._place)

    def new(self) -> Iterator[bytes]:
        """Yield what has come since the last time."""
        yield from self._rest()
        for place in segments_of(self._folder):
            if place.first > self._place.first:
                yield from self._rest()  # what came to the old one before it ended
                self._place, self._position = place, 0
        yield from self._rest()

    def _rest(self) -> Iterator[bytes]:
        try:
            with open(self._place.path, "rb") as file:
                file.seek(self._position)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._position += len(line)
                    yield line
        except FileNotFoundError:
            return


def whole_size(place: Place) -> int:
    with open(place.path, "rb") as file:
        data = file.read()
    return data.rfind(b"\n") + 1
