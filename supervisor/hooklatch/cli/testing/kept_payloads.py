"""The selection of decisions whose payload was kept whole, to be fired again or written as cases."""

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
from hooklatch.record.payload_files import (
    KeptPayload,
    PayloadSpan,
    find_payload_places,
    list_redacted_places,
    payload_folder,
    read_payload_line,
)
from hooklatch.record.storage.reading import NoRecordError, filter_entries, read_forwards

__all__ = ["LOST", "SelectedFires", "KeptFire", "add_choice", "select_fires", "read_kept_fires"]

HOW = '[record] payloads = "full" in hooks.toml keeps them from then on'
LOST = "it was removed, by retention or by hand, or was changed (to find out which: hooklatch log verify)"
OPTIONS = ("session", "hook", "event")


class KeptFire(NamedTuple):
    """A recorded decision and its fire; `redacted` are the places of the payload that hooks saw and that are lost."""

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
    """The selected decisions, the oldest first, the place of each one's payload, and how many have none (`unkept`).

    Of these, `lost` is the number of those whose payload was kept once, and was removed or changed since.
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
    """Find the decisions that the options choose; with `numbers` only those with these numbers.

    Raises:
        CommandError: there is no record, or no such decision has a payload.
    """
    folder = record_folder(arguments)
    filters = msgspec.structs.replace(read_filters(arguments), kind="decision")
    try:
        # Of two records of one decision the later one has the decision that was sent.
        decisions = {
            str(record.get("decision_id")): record
            for record in filter_entries(read_forwards(folder), filters)
            if not numbers or any(record.get("seq") in number for number in numbers)
        }
        kept = [record for record in decisions.values() if isinstance(record.get("payload_kept"), str)]
        spans = find_payload_places(
            payload_folder(folder), {record["payload_kept"] for record in kept}, since=find_first_seq(kept)
        )
    except NoRecordError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"{error.filename} cannot be read: {error.strerror}") from None
    records = [record for record in kept if record["payload_kept"] in spans]
    if kept and not records:
        text = f"{len(decisions)} decisions in {folder} match, and no payload of them is there: {LOST}"
        raise CommandError(Exit.NO_INPUT, text)
    if not records:
        fault = f"{len(decisions)} decisions in {folder} match, and no payload of them is kept" if decisions else ""
        raise CommandError(Exit.NO_INPUT, f"{fault or f'no decision in {folder} matches'}; {HOW}")
    return SelectedFires(folder, records, spans, len(decisions) - len(records), len(kept) - len(records))


def find_first_seq(records: Sequence[dict[str, Any]]) -> int:
    return min((int(record["seq"]) for record in records), default=0)


def read_kept_fires(selected: SelectedFires) -> Iterator[KeptFire]:
    """Yield the fires of selected decisions, the oldest first.

    Raises:
        CommandError: a payload cannot be read.
    """
    for record in selected.records:
        try:
            kept = msgspec.json.decode(read_payload_line(selected.places[record["payload_kept"]]), type=KeptPayload)
            redacted = tuple(list_redacted_places(msgspec.json.decode(kept.payload)))
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            text = (
                f"the payload of record {record['seq']} cannot be read ({explain_error(error)}); see: "
                "hooklatch log verify"
            )
            raise CommandError(Exit.BAD_DATA, text) from None
        yield KeptFire(record, kept, redacted)
