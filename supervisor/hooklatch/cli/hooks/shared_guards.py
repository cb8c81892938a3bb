"""The commands for guards of a git repository: `guards add SOURCE@REV`, `outdated`, `update` and `forget`.

What is taken is one commit, by its id, which shared-guards.lock keeps with the digests of the files.  Their code runs
for the first time after a person, or --yes, has agreed, and is written only if its cases pass.  A guard's files are
written before the lock in an update and after it in an addition: so what a crash leaves half done differs from the
lock, which `check`, `doctor` and `outdated` say, and the same command completes it.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import io
import json
import os
import re
import sys
import tempfile
import tokenize
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from functools import partial
from hashlib import sha256
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from hooklatch.cli.guard_lock import LockDifference, encode_lock, list_differences, lock_path, read_lock, read_present
from hooklatch.cli.hooks.guard_files import (
    find_hooks_folder,
    fire_cases,
    format_options,
    print_written,
    split_lines,
    temporary_path,
    write_new,
)
from hooklatch.cli.hooks.guard_repository import (
    COMMIT_ID,
    GuardRepository,
    RemoteRefs,
    RepositoryAddress,
    parse_address,
    split_revision,
)
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.questions import ask_yes, may_ask
from hooklatch.cli.testing.cases import refuse_payload_files
from hooklatch.core.text import format_count
from hooklatch.directories import replace_file
from hooklatch.errors import describe_error
from hooklatch.file_safety import UnsafeFileError, read_safely
from hooklatch.git_sources import CASES, GuardFiles, GuardLock, LockedGuard, guard_paths
from hooklatch.guards.catalogue import AddedGuards, describe_guard
from hooklatch.paths import find_config_file

__all__ = [
    "add_forget", "add_outdated", "add_update", "check_guards", "copy_shared", "find_moved", "format_newer",
    "list_newer", "lock_guards", "print_left_out", "run_cases",
]  # fmt: skip

FALSE_LINE_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
WARNING = "This is Python that runs as you: now, for its cases, and from then on at each event that it names."


class OutdatedGuard(msgspec.Struct, frozen=True):
    """One shared guard: the newer tags of its source, or the newer commit, and what else is not as it was.

    `problem` says that its tag is another commit by now, or that its source or a file of it cannot be read.
    """

    name: str
    source: str
    rev: str
    commit: str
    newer: list[str]
    edited: list[str]
    problem: str | None = None


class UpdatedGuard(msgspec.Struct, frozen=True):
    """One shared guard that `guards update` came to, and what became of it."""

    name: str
    source: str
    rev: str
    commit: str
    result: Literal["current", "updated", "refused"]
    reason: str | None = None


OutdatedGuards: TypeAlias = list[OutdatedGuard]
UpdatedGuards: TypeAlias = list[UpdatedGuard]


class SharedPlace(NamedTuple):
    """The place of shared guards on this machine: their folder, and the lock with its bytes."""

    folder: str
    lock_file: str
    lock: GuardLock
    lock_bytes: bytes | None


class FileReplacement(NamedTuple):
    """One file: what it must still hold when it is replaced, and what it will."""

    path: str
    before: bytes
    after: bytes


def copy_shared(arguments: argparse.Namespace) -> int:
    """Add the guards of one commit of a repository."""
    if len(arguments.guards) != 1 or arguments.to is not None:
        raise CommandError(Exit.USAGE, "name one SOURCE@REV alone, without --to: the lock stands beside one hooks.d")
    address, rev = split_revision(arguments.guards[0])
    place = find_place(arguments)
    with GuardRepository(address) as repository:
        refs = repository.list_refs()
        commit = repository.resolve(rev, refs)
        for name, locked in place.lock.guards.items():
            if (locked.source, locked.rev) == (address.text, rev) and (reason := find_moved(locked, refs)):
                raise CommandError(Exit.FINDINGS, f"{reason}; it would be taken by: hooklatch guards update {name}")
        repository.fetch(commit, tag=rev if commit != rev else None)
        guards, left_out = repository.read_guards(commit, arguments.only or ())
    check_guards(guards)
    missing = find_missing(place, guards, address)
    if not arguments.json:
        output.print_line(f"{address.text}@{rev} is commit {commit}")
        for path, text in missing.items():
            print_difference(path, "", text)
            facts = f"{format_count(len(split_lines(text)), 'line')}, sha256 {digest(text)}"
            output.print_line(f"new {look.shorten_path(path)}: {facts}")
        print_left_out(left_out)
    confirm_running(arguments, f"run their cases, and add {', '.join(guards)} if they pass?")
    run_cases(arguments, guards)
    lock = with_guards(place, lock_guards(address.text, rev, commit, guards))
    replace_lock(place, encode_lock(lock))
    try:
        write_new(missing)
    except BaseException:
        restore_lock(place)
        raise
    described = [describe_guard(name, files.guard, lock.guards[name].origin) for name, files in guards.items()]
    steps = [f"hooklatch guards outdated{format_options(arguments)}", "hooklatch status   # a daemon has loaded them"]
    written = [*missing, place.lock_file]
    heading = "they are yours to edit, and an edit is kept by an update; next:"
    show = partial(print_written, written, heading, steps)
    return output.say_result(AddedGuards(written, described, steps), is_json=arguments.json, show=show)


def find_missing(place: SharedPlace, guards: Mapping[str, GuardFiles], address: RepositoryAddress) -> dict[str, str]:
    """Return the files to write by their paths: all but those that are there with the same content."""
    missing: dict[str, str] = {}
    for name, files in guards.items():
        locked = place.lock.guards.get(name)
        if locked is not None and locked.source != address.text:
            raise CommandError(
                Exit.CANNOT_CREATE,
                f"{name} is there already, from {locked.origin}; take another by --only NAME, or first: "
                f"hooklatch guards forget {name}",
            )
        for path, text in zip(guard_paths(place.folder, name), files, strict=True):
            if (present := read_file(path)) is None:
                missing[path] = text
            elif present != text.encode():
                way = "hooklatch guards update" if locked is not None else "move it away, or take others by --only NAME"
                raise CommandError(Exit.CANNOT_CREATE, f"{path} is there already and was left as it is; {way}")
    if not missing and all(name in place.lock.guards for name in guards):
        raise CommandError(
            Exit.CANNOT_CREATE, f"{', '.join(guards)}: there already; newer ones: hooklatch guards update"
        )
    return missing


def add_outdated(parser: Parser) -> None:
    parser.runs(show_outdated, example="hooklatch guards outdated", exits=(Exit.FINDINGS, Exit.BAD_DATA))
    parser.prints("cli.hooks.shared_guards:OutdatedGuards")


def show_outdated(arguments: argparse.Namespace) -> int:
    """Ask each source what is newer, and compare the files with the lock."""
    place = find_place(arguments, is_read_only=True)
    differences = list_differences(place.folder, place.lock)
    rows: list[OutdatedGuard] = []
    for locked, names in group_guards(place.lock):
        newer, problem = list[str](), None
        try:
            with GuardRepository(parse_address(locked.source)) as repository:
                refs = repository.list_refs()
            newer, problem = list_newer(locked, refs), find_moved(locked, refs)
        except CommandError as error:
            problem = str(error)
        for name in names:
            mine = [difference for difference in differences if difference.name == name]
            edited = [difference.path for difference in mine if difference.is_edit]
            lost = [f"{difference.path} {difference.what}" for difference in mine if not difference.is_edit]
            problems = "; ".join([problem, *lost] if problem else lost) or None
            rows.append(OutdatedGuard(name, locked.source, locked.rev, locked.commit, newer, edited, problems))
    code = Exit.FINDINGS if any(row.newer or row.problem for row in rows) else Exit.OK
    show = partial(print_outdated, rows, differences)
    return output.say_result(rows, is_json=arguments.json, show=show, code=code)


def print_outdated(rows: Sequence[OutdatedGuard], differences: Iterable[LockDifference] = ()) -> None:
    if not rows:
        output.print_line("no guard is shared; add one by: hooklatch guards add SOURCE@REV")
        return
    output.say_table(
        ("NAME", "HERE", "NEWER", "SOURCE"),
        [
            (row.name, shorten_revision(row.rev), format_newer([*map(shorten_revision, row.newer)]), row.source)
            for row in rows
        ],
        drop=("SOURCE",),
    )
    for difference in differences:
        if difference.is_edit:
            output.print_line(f"{look.shorten_path(difference.path)} {difference.what}")
    for problem in dict.fromkeys(row.problem for row in rows if row.problem is not None):
        output.print_error(problem)


def shorten_revision(rev: str) -> str:
    return rev[:12] if COMMIT_ID.fullmatch(rev) else rev


def format_newer(newer: Sequence[str]) -> str | None:
    """Return the newest of some revisions, and how many there are before it; None if there are none."""
    return f"{newer[-1]}, and {len(newer) - 1} before it" if len(newer) > 1 else next(iter(newer), None)


def print_left_out(names: Sequence[str]) -> None:
    if names:
        output.print_line(f"left out, since they are not guards with cases: {', '.join(names)}")


def list_newer(locked: LockedGuard, refs: RemoteRefs) -> list[str]:
    """Return the newer tags, or for a guard that is locked at a commit the one that the default branch is at.

    None if the newest of them is the commit that is here.
    """
    is_tag = not COMMIT_ID.fullmatch(locked.rev)
    newer = refs.list_newer_tags(locked.rev) if is_tag else [refs.head] if refs.head is not None else []
    return newer if newer and refs.tags.get(newer[-1], newer[-1]) != locked.commit else []


def find_moved(locked: LockedGuard, refs: RemoteRefs) -> str | None:
    """Return the warning that a tag is not the commit that it was; None if it is."""
    if COMMIT_ID.fullmatch(locked.rev) or (now := refs.tags.get(locked.rev)) == locked.commit:
        return None
    became = "does not exist any more" if now is None else f"is {now} now"
    return (
        f"THE TAG {locked.rev} OF {locked.source} MOVED: it was commit {locked.commit} on {locked.date} and {became}. "
        "Tags of releases do not move; ask those who publish it, and read the changes"
    )


def add_update(parser: Parser) -> None:
    exits = (Exit.FINDINGS, Exit.BAD_DATA, Exit.NO_INPUT, Exit.CANNOT_CREATE, Exit.UNAVAILABLE, Exit.NOT_PERMITTED)
    parser.runs(update_guards, example="hooklatch guards update", exits=exits)
    parser.prints("cli.hooks.shared_guards:UpdatedGuards")
    parser.add_argument("guard", metavar="NAME", nargs="?", help="a shared guard (else all of them)")
    parser.add_argument("--to", metavar="REV", help="a tag or a whole commit id (else the newest tag like this one's)")
    parser.add_argument(
        "--accept-moved-tag", action="store_true", help="also where a tag is not the commit that it was"
    )
    parser.add_argument("--yes", action="store_true", help="ask nothing: take what passes its cases")


def update_guards(arguments: argparse.Namespace) -> int:
    """Update shared guards, those of one commit together, and return the worst result."""
    place = find_place(arguments)
    if arguments.guard is not None and arguments.guard not in place.lock.guards:
        raise make_unknown_error(place, arguments.guard)
    if arguments.to is not None and arguments.guard is None:
        raise CommandError(Exit.USAGE, "--to needs the name of a guard: a tag is one of its repository")
    rows: list[UpdatedGuard] = []
    codes = [int(Exit.OK)]
    for locked, names in group_guards(place.lock, arguments.guard):
        place = find_place(arguments)  # a group before this one has changed the lock
        try:
            rows += update_group(arguments, place, locked, names)
        except CommandError as error:
            codes.append(error.code)
            output.print_error(f"{', '.join(names)} stays as it is: {error}")
            where = locked.source, locked.rev, locked.commit
            rows += [UpdatedGuard(name, *where, "refused", str(error)) for name in names]
    show = (lambda: None) if rows else partial(print_outdated, ())
    return output.say_result(rows, is_json=arguments.json, show=show, code=max(codes))


def update_group(
    arguments: argparse.Namespace, place: SharedPlace, locked: LockedGuard, names: Sequence[str]
) -> list[UpdatedGuard]:
    """Update the guards of one commit, all of them or none."""
    address = parse_address(locked.source)
    yours = {name: read_yours(place, name) for name in names}
    with GuardRepository(address) as repository:
        refs = repository.list_refs()
        if (moved := find_moved(locked, refs)) and not arguments.accept_moved_tag:
            raise CommandError(Exit.FINDINGS, f"{moved}; to take it all the same: --accept-moved-tag")
        rev = arguments.to or [locked.rev, *list_newer(locked, refs)][-1]
        commit = repository.resolve(rev, refs)
        if commit == locked.commit:
            if not arguments.json:
                output.print_line(f"{', '.join(names)}: {locked.origin} is the newest")
            return [UpdatedGuard(name, locked.source, locked.rev, commit, "current") for name in names]
        repository.fetch(commit, tag=rev if commit != rev else None)
        theirs, _ = repository.read_guards(commit, names)
        base = read_base(repository, place, names, yours)
        merged = {name: merge_guard(repository, place, name, yours[name], base[name], theirs[name]) for name in names}
    check_guards({name: GuardFiles(theirs[name].cases, merged[name].guard) for name in names})
    changes = [
        FileReplacement(path, before.encode(), after.encode())
        for name in names
        for path, before, after in zip(guard_paths(place.folder, name), yours[name], merged[name], strict=True)
        if before != after
    ]
    if not arguments.json:
        output.print_line(f"{', '.join(names)}: {locked.origin} to {rev} (commit {commit[:12]})")
        for change in changes:
            print_difference(change.path, change.before.decode(), change.after.decode())
    confirm_running(arguments, f"run their cases, and update {', '.join(names)} if they pass?")
    run_cases(arguments, merged)
    new = lock_guards(address.text, rev, commit, theirs)
    assert place.lock_bytes is not None
    lock_change = FileReplacement(place.lock_file, place.lock_bytes, encode_lock(with_guards(place, new)))
    replace_all([*changes, lock_change])
    if not arguments.json:
        print_written([change.path for change in (*changes, lock_change)], f"{', '.join(names)}: updated", ())
    return [UpdatedGuard(name, address.text, rev, commit, "updated") for name in names]


def read_yours(place: SharedPlace, name: str) -> GuardFiles:
    """Return the files of a guard as they are here."""
    texts: list[str] = []
    for path in guard_paths(place.folder, name):
        refuse_link(path)
        data = read_file(path)
        if data is None:
            locked = place.lock.guards[name]
            raise CommandError(Exit.NO_INPUT, f"{path} is not there; {locked.describe_return(name)}")
        try:
            texts.append(data.decode())
        except UnicodeDecodeError:
            raise CommandError(Exit.BAD_DATA, f"{path} is not UTF-8; repair it first") from None
    return GuardFiles(*texts)


def refuse_link(path: str) -> None:
    if os.path.islink(path):
        raise CommandError(Exit.CANNOT_CREATE, f"{path} is a link, which this command would replace; make it a file")


def read_base(
    repository: GuardRepository, place: SharedPlace, names: Sequence[str], yours: Mapping[str, GuardFiles]
) -> Mapping[str, GuardFiles]:
    """Return the files of guards as they were taken: those that are here if they were not edited, else the commit's."""
    locked = {name: place.lock.guards[name] for name in names}
    if all(is_as_locked(yours[name], locked[name]) for name in names):
        return yours
    commit = locked[names[0]].commit
    repository.fetch(commit)
    base, _ = repository.read_guards(commit, names)
    for name in names:
        if not is_as_locked(base[name], locked[name]):
            raise CommandError(
                Exit.BAD_DATA,
                f"commit {commit} of {locked[name].source} holds a {name} that has not the digests of "
                f"{place.lock_file}; restore that file",
            )
    return base


