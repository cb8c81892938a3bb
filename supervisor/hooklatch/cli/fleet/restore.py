"""The command `fleet restore`: put versions and bundles that the engine has lost back, from a machine's own copy."""

from __future__ import annotations

import argparse
import os

from hooklatch import paths
from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.core.text import format_count
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.publishing.restoring import RestoreReport, restore_versions

__all__ = ["add_restore"]

OF_HOST = "fleet"  # in the state directory: what a daemon keeps of its fleet


def add_restore(parser: Parser) -> None:
    parser.runs(
        run_fleet_restore, example="hooklatch fleet restore", exits=(*access.EXITS, Exit.FINDINGS, Exit.CONFLICT)
    )
    parser.prints("fleet.publishing.restoring:RestoreReport")
    parser.add_argument(
        "--from", metavar="DIR", action="append", default=[], dest="folders",
        help="a copy of a host's folder STATE/fleet, or ARCHIVE/FLEET, not what this machine keeps; may be repeated",
    )  # fmt: skip
    access.add_access(parser, with_keys=True)


def run_fleet_restore(arguments: argparse.Namespace) -> int:
    """Put back what is lost; nothing is signed, and nothing that is there is replaced."""
    fleet_access = access.read_engine_access(arguments)
    if not fleet_access.keys and not fleet_access.trusted:
        raise CommandError(Exit.USAGE, "no key is known whose signatures are believed; name one: --trust ed25519:…")
    folders = [os.path.abspath(os.path.expanduser(folder)) for folder in arguments.folders]
    if not folders:
        folders.append(access.open_seen_heads(fleet_access).copy)
        if not arguments.to:  # another engine may have a fleet of the same name and keys, with another history
            folders.append(os.path.join(paths.state_dir(os.environ), OF_HOST))

    async def work(engine: Engine) -> RestoreReport:
        keys = {**fleet_access.trusted, **fleet_access.keys}
        return await restore_versions(engine, fleet_access.fleet, keys, fleet_access.anchors or keys, folders)

    report = access.run_with_engine(fleet_access, work)
    if arguments.json:
        output.say_json(report)
    elif report.versions or report.bundles or report.key_sets:
        counts = ((len(report.versions), "version"), (report.bundles, "bundle"), (len(report.key_sets), "key set"))
        what = ", ".join(format_count(count, name) for count, name in counts if count)
        output.print_line(
            f"put back {what}; the newest version is {report.version}. Hosts follow by themselves, and count as in"
            " contact from the next push or `hooklatch fleet timestamp` on"
        )
    else:
        output.print_line(f"nothing of this copy is missing in the engine; the newest version is {report.version}")
    for text in report.findings:
        output.print_error(text)
    return Exit.FINDINGS if report.findings else Exit.OK
