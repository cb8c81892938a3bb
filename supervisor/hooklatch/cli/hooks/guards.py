"""The commands `guards`: the gallery of guards to start from, copied into hooks.d with their cases, and tested there.

Guards of git repositories are in `shared_guards`.

`add` writes all files or none, and overwrites none.  The cases go into the folder policy-tests in hooks.d, since
folders there are not read for hooks.  `test` fires the cases of each guard at that guard alone, by `hooklatch test`:
the others would answer too, and one of them may refuse a case that this guard lets pass.
"""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from hooklatch.cli.guard_lock import list_differences, lock_path, read_lock, read_present
from hooklatch.cli.hooks.guard_files import find_hooks_folder, fire_cases, format_options, print_written, write_new
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.questions import ask_yes, may_ask
from hooklatch.errors import format_install_command
from hooklatch.file_safety import UnsafeFileError
from hooklatch.git_sources import CASES, guard_paths
from hooklatch.paths import find_config_file

if TYPE_CHECKING:
    from hooklatch.guards.catalogue import GalleryGuard

__all__ = ["add_add", "add_guards", "add_list", "add_show", "add_test", "guard_files"]

KEPT = "kept = true"  # which a guard names that counts over restarts
BELOW = (
    ("list", "hooks.guards", "list the guards of the gallery, and those of git repositories that are here"),
    ("show", "hooks.guards", "print the source of one, or with --cases what it stops and what it does not"),
    ("add", "hooks.guards", "copy guards and their cases into hooks.d: from then on they are yours to edit"),
    ("test", "hooks.guards", "fire the cases of each guard in hooks.d at that guard alone"),
    ("outdated", "hooks.shared_guards", "ask the repositories of shared guards what is newer"),
    ("update", "hooks.shared_guards", "take newer versions of shared guards, and keep what you have edited"),
    ("forget", "hooks.shared_guards", "take a shared guard out of shared-guards.lock; its files stay, as your own"),
)


def add_guards(parser: Parser) -> None:
    add_list(parser)
    parser.add_commands(BELOW)


def add_list(parser: Parser) -> None:
    parser.runs(list_guards, example="hooklatch guards list", exits=(Exit.BAD_DATA,))
    parser.prints("guards.catalogue:Gallery")


def add_show(parser: Parser) -> None:
    parser.runs(show_guard, example="hooklatch guards show destructive_commands", exits=(Exit.BAD_DATA, Exit.NO_INPUT))
    parser.prints("guards.catalogue:ShownGuard")
    parser.add_argument("guard", metavar="NAME", help="its name, as `hooklatch guards list` shows it")
    parser.add_argument("--cases", action="store_true", help="its cases instead: one JSON object a line")


def list_guards(arguments: argparse.Namespace) -> int:
    """Show every guard of the gallery."""
    from hooklatch.guards.catalogue import list_gallery

    guards = [*list_gallery(), *list_shared(arguments)]
    rows = [(guard.name, guard.summary, format_needs(guard), ", ".join(guard.events), guard.source) for guard in guards]
    titles = ("NAME", "WHAT IT DOES", "NEEDS", "EVENTS", "FROM")
    show = partial(output.say_table, titles, rows, drop=("EVENTS", "NEEDS"))
    return output.say_result(guards, is_json=arguments.json, show=show)


def list_shared(arguments: argparse.Namespace) -> list[GalleryGuard]:
    """Return the shared guards that shared-guards.lock names, as they are here."""
    from hooklatch.guards.catalogue import describe_guard

    lock, _ = read_lock(lock_path(find_config_file(arguments.config, os.environ)))
    folder = find_hooks_folder(arguments, None)
    changed = {difference.name: difference.what for difference in list_differences(folder, lock)}
    guards: list[GalleryGuard] = []
    for name, locked in sorted(lock.guards.items()):
        origin = locked.origin + (", not as it was taken" if name in changed else "")
        guards.append(describe_guard(name, read_text(guard_paths(folder, name).guard) or "", origin))
    return guards


def read_text(path: str) -> str | None:
    """Return a text that a person is shown; None if there is none."""
    try:
        data = read_present(path)
    except (OSError, UnsafeFileError):  # `check` says why
        return None
    return None if data is None else data.decode("utf-8", "replace")


