"""The commands `sources` and `sources update`: the copies of what `[[source]]` tables name by `git`.

`update` alone fetches.  A daemon reads copies: it has no network, no keys to a repository and no time to wait, and a
revision that is fixed changes only when a person changes the table.  To name a commit, or the keys of those who sign a
tag, is to agree that its guards run, so nothing is asked.  A commit is taken whole, after its cases have passed, or
not at all: then the copy that is there stays.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from hashlib import sha256
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from hooklatch.cli.guard_lock import encode_lock
from hooklatch.cli.hooks import shared_guards
from hooklatch.cli.hooks.guard_files import write_new
from hooklatch.cli.hooks.guard_repository import COMMIT_ID, REVISION, GuardRepository, parse_address
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.directories import replace_file
from hooklatch.errors import explain_error
from hooklatch.file_safety import UnsafeFileError, read_safely
from hooklatch.git_sources import LOCK, FoundCopy, GuardFiles, GuardLock, find_copy, guard_paths
from hooklatch.path_lookup import PathAbsent, PathFault
from hooklatch.paths import find_config_file
from hooklatch.service.config.configuration import Diagnostic, FileConfig, SourceTable
from hooklatch.service.config.settings import make_absolute
from hooklatch.service.loading.see import ObservedFiles, read_files

__all__ = ["add_sources", "add_update"]

BELOW = (("update", "hooks.sources", "fetch the revisions that tables name, and tell of newer ones"),)
NONE = 'no [[source]] names a repository; to have one: git = "https://…", rev = "COMMIT"'
EXITS = (Exit.FINDINGS, Exit.BAD_DATA)


class GitSource(msgspec.Struct, frozen=True):
    """One table with `git`: its file, what it names, the active revision, its commit and its guards.

    `problem` says why that is not what the table names, or that files of the copy are not as they were fetched.
    """

    file: str
    git: str
    rev: str
    here: str | None
    commit: str | None
    guards: list[str]
    problem: str | None


class UpdatedSource(msgspec.Struct, frozen=True):
    """One table with `git` that `sources update` came to, what became of its copy, and the newer tags.

    Of an update, `removed` are the guards that the copy had and the commit has not, and `left_out` are other files.
    """

    git: str
    rev: str
    commit: str | None
    result: Literal["current", "updated", "refused"]
    newer: list[str] = []
    reason: str | None = None
    removed: list[str] = []
    left_out: list[str] = []


GitSourceList: TypeAlias = list[GitSource]
UpdatedSources: TypeAlias = list[UpdatedSource]


class PlacedTable(NamedTuple):
    """A table with `git`, and the path of its file."""

    file: str
    table: SourceTable

    @property
    def git(self) -> str:
        return self.table.git or ""

    @property
    def rev(self) -> str:
        return self.table.rev or ""


def add_sources(parser: Parser) -> None:
    parser.runs(list_sources, example="hooklatch sources", exits=EXITS)
    parser.prints("cli.hooks.sources:GitSourceList")
    parser.add_commands(BELOW)


def list_sources(arguments: argparse.Namespace) -> int:
    """Show each table with `git`, and what is active for it."""
    rows = [describe_source(place, find_copy(place.table, place.file)) for place in list_tables(arguments)]
    if arguments.json:
        output.say_json(rows)
    elif not rows:
        output.print_line(NONE)
    else:
        output.say_table(
            ("GIT", "REV", "HERE", "GUARDS"), [(row.git, row.rev, row.here, ", ".join(row.guards)) for row in rows]
        )
        for row in rows:
            if row.problem is not None:
                output.print_error(f"{look.shorten_path(row.file)}: {row.git}: {row.problem}")
    return Exit.FINDINGS if any(row.problem for row in rows) else Exit.OK


def describe_source(place: PlacedTable, found: FoundCopy) -> GitSource:
    changed = ", ".join(list_changed(found))
    problem = f"{changed} is not as it was fetched; to write it anew: hooklatch sources update" if changed else None
    if problem is None and found.copy.fault is not None:
        problem = found.copy.fault.message.removeprefix(f"[[source]] {place.git}: ")
    return GitSource(
        place.file, place.git, place.rev,
        found.locked.rev if found.locked is not None else None,
        found.locked.commit if found.locked is not None else None,
        list_guards(found), problem,
    )  # fmt: skip


def list_guards(found: FoundCopy) -> list[str]:
    return [os.path.basename(path).removesuffix(".py") for path in found.copy.pins]


def list_changed(found: FoundCopy) -> Iterator[str]:
    """Yield the guards of a copy that a daemon would not load, since they are not what was fetched."""
    for path, digest in found.copy.pins.items():
        try:
            if sha256(read_safely(path)).hexdigest() == digest:
                continue
        except (OSError, UnsafeFileError):
            pass
        yield path


def add_update(parser: Parser) -> None:
    exits = (*EXITS, Exit.NO_INPUT, Exit.CANNOT_CREATE, Exit.UNAVAILABLE, Exit.NOT_PERMITTED)
    parser.runs(update_sources, example="hooklatch sources update", exits=exits)
    parser.prints("cli.hooks.sources:UpdatedSources")


def update_sources(arguments: argparse.Namespace) -> int:
    """Have the copy of each table be what it names, and return the worst result."""
    rows, codes = list[UpdatedSource](), [int(Exit.OK)]
    for place in list_tables(arguments):
        found = find_copy(place.table, place.file)
        try:
            rows.append(update_source(arguments, place, found))
        except CommandError as error:
            codes.append(error.code)
            commit = found.locked.commit if found.locked is not None else None
            stays = f"{found.locked.rev} stays" if found.locked is not None else "there is no copy"
            output.print_error(f"{place.git}: {stays}: {error}")
            rows.append(UpdatedSource(place.git, place.rev, commit, "refused", reason=str(error)))
    if arguments.json:
        output.say_json(rows)
        return max(codes)
    if not rows:
        output.print_line(NONE)
    for row in rows:
        if row.result != "refused":
            output.print_line(f"{row.git}: {row.rev} is {row.result} (commit {row.commit})")
        if row.removed:
            output.print_line(f"guards that it has no more, and that guard nothing now: {', '.join(row.removed)}")
        shared_guards.print_left_out(row.left_out)
        if row.newer:
            output.print_line(f"{row.git} has newer ones, to be named as rev: {shared_guards.format_newer(row.newer)}")
    return max(codes)


def list_tables(arguments: argparse.Namespace) -> list[PlacedTable]:
    """Return the tables with `git` of all files of hooks.

    Raises:
        CommandError: one of the files cannot be read, so it is unknown what it names.
    """
    main = os.path.abspath(find_config_file(arguments.config, os.environ))
    seen = read_files(main, os.path.join(os.path.dirname(main), "hooks.d"), (), ObservedFiles())
    tables: list[PlacedTable] = []
    roots = Counter[str]()
    for path, file in sorted(seen.files.items()):
        match file:
            case FileConfig():
                tables += [PlacedTable(path, copy.table) for copy in file.copies]
                roots.update(copy.root for copy in file.copies)
            case Diagnostic() | PathFault():
                reason = file.reason if isinstance(file, PathFault) else str(file)
                raise CommandError(Exit.BAD_DATA, f"it is unknown which repositories {path} names: {reason}")
            case PathAbsent():
                pass
    for place in tables:  # an address that is a path may be another one in another folder, with a copy of its own
        if (count := roots[find_copy(place.table, place.file).copy.root]) > 1:
            raise CommandError(
                Exit.BAD_DATA, f"{place.git} is named {count} times, and has one copy; leave one of them"
            )
    return tables


def update_source(arguments: argparse.Namespace, place: PlacedTable, found: FoundCopy) -> UpdatedSource:
    """Fetch what one table names, unless it is here; everything of it, or nothing."""
    git, rev, locked = place.git, place.rev, found.locked
    is_whole = locked is not None and not any(list_changed(found))
    if locked is not None and is_whole and locked.commit == rev:
        return UpdatedSource(git, rev, rev, "current")  # nothing that a server says could change that
    if not REVISION.fullmatch(rev):
        raise CommandError(Exit.BAD_DATA, f"{rev!r} cannot be the name of a tag")
    is_path = git.startswith(("./", "../", "~/"))
    with GuardRepository(parse_address(make_absolute(git, os.path.dirname(place.file)) if is_path else git)) as fetched:
        refs = fetched.list_refs()
        commit = fetched.resolve(rev, refs)
        if locked is not None and locked.rev == rev and (moved := shared_guards.find_moved(locked, refs)):
            raise CommandError(Exit.FINDINGS, f"{moved}; to take it all the same, name its commit as rev")
        newer = (
            shared_guards.list_newer(locked, refs)
            if locked is not None and locked.rev == rev
            else refs.list_newer_tags(rev)
        )
        if locked is not None and is_whole and (locked.rev, locked.commit) == (rev, commit):
            return UpdatedSource(git, rev, commit, "current", newer)
        fetched.fetch(commit, tag=rev if commit != rev else None)
        if not COMMIT_ID.fullmatch(rev):
            fetched.verify_tag(rev, commit, place.table.signers)
        guards, left_out = fetched.read_guards(commit, ())
    if unread := [name for name in left_out if name.endswith((".py", ".jsonl"))]:
        text = (
            "is no guard with cases, and what it is for is unknown: nothing was taken; have it moved to another folder"
        )
        raise CommandError(Exit.BAD_DATA, f"{unread[0]} of {git} {text}")
    shared_guards.check_guards(guards)
    own = {"isolation": place.table.isolation, "python": place.table.python}
    keys = "".join(f"{name} = {json.dumps(value)}\n" for name, value in own.items() if value is not None)
    shared_guards.run_cases(arguments, guards, keys)
    lock = GuardLock(1, shared_guards.lock_guards(git, rev, commit, guards))
    write_copy(found, lock, commit, guards, lambda: check_unchanged(arguments, place, found))
    removed = [name for name in list_guards(found) if name not in guards]
    return UpdatedSource(git, rev, commit, "updated", newer, removed=removed, left_out=left_out)


def check_unchanged(arguments: argparse.Namespace, place: PlacedTable, found: FoundCopy) -> None:
    """Refuse to write what a table named when it was read, if it names something else by now, or has another copy."""
    if place not in list_tables(arguments) or find_copy(place.table, place.file).locked not in (None, found.locked):
        text = f"{look.shorten_path(place.file)}, or the copy, has changed since this began, and is newer; run it again"
        raise CommandError(Exit.CANNOT_CREATE, text)


def write_copy(
    found: FoundCopy, lock: GuardLock, commit: str, guards: Mapping[str, GuardFiles], check: Callable[[], None]
) -> None:
    """Write guards into a folder of their own, and then the lock, which makes them count.

    What the lock named before stays: a daemon may not have loaded the new ones yet.  `check` is asked while no other
    process can write.
    """
    root = found.copy.root
    folder, lock_file = os.path.join(root, commit), os.path.join(root, LOCK)
    kept = {commit, found.locked.commit if found.locked is not None else commit}
    umask = os.umask(0o077)
    with ExitStack() as ends:
        ends.callback(os.umask, umask)
        try:
            os.makedirs(root, exist_ok=True)
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            ends.callback(os.close, fd)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else one removes what another one has just written
            check()
            if os.path.lexists(folder):  # a crash left it, or its files were changed
                shutil.rmtree(folder)
            files = [(guard_paths(folder, name), texts) for name, texts in guards.items()]
            write_new({path: text for paths, texts in files for path, text in zip(paths, texts, strict=True)})
            replace_file(lock_file, encode_lock(lock))
        except BlockingIOError:
            raise CommandError(Exit.CANNOT_CREATE, f"another process writes {root} just now; run it again") from None
        except OSError as error:
            raise CommandError(
                Exit.CANNOT_CREATE, f"{root} cannot be written: {explain_error(error)}; repair that"
            ) from None
        with suppress(OSError):
            for name in os.listdir(root):
                if COMMIT_ID.fullmatch(name) and name not in kept:
                    shutil.rmtree(os.path.join(root, name))
