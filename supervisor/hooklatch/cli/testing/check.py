"""The command `check`: load configurations and sources as a daemon would, and report what is wrong with them.

The sources are really loaded, in workers of a daemon of its own (`hooklatch.testing.daemon`): a file that only parses
may still fail to import.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from hooklatch import paths
from hooklatch.cli.guard_lock import list_differences, lock_path, read_lock
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.look import paint_text, shorten_path
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.testing.running import FireRunner, run_with_daemon
from hooklatch.core.hooks.registry import DeclarationSite, Hook
from hooklatch.core.text import format_count
from hooklatch.service.config.toml_document import Diagnostic

if TYPE_CHECKING:
    from hooklatch.cli.terminal.look import Meaning
    from hooklatch.service.parts import DaemonComponents

__all__ = ["add_check"]


LOAD_SECONDS = 20.0  # for all sources together: a source that hangs is a finding, and the command must end
NOTHING = "there is no file of hooks; name a hooks.toml, its directory or .py files"


class ConfigCheck(msgspec.Struct):
    """A configuration, or Python files: their content, and the findings.

    `unread` are files in a folder of hooks that nothing reads.  `dangers` are commands that run a file which an agent
    can write, and `notes` are hooks that guard nothing and may be meant so, or a password that goes unencrypted:
    neither is a problem.
    """

    what: str
    hooks: int = 0
    sources: list[str] = []
    diagnostics: list[Diagnostic] = []
    dangers: list[Diagnostic] = []
    unread: list[Diagnostic] = []
    notes: list[Diagnostic] = []

    @property
    def is_good(self) -> bool:
        return not (self.diagnostics or self.unread)


class CheckReport(msgspec.Struct, frozen=True):
    """`check`."""

    ok: bool
    checked: list[ConfigCheck]


class CheckTarget(msgspec.Struct, frozen=True):
    """A set to check together: a file of hooks, or Python files, for which a configuration is made."""

    what: str
    config: str | None = None
    files: list[str] = []


def add_check(parser: Parser) -> None:
    exits = (Exit.FINDINGS, Exit.NO_INPUT, Exit.UNAVAILABLE)
    parser.runs(run_check, example="hooklatch check hooks.d", exits=exits)
    parser.prints("cli.testing.check:CheckReport")
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="a file of hooks, a directory with one, hooks.d, or Python files (default: your file of hooks)",
    )


def run_check(arguments: argparse.Namespace) -> int:
    from hooklatch.path_lookup import PathAbsent, look_up_path

    for name in arguments.paths:  # a misspelt one would be checked as a configuration of hooks.d alone
        if isinstance(look_up_path(os.path.abspath(name)), PathAbsent):
            raise CommandError(Exit.NO_INPUT, f"{name}: {NOTHING}")
    targets = list_check_targets(
        arguments.paths or [os.path.abspath(paths.find_config_file(arguments.config, os.environ))]
    )
    results = [check_target(target) for target in targets]
    report = CheckReport(all(result.is_good for result in results), results)
    code = Exit.OK if report.ok else Exit.FINDINGS
    return output.say_result(report, is_json=arguments.json, show=lambda: print_checks(results), code=code)


def list_check_targets(named: list[str]) -> list[CheckTarget]:
    """Return the targets of these names in their order; Python files are one target together."""
    from hooklatch.path_lookup import PathAbsent, look_up_path

    configs: dict[str, CheckTarget] = {}
    files: list[str] = []
    for name in named:
        path = os.path.abspath(name)
        if path.endswith(".py") and os.path.isfile(path) and not is_hooks_d(os.path.dirname(path)):
            files.append(path)
            continue
        config = find_main_config(path)
        beside = os.path.join(os.path.dirname(config), "hooks.d")
        # A file that is there and cannot be read is a finding, and not an error of the command line.
        if all(isinstance(look_up_path(candidate), PathAbsent) for candidate in (config, beside)):
            raise CommandError(Exit.NO_INPUT, f"{name}: {NOTHING}")
        configs[config] = CheckTarget(config, config)
    alone = [CheckTarget(", ".join(files), None, files)] if files else []
    return [*configs.values(), *alone]


def is_hooks_d(folder: str) -> bool:
    return os.path.basename(folder) == "hooks.d"


def find_main_config(path: str) -> str:
    """Return the main file for a name: a directory, its hooks.d, a file in that, or the main file itself."""
    if is_hooks_d(path):
        path = os.path.dirname(path)
    elif is_hooks_d(os.path.dirname(path)):
        path = os.path.dirname(os.path.dirname(path))
    return os.path.join(path, "hooks.toml") if os.path.isdir(path) else path


def check_target(target: CheckTarget) -> ConfigCheck:
    """Load a target, and return the findings."""
    loader = CheckLoader(target.what)
    run_with_daemon(loader.fire_all, target.config, files=target.files, load_seconds=LOAD_SECONDS)
    if loader.error is not None:
        raise loader.error
    if target.config is not None:
        check_lock(lock_path(target.config), loader.check)
    return loader.check


def check_lock(path: str, check: ConfigCheck) -> None:
    """Note shared guards that were edited, which is allowed; what is lost or cannot be read is a finding."""
    try:
        lock, _ = read_lock(path)
    except CommandError as error:
        check.diagnostics.append(Diagnostic(path, 0, str(error)))
        return
    for difference in list_differences(os.path.join(os.path.dirname(path), "hooks.d"), lock):
        findings = check.notes if difference.is_edit else check.diagnostics
        findings.append(Diagnostic(difference.path, 0, difference.what))


class CheckLoader(FireRunner):
    """A runner that fires nothing: it notes what a daemon finds in these hooks."""

    def __init__(self, what: str) -> None:
        super().__init__(0, "hook")
        self.check = ConfigCheck(what)

    def describe(self) -> str:
        return f"loading the sources of {self.check.what}"

    async def fire_each(self, parts: DaemonComponents) -> None:
        from hooklatch.service.loading.tool_names import list_unknown_tools

        check, active, hooks = self.check, parts.reloader.active, parts.registries.view.hooks
        check.diagnostics = list(active.diagnostics)
        check.hooks = len(hooks)
        check.sources = sorted(parts.sources.units)
        check.dangers = [make_hook_diagnostic(hook, text) for hook in hooks for text in hook.dangers]
        check.unread = active.unread.warnings
        catalogue = parts.registries.catalogue
        unknown_tools = [
            make_hook_diagnostic(hook, text)
            for hook in hooks
            for text in list_unknown_tools(hook, catalogue.get(hook.event))
        ]
        of_fleet = [Diagnostic(active.plan.main.path, 0, text) for text in parts.fleet.warnings]
        check.notes = [*active.unread.notes, *unknown_tools, *of_fleet]
        if (parts.state.state.settings.fleet or {}).get("when_stale") == "deny":
            from hooklatch.fleet.settings import NEEDS_TIMER

            check.notes.append(Diagnostic(check.what, 0, f"[fleet]: {NEEDS_TIMER}"))


def make_hook_diagnostic(hook: Hook, text: str) -> Diagnostic:
    origin = hook.origin or DeclarationSite("?")
    return Diagnostic(origin.file, origin.line, f"hook {hook.id!r}: {text}")


def show_diagnostic(diagnostic: Diagnostic, meaning: Meaning) -> None:
    place = f"{diagnostic.file}:{diagnostic.line}" if diagnostic.line else diagnostic.file
    text = diagnostic.message.removeprefix(place)  # some begin with it
    output.print_line(paint_text(shorten_path(place), meaning), text if text != diagnostic.message else f": {text}")


def print_checks(checks: Iterable[ConfigCheck]) -> None:
    for check in checks:
        for diagnostic in check.diagnostics:
            show_diagnostic(diagnostic, "bad")
        for diagnostic in (*check.unread, *check.dangers, *check.notes):
            show_diagnostic(diagnostic, "warning")
        counts = f"{format_count(check.hooks, 'hook')}, {format_count(len(check.sources), 'source')}"
        count = len(check.diagnostics) + len(check.unread)
        problems = format_count(count, "problem") if count else "no problem"
        meaning: Meaning = "bad" if check.diagnostics else "warning" if count else "good"
        output.print_line(f"{shorten_path(check.what)}: {counts}, ", paint_text(problems, meaning))
