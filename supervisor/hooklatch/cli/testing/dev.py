"""The command `dev`: run the hooks of a file against payloads, again on each save, and show their answers and prints.

The hooks run in real workers of a daemon of its own (`hooklatch.testing.daemon`), which loads the file as any daemon
would.  `payloads.py` beside this selects the payloads.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, TypedDict, cast

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.look import VERDICTS, format_moment, paint_text, shorten_path
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.testing.running import run_with_daemon
from hooklatch.client.protocol.decisions import Decision
from hooklatch.core.text import format_count
from hooklatch.service.config.toml_document import Diagnostic

if TYPE_CHECKING:
    from hooklatch.cli.testing.payloads import PayloadCase
    from hooklatch.core.messages import FireDecision
    from hooklatch.path_lookup import Stamp
    from hooklatch.service.folders import DaemonOptions
    from hooklatch.service.parts import DaemonComponents

__all__ = ["add_dev"]

QUIET = 0.1  # seconds without a change before a save counts as complete
CHECK_INTERVAL = 2.0  # seconds between two checks of the files, where the kernel reports no changes


class DevOutput(TypedDict):
    """`dev`, for each payload; `differences` are those from the decision that a case expects."""

    title: str
    decision: Decision
    differences: list[str]


class NotLoaded(TypedDict):
    """`dev`, for a file that does not load."""

    diagnostics: list[Diagnostic]


def add_dev(parser: Parser) -> None:
    exits = (Exit.FINDINGS, Exit.USAGE, Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE)
    parser.runs(run_dev, example="hooklatch dev guards.py --once", exits=exits)
    parser.prints("cli.testing.dev:DevOutput", "cli.testing.dev:NotLoaded")
    parser.add_argument("file", metavar="FILE[:FUNCTION]", help="a Python file of hooks, or a hooks.toml")
    parser.add_argument("--payload", metavar="FILE", action="append", default=[],
                        help="fire this JSON object, or each line of a .jsonl file, or - (may be repeated; default: "
                        "recorded ones)")  # fmt: skip
    parser.add_argument("--event", metavar="NAME", help="the event of the payloads, where the hooks are on several")
    parser.add_argument(
        "--host", metavar="HOST", help="the payloads are this host's own documents, such as claude-code"
    )
    parser.add_argument("--cases", metavar="FILE", action="append", default=[],
                        help="fire the cases of this file, and compare (may be repeated)")  # fmt: skip
    parser.add_argument("--once", action="store_true", help="run once, and end")


class DevLoop:
    """A loop over the saves of one file: its hooks, the payloads for them, and the result of the last run."""

    def __init__(self, arguments: argparse.Namespace, file: str, function: str | None) -> None:
        self.error: CommandError | None = None
        self.is_good = True
        self._arguments = arguments
        self._file, self._function = file, function

    async def run(self, options: DaemonOptions) -> None:
        """Run the hooks on each save, or once."""
        from hooklatch.service.daemon import open_daemon
        from hooklatch.service.folders import StartError
        from hooklatch.service.loading.plan import EVERYTHING
        from hooklatch.service.loading.reloader import ReloadRequest

        try:
            async with open_daemon(options) as daemon:
                parts = daemon.parts
                while True:
                    # Before anything is loaded: a save from here on is seen as a change, though this load may have it.
                    before, began = self.read_stamps(parts), time.monotonic()
                    await parts.reloader.reload(ReloadRequest(EVERYTHING))
                    before = self.read_stamps(parts) | before  # also files that the reload has only now found
                    await self.fire_all(parts, time.monotonic() - began)
                    if self._arguments.once or self.error is not None or not output.has_reader():
                        return
                    if not self._arguments.json:
                        output.print_line(
                            paint_text(f"waiting for a change of {shorten_path(self._file)}; Ctrl-C ends", "quiet")
                        )
                    await wait_for_change(before)
        except StartError as error:
            self.error = CommandError(Exit.UNAVAILABLE, f"hooks cannot be run here: {error}")

    async def fire_all(self, parts: DaemonComponents, load_seconds: float) -> None:
        """Fire each payload once, and print the decisions; for a file that does not load, print its diagnostics."""
        from hooklatch.cli.testing.payloads import select_payload_cases
        from hooklatch.testing.daemon import reset_daemon, settle_environments

        await settle_environments(parts)
        reset_daemon(parts)
        self.is_good = True
        name = os.path.basename(self._file)
        if diagnostics := parts.reloader.active.diagnostics:
            self.is_good = False
            if self._arguments.json:
                output.say_json(NotLoaded(diagnostics=diagnostics))
            for diagnostic in [] if self._arguments.json else diagnostics:
                line = f":{diagnostic.line}" if diagnostic.line else ""
                output.print_line(
                    paint_text(f"{shorten_path(diagnostic.file)}{line}", "bad"), f": {diagnostic.message}"
                )
            return
        hooks = [hook for hook in parts.registries.view.hooks if hook.enabled]
        try:
            cases = select_payload_cases(parts, hooks, self._arguments, self._function)
        except CommandError as error:
            if self._arguments.once:
                self.error = error
            else:
                output.print_error(str(error))  # the next save may repair it
            return
        if not self._arguments.json:
            clock = format_moment(time.time(), is_brief=True)
            output.print_line(
                paint_text(
                    f"{clock} {name}: {format_count(len(hooks), 'hook')}, loaded in {load_seconds * 1000:.0f} ms",
                    "title",
                )
            )
        uncalled: list[str] = []
        for case in cases:
            await self.fire(parts, case, uncalled)
        if uncalled and not self._arguments.json:
            output.print_line(paint_text(f"no hook matches: {', '.join(uncalled)}", "quiet"))

    async def fire(self, parts: DaemonComponents, case: PayloadCase, uncalled: list[str]) -> None:
        from hooklatch.core.protocol import RpcError
        from hooklatch.testing.in_process import NotAHookError
        from hooklatch.testing.workers import fire_at

        try:
            decision = await fire_at(parts, case.params, only=self._function)
        except (RpcError, NotAHookError) as error:
            output.print_error(f"{case.title}: {error}")
            self.is_good = False
            return
        parts.breakers.clear()  # a hook that dies while it is being written must not be quarantined
        differences = case.expected.differences(decision) if case.expected is not None else []
        if differences or any(outcome.cause != "policy" for outcome in decision.outcomes):
            self.is_good = False
        if self._arguments.json:
            output.say_json(DevOutput(title=case.title, decision=cast("Decision", decision), differences=differences))
        elif not decision.outcomes and decision.cause is None and not differences:
            uncalled.append(case.title)
        else:
            print_dev_decision(case, decision, differences)

    def read_stamps(self, parts: DaemonComponents) -> dict[str, Stamp]:
        """Return the state of each file whose change matters."""
        from hooklatch.path_lookup import stamp_paths

        own = [os.path.abspath(name) for name in (*self._arguments.payload, *self._arguments.cases) if name != "-"]
        return stamp_paths([*parts.reloader.watched()(), *own])


async def wait_for_change(before: Mapping[str, Stamp]) -> None:
    """Wait until one of these files has changed, and then until they are quiet.

    It has no task of its own, since Ctrl-C could come between the creation of one and its start.
    """
    import trio

    from hooklatch.path_lookup import stamp_paths
    from hooklatch.service.loading.hints import KernelHints

    with ExitStack() as opened:
        wait: Callable[[], Awaitable[None]] = trio.sleep_forever
        with suppress(OSError):  # without hints it only looks
            hints = opened.enter_context(closing(KernelHints()))
            hints.cover(before)
            wait = hints.hint
        while (now := stamp_paths(before)) == before:
            with trio.move_on_after(CHECK_INTERVAL):
                await wait()
        while True:
            await trio.sleep(QUIET)
            if (latest := stamp_paths(before)) == now:
                break
            now = latest


def run_dev(arguments: argparse.Namespace) -> int:
    path, function = split_target(arguments.file)
    file = os.path.abspath(path)
    if not os.path.isfile(file):
        raise CommandError(Exit.NO_INPUT, f"{path} is not there; name a Python file of hooks, or a hooks.toml")
    if arguments.host is not None and not arguments.payload:
        raise CommandError(Exit.USAGE, "--host names the host of the payloads, and there are none; add --payload FILE")
    if "-" in arguments.payload and not arguments.once:
        raise CommandError(Exit.USAGE, "standard input can be read only once: --payload - --once")
    loop = DevLoop(arguments, file, function)
    run_with_daemon(loop.run, file if file.endswith(".toml") else None, files=[file])
    if loop.error is not None:
        raise loop.error
    return Exit.OK if loop.is_good else Exit.FINDINGS


def split_target(text: str) -> tuple[str, str | None]:
    """Return the path and the function of FILE[:FUNCTION]; a file whose name has a colon is taken whole."""
    path, colon, function = text.rpartition(":")
    return (path, function) if colon and not os.path.exists(text) else (text, None)


def print_dev_decision(case: PayloadCase, decision: FireDecision, differences: Sequence[str]) -> None:
    """Print a decision: its verdict and the payload's title, then the details."""
    from hooklatch.testing.results import list_result_details

    (_, first), *lines = list_result_details(decision)
    output.print_line(paint_text(f"{decision.verdict:<6}", VERDICTS.get(decision.verdict, "good")), f" {case.title}  ",
               paint_text(first.partition(decision.verdict)[2].lstrip(", "), "quiet"))  # fmt: skip
    for label, text in lines:
        for number, line in enumerate(text.splitlines()):
            output.print_line(f"       {'' if number else label:<9}{line}")
    for difference in differences:
        output.print_line("       ", paint_text(f"{'FAIL':<9}", "bad"), difference)
