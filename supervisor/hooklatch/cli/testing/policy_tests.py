"""test: fires recorded payloads at the configured hooks and compares each decision with the expected one.

The service runs in this process, in temporary directories: a running daemon is not involved, and its state is neither
read nor changed.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from hooklatch import paths
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.core.text import counted

if TYPE_CHECKING:
    from hooklatch.cli.testing.cases import Case
    from hooklatch.core.messages import Decision
    from hooklatch.service.dispatch.fires import FireParams
    from hooklatch.service.process.folders import Options
    from hooklatch.service.process.parts import Parts

__all__ = ["Progress", "add_test"]

DEFAULT_FILE = "policy-tests.toml"
FIRST_WORD = 1.0  # seconds before the first progress message; the interval then doubles
MAX_FILE = 64 * 2**20  # bytes; payloads may be large


class Result(msgspec.Struct, frozen=True):
    """The result of one case."""

    case: Case
    decision: Decision
    differences: list[str]

    @property
    def failures(self) -> list[str]:
        """Hooks that failed, even if that did not decide anything."""
        return [
            f"{outcome.name or f'{outcome.layer}/{outcome.hook}'} failed ({outcome.cause}): {outcome.message}"
            for outcome in self.decision.outcomes
            if outcome.cause not in (None, "policy")
        ]


class Run(msgspec.Struct):
    """The results of all cases, or why they were not fired."""

    results: list[Result] = []
    diagnostics: list[str] = []
    error: CommandError | None = None

    @property
    def failed(self) -> int:
        return sum(bool(result.differences) for result in self.results)


class Progress:
    """Reports progress when a run takes longer than a moment."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.doing = "loading the hooks"

    async def run(self) -> None:
        """Report after one second, then after two, four, …; until cancelled."""
        import trio

        wait = FIRST_WORD
        while True:
            await trio.sleep(wait)
            output.complain(f"{self.done} of {counted(self.total, 'case')} done, {self.doing} …")
            wait *= 2


def add_test(parser: Parser) -> None:
    exits = (Exit.FINDINGS, Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE)
    parser.runs(test, example="hooklatch test policy-tests.toml --config hooks.toml", exits=exits)
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help=f".toml, .jsonl, or - for JSON lines (default: {DEFAULT_FILE} beside the file of hooks)",
    )
    parser.add_argument(
        "--dialect", metavar="NAME", help="the dialect of events and payloads, for cases that name none"
    )


def test(arguments: argparse.Namespace) -> int:
    """Run all cases of all files."""
    from hooklatch.service.process.folders import Options
    from hooklatch_worker.sandbox import linux

    if not linux.is_supported():
        raise CommandError(Exit.UNAVAILABLE, "hooks run on Linux with pidfd (5.3 or later) and /proc only")
    config = os.path.abspath(paths.config_file(arguments.config, os.environ))
    folder = os.path.dirname(config)
    if not os.path.exists(config) and not os.path.isdir(os.path.join(folder, "hooks.d")):
        raise CommandError(Exit.NO_INPUT, f"{config} does not exist; name the file of hooks with --config")
    cases = [case for name in arguments.files or [os.path.join(folder, DEFAULT_FILE)] for case in cases_of(name)]
    if arguments.dialect is not None:
        cases = [case.spoken_in(arguments.dialect) for case in cases]
    logging.getLogger("hooklatch").addHandler(logging.NullHandler())  # the report contains what matters
    tell: Callable[[Result], None] = (lambda _: None) if arguments.json else show
    with scratch_folder() as scratch:
        options = Options(
            config=config,
            runtime_dir=os.path.join(scratch, "run"),
            state_dir=os.path.join(scratch, "state"),
            owns_process=False,
        )
        run = run_cases(options, cases, tell)
    for diagnostic in run.diagnostics:
        output.complain(f"wrong with the hooks: {diagnostic}")
    if run.error is not None:
        raise run.error
    if arguments.json:
        output.say_json(described(run))
    else:
        wrong = ", and the hooks do not load as they should" if run.diagnostics else ""
        output.say(
            f"{counted(len(run.results), 'case')}, {len(run.results) - run.failed} passed, {run.failed} failed{wrong}"
        )
    return Exit.FINDINGS if run.failed or run.diagnostics else Exit.OK


