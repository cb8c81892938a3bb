"""The commands `fleet history`, all versions, verified, and `fleet restore`, which puts back what is lost of them."""

from __future__ import annotations

import argparse
import os

from hooklatch import paths
from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.core.text import format_count
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.publishing.publisher import AGREEING, LastSeenHead, Publisher
from hooklatch.fleet.publishing.restoring import RestoreReport, restore_versions
from hooklatch.fleet.publishing.versions import LOST, HistoryReport, StoredVersion, format_observing

__all__ = ["add_history", "add_restore"]

OF_HOST = "fleet"  # in the state directory: what a daemon keeps of its fleet
DROP = ("BUNDLE", "SAME AS", "BY")  # never the key: whose a version is decides whether hosts believe it
TITLES = ("VERSION", "POLICY", "CREATED", "BY", "HOSTS", "BUNDLE", "SAME AS", "KEY", "MESSAGE")


def add_history(parser: Parser) -> None:
    parser.runs(run_fleet_history, example="hooklatch fleet history -n 5", exits=(*access.EXITS, Exit.FINDINGS))
    parser.prints("fleet.publishing.versions:HistoryReport")
    parser.add_argument("-n", metavar="N", type=int, default=20, dest="most", help="the newest N (20); 0 is all")
    access.add_access(parser, with_keys=True)


def run_fleet_history(arguments: argparse.Namespace) -> int:
    """List the versions."""
    fleet_access = access.read_engine_access(arguments)

    async def work(publisher: Publisher) -> tuple[tuple[StoredVersion, ...], list[str]]:
        return publisher.history.entries, await list_history_findings(publisher, access.open_seen_heads(fleet_access))

    # Without a comparison, which would refuse a history that is wrong: it is to be shown, with its findings.
    entries, findings = access.run_publisher(fleet_access, work, compares=False)
    shown = entries[-arguments.most :] if arguments.most > 0 else entries
    if arguments.json:
        output.say_json(HistoryReport([entry.describe() for entry in shown], findings))
    elif shown:
        output.say_table(TITLES, [version_row(entry) for entry in reversed(shown)], drop=DROP)
        if not fleet_access.keys:
            output.print_error("without --key, and without [fleet] keys, it is not known which keys hosts believe")
    else:
        output.print_line("nothing was ever pushed")
    for text in findings:
        output.print_error(text)
    return Exit.FINDINGS if findings else Exit.OK


async def list_history_findings(publisher: Publisher, memory: LastSeenHead) -> list[str]:
    """Return where the versions contradict those that this machine and the hosts have seen."""
    hosts = await publisher.hosts()
    await publisher.read()  # again, since a host may have read a version that was pushed in the meantime
    try:
        own = publisher.history.find_contradiction(memory.read_head(), by="this machine")
    except FleetError as error:
        own = str(error)
    of_hosts = publisher.history.list_host_contradictions(received.report for received in hosts.values())
    findings = [text for text in (own, *of_hosts) if text is not None]
    return [*findings, LOST] if own is not None or len(of_hosts) >= AGREEING else findings


def version_row(entry: StoredVersion) -> tuple[object, ...]:
    manifest = entry.manifest
    hosts = f"{manifest.rollout.percent:g} %" + "".join(f" {label}" for label in manifest.rollout.labels)
    hosts += format_observing(manifest)
    key = entry.envelope.key if entry.is_believed else f"{entry.envelope.key} (not believed)"
    return (
        manifest.version, manifest.policy, manifest.created, manifest.publisher or None, hosts, manifest.bundle[:12],
        manifest.same_as, key,
        f"gives up {lost.version}" if (lost := manifest.gives_up) is not None else manifest.message or None,
    )  # fmt: skip


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
    counts = ((len(report.versions), "version"), (report.bundles, "bundle"), (len(report.key_sets), "key set"))
    what = ", ".join(format_count(count, name) for count, name in counts if count)
    line = (
        f"put back {what}; the newest version is {report.version}. Hosts follow by themselves, and count as in"
        " contact from the next push or `hooklatch fleet timestamp` on"
    )
    nothing = f"nothing of this copy is missing in the engine; the newest version is {report.version}"
    output.say_result(report, line if what else nothing, is_json=arguments.json)
    for text in report.findings:
        output.print_error(text)
    return Exit.FINDINGS if report.findings else Exit.OK
