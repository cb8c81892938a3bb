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
    from hooklatch.core.fire_params import FireParams
    from hooklatch.core.messages import Decision
    from hooklatch.service.process.folders import Options
    from hooklatch.service.process.parts import Parts

__all__ = ["Run", "add_test"]

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


class Run:
    """Fires cases one after another, as an agent would; knows how far it has come, and what keeps it from going on."""

    def __init__(self, cases: list[Case], tell: Callable[[Result], None]) -> None:
        self.results: list[Result] = []
        self.diagnostics: list[str] = []
        self.error: CommandError | None = None
        self._cases = cases
        self._tell = tell
        self._doing = "loading the hooks"

    @property
    def failed(self) -> int:
        return sum(bool(result.differences) for result in self.results)

    async def fire_all(self, options: Options) -> None:
        """Start a service for the cases, and fire them."""
        import trio

        from hooklatch.service.process.daemon import serve
        from hooklatch.service.process.folders import StartError

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.report_progress)
            try:
                async with serve(options) as daemon:
                    await self.fire_each(daemon.parts)
            except StartError as error:
                self.error = CommandError(Exit.UNAVAILABLE, f"hooks cannot be run here: {error}")
            nursery.cancel_scope.cancel()

    async def report_progress(self) -> None:
        """Report after one second, then after two, four, …; until cancelled."""
        import trio

        wait = FIRST_WORD
        while True:
            await trio.sleep(wait)
            count = counted(len(self._cases), "case")
            output.complain(f"{len(self.results)} of {count} done, {self._doing} …")
            wait *= 2

    async def fire_each(self, parts: Parts) -> None:
        self.diagnostics = [str(diagnostic) for diagnostic in parts.files.diagnostics]
        try:
            for case in self._cases:
                check_case(case, parts)
        except CommandError as error:
            self.error = error
            return
        file = None
        for case in self._cases:
            self._doing = f"running {case.name!r}"
            if case.file != file:
                file = case.file
                parts.shared_state.clear()  # each file starts with empty state
            decision = await decide(case.params, parts)
            # Cases are independent: a hook that died in earlier ones must not be quarantined in this one.
            parts.breakers.clear()
            self.results.append(Result(case, decision, case.expected.differences(decision)))
            self._tell(self.results[-1])
        self._doing = "ending the workers"


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
    run = Run(cases, tell)
    with scratch_folder() as scratch:
        options = Options(
            config=config,
            runtime_dir=os.path.join(scratch, "run"),
            state_dir=os.path.join(scratch, "state"),
            owns_process=False,
        )
        fire_cases(run, options)
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


def fire_cases(run: Run, options: Options) -> None:
    import trio

    try:
        trio.run(run.fire_all, options)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:
            raise KeyboardInterrupt from None
        raise


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
    output.say(f"{mark}  {case.name}: {decision.verdict}{by}, {decision.duration_ms:.1f} ms")
    lines = [("place", case.place)] if result.differences else []
    lines += [("but", difference) for difference in result.differences]
    if result.differences:
        lines += [("reason", decision.reason or ""), ("warning", "\n".join(decision.warnings))]
        lines += [("asked", f"{one.layer}/{one.hook} {one.verdict or one.outcome}") for one in decision.outcomes]
    lines += [("note", failure) for failure in result.failures]
    for label, text in lines:
        if text:
            output.say(f"      {label:<8}{text}")


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