def show_guard(arguments: argparse.Namespace) -> int:
    """Print one guard as it would be copied."""
    from hooklatch.guards.catalogue import ShownGuard, read_guard_cases, read_guard_source

    guard = next((shared for shared in list_shared(arguments) if shared.name == arguments.guard), None)
    if guard is None:
        guard = find_guard(arguments.guard)
        source, cases = read_guard_source(guard.name), read_guard_cases(guard.name)
    else:
        paths = guard_paths(find_hooks_folder(arguments, None), guard.name)
        cases, source = (read_text(path) or "" for path in paths)
        output.print_error(f"{guard.name} is from {guard.source}")
    text = (cases if arguments.cases else source).rstrip("\n")
    shown = ShownGuard(guard, source, cases)
    return output.say_result(shown, is_json=arguments.json, show=partial(output.say_text, text))


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


def add_add(parser: Parser) -> None:
    parser.runs(
        copy_guards,
        example="hooklatch guards add protected_paths git_rules",
        exits=(
            Exit.FINDINGS, Exit.BAD_DATA, Exit.NO_INPUT, Exit.CANNOT_CREATE, Exit.UNAVAILABLE, Exit.NOT_PERMITTED,
        ),
    )  # fmt: skip
    parser.prints("guards.catalogue:AddedGuards")
    parser.add_argument(
        "guards", metavar="NAME", nargs="+",
        help="its name, as `hooklatch guards list` shows it; or one git repository and its tag or commit: "
        "github:OWNER/NAME@v1, https://…@v1, PATH@v1",
    )  # fmt: skip
    parser.add_argument("--to", metavar="DIR", help="the folder to copy to (else hooks.d beside the file of hooks)")
    parser.add_argument("--only", metavar="NAME", action="append", help="of a repository: this guard; may be repeated")
    parser.add_argument(
        "--yes", action="store_true",
        help="also a guard that denies until a package is installed; of a repository: ask nothing",
    )  # fmt: skip


def copy_guards(arguments: argparse.Namespace) -> int:
    """Copy guards, and print the packages that they need."""
    if any(mark in word for word in arguments.guards for mark in "@:/"):
        from hooklatch.cli.hooks.shared_guards import copy_shared  # few commands need git

        return copy_shared(arguments)
    if arguments.only:
        raise CommandError(Exit.USAGE, "--only is for a repository: hooklatch guards add SOURCE@REV --only NAME")
    guards = list({guard.name: guard for guard in map(find_guard, arguments.guards)}.values())
    folder = find_hooks_folder(arguments, arguments.to)
    if not arguments.yes and arguments.to is None:
        confirm_missing(guards)
    files = {path: text for guard in guards for path, text in guard_files(folder, guard.name).items()}
    write_new(files)
    steps = [f"hooklatch guards test {' '.join(guard.name for guard in guards)}{format_options(arguments)}"]
    if arguments.to is None:
        steps.append("hooklatch status   # a daemon that runs has loaded them")
    from hooklatch.guards.catalogue import AddedGuards

    show = partial(print_written, files, "they are yours to edit; next:", steps)
    output.say_result(AddedGuards(list(files), guards, steps), is_json=arguments.json, show=show)
    for guard in guards:
        if guard.is_missing:
            install = format_install_command(str(guard.needs))
            output.print_error(f"{guard.name} denies until a package is installed: {install}")
    config = find_config_file(arguments.config, os.environ)
    if any(KEPT in text for text in files.values()) and KEPT not in (read_text(config) or ""):
        output.print_error(f"what is counted ends with the daemon, until {config} has the table [state] with {KEPT}")
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


def guard_files(folder: str, name: str) -> dict[str, str]:
    """Return the files of a guard by their paths: its cases first, since the guard is live as soon as it is there."""
    from hooklatch.guards.catalogue import read_guard_cases, read_guard_source

    paths = guard_paths(folder, name)
    return {paths.cases: read_guard_cases(name), paths.guard: read_guard_source(name)}


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
    options = ["--json"] if arguments.json else ["--verbose"] if arguments.verbose else []
    return max(fire_cases(folder, name, options) for name in names)


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
