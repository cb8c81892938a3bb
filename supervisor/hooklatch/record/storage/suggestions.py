"""The commands that guards named in place of what they refused, and how many of them were then run, from the record.

offered   a denial by a guard's own word, with `instead`
taken     after it the same session asked for exactly that shell command, but for blanks around it, and it passed
unknown   the record does not tell: the command, what the session asked for, or the session is not recorded, or only
          in part

Everything else was not taken so far.  Entries are taken in their order.  Nothing is guessed: of a text that is recorded
in part only what differs for sure counts as different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.light_json import parse_own_object
from hooklatch.core.subject import find_kind, read_payload, read_tool_name
from hooklatch.core.text import REDACTED
from hooklatch_worker.author.tools import OTHER, UnclearToolError, arguments

if TYPE_CHECKING:
    from hooklatch.core.answers import InsteadCounts

__all__ = ["SuggestionCounter"]

MAX_SESSIONS = 1000  # with offers that were not taken; those of the oldest one beyond them are unknown
MAX_OFFERS = 100  # likewise, of one session
ELLIPSIS = "…"  # at the end of a text that is cut
PASSED = ("pass", "allow")
UNREADABLE = (msgspec.MsgspecError, RecursionError)


class SuggestingRecord(msgspec.Struct, gc=False):
    """The fields of an entry that offers are about."""

    at: str
    kind: str
    event: str = ""
    gate: bool = False
    verdict: str | None = None
    cause: str | None = None
    layer: str | None = None
    hook: str | None = None
    name: str = ""
    session: str | None = None
    claimed_session: str | None = None
    run: str | None = None
    instead: str | None = None

    @property
    def place(self) -> str:
        """The live session, or the one that a host names, or both; "" if there is none."""
        return "\n".join(filter(None, (self.run or self.session, self.claimed_session)))


class Offer(msgspec.Struct):
    """A command that a guard named so many times in an hour, to one session."""

    hour: str
    hook: str
    command: str
    count: int = 0
    is_doubtful: bool = False  # it may have been taken


class SeenCommand(msgspec.Struct, frozen=True):
    """The shell command of a call as far as it is recorded: all of it, or how it begins."""

    text: str
    is_whole: bool

    def compare(self, command: str) -> bool | None:
        """Return whether it is a command; None if that is not known."""
        seen = self.text.strip()
        if self.is_whole:
            return seen == command
        return None if command.startswith(seen) else False


NOTHING_SEEN = SeenCommand("", is_whole=False)
decode = msgspec.json.Decoder(SuggestingRecord).decode


class SuggestionCounter:
    """The counts of one record; each line is taken once."""

    def __init__(self) -> None:
        self._open: dict[str, dict[tuple[str, str, str], Offer]] = {}  # by session, then by hour, hook and command
        self._counts: dict[str, Counter[tuple[str, str]]] = {}  # by hour, as those of `counting`

    def take(self, line: bytes, since: str = "") -> None:
        """Take the next line of a record; offers before a moment do not count."""
        if b'"kind":"decision"' not in line or (b'"instead":"' not in line and not self._open):
            return
        try:
            record = decode(line)
        except UNREADABLE:
            return  # it is counted as unread where decisions are counted
        if record.kind != "decision":
            return
        if record.instead and record.verdict == "deny" and record.cause == "policy" and record.hook:
            if record.at >= since:
                self._add(record, record.hook, record.instead.strip())
        elif record.gate and record.verdict in PASSED and record.place in self._open:
            self._compare(record.place, read_command(record.event, parse_own_object(line) or {}))

    def _add(self, record: SuggestingRecord, hook: str, command: str) -> None:
        hour, name = record.at[:13], read_full_name(record.layer, hook, record.name)
        tallies = self._counts.setdefault(hour, Counter())
        tallies[name, "offered"] += 1
        if not record.place or REDACTED in command:
            tallies[name, "unknown"] += 1
            return
        if record.place not in self._open and len(self._open) >= MAX_SESSIONS:
            for offer in self._open.pop(next(iter(self._open))).values():
                self._doubt(offer)
        offers, key = self._open.setdefault(record.place, {}), (hour, name, command)
        if key not in offers and len(offers) >= MAX_OFFERS:
            self._doubt(offers.pop(next(iter(offers))))
        offer = offers.setdefault(key, Offer(hour, name, command))
        offer.count += 1
        if offer.is_doubtful:  # as its earlier ones, which are no longer told apart from it
            tallies[name, "unknown"] += 1

    def _doubt(self, offer: Offer) -> None:
        if not offer.is_doubtful:
            offer.is_doubtful = True
            self._counts[offer.hour][offer.hook, "unknown"] += offer.count

    def _compare(self, place: str, seen: SeenCommand | None) -> None:
        """Compare what a session asked for, and got, with what it was offered."""
        if seen is None:
            return
        offers = self._open[place]
        for key, offer in list(offers.items()):
            is_taken = seen.compare(offer.command)
            if is_taken is None:
                self._doubt(offer)
            elif is_taken:
                del offers[key]
                tallies = self._counts[offer.hour]
                tallies[offer.hook, "taken"] += offer.count
                if offer.is_doubtful:
                    tallies[offer.hook, "unknown"] -= offer.count
        if not offers:
            del self._open[place]

    def count(self, hook: str, since: str = "") -> InsteadCounts:
        """Return the counts of a guard from the hour of a moment on."""
        counts: Counter[str] = Counter()
        for hour, tallies in self._counts.items():
            if hour >= since[:13]:
                counts.update({word: tallies[hook, word] for word in ("offered", "taken", "unknown")})
        return {"offered": counts["offered"], "taken": counts["taken"], "unknown": counts["unknown"]}


def read_command(event: str, record: Mapping[str, object]) -> SeenCommand | None:
    """Return the shell command that an entry is about; None if it is surely about none."""
    spec, payload = Catalogue.standard().get(event), read_payload(record)
    if spec is not None and spec.match != "tool_name":
        return None
    if payload is None:
        return NOTHING_SEEN
    is_cut, tool = isinstance(record.get("excerpt_cut"), str), read_tool_name(record) or ""
    if REDACTED in tool or (is_cut and tool.endswith(ELLIPSIS)):
        return NOTHING_SEEN
    kind = find_kind(tool, payload.get("tool_kind"))
    if kind != "shell" and not (is_cut and kind == OTHER and "tool_kind" not in payload):
        return None
    key = next((key for key in ("tool_input", "tool_args") if key in payload), None)
    if key is None or kind != "shell":
        return NOTHING_SEEN if is_cut else None
    tool_input = payload[key]
    if not isinstance(tool_input, Mapping):
        return NOTHING_SEEN
    given = cast("Mapping[str, object]", tool_input)
    try:
        command = arguments("shell", given).get("command")
    except UnclearToolError:
        return NOTHING_SEEN
    if not isinstance(command, str) or (command not in given.values() and (is_cut or REDACTED in command)):
        return NOTHING_SEEN  # it was joined from words, or typed: the end of the last one is not that of a text
    return next(list_known_beginnings(command, is_cut=is_cut), SeenCommand(command, is_whole=True))


def list_known_beginnings(command: str, *, is_cut: bool) -> Iterator[SeenCommand]:
    """Yield how a command begins if it is recorded in part: up to the first thing that is left out."""
    if REDACTED in command:
        yield SeenCommand(command.partition(REDACTED)[0], is_whole=False)
    elif is_cut and command.endswith(ELLIPSIS):
        yield SeenCommand(command.removesuffix(ELLIPSIS), is_whole=False)