def is_as_locked(files: GuardFiles, locked: LockedGuard) -> bool:
    return locked.digests == (digest(files.cases), digest(files.guard))


def merge_guard(
    repository: GuardRepository, place: SharedPlace, name: str, yours: GuardFiles, base: GuardFiles, theirs: GuardFiles
) -> GuardFiles:
    """Return the files of a guard with the changes of both sides."""
    texts: list[str] = []
    for path, mine, old, new in zip(guard_paths(place.folder, name), yours, base, theirs, strict=True):
        if mine in (old, new):
            texts.append(new)
        elif old == new:
            texts.append(mine)
        else:
            text, has_conflict = repository.merge(mine, old, new)
            if has_conflict:
                with redirect_stdout(sys.stderr):
                    print_difference(path, mine, text)
                raise CommandError(
                    Exit.FINDINGS, f"you and its authors changed the same lines of {path}, and nothing was written; "
                    "make your lines as theirs, as the lines above show, and run it again"
                )  # fmt: skip
            texts.append(text)
    return GuardFiles(*texts)


def add_forget(parser: Parser) -> None:
    parser.runs(
        forget_guard, example="hooklatch guards forget NAME", exits=(Exit.BAD_DATA, Exit.NO_INPUT, Exit.CANNOT_CREATE)
    )
    parser.prints("cli.hooks.shared_guards:ForgottenGuard")
    parser.add_argument("guard", metavar="NAME", help="a shared guard")


