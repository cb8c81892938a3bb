"""check: loads configurations and sources as a daemon would, and says what is wrong with them.  Needs no daemon.

The sources are really loaded, in workers of a daemon of its own (`hooklatch.testing.daemon`): a file that only parses
may still not import.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

import msgspec

from hooklatch import paths
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.look import paint, short_path
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.testing.running import own_folder, report_waiting, run_async
from hooklatch.core.hooks.registry import Hook, Origin
from hooklatch.core.text import counted

if TYPE_CHECKING:
    from hooklatch.cli.terminal.look import Meaning
    from hooklatch.service.config.configuration import Diagnostic
    from hooklatch.service.process.folders import Options

__all__ = ["add_check"]


LOAD_SECONDS = 20.0  # for all sources together: one that hangs is a finding, and not a command that hangs
NOTHING = "there is no file of hooks; name a hooks.toml, its directory or .py files"


class Checked(msgspec.Struct):
    """What was found in one configuration, or in Python files without one."""

    what: str
    hooks: int = 0
    sources: list[str] = []
    diagnostics: list[Diagnostic] = []
    dangers: list[Diagnostic] = []  # what commands run although an agent can write it
    unread: list[Diagnostic] = []  # what nothing reads in a folder of hooks
    notes: list[Diagnostic] = []  # what guards nothing, and may be meant so

    @property
    def is_good(self) -> bool:
        return not (self.diagnostics or self.unread)


class Target(msgspec.Struct, frozen=True):
    """What to check together: a file of hooks, or Python files, whose configuration is then made for them."""

    what: str
    config: str | None = None
    files: list[str] = []


def add_check(parser: Parser) -> None:
    exits = (Exit.FINDINGS, Exit.NO_INPUT, Exit.UNAVAILABLE)
    parser.runs(check, example="hooklatch check hooks.d", exits=exits)
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="a file of hooks, a directory with one, hooks.d, or Python files (default: your file of hooks)",
    )


def check(arguments: argparse.Namespace) -> int:
    """Load everything that is named, and print what is wrong."""
    from hooklatch.service.config.path_lookup import Absent, look

    for name in arguments.paths:  # a misspelt one would be checked as a configuration of hooks.d alone
        if isinstance(look(os.path.abspath(name)), Absent):
            raise CommandError(Exit.NO_INPUT, f"{name}: {NOTHING}")
    targets = targets_of(arguments.paths or [default_config(arguments)])
    results = [checked(target) for target in targets]
    if arguments.json:
        output.say_json({"ok": all(one.is_good for one in results), "checked": results})
    else:
        for one in results:
            show(one)
    return Exit.OK if all(one.is_good for one in results) else Exit.FINDINGS


def default_config(arguments: argparse.Namespace) -> str:
    return os.path.abspath(paths.config_file(arguments.config, os.environ))


def targets_of(named: list[str]) -> list[Target]:
    """Return what to check, in the order in which it was named; Python files together.

    Raises:
        CommandError: something is not there, or is nothing that declares hooks.
    """
    from hooklatch.service.config.path_lookup import Absent, look

    configs: dict[str, Target] = {}
    files: list[str] = []
    for name in named:
        path = os.path.abspath(name)
        if path.endswith(".py") and os.path.isfile(path) and not is_hooks_d(os.path.dirname(path)):
            files.append(path)
            continue
        config = config_of(path)
        beside = os.path.join(os.path.dirname(config), "hooks.d")
        if all(isinstance(look(place), Absent) for place in (config, beside)):  # what cannot be read is a finding
            raise CommandError(Exit.NO_INPUT, f"{name}: {NOTHING}")
        configs[config] = Target(config, config)
    alone = [Target(", ".join(files), None, files)] if files else []
    return [*configs.values(), *alone]


def is_hooks_d(folder: str) -> bool:
    return os.path.basename(folder) == "hooks.d"


def config_of(path: str) -> str:
    """Return the main file of what was named: of a directory, of hooks.d and of a file in it, and of a file itself."""
    if is_hooks_d(path):
        path = os.path.dirname(path)
    elif is_hooks_d(os.path.dirname(path)):
        path = os.path.dirname(os.path.dirname(path))
    return os.path.join(path, "hooks.toml") if os.path.isdir(path) else path


def checked(target: Target) -> Checked:
    """Load what is to be checked together.

    Raises:
        CommandError: hooks cannot be run here.
    """
    found, failures = Checked(target.what), list[str]()
    with own_folder() as scratch:
        from hooklatch.testing.daemon import options_for, source_config

        config = target.config or source_config(target.files, scratch)
        options = msgspec.structs.replace(options_for(config, scratch), load_seconds=LOAD_SECONDS)
        run_async(load, options, found, failures)
    for failure in failures:
        raise CommandError(Exit.UNAVAILABLE, f"hooks cannot be run here: {failure}")
    return found


async def load(options: Options, found: Checked, failures: list[str]) -> None:
    """Start a daemon with these hooks, note what it finds, and end it."""
    import trio

    from hooklatch.service.building.tool_names import unknown_tools
    from hooklatch.service.process.daemon import serve
    from hooklatch.service.process.folders import StartError
    from hooklatch.testing.daemon import settle

    async with trio.open_nursery() as nursery:
        nursery.start_soon(report_waiting, lambda: f"loading the sources of {found.what}")
        try:
            async with serve(options) as daemon:
                parts = daemon.parts
                await settle(parts)
                hooks = parts.registries.view.hooks
                found.diagnostics = list(parts.files.diagnostics)
                found.hooks = len(hooks)
                found.sources = sorted(parts.sources.units)
                found.dangers = [of_hook(hook, text) for hook in hooks for text in hook.dangers]
                found.unread = parts.files.silent.warnings
                catalogue = parts.registries.catalogue
                told = [
                    of_hook(hook, text) for hook in hooks for text in unknown_tools(hook, catalogue.get(hook.event))
                ]
                found.notes = [*parts.files.silent.notes, *told]
        except StartError as error:
            failures.append(str(error))
        nursery.cancel_scope.cancel()


def of_hook(hook: Hook, text: str) -> Diagnostic:
    from hooklatch.service.config.configuration import Diagnostic

    origin = hook.origin or Origin("?")
    return Diagnostic(origin.file, origin.line, f"hook {hook.id!r}: {text}")


def show_diagnostic(diagnostic: Diagnostic, meaning: Meaning) -> None:
    place = f"{diagnostic.file}:{diagnostic.line}" if diagnostic.line else diagnostic.file
    text = diagnostic.message.removeprefix(place)  # some begin with it
    output.say(paint(short_path(place), meaning), text if text != diagnostic.message else f": {text}")


def show(one: Checked) -> None:
    for diagnostic in one.diagnostics:
        show_diagnostic(diagnostic, "bad")
    for diagnostic in (*one.unread, *one.dangers, *one.notes):
        show_diagnostic(diagnostic, "warning")
    held = f"{counted(one.hooks, 'hook')}, {counted(len(one.sources), 'source')}"
    if not one.is_good:
        problems = counted(len(one.diagnostics) + len(one.unread), "problem")
        output.say(f"{short_path(one.what)}: {held}, ", paint(problems, "bad" if one.diagnostics else "warning"))
    else:
        output.say(f"{short_path(one.what)}: {held}, ", paint("no problem", "good"))
