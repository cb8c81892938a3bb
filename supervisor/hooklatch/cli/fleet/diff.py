"""The command `fleet diff`: the differences of two versions, or of a version and a folder."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from hooklatch.cli.fleet.access import EXITS, add_access, read_engine_access, run_publisher
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.fleet.bundles import Bundle
from hooklatch.fleet.publishing.folder import read_folder
from hooklatch.fleet.publishing.publisher import Publisher
from hooklatch.fleet.publishing.versions import VersionHistory, describe_unbelieved, format_observing

__all__ = [
    "BundleDifference",
    "FileChange",
    "HookChange",
    "list_file_changes",
    "list_hook_changes",
    "add_diff",
    "say_file_changes",
]

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
    parser.runs(run_fleet_diff, example="hooklatch fleet diff 7 hooks/", exits=(*EXITS, Exit.FINDINGS))
    parser.prints("cli.fleet.diff:BundleDifference")
    sides = "two of them; without the first, the newest version but one; without the second, the newest"
    parser.add_argument("sides", metavar="VERSION|DIR", nargs="*", help=sides)
    parser.add_argument("--policy", metavar="NAME", help="of which the newest versions are meant (default: the only)")
    parser.add_argument("--files", action="store_true", help="only the files: build no hooks")
    add_access(parser, with_keys=True)


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

    old, new = run_publisher(read_engine_access(arguments), work, heeds_hosts=False)
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
