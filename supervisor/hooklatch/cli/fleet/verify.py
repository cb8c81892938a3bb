"""The command `fleet verify`: the fleet log against itself, the hosts' reports and the record on this machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from hooklatch import paths
from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.records import LABELS, parse_witness
from hooklatch.core.text import format_count
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.logs.chains import DOES_NOT_PROVE, PROVES, FleetVerified, HostVerified, LocalReport
from hooklatch.fleet.logs.verifying import verify_hosts
from hooklatch.record.storage.reading import NoRecordError

__all__ = ["add_verify"]

RANGES = 20  # unbroken ranges to print


def add_verify(parser: Parser) -> None:
    parser.runs(run_fleet_verify, example="hooklatch fleet verify", exits=(*access.EXITS, Exit.FINDINGS))
    parser.prints("fleet.logs.chains:FleetVerified")
    access.add_hosts(parser)
    parser.add_argument(
        "--record", metavar="DIR",
        help="this machine's record (default, if this machine is one of the hosts: $XDG_STATE_HOME/hooklatch/record)",
    )  # fmt: skip
    parser.add_argument(
        "--witness", metavar="SEQ:HASH", action="append", type=parse_witness, default=[],
        help="a head that a client of the one --host kept (a reply's `record`); may be repeated",
    )  # fmt: skip
    access.add_access(parser)


def run_fleet_verify(arguments: argparse.Namespace) -> int:
    """Verify the logs of all hosts, or of those that are named."""
    fleet_access = access.read_engine_access(arguments)
    if arguments.witness and len(arguments.host) != 1:
        raise CommandError(Exit.USAGE, "a witness is of one host: name that one with --host")
    local = find_local_record(arguments, fleet_access)

    async def work(engine: Engine) -> list[HostVerified]:
        return await verify_hosts(
            engine, arguments.host, fleet=fleet_access.fleet, local=local, witnesses=arguments.witness
        )

    try:
        results = access.run_with_engine(fleet_access, work)
    except NoRecordError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    if local is not None and arguments.record and all(result.host != local[0] for result in results):
        raise CommandError(Exit.NO_INPUT, f"the engine knows no host {local[0]!r}, which this machine is")
    print_verification(results, is_json=arguments.json)
    return Exit.OK if all(result.ok for result in results) else Exit.FINDINGS


def find_local_record(arguments: argparse.Namespace, fleet_access: access.EngineAccess) -> tuple[str, str] | None:
    """Return the name of this host and the folder of its record; None if it is not one of the hosts to verify."""
    settings = access.read_own_settings(arguments)
    # The machine's own [fleet] has its name, if it is about the fleet that is verified.
    host = settings.host if settings is not None and settings.name == fleet_access.fleet else None
    if arguments.record:
        if len(arguments.host) == 1:
            return arguments.host[0], arguments.record
        if host is None or arguments.host:
            raise CommandError(Exit.USAGE, "say whose record it is: name one --host")
        return host, arguments.record
    if host is None or (arguments.host and host not in arguments.host):
        return None
    folder = os.path.join(paths.state_dir(os.environ), "record")
    return (host, folder) if os.path.isdir(folder) else None


def print_verification(results: list[HostVerified], *, is_json: bool) -> None:
    is_sound = all(result.ok for result in results)
    if is_json:
        output.say_json(FleetVerified(is_sound, results, PROVES, DOES_NOT_PROVE))
        return
    for result in results:
        output.say_lines(*format_host_verification(result), width=LABELS)
        output.print_line()
    if not results:
        output.print_line("no host has reported or shipped anything")
    output.say_lines(("proves", PROVES if is_sound else f"{PROVES} (WRONG)"), width=LABELS)
    output.say_lines(*(("cannot", text) for text in DOES_NOT_PROVE), width=LABELS)


def format_host_verification(verified: HostVerified) -> Iterator[tuple[str, str]]:
    whole = f"; of {verified.whole} nothing was left out, and they match their hashes" if verified.whole else ""
    repeated = f"; {verified.repeated} more came again" if verified.repeated else ""
    yield "host", f"{verified.host}: {format_count(verified.records, 'record')}{whole}{repeated}"
    is_stranger = any(finding.what == "identity" for finding in verified.findings)
    for epoch, first, last in verified.ranges[:RANGES]:
        yield (
            "unproven" if is_stranger else "whole",
            f"{first} to {last}" + (f" (epoch {epoch})" if verified.epoch > 1 else ""),
        )
    if verified.head is not None:
        yield "head", f"{verified.head.seq}:{verified.head.hash}"
    for note in verified.notes:
        yield "note", note
    for finding in verified.findings:
        yield "WRONG", f"{finding.what}: {finding.text}"
    if verified.omitted:
        yield "WRONG", f"and {verified.omitted} more"
    if verified.local is not None:
        yield from format_local_verification(verified.local)


def format_local_verification(local: LocalReport) -> Iterator[tuple[str, str]]:
    absent = f"; {local.absent} are in the engine only" if local.absent else ""
    yield "local", f"{local.folder}: {format_count(local.compared, 'record')} compared with what was shipped{absent}"
    results = [witness["result"] for witness in local.record.witnesses]
    retired = f"; {results.count('retired')} are of records that retention has removed" if "retired" in results else ""
    yield "witness", f"{results.count('confirmed')} of {len(results)} heads that the engine has are confirmed{retired}"
    for finding in local.record.findings:
        yield "WRONG", f"local record: {finding.what}: {finding.text}"
    for text in local.differences:
        yield "WRONG", f"local record: {text}"
    if local.omitted + local.record.findings_omitted:
        yield "WRONG", f"local record: and {local.omitted + local.record.findings_omitted} more"
