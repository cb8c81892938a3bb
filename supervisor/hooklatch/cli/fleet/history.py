"""The commands of versions: `fleet history`, all of them, verified; `fleet diff`; and `fleet restore` of lost ones."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from hooklatch import paths
from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.core.text import format_count
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.manifests import Bundle, FleetError
from hooklatch.fleet.publishing.folder import read_folder
from hooklatch.fleet.publishing.publisher import AGREEING, LastSeenHead, Publisher
from hooklatch.fleet.publishing.restoring import RestoreReport, restore_versions
from hooklatch.fleet.publishing.versions import (
    LOST,
    HistoryReport,
    StoredVersion,
    VersionHistory,
    describe_unbelieved,
    format_observing,
)

__all__ = [
    "add_history", "add_restore", "BundleDifference", "FileChange", "HookChange", "list_file_changes",
    "list_hook_changes", "add_diff", "say_file_changes",
]  # fmt: skip

ChangeKind: TypeAlias = Literal["added", "removed", "changed"]
MAX_LINES = 20_000  # of a file that is shown as a diff: the time of a comparison grows with their square


class FileChange(msgspec.Struct, frozen=True):
    """A file that differs; `diff` are the lines of a unified diff, none if it is not text."""

    name: str
    what: ChangeKind
    diff: tuple[str, ...] = ()


class HookChange(msgspec.Struct, frozen=True):
    """A hook that differs; `details` are texts such as "timeout: 2.0, was 1.0"."""

    id: str
    what: ChangeKind
    details: tuple[str, ...] = ()


class BundleDifference(msgspec.Struct, frozen=True, kw_only=True):
    """`fleet diff`; `suspendable` is null where it did not change."""

    before: str
    after: str
    files: list[FileChange]
    hooks: list[HookChange]
    notes: list[str]
    suspendable: bool | None


def list_file_changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[FileChange]:
    """Yield the files that differ, by name."""
    for name, what in list_changed_keys(before, after):
        yield FileChange(name, what, tuple(diff_file(name, before.get(name), after.get(name))))


def list_hook_changes(
    before: Mapping[str, Mapping[str, object]], after: Mapping[str, Mapping[str, object]]
) -> Iterator[HookChange]:
    """Yield the hooks whose declaration differs, by id; the files show a difference of their code."""
    for name, what in list_changed_keys(before, after):
        old, new = before.get(name, {}), after.get(name, {})
        details = [f"{key}: {new[key]}, was {old[key]}" for key in new if key in old and new[key] != old[key]]
        if what != "changed":
            details = [
                f"{key}: {value}" for key, value in (new or old).items() if key in ("event", "match", "where") and value
            ]
        yield HookChange(name, what, tuple(details))


def list_changed_keys(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[tuple[str, ChangeKind]]:
    for name in sorted({*before, *after}):
        if name not in before:
            yield name, "added"
        elif name not in after:
            yield name, "removed"
        elif before[name] != after[name]:
            yield name, "changed"


def diff_file(name: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    try:
        old, new = ((data or b"").decode().splitlines() for data in (before, after))
    except UnicodeDecodeError:
        return
    if len(old) + len(new) > MAX_LINES:
        return
    names = "/dev/null" if before is None else f"a/{name}", "/dev/null" if after is None else f"b/{name}"
    yield from difflib.unified_diff(old, new, *names, lineterm="")


NOTHING = "nothing"  # the name of the empty side with which version 1 is compared


def add_diff(parser: Parser) -> None:
    parser.runs(run_fleet_diff, example="hooklatch fleet diff 7 hooks/", exits=(*access.EXITS, Exit.FINDINGS))
    parser.prints("cli.fleet.history:BundleDifference")
    sides = "two of them; without the first, the newest version but one; without the second, the newest"
    parser.add_argument("sides", metavar="VERSION|DIR", nargs="*", help=sides)
    parser.add_argument("--policy", metavar="NAME", help="of which the newest versions are meant (default: the only)")
    parser.add_argument("--files", action="store_true", help="only the files: build no hooks")
    access.add_access(parser, with_keys=True)


class DiffSide(msgspec.Struct, frozen=True):
    """One side of a comparison: its name, its bundle, and of which unbelieved key that is, so that nothing runs it.

    `observes` says until when hosts only observe it.
    """

    name: str
    bundle: Bundle
    doubt: str | None = None
    observes: str = ""


def run_fleet_diff(arguments: argparse.Namespace) -> int:
    """Compare two bundles; return `Exit.FINDINGS` if they differ."""
    if len(arguments.sides) > 2:
        raise CommandError(Exit.USAGE, "name two versions, or a version and a folder")

    async def work(publisher: Publisher) -> tuple[DiffSide, DiffSide]:
        before, after = choose_sides(arguments.sides, publisher.history, arguments.policy)
        return await read_side(publisher, before), await read_side(publisher, after)

    old, new = access.run_publisher(access.read_engine_access(arguments), work, heeds_hosts=False)
    files = list(list_file_changes(old.bundle.files, new.bundle.files))
    hooks, notes = [], list[str]()
    notes += [f"no hook of {side.name} is built: {side.doubt}" for side in (old, new) if side.doubt is not None]
    is_doubted = bool(notes)
    if old.observes != new.observes:
        notes += [f"hosts of {side.name}{side.observes or ' enforce it'}" for side in (old, new)]
    if not arguments.files and files and not is_doubted:
        before, after = build_side_hooks(old, notes), build_side_hooks(new, notes)
        hooks = list(list_hook_changes(before, after))
    suspendable = old.bundle.suspendable != new.bundle.suspendable
    if arguments.json:
        output.say_json(BundleDifference(
            before=old.name, after=new.name, files=files, hooks=hooks, notes=notes,
            suspendable=new.bundle.suspendable if suspendable else None,
        ))  # fmt: skip
    else:
        say_file_changes(files)
        for hook in hooks:
            output.print_line(f"hook {hook.id} {hook.what}" + (f": {'; '.join(hook.details)}" if hook.details else ""))
        if suspendable:
            output.print_line(f"suspendable: {new.bundle.suspendable}, was {old.bundle.suspendable}")
        for note in notes:
            output.print_error(note)
        if not files and not suspendable:
            output.print_line(f"{old.name} and {new.name} have the same bundle")
    return Exit.FINDINGS if files or suspendable else Exit.OK


def say_file_changes(changes: Iterable[FileChange], *, is_error: bool = False) -> None:
    """Print the files that differ; to standard error where standard output is for a program."""
    for change in changes:
        lines = change.diff or (f"{change.what}: {change.name} (not text, or long)",)
        if is_error:
            for line in lines:
                output.print_error(line)
        else:
            output.say_diff(lines)


def choose_sides(words: list[str], history: VersionHistory, policy: str | None) -> tuple[str, str]:
    """Return the two sides; those that are not named are the newest of the policy, or of that of a named version."""
    if len(words) == 2:
        return words[0], words[1]
    if words and is_version(words[0]) and policy is None:
        policy = history.find_read(int(words[0])).manifest.policy if int(words[0]) else None
    numbers = [entry.manifest.version for entry in history.list_versions(history.choose_policy(policy))]
    before, newest = [0, 0, *numbers][-2:]
    if words:
        return (words[0], str(newest)) if is_version(words[0]) else (str(newest), words[0])
    return str(before), str(newest)


def is_version(word: str) -> bool:
    return word.isascii() and word.isdecimal()


async def read_side(publisher: Publisher, word: str) -> DiffSide:
    if not is_version(word):
        return DiffSide(word, read_folder(word).bundle)
    if int(word) == 0:
        return DiffSide(NOTHING, Bundle({}))
    entry = publisher.history.find_read(int(word))
    doubt = None if entry.is_believed else describe_unbelieved([entry])
    observes = format_observing(entry.manifest)
    return DiffSide(f"version {int(word)}", await publisher.bundle(entry.manifest), doubt, observes)


def build_side_hooks(side: DiffSide, notes: list[str]) -> dict[str, dict[str, Any]]:
    """Build the hooks of a bundle, and return them; add a note for each that does not build."""
    from hooklatch.cli.fleet.trial import try_out

    if not side.bundle.files:
        return {}
    trial = try_out(side.bundle, [], lambda _: None)
    notes += [f"{side.name}: {text}" for text in trial.diagnostics]
    if trial.error is not None:
        raise trial.error
    return trial.hooks


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
    key_sets = None
    try:
        own = publisher.history.find_contradiction(memory.read_head(), by="this machine")
        key_sets = memory.find_lost_key_sets(publisher.key_set)
    except FleetError as error:
        own = str(error)
    of_hosts = publisher.history.list_host_contradictions(received.report for received in hosts.values())
    findings = [text for text in (key_sets, own, *of_hosts) if text is not None]
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
    line = f"put back {what}; the newest version is {report.version}. Hosts follow by themselves"
    nothing = f"nothing of this copy is missing in the engine; the newest version is {report.version}"
    output.say_result(report, line if what else nothing, is_json=arguments.json)
    for text in report.findings:
        output.print_error(text)
    return Exit.FINDINGS if report.findings else Exit.OK