class ForgottenGuard(msgspec.Struct, frozen=True):
    """`guards forget`: the guard that shared-guards.lock names no more; its files stay."""

    forgotten: str


def forget_guard(arguments: argparse.Namespace) -> int:
    """Take a guard out of the lock."""
    place = find_place(arguments)
    if arguments.guard not in place.lock.guards:
        raise make_unknown_error(place, arguments.guard)
    kept = {name: locked for name, locked in place.lock.guards.items() if name != arguments.guard}
    replace_lock(place, encode_lock(GuardLock(1, kept)))
    line = f"{arguments.guard} is your own from now on; files that are there stay, and none is updated"
    return output.say_result(ForgottenGuard(arguments.guard), line, is_json=arguments.json)


def make_unknown_error(place: SharedPlace, name: str) -> CommandError:
    known = ", ".join(place.lock.guards) or "none"
    return CommandError(Exit.NO_INPUT, f"{place.lock_file} has no guard {name!r}; it has: {known}")


def find_place(arguments: argparse.Namespace, *, is_read_only: bool = False) -> SharedPlace:
    path = lock_path(find_config_file(arguments.config, os.environ))
    if not is_read_only:
        refuse_link(path)
    return SharedPlace(find_hooks_folder(arguments, None), path, *read_lock(path))


