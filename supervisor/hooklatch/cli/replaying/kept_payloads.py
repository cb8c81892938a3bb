"""Finds decisions whose payload was kept whole, for those who use them again.  Changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.record_filters import CHOICES, FILTERS, add_moments, filters_of, one_of, record_folder
from hooklatch.errors import why
from hooklatch.record.files.reading import NoRecordError, forwards, matching
from hooklatch.record.payloads.files import Place, folder_of, places, read
from hooklatch.record.payloads.lines import KeptPayload, redacted_in

__all__ = ["LOST", "Chosen", "KeptFire", "add_choice", "chosen", "fires_of"]

HOW = '[record] payloads = "full" in hooks.toml keeps them from then on'
LOST = "retention removed it, or somebody did, or changed it (to find out which: hooklatch log verify)"
OPTIONS = ("session", "hook", "event")


class KeptFire(NamedTuple):
    """A decision as it is on record, and what was fired; `redacted` are the places that hooks saw and we do not."""

    record: dict[str, Any]
    kept: KeptPayload
    redacted: tuple[str, ...]

    @property
    def seq(self) -> int:
        return int(self.record["seq"])

    @property
    def tool(self) -> str | None:
        name = msgspec.json.decode(self.kept.payload).get("tool_name")
        return name if isinstance(name, str) else None


class Chosen(NamedTuple):
    """The decisions that were asked for, oldest first, where the payload of each is, and how many have none.

    Of these, `lost` is the number of those whose payload was kept, and is not there any more as it was.
    """

    folder: str
    records: list[dict[str, Any]]
    places: dict[str, Place]
    unkept: int
    lost: int


def add_choice(parser: Parser) -> None:
    """Add the options that choose decisions."""
    for name, metavar, help_text in FILTERS:
        if name in OPTIONS:
            parser.add_argument(f"--{name}", metavar=metavar, help=help_text)
    name, metavar, known, help_text = CHOICES[0]
    parser.add_argument(f"--{name}", metavar=metavar, type=one_of(name, known), help=f"then decided as: {help_text}")
    add_moments(parser)
    parser.add_argument(
        "--record", metavar="DIR", default=None, help="the record's folder (default: $XDG_STATE_HOME/hooklatch/record)"
    )


def chosen(arguments: argparse.Namespace, numbers: Sequence[range] = ()) -> Chosen:
    """Find the decisions that the options choose, and of these only some `numbers` if any are named.

    Raises:
        CommandError: there is no record, or no such decision has a payload.
    """
    folder = record_folder(arguments)
    filters = msgspec.structs.replace(filters_of(arguments), kind="decision")
    try:
        # Of two records of one decision the later one is what was answered.
        found = {
            str(record.get("decision_id")): record
            for record in matching(forwards(folder), filters)
            if not numbers or any(record.get("seq") in one for one in numbers)
        }
        kept = [record for record in found.values() if isinstance(record.get("payload_kept"), str)]
        where = places(folder_of(folder), {record["payload_kept"] for record in kept}, since=first_of(kept))
    except NoRecordError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"{error.filename} cannot be read: {error.strerror}") from None
    there = [record for record in kept if record["payload_kept"] in where]
    if kept and not there:
        text = f"{len(found)} decisions in {folder} match, and no payload of them is there: {LOST}"
        raise CommandError(Exit.NO_INPUT, text)
    if not there:
        what = f"{len(found)} decisions in {folder} match, and no payload of them is kept" if found else ""
        raise CommandError(Exit.NO_INPUT, f"{what or f'no decision in {folder} matches'}; {HOW}")
    return Chosen(folder, there, where, len(found) - len(there), len(kept) - len(there))


def first_of(records: Sequence[dict[str, Any]]) -> int:
    return min((int(record["seq"]) for record in records), default=0)


def fires_of(found: Chosen) -> Iterator[KeptFire]:
    """Yield what was fired, oldest first.

    Raises:
        CommandError: a payload cannot be read.
    """
    for record in found.records:
        try:
            kept = msgspec.json.decode(read(found.places[record["payload_kept"]]), type=KeptPayload)
            redacted = tuple(redacted_in(msgspec.json.decode(kept.payload)))
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            text = f"the payload of record {record['seq']} cannot be read ({why(error)}); see: hooklatch log verify"
            raise CommandError(Exit.BAD_DATA, text) from None
        yield KeptFire(record, kept, redacted)
