"""The commands `guards`: the gallery of guards to start from, copied into hooks.d with their cases, and tested there.

`add` writes all files or none, and overwrites none.  The cases go into the folder policy-tests in hooks.d, since
folders there are not read for hooks.  `test` fires the cases of each guard at that guard alone, by `hooklatch test`:
the others would answer too, and one of them may refuse a case that this guard lets pass.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import json
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.questions import ask_yes, may_ask
from hooklatch.errors import format_install_command
from hooklatch.paths import find_config_file
from hooklatch.service.config.file_safety import UnsafeFileError, check_folders

if TYPE_CHECKING:
    from hooklatch.guards.catalogue import GalleryGuard

__all__ = [
    "CASES",
    "add_add",
    "add_guards",
    "add_list",
    "add_show",
    "add_test",
    "find_hooks_folder",
    "guard_files",
    "print_written",
    "write_new",
]

BELOW = (
    ("list", "hooks.guards", "list the guards of the gallery"),
    ("show", "hooks.guards", "print the source of one, or with --cases what it stops and what it does not"),
    ("add", "hooks.guards", "copy guards and their cases into hooks.d: from then on they are yours to edit"),
    ("test", "hooks.guards", "fire the cases of each guard in hooks.d at that guard alone"),
)


def add_guards(parser: Parser) -> None:
    add_list(parser)
    parser.add_commands(BELOW)


def add_list(parser: Parser) -> None:
    parser.runs(list_guards, example="hooklatch guards list")
    parser.prints("guards.catalogue:Gallery")


def add_show(parser: Parser) -> None:
    parser.runs(show_guard, example="hooklatch guards show destructive_commands", exits=(Exit.NO_INPUT,))
    parser.prints("guards.catalogue:ShownGuard")
    parser.add_argument("guard", metavar="NAME", help="its name, as `hooklatch guards list` shows it")
    parser.add_argument("--cases", action="store_true", help="its cases instead: one JSON object a line")


def list_guards(arguments: argparse.Namespace) -> int:
    """Show every guard of the gallery."""
    from hooklatch.guards.catalogue import list_gallery

    guards = list_gallery()
    if arguments.json:
        output.say_json(guards)
        return Exit.OK
    output.say_table(
        ("NAME", "WHAT IT DOES", "NEEDS", "EVENTS"),
        [(guard.name, guard.summary, format_needs(guard), ", ".join(guard.events)) for guard in guards],
        drop=("EVENTS", "NEEDS"),
    )
    return Exit.OK


def show_guard(arguments: argparse.Namespace) -> int:
    """Print one guard as it would be copied."""
    from hooklatch.guards.catalogue import ShownGuard, read_guard_cases, read_guard_source

    guard = find_guard(arguments.guard)
    source, cases = read_guard_source(guard.name), read_guard_cases(guard.name)
    if arguments.json:
        output.say_json(ShownGuard(guard, source, cases))
    else:
        output.say_text((cases if arguments.cases else source).rstrip("\n"))
    return Exit.OK


def find_guard(name: str) -> GalleryGuard:
    """Return a guard of the gallery."""
    from hooklatch.guards.catalogue import list_gallery

    guards = {guard.name: guard for guard in list_gallery()}
    bare = name.removesuffix(".py").replace("-", "_")
    if bare in guards:
        return guards[bare]
    near = difflib.get_close_matches(bare, guards, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "see: hooklatch guards list"
    raise CommandError(Exit.NO_INPUT, f"the gallery has no guard {name!r}; {hint}")


def format_needs(entry: GalleryGuard) -> str | None:
    return None if entry.needs is None else f"{entry.needs}, missing" if entry.is_missing else entry.needs


CASES = "policy-tests"  # beside the guards; `hooklatch fleet push` looks there too


def add_add(parser: Parser) -> None:
    parser.runs(
        copy_guards,
        example="hooklatch guards add protected_paths git_rules",
        exits=(Exit.FINDINGS, Exit.NO_INPUT, Exit.CANNOT_CREATE, Exit.NOT_PERMITTED),
    )
    parser.prints("guards.catalogue:AddedGuards")
    parser.add_argument("guards", metavar="NAME", nargs="+", help="its name, as `hooklatch guards list` shows it")
    parser.add_argument("--to", metavar="DIR", help="the folder to copy to (else hooks.d beside the file of hooks)")
    parser.add_argument("--yes", action="store_true", help="also a guard that denies until a package is installed")


def copy_guards(arguments: argparse.Namespace) -> int:
    """Copy guards, and print the packages that they need."""
    guards = list({guard.name: guard for guard in map(find_guard, arguments.guards)}.values())
    folder = find_hooks_folder(arguments, arguments.to)
    if not arguments.yes and arguments.to is None:
        confirm_missing(guards)
    files = {path: text for guard in guards for path, text in guard_files(folder, guard.name).items()}
    write_new(files)
    steps = [f"hooklatch guards test {' '.join(guard.name for guard in guards)}{format_options(arguments)}"]
    if arguments.to is None:
        steps.append("hooklatch status   # a daemon that runs has loaded them")
    if arguments.json:
        from hooklatch.guards.catalogue import AddedGuards

        output.say_json(AddedGuards(list(files), guards, steps))
    else:
        print_written(files, "they are yours to edit; next:", steps)
    for guard in guards:
        if guard.is_missing:
            install = format_install_command(str(guard.needs))
            output.print_error(f"{guard.name} denies until a package is installed: {install}")
    return Exit.OK


def confirm_missing(guards: Iterable[GalleryGuard]) -> None:
    """Refuse guards that deny until a package is installed, unless a person wants them all the same."""
    for guard in guards:
        if not guard.is_missing:
            continue
        install = format_install_command(str(guard.needs))
        what = f"{guard.name} needs a package that is not installed, and until it is, each gate is denied"
        if may_ask():
            output.print_line(f"{what}; to install it: {install}")
            if ask_yes(f"add {guard.name} all the same?", is_default=False):
                continue
        raise CommandError(Exit.FINDINGS, f"{what}; nothing was written; first: {install}; or add it as it is: --yes")


def format_options(arguments: argparse.Namespace) -> str:
    folder = f" --in {shlex.quote(os.path.abspath(arguments.to))}" if arguments.to is not None else ""
    return folder + (f" --config {shlex.quote(os.path.abspath(arguments.config))}" if arguments.config else "")


def find_hooks_folder(arguments: argparse.Namespace, named: str | None) -> str:
    """Return the folder of guards: the one that is named, or hooks.d beside the file of hooks."""
    if named is not None:
        return os.path.abspath(named)
    return os.path.join(os.path.dirname(os.path.abspath(find_config_file(arguments.config, os.environ))), "hooks.d")


def guard_files(folder: str, name: str) -> dict[str, str]:
    """Return the files of a guard by their paths: its cases first, since the guard is live as soon as it is there."""
    from hooklatch.guards.catalogue import read_guard_cases, read_guard_source

    return {
        os.path.join(folder, CASES, f"{name}.jsonl"): read_guard_cases(name),
        os.path.join(folder, f"{name}.py"): read_guard_source(name),
    }


def write_new(files: dict[str, str]) -> None:
    """Write files that other users cannot read, in folders that they cannot write to."""
    for path in files:
        if os.path.lexists(path):
            raise CommandError(
                Exit.CANNOT_CREATE,
                f"{path} is there already and was left as it is; move it away, or name another folder",
            )
    current = ""  # the path that an error is about
    previous_umask = os.umask(0o077)  # for the folders above too: one that others can write to is refused later
    with ExitStack() as undo:  # removes all of it should anything fail: half a guard guards nothing
        try:
            for current in sorted({os.path.dirname(path) for path in files}, key=len):
                if not os.path.isdir(current):
                    undo.callback(remove_quietly, os.rmdir, current)
                os.makedirs(current, mode=0o700, exist_ok=True)
                check_folders(os.path.realpath(current))
            for path, text in files.items():
                current = temporary_path(path)
                write_whole(current, text, undo)
            for current in files:  # all are on the disk: from here on they are live
                publish_file(temporary_path(current), current)
                undo.callback(remove_quietly, os.unlink, current)
        except UnsafeFileError as error:
            raise CommandError(Exit.NOT_PERMITTED, f"hooks in this folder would be refused: {error}") from None
        except OSError as error:
            refusal = f"{current} cannot be created: {error.strerror}; nothing was written"
            raise CommandError(Exit.CANNOT_CREATE, f"{refusal}: repair that, or name another folder") from None
        finally:
            os.umask(previous_umask)
        undo.pop_all()
    for path in files:
        remove_quietly(os.unlink, temporary_path(path))


def print_written(files: Iterable[str], heading: str, steps: Iterable[str]) -> None:
    """Print the files that were written, and below the heading the commands to go on with."""
    for path in files:
        output.print_line(f"wrote {look.shorten_path(path)}")
    output.print_line(heading)
    for step in steps:
        output.print_line(f"  {step}")


def temporary_path(path: str) -> str:
    """Return the path at which a file is written first: its name is not one of hooks, so no daemon loads half of it."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.new")