def group_guards(lock: GuardLock, only: str | None = None) -> list[tuple[LockedGuard, list[str]]]:
    """Return the names of guards by what was taken together; each group with the lock of its first."""
    groups: dict[tuple[str, str, str], tuple[LockedGuard, list[str]]] = {}
    for name, locked in sorted(lock.guards.items()):
        if only in (None, name):
            groups.setdefault((locked.source, locked.rev, locked.commit), (locked, []))[1].append(name)
    return list(groups.values())


def with_guards(place: SharedPlace, guards: Mapping[str, LockedGuard]) -> GuardLock:
    return GuardLock(1, {**place.lock.guards, **guards})


def lock_guards(source: str, rev: str, commit: str, guards: Mapping[str, GuardFiles]) -> dict[str, LockedGuard]:
    """Return what the lock says of guards of one commit that are taken today."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {
        name: LockedGuard(
            source, rev, commit, today, guard_sha256=digest(files.guard), cases_sha256=digest(files.cases)
        )
        for name, files in guards.items()
    }


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def confirm_running(arguments: argparse.Namespace, question: str) -> None:
    """Have a person agree, or --yes, before code of others runs."""
    if not arguments.json:
        output.print_line(WARNING)
    if arguments.yes:
        return
    if arguments.json or not may_ask():
        raise CommandError(Exit.USAGE, "no person can be asked here, so nothing was run or written; to agree: --yes")
    if not ask_yes(question, is_default=False):
        raise CommandError(Exit.FINDINGS, "nothing was run or written")


def run_cases(arguments: argparse.Namespace, guards: Mapping[str, GuardFiles], keys: str = "") -> None:
    """Run the cases of guards in a temporary folder, in workers as isolated as the user's own.

    The `keys` are those of the table that is to name the guards, as lines of TOML.
    """
    settings = format_isolation(os.path.abspath(find_config_file(arguments.config, os.environ)))
    with tempfile.TemporaryDirectory(prefix="hooklatch-guards-") as folder:
        os.mkdir(os.path.join(folder, CASES), 0o700)
        write_new({
            path: text
            for name, files in guards.items()
            for path, text in zip(guard_paths(folder, name), files, strict=True)
        })  # fmt: skip
        with redirect_stdout(sys.stderr) if arguments.json else nullcontext():
            failed = [
                name for name in guards if fire_cases(folder, name, [], settings=settings, keys=keys) != int(Exit.OK)
            ]
    if failed:
        raise CommandError(Exit.FINDINGS, f"cases of {', '.join(failed)} fail, so nothing was written")


def format_isolation(config: str) -> str:
    """Return the level of isolation of a file of hooks as TOML, for a file of another folder."""
    try:
        data = read_present(config) or b""
        table: dict[str, object] = tomllib.loads(data.decode()).get("isolation", {})
    except (OSError, UnsafeFileError, ValueError) as error:
        raise CommandError(Exit.BAD_DATA, f"{config} cannot be read: {describe_error(error)}") from None
    lines = [
        f"{name} = {json.dumps(table[name])}\n" for name in ("level", "if_unavailable", "network") if name in table
    ]
    return "".join(["[isolation]\n", *lines])


def print_difference(path: str, before: str, after: str) -> None:
    shown = look.shorten_path(path)
    output.say_diff(
        difflib.unified_diff(split_lines(before), split_lines(after), f"{shown} (yours)", f"{shown} (new)", lineterm="")
    )


def check_guards(guards: Mapping[str, GuardFiles]) -> None:
    """Refuse guards, before any of their code runs, that a person cannot judge, or whose cases read other files."""
    for name, files in guards.items():
        check_source(name, files.guard)
        refuse_payload_files(f"{name}.jsonl", files.cases.encode())


def check_source(name: str, source: str) -> None:
    """Refuse a guard that Python would read otherwise than a person sees it."""
    lines = split_lines(source)
    for number, line in enumerate(lines, 1):
        if found := FALSE_LINE_ENDS.search(line):
            raise CommandError(
                Exit.BAD_DATA,
                f"line {number} of {name}.py has the character {found[0]!a}, which many programs show as the end "
                "of a line, and Python does not; nothing was run or written: its authors can write it as an escape",
            )
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO("\n".join(lines).encode()).readline)
    except SyntaxError:
        encoding = "unknown"
    if encoding not in ("utf-8", "utf-8-sig"):  # others make code out of what is shown as a comment
        raise CommandError(
            Exit.BAD_DATA, f"{name}.py names another encoding than UTF-8 ({encoding}); nothing was run or written"
        )


def read_file(path: str) -> bytes | None:
    try:
        return read_present(path)
    except (OSError, UnsafeFileError) as error:
        raise CommandError(Exit.CANNOT_CREATE, f"{path} cannot be read: {describe_error(error)}") from None


def replace_lock(place: SharedPlace, data: bytes) -> None:
    """Replace the lock, unless another process has changed it."""
    if place.lock_bytes is not None:
        replace_all([FileReplacement(place.lock_file, place.lock_bytes, data)])
    else:
        write_new({place.lock_file: data.decode()})


def restore_lock(place: SharedPlace) -> None:
    if place.lock_bytes is None:
        os.unlink(place.lock_file)
    else:
        replace_file(place.lock_file, place.lock_bytes, temporary=temporary_path(place.lock_file))


def replace_all(changes: Sequence[FileReplacement]) -> None:
    """Replace files in their order; if one of them cannot be, or was changed meanwhile, all are as they were.

    Each is replaced whole, since a daemon may read it at any time.
    """
    replaced: list[FileReplacement] = []
    try:
        for change in changes:
            if read_safely(change.path) != change.before:
                raise CommandError(Exit.CANNOT_CREATE, f"{change.path} was changed meanwhile; run the command again")
            replaced.append(change)
            replace_file(change.path, change.after, temporary=temporary_path(change.path))
    except BaseException as error:
        for change in reversed(replaced):
            if read_safely(change.path) != change.before:  # the last one may not have been replaced
                replace_file(change.path, change.before, temporary=temporary_path(change.path))
        if isinstance(error, OSError | UnsafeFileError):
            raise CommandError(Exit.CANNOT_CREATE, f"nothing was written: {describe_error(error)}") from None
        raise
