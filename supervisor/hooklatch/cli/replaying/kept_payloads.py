"""Finds decisions whose payload was kept whole, for those who use them again.  Changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.record_filters import (
    CHOICES,
    FILTERS,
    add_moments,
    make_choice_type,
    read_filters,
    record_folder,
)
from hooklatch.errors import explain_error
from hooklatch.record.files.reading import NoRecordError, filter_entries, read_forwards
from hooklatch.record.payloads.files import PayloadSpan, find_payload_places, payload_folder, read_payload_line
from hooklatch.record.payloads.lines import KeptPayload, list_redacted_places

__all__ = ["LOST", "SelectedFires", "KeptFire", "add_choice", "select_fires", "read_kept_fires"]

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


class SelectedFires(NamedTuple):
    """The decisions that were asked for, oldest first, where the payload of each is, and how many have none.

    Of these, `lost` is the number of those whose payload was kept, and is not there any more as it was.
    """

    folder: str
    records: list[dict[str, Any]]
    places: dict[str, PayloadSpan]
    unkept: int
    lost: int


def add_choice(parser: Parser) -> None:
    """Add the options that choose decisions."""
    for name, metavar, help_text in FILTERS:
        if name in OPTIONS:
            parser.add_argument(f"--{name}", metavar=metavar, help=help_text)
    name, metavar, known, help_text = CHOICES[0]
    parser.add_argument(
        f"--{name}", metavar=metavar, type=make_choice_type(name, known), help=f"then decided as: {help_text}"
    )
    add_moments(parser)
    parser.add_argument(
        "--record", metavar="DIR", default=None, help="the record's folder (default: $XDG_STATE_HOME/hooklatch/record)"
    )


def select_fires(arguments: argparse.Namespace, numbers: Sequence[range] = ()) -> SelectedFires:
    """Find the decisions that the options choose, and of these only some `numbers` if any are named.

    Raises:
        CommandError: there is no record, or no such decision has a payload.
    """
    folder = record_folder(arguments)
    filters = msgspec.structs.replace(read_filters(arguments), kind="decision")
    try:
        # Of two records of one decision the later one is what was answered.
        found = {
            str(record.get("decision_id")): record
            for record in filter_entries(read_forwards(folder), filters)
            if not numbers or any(record.get("seq") in number for number in numbers)
        }
        kept = [record for record in found.values() if isinstance(record.get("payload_kept"), str)]
        where = find_payload_places(
            payload_folder(folder), {record["payload_kept"] for record in kept}, since=find_first_seq(kept)
        )
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
    return SelectedFires(folder, there, where, len(found) - len(there), len(kept) - len(there))


def find_first_seq(records: Sequence[dict[str, Any]]) -> int:
    return min((int(record["seq"]) for record in records), default=0)


def read_kept_fires(found: SelectedFires) -> Iterator[KeptFire]:
    """Yield what was fired, oldest first.

    Raises:
        CommandError: a payload cannot be read.
    """
    for record in found.records:
        try:
            kept = msgspec.json.decode(read_payload_line(found.places[record["payload_kept"]]), type=KeptPayload)
            redacted = tuple(list_redacted_places(msgspec.json.decode(kept.payload)))
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            text = (
                f"the payload of record {record['seq']} cannot be read ({explain_error(error)}); see: "
                "hooklatch log verify"
            )
            raise CommandError(Exit.BAD_DATA, text) from None
        yield KeptFire(record, kept, redacted)