def write_whole(path: str, text: str, undo: ExitStack) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    # Not before: a file that another process writes just now is not ours to remove.
    undo.callback(remove_quietly, os.unlink, path)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def publish_file(draft: str, path: str) -> None:
    """Give a file its name, unless another file has that name already."""
    try:
        os.link(draft, path)  # fails if the name exists, unlike a rename
    except FileExistsError:
        raise
    except OSError as error:  # a filesystem without links
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from error
        os.rename(draft, path)


def remove_quietly(remove: Callable[[str], None], path: str) -> None:
    with suppress(OSError):
        remove(path)


def add_test(parser: Parser) -> None:
    parser.runs(
        test_guards,
        example="hooklatch guards test destructive_commands",
        exits=(Exit.FINDINGS, Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE),
    )
    parser.prints("cli.testing.coverage:TestReport")
    parser.add_argument("guards", metavar="NAME", nargs="*", help="a guard (else all that have cases)")
    parser.add_argument(
        "--in", dest="folder", metavar="DIR", help="their folder (else hooks.d beside the file of hooks)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each case, not for each guard")


def test_guards(arguments: argparse.Namespace) -> int:
    """Test each guard, and return the worst result."""
    folder = find_hooks_folder(arguments, arguments.folder)
    names = [name.removesuffix(".py") for name in arguments.guards] or list_tested_guards(folder)
    options = ["--json"] if arguments.json else [] if arguments.verbose else ["--quiet"]
    return max(test_guard_in(folder, name, options) for name in names)


def list_tested_guards(folder: str) -> list[str]:
    """Return the guards of a folder that have cases."""
    try:
        files = sorted(os.listdir(os.path.join(folder, CASES)))
    except OSError:
        files = []
    names = [name.removesuffix(".jsonl") for name in files if name.endswith(".jsonl")]
    if not names:
        raise CommandError(Exit.NO_INPUT, f"{folder} has no guard with cases; see: hooklatch guards add --help")
    return names


def test_guard_in(folder: str, name: str, options: list[str]) -> int:
    from hooklatch.cli.commands import build_command_line  # it finds `test` as a person would

    source, cases = os.path.join(folder, f"{name}.py"), os.path.join(folder, CASES, f"{name}.jsonl")
    for path in (source, cases):
        if not os.path.exists(path):
            raise CommandError(Exit.NO_INPUT, f"{path} does not exist; name a guard that `hooklatch guards add` copied")
    with tempfile.TemporaryDirectory(prefix="hooklatch-guard-") as scratch:
        config = os.path.join(scratch, "hooks.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"[[source]]\npath = {json.dumps(source)}\n")
        words = ["test", cases, "--config", config, *options]
        args: argparse.Namespace = build_command_line().parse_args(words)
        return int(args.run(args))
