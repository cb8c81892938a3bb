"""The commands `fleet rollout` and `fleet rollback`: a version for more hosts, or an earlier bundle again.

Each makes a new version.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hooklatch.cli.fleet.access import (
    EXITS,
    add_access,
    add_despite_hosts,
    find_publisher_name,
    read_engine_access,
    run_publisher,
)
from hooklatch.cli.fleet.pacing import add_pace, parse_version, read_rollout_goal, report_interruption, roll_out
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser

if TYPE_CHECKING:
    from hooklatch.fleet.manifests import Manifest
    from hooklatch.fleet.publishing.publisher import Publisher

__all__ = ["add_rollback", "add_rollout"]

LIKE_PUSH = (*EXITS, Exit.FINDINGS, Exit.CONFLICT)


def add_rollout(parser: Parser) -> None:
    parser.runs(run_fleet_rollout, example="hooklatch fleet rollout 7 --steps 50,100 --key fleet.key", exits=LIKE_PUSH)
    parser.prints("fleet.manifests:Manifest")
    parser.add_argument("version", metavar="VERSION", type=parse_version, help="see: hooklatch fleet history")
    parser.add_argument("--message", metavar="TEXT", default="", help="why, for people")
    add_despite_hosts(parser)
    add_pace(parser, required=True)
    add_access(parser, with_keys=True)


def run_fleet_rollout(arguments: argparse.Namespace) -> int:
    """Give a version to more hosts."""
    from hooklatch.fleet.publishing.versions import plan_wider_rollout

    goal, access = read_rollout_goal(arguments), read_engine_access(arguments)
    key = access.signing_key
    report = output.print_error if arguments.json else output.print_line

    async def work(publisher: Publisher) -> Manifest:
        plan = plan_wider_rollout(publisher.history, arguments.version, goal.percent)
        await publisher.bundle(publisher.history.find(arguments.version))
        done, _ = await roll_out(
            publisher, key, goal, bundle=plan.bundle, size=plan.size, labels=plan.rollout.labels,
            message=arguments.message, report=report, progress=progress,
        )  # fmt: skip
        return done

    with report_interruption() as progress:
        manifest = run_publisher(access, work, heeds_hosts=not arguments.despite_hosts)
    print_rollout(arguments, manifest)
    return Exit.OK


def add_rollback(parser: Parser) -> None:
    parser.runs(run_fleet_rollback, example="hooklatch fleet rollback --key fleet.key", exits=(*EXITS, Exit.CONFLICT))
    parser.prints("fleet.manifests:Manifest")
    parser.add_argument(
        "version", metavar="VERSION", nargs="?", type=parse_version,
        help="whose bundle it is to be (default: the newest before with another one, for all of these hosts)",
    )  # fmt: skip
    parser.add_argument(
        "--label", metavar="NAME", action="append", help="for hosts with this label (default: those of the newest)"
    )
    parser.add_argument("--message", metavar="TEXT", default="", help="why, for people")
    add_despite_hosts(parser)
    add_access(parser, with_keys=True)


def run_fleet_rollback(arguments: argparse.Namespace) -> int:
    """Make an earlier bundle the newest version again, at once and for all hosts of the newest one."""
    from hooklatch.fleet.manifests import Manifest
    from hooklatch.fleet.publishing.versions import plan_rollback

    access = read_engine_access(arguments)
    key = access.signing_key

    async def work(publisher: Publisher) -> Manifest:
        plan = plan_rollback(publisher.history, arguments.version, arguments.label, key=key.public.id)
        if isinstance(plan, Manifest):
            return plan
        assert plan.same_as is not None
        await publisher.bundle(publisher.history.find(plan.same_as))  # no host can apply a version without its bundle
        return await publisher.commit(plan, key, publisher=find_publisher_name(), message=arguments.message)

    manifest = run_publisher(access, work, heeds_hosts=not arguments.despite_hosts)
    print_rollout(arguments, manifest)
    return Exit.OK


def print_rollout(arguments: argparse.Namespace, manifest: Manifest) -> None:
    if arguments.json:
        output.say_json(manifest)
        return
    hosts = f"hosts labelled {' and '.join(manifest.rollout.labels)}" if manifest.rollout.labels else "all hosts"
    bundle = f"that of version {manifest.same_as}" if manifest.same_as is not None else manifest.bundle[:12]
    output.print_line(f"version {manifest.version}: {manifest.rollout.percent:g} % of {hosts}, bundle {bundle}")