def cases_of(name: str) -> list[Case]:
    from hooklatch.cli.testing.cases import read_cases

    if name == "-":
        return read_cases("standard input", sys.stdin.buffer.read() if sys.stdin else b"", os.getcwd())
    if not name.endswith((".toml", ".jsonl")):
        raise CommandError(Exit.USAGE, f"{name}: a file of cases is named .toml or .jsonl")
    try:
        with open(name, "rb") as file:
            data = file.read(MAX_FILE + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandError(Exit.NO_INPUT, f"the cases {name} cannot be read: {reason}") from None
    if len(data) > MAX_FILE:
        raise CommandError(Exit.BAD_DATA, f"{name} is over {MAX_FILE // 2**20} MiB; put payloads into payload_file")
    return read_cases(name, data, os.path.dirname(os.path.abspath(name)))


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="hooklatch-test-")
    except OSError as error:
        raise CommandError(Exit.UNAVAILABLE, f"there is no directory for temporary files: {error}") from None


def run_cases(options: Options, cases: list[Case], tell: Callable[[Result], None]) -> Run:
    import trio

    try:
        return trio.run(fire_all, options, cases, tell)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:
            raise KeyboardInterrupt from None
        raise


async def fire_all(options: Options, cases: list[Case], tell: Callable[[Result], None]) -> Run:
    """Fire the cases one after another, as an agent would."""
    import trio

    from hooklatch.service.process.daemon import serve
    from hooklatch.service.process.folders import StartError

    run, progress = Run(), Progress(len(cases))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(progress.run)
        try:
            async with serve(options) as daemon:
                await fire_each(daemon.parts, cases, run, progress, tell)
        except StartError as error:
            run.error = CommandError(Exit.UNAVAILABLE, f"hooks cannot be run here: {error}")
        nursery.cancel_scope.cancel()
    return run


async def fire_each(
    parts: Parts, cases: list[Case], run: Run, progress: Progress, tell: Callable[[Result], None]
) -> None:
    run.diagnostics = [str(diagnostic) for diagnostic in parts.files.diagnostics]
    try:
        for case in cases:
            check_case(case, parts)
    except CommandError as error:
        run.error = error
        return
    file = None
    for case in cases:
        progress.doing = f"running {case.name!r}"
        if case.file != file:
            file = case.file
            parts.shared_state.clear()  # each file starts with empty state
        decision = await decide(case.params, parts)
        # Cases are independent: a hook that died in earlier ones must not be quarantined in this one.
        parts.breakers.clear()
        run.results.append(Result(case, decision, case.expected.differences(decision)))
        progress.done += 1
        tell(run.results[-1])
    progress.doing = "ending the workers"


def check_case(case: Case, parts: Parts) -> None:
    """Reject a case that can never pass.

    Raises:
        CommandError: its event, dialect or verdict does not exist.
    """
    from hooklatch.cli.testing.cases import problem_with
    from hooklatch.core.protocol import RpcError

    name, event = case.params.dialect, case.params.event
    try:
        event = parts.native.canonical_name(parts.dialects.find(name), event) if name is not None else event
    except RpcError as error:
        raise CommandError(Exit.BAD_DATA, f"{case.place}: {error.message}") from None
    problem = problem_with(case, event, parts.registries.catalogue)
    if problem is not None:
        raise CommandError(Exit.BAD_DATA, problem)


async def decide(params: FireParams, parts: Parts) -> Decision:
    if params.dialect is None:
        return await parts.dispatcher.fire(params, None)
    decisions = await parts.native.decide(parts.dialects.find(params.dialect), params, None)
    return decisions[0]


def show(result: Result) -> None:
    decision, case = result.decision, result.case
    by = f" by {decision.layer}/{decision.hook}" if decision.hook else ""
    mark = "FAIL" if result.differences else "pass"
    say(f"{mark}  {case.name}: {decision.verdict}{by}, {decision.duration_ms:.1f} ms")
    lines = [("place", case.place)] if result.differences else []
    lines += [("but", difference) for difference in result.differences]
    if result.differences:
        lines += [("reason", decision.reason or ""), ("warning", "\n".join(decision.warnings))]
        lines += [("asked", f"{one.layer}/{one.hook} {one.verdict or one.outcome}") for one in decision.outcomes]
    lines += [("note", failure) for failure in result.failures]
    for label, text in lines:
        if text:
            say(f"      {label:<8}{text}")


def say(text: str) -> None:
    output.say(text)


def described(run: Run) -> dict[str, Any]:
    return {
        "passed": len(run.results) - run.failed,
        "failed": run.failed,
        "diagnostics": run.diagnostics,
        "cases": [
            {
                "name": result.case.name,
                "file": result.case.file,
                "line": result.case.line,
                "event": result.case.params.event,
                "passed": not result.differences,
                "expected": result.case.expected,
                "differences": result.differences,
                "failures": result.failures,
                "decision": result.decision,
            }
            for result in run.results
        ],
    }
