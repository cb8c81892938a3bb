"""The commands `guards`, `guards list` and `guards show`: the gallery of guards to start from."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser

if TYPE_CHECKING:
    from hooklatch.guards.catalogue import GalleryGuard

__all__ = ["add_guards", "add_list", "add_show", "find_guard"]

BELOW = (
    ("list", "hooks.guards", "list the guards of the gallery"),
    ("show", "hooks.guards", "print the source of one, or with --cases what it stops and what it does not"),
    ("add", "hooks.guards_add", "copy guards and their cases into hooks.d: from then on they are yours to edit"),
    ("test", "hooks.guards_test", "fire the cases of each guard in hooks.d at that guard alone"),
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
    """Return a guard of the gallery.

    Raises:
        CommandError: no guard has that name; the text has the nearest one.
    """
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
