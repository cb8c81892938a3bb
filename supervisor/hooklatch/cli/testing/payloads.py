"""The payloads that commands fire: those that were named, cases, recorded events, and what the record kept whole."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from hooklatch.cli.terminal.inputs import read_input
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.records import CHOICES, FILTERS, add_moments, make_choice_type, read_filters, record_folder
from hooklatch.cli.testing.cases import CaseTable, ExpectedDecision, make_case_params
from hooklatch.cli.testing.policy_tests import read_cases
from hooklatch.core.fire_params import EnvelopeParams, FireParams
from hooklatch.core.hooks.registry import EVERY_GATE, Hook
from hooklatch.core.light_json import is_object
from hooklatch.core.tables import InvalidTableError
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
from hooklatch.service.parts import DaemonComponents
from hooklatch.testing.events import STANDARD, event, list_recorded_events
from hooklatch.testing.workers import is_called
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = [
    "HOW", "LOST", "SelectedFires", "KeptFire", "add_choice", "select_fires", "read_kept_fires", "PayloadCase",
    "select_payload_cases",
]  # fmt: skip

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
    """The selected decisions, the oldest first, the place of each kept payload, and how many have none (`unkept`).

    Of these, `lost` is the number of those whose payload was kept once, and was removed or changed since.  `short` is
    the number of selected decisions whose payload is the excerpt in their record, which has all of it.
    """

    folder: str
    records: list[dict[str, Any]]
    places: dict[str, PayloadSpan]
    unkept: int
    lost: int
    short: int


def add_choice(parser: Parser) -> None:
    """Add the options that choose decisions."""
    for name, metavar, help_text in FILTERS:
        if name in OPTIONS:
            parser.add_argument(f"--{name}", metavar=metavar, help=help_text)
    name, metavar, help_text = CHOICES[0]
    parser.add_argument(f"--{name}", metavar=metavar, type=make_choice_type(name), help=f"then decided as: {help_text}")
    add_moments(parser)
    parser.add_argument(
        "--record", metavar="DIR", default=None, help="the record's folder (default: $XDG_STATE_HOME/hooklatch/record)"
    )


def select_fires(arguments: argparse.Namespace, numbers: Sequence[range] = ()) -> SelectedFires:
    """Find the decisions that the options choose; with `numbers` only those with these numbers."""
    folder = record_folder(arguments)
    filters = read_filters(arguments).but(kind="decision")
    try:
        # Of two records of one decision the later one has the decision that was sent.
        decisions = {
            str(record.get("decision_id")): record
            for record in filter_entries(read_forwards(folder), filters)
            if not numbers or any(record.get("seq") in number for number in numbers)
        }
        kept = [record for record in decisions.values() if isinstance(record.get("payload_kept"), str)]
        spans = find_payload_places(
            payload_folder(folder),
            {record["payload_kept"] for record in kept},
            since=min((int(record["seq"]) for record in kept), default=0),
        )
    except NoRecordError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"{error.filename} cannot be read: {error.strerror}") from None
    short = [record for record in decisions.values() if has_whole_excerpt(record)]
    present = [record for record in kept if record["payload_kept"] in spans]
    records = sorted([*present, *short], key=lambda record: int(record["seq"]))
    lost = len(kept) - len(present)
    if kept and not records:
        text = f"{len(decisions)} decisions in {folder} match, and no payload of them is there: {LOST}"
        raise CommandError(Exit.NO_INPUT, text)
    if not records:
        fault = ""
        if decisions:
            fault = f"{len(decisions)} decisions in {folder} match, and none has a payload that is kept, or whole"
        raise CommandError(Exit.NO_INPUT, f"{fault or f'no decision in {folder} matches'}; {HOW}")
    return SelectedFires(folder, records, spans, len(decisions) - len(records), lost, len(short))


def has_whole_excerpt(record: dict[str, Any]) -> bool:
    """Return whether a decision that kept no payload can be fired again from its excerpt, which has all but secrets."""
    excerpt, cwd = record.get("excerpt"), record.get("cwd")
    if record.get("payload_kept") is not None or not isinstance(excerpt, dict) or record.get("cause") == "payload":
        return False
    fields = cast("dict[str, object]", excerpt)
    is_cut = any(is_object(value) and value.keys() == {"omitted_bytes"} for value in (fields, *fields.values()))
    return not is_cut and not (isinstance(cwd, str) and cwd.endswith("…"))


def make_short_payload(record: dict[str, Any]) -> KeptPayload:
    """Return the fire of a decision, from its record alone."""
    session, call_id = record.get("claimed_session") or record.get("session"), record.get("call_id")
    envelope = EnvelopeParams(session_id=session, cwd=record.get("cwd"), host=record.get("host"))
    payload = msgspec.Raw(msgspec.json.encode(record["excerpt"]))
    return KeptPayload(str(record.get("decision_id")), str(record.get("event")), payload, envelope, call_id)


def read_kept_fires(selected: SelectedFires) -> Iterator[KeptFire]:
    """Yield the fires of selected decisions, the oldest first."""
    for record in selected.records:
        try:
            place = selected.places.get(record.get("payload_kept", ""))
            kept = (
                msgspec.json.decode(read_payload_line(place), type=KeptPayload)
                if place is not None
                else make_short_payload(record)
            )
            redacted = tuple(list_redacted_places(msgspec.json.decode(kept.payload)))
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            text = (
                f"the payload of record {record['seq']} cannot be read ({explain_error(error)}); see: "
                "hooklatch log verify"
            )
            raise CommandError(Exit.BAD_DATA, text) from None
        yield KeptFire(record, kept, redacted)


MAX_TITLE = 70  # characters of a payload's title


class PayloadCase(msgspec.Struct, frozen=True):
    """One payload to fire, and the expected decision if it comes from a case."""

    title: str
    params: FireParams
    expected: ExpectedDecision | None = None


def select_payload_cases(
    parts: DaemonComponents, hooks: Sequence[Hook], arguments: argparse.Namespace, function: str | None
) -> list[PayloadCase]:
    """Return the payloads to fire at these hooks."""
    chosen = [hook for hook in hooks if function is None or is_called(hook, function)]
    if not chosen:
        if not hooks:
            raise CommandError(
                Exit.NO_INPUT, "it has no hooks: mark a function with @hook, or declare one in hooks.toml"
            )
        names = ", ".join(hook.id for hook in hooks)
        raise CommandError(Exit.NO_INPUT, f"there is no hook {function!r}; there are: {names}")
    events = list(dict.fromkeys(hook.event for hook in chosen if hook.event != EVERY_GATE))
    if arguments.event is not None and parts.registries.catalogue.get(arguments.event) is None:
        raise CommandError(Exit.USAGE, f"there is no event {arguments.event!r}; see: hooklatch events")
    cases = [
        PayloadCase(case.name, case.params, case.expected) for name in arguments.cases for case in read_cases(name)
    ]
    for name in arguments.payload:
        cases += [make_payload_case(payload, arguments, events, name) for payload in read_payloads(name)]
    if cases:
        return cases
    event_names = [arguments.event] if arguments.event is not None else events
    return [*list_recorded_payloads(event_names), *make_payloads(event_names)]


def read_payloads(name: str) -> list[dict[str, Any]]:
    data = read_input(name, "the payload ")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CommandError(Exit.NO_INPUT, f"the payload {name} cannot be read: {explain_error(error)}") from None
    texts = [text]
    try:
        try:
            documents = [json.loads(text)]
        except ValueError:
            texts = [line for line in text.splitlines() if line.strip()]
            documents = [json.loads(line) for line in texts]
    except (ValueError, RecursionError) as error:
        raise CommandError(Exit.BAD_DATA, f"{name} is neither JSON nor JSON lines: {error}") from None
    for document, source in zip(documents, texts, strict=True):
        if not isinstance(document, dict):
            raise CommandError(Exit.BAD_DATA, f"{name}: a payload is a JSON object, not {json.dumps(document)[:60]}")
        if (problem := find_ambiguity(source.encode())) is not None:
            raise CommandError(Exit.BAD_DATA, f"{name}: a daemon would refuse this payload: {problem}")
    return cast("list[dict[str, Any]]", documents)


def make_payload_case(
    payload: dict[str, Any], arguments: argparse.Namespace, events: Sequence[str], name: str
) -> PayloadCase:
    event_name = arguments.event
    if event_name is None and arguments.host is None:
        if len(events) != 1:
            raise CommandError(
                Exit.USAGE, f"{name}: its event is one of {', '.join(events)}; say which one: --event {events[0]}"
            )
        event_name = events[0]
    return read_payload_case(payload, event_name, arguments.host, name)


def read_payload_case(payload: dict[str, Any], event_name: str | None, host: str | None, name: str) -> PayloadCase:
    try:
        params = make_case_params(CaseTable(expect="pass", event=event_name, payload=payload, host=host), os.getcwd())
    except InvalidTableError as error:
        raise CommandError(Exit.BAD_DATA, f"{name}: {error}") from None
    return PayloadCase(format_payload_title(params), params)


def list_recorded_payloads(events: Iterable[str]) -> list[PayloadCase]:
    """Return the recorded payloads of these events, as of an agent in this folder: hooks look at what is there."""
    names, here = set(events), json.dumps(os.getcwd())[1:-1]
    cases: list[PayloadCase] = []
    for recorded in list_recorded_events():
        moved = json.dumps(recorded.payload).replace(str(recorded.payload.get("cwd") or here), here)
        cases.append(read_payload_case(json.loads(moved), None, recorded.host, "a recorded payload"))
    return [case for case in cases if case.params.event in names]


def make_payloads(events: Iterable[str]) -> list[PayloadCase]:
    """Return an event with the fields that hosts always send, for each event that no recorded session has."""
    known = {case.params.event for case in list_recorded_payloads(events)}
    cases: list[PayloadCase] = []
    for name in events:
        if name not in known and name in STANDARD:
            params = FireParams(name, msgspec.Raw(msgspec.json.encode(event(name).payload)))
            cases.append(PayloadCase(format_payload_title(params), params))
    return cases


def format_payload_title(params: FireParams) -> str:
    """Return a line by which payloads can be told apart: the event, the matched field and the first argument."""
    payload: dict[str, Any] = msgspec.json.decode(params.payload)
    spec = STANDARD.get(params.event)
    matched = payload.get(spec.match) if spec is not None and spec.match is not None else None
    tool_input = payload.get("tool_input")
    first = next(iter(cast("dict[str, Any]", tool_input).values()), None) if isinstance(tool_input, dict) else None
    texts = [str(text) for text in (params.event, matched, first) if text is not None]
    title = " ".join(": ".join(texts[-2:]).split()) if len(texts) > 2 else " ".join(" ".join(texts).split())
    title = f"{texts[0]} {title}" if len(texts) > 2 else title
    return title if len(title) <= MAX_TITLE else f"{title[:MAX_TITLE]}…"
