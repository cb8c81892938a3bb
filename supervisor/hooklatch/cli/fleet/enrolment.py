"""The commands `fleet enroll` and `fleet retire`: who is a host of the fleet, on record by an operator's word."""

from __future__ import annotations

import argparse
from typing import Literal

from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.enrolment import HostEvent, encode_event, read_enrolments
from hooklatch.fleet.manifests import NAME
from hooklatch.fleet.signing import KeyFormatError, NoLibraryError, read_public

__all__ = ["add_enroll", "add_retire"]


def add_enroll(parser: Parser) -> None:
    parser.runs(run_enroll, example="hooklatch fleet enroll build-7 --host-key ed25519:…", exits=access.EXITS)
    parser.prints("fleet.enrolment:HostEvent")
    parser.add_argument("host", metavar="HOST", type=parse_host, help="the host's name, as its [fleet] has it")
    parser.add_argument(
        "--host-key", metavar="KEY", required=True, help="the host's public key, which `hooklatch link` prints there"
    )
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for people")
    access.add_access(parser)


def add_retire(parser: Parser) -> None:
    example = 'hooklatch fleet retire build-7 --reason "sold"'
    parser.runs(run_retire, example=example, exits=access.EXITS)
    parser.prints("fleet.enrolment:HostEvent")
    parser.add_argument("host", metavar="HOST", type=parse_host, help="the host that is no more; its log stays")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it is kept, and fleet verify shows it")
    parser.add_argument("--renamed-to", metavar="HOST", type=parse_host, help="the name that it has now")
    access.add_access(parser)


def parse_host(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} cannot be a host's name: letters, digits, '.', '_', '-', at most 63"
        )
    return text


def run_enroll(arguments: argparse.Namespace) -> int:
    """Put on record that a host is one of the fleet, with its key."""
    try:
        key = read_public(arguments.host_key)
    except (KeyFormatError, NoLibraryError) as error:
        raise CommandError(Exit.BAD_DATA, f"--host-key: {error}") from None
    event = put_event(arguments, "enrolled", key=key.text)
    if arguments.json:
        output.say_json(event)
    else:
        output.print_line(f"{event.host} is enrolled with the key {key.id}: what another key signs there is a finding")
    return Exit.OK


def run_retire(arguments: argparse.Namespace) -> int:
    """Put on record that a host is no more."""
    event = put_event(arguments, "retired", to=arguments.renamed_to or "")
    if arguments.json:
        output.say_json(event)
        return Exit.OK
    output.print_line(
        f"{event.host} is retired: its log stays, fleet status counts it no more, and a report is a finding"
    )
    output.print_line(f"switch its user off at the engine too, as its administrator: ACL SETUSER host-{event.host} off")
    return Exit.OK


def put_event(
    arguments: argparse.Namespace, kind: Literal["enrolled", "retired"], *, key: str = "", to: str = ""
) -> HostEvent:
    """Append an event of a host, and return it."""
    fleet_access = access.read_engine_access(arguments)

    async def work(engine: Engine) -> HostEvent:
        await read_enrolments(engine, is_required=True)  # one that cannot be read must not be built upon
        event = HostEvent(
            event=kind, host=arguments.host, at=int((await engine.facts())["clock"]),
            by=access.find_publisher_name(), reason=arguments.reason, key=key, to=to,
        )  # fmt: skip
        await engine.add_event(encode_event(event))
        return event

    return access.run_with_engine(fleet_access, work)
