"""The command `fleet timestamp`: sign that the newest version is still the newest, from a timer between pushes."""

from __future__ import annotations

import argparse

from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import Exit, Parser, parse_duration
from hooklatch.fleet.publishing.publisher import Publisher
from hooklatch.fleet.timestamps import LONGEST, Timestamp, format_moment

__all__ = ["add_timestamp"]

DAY = 24 * 3600.0


def add_timestamp(parser: Parser) -> None:
    example = "hooklatch fleet timestamp --key timestamp.key --expires 1d"
    parser.runs(run_fleet_timestamp, example=example, exits=access.EXITS)
    parser.prints("fleet.timestamps:Timestamp")
    parser.add_argument(
        "--expires", metavar="TIME", type=parse_life, default=DAY, help="for how long it holds: 1d, at most 8d (1d)"
    )
    access.add_access(parser, with_keys=True)


def parse_life(text: str) -> float:
    seconds = parse_duration(text)
    if not 0 < seconds <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of 8 days at most, after which hosts take none")
    return seconds


def run_fleet_timestamp(arguments: argparse.Namespace) -> int:
    """Sign which version is the newest, as of now."""
    fleet_access = access.read_engine_access(arguments)
    key = fleet_access.signing_key

    async def work(publisher: Publisher) -> Timestamp:
        return await publisher.stamp(key, arguments.expires)

    # What one host claims of the history must not stop the timer of all.
    stamp = access.run_publisher(fleet_access, work, heeds_hosts=False)
    if arguments.json:
        output.say_json(stamp)
    else:
        until = format_moment(stamp.expires.timestamp())
        output.print_line(
            f"version {stamp.version} is the newest at {format_moment(stamp.at)}; this holds until {until}"
        )
    return Exit.OK
