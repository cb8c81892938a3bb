"""The command `test`: fire recorded payloads at the configured hooks, and compare each decision with the expected one.

A running daemon takes no part: its state is neither read nor changed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from hooklatch import paths
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.inputs import read_input
from hooklatch.cli.terminal.look import paint_text
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.testing.running import CaseResult, CaseRunner, run_with_daemon
from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.text import format_count

if TYPE_CHECKING:
    from hooklatch.cli.testing.cases import Case
    from hooklatch.cli.testing.coverage import HookCoverage, TestReport
    from hooklatch.client.protocol.decisions import Decision

__all__ = ["add_test", "read_cases", "print_case_result"]

DEFAULT_FILE = "policy-tests.toml"
MAX_FILE = 64 * 2**20  # bytes; payloads may be large


def add_test(parser: Parser) -> None:
    exits = (Exit.FINDINGS, Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.SOFTWARE, Exit.CANNOT_CREATE)
    parser.runs(run_test, example="hooklatch test policy-tests.toml --config hooks.toml", exits=exits)
    parser.prints("cli.testing.coverage:TestReport")
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help=f".toml, .jsonl, or - for JSON lines (default: {DEFAULT_FILE} beside the file of hooks)",
    )
    parser.add_argument(
        "--dialect", metavar="NAME", help="the dialect of events and payloads, for cases that name none"
    )
    parser.add_argument(
        "-k", dest="expression", metavar="EXPR", help="only cases whose words match: 'push and not tag'"
    )
    parser.add_argument("--junit", metavar="FILE", help="also write the results as JUnit XML")
    parser.add_argument("--coverage", action="store_true", help="list hooks that no case has seen deny, or pass")
    parser.add_argument(
        "--fail-uncovered", action="store_true", help="--coverage, and exit with 1 if a hook lacks such a case"
    )
    parser.add_argument("--except", dest="excepted", metavar="ID", action="append", default=[],
                        help="a hook that may lack one; may be repeated")  # fmt: skip
    parser.add_argument(
        "--in-process", action="store_true", help="run Python hooks at this terminal, without time limits"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each case that passes too")
    parser.set_defaults(warns=True)  # `guards test` has one guard of a folder, and the others would be strangers there
    parser.add_argument("--pdb", action="store_true", help="with --in-process: a debugger where a hook raises")


def run_test(arguments: argparse.Namespace) -> int:
    config = os.path.abspath(paths.find_config_file(arguments.config, os.environ))
    folder = os.path.dirname(config)
    check_arguments(arguments)
    if not os.path.exists(config) and not os.path.isdir(os.path.join(folder, "hooks.d")):
        raise CommandError(Exit.NO_INPUT, f"{config} does not exist; name the file of hooks with --config")
    files = arguments.files or [find_default_file(folder)]
    cases = select_cases([case for name in files for case in read_cases(name)], arguments)
    show = partial(print_case_result, is_verbose=arguments.verbose)
    report: Callable[[CaseResult], None] = (lambda _: None) if arguments.json else show
    opener = make_dispatcher_opener(arguments) if arguments.in_process else None
    run = CaseRunner(cases, report, open_dispatcher=opener)
    run_with_daemon(run.fire_all, config)
    for diagnostic in run.diagnostics:
        output.print_error(f"wrong with the hooks: {diagnostic}")
    for warning in run.warnings if arguments.warns else ():
        output.print_error(f"warning: {warning}")
    if arguments.junit is not None:
        write_junit(arguments.junit, run)
    if run.error is not None:
        raise run.error
    if len(run.results) < len(cases):
        raise CommandError(Exit.SOFTWARE, f"only {len(run.results)} of {format_count(len(cases), 'case')} were run")
    coverages = measure_coverage(run) if arguments.coverage or arguments.fail_uncovered else None
    if arguments.json:
        output.say_json(describe_run(run, coverages))
    else:
        wrong = ", and the hooks do not load as they should" if run.diagnostics else ""
        if coverages is not None:
            show_coverage(coverages)
        files = dict.fromkeys(result.case.file for result in run.results)
        for file in files:
            of_file = [result for result in run.results if result.case.file == file]
            failed = sum(bool(result.differences) for result in of_file)
            output.print_line(f"{look.shorten_path(file)}: ", format_sum(len(of_file), failed, wrong))
        if len(files) != 1:
            output.print_line(format_sum(len(run.results), run.failed, wrong))
    lacking = [hook for hook in coverages or [] if hook.missing and not is_excepted(hook, arguments.excepted)]
    is_uncovered = arguments.fail_uncovered and bool(lacking)
    return Exit.FINDINGS if run.failed or run.diagnostics or is_uncovered else Exit.OK


def find_default_file(folder: str) -> str:
    if os.path.exists(path := os.path.join(folder, DEFAULT_FILE)):
        return path
    make = "make some of what was decided: hooklatch record cases, then: hooklatch test cases.jsonl"
    text = f"there is no {path}; {make}; or test the guards of the gallery: hooklatch guards test"
    raise CommandError(Exit.NO_INPUT, text)


def format_sum(count: int, failed: int, wrong: str) -> str:
    return f"{format_count(count, 'case')}, {count - failed} passed, {failed} failed{wrong}"


def check_arguments(arguments: argparse.Namespace) -> None:
    if arguments.pdb and not arguments.in_process:
        raise CommandError(Exit.USAGE, "a debugger needs the hooks in this process: --in-process --pdb")
    if arguments.pdb and "-" in arguments.files:
        raise CommandError(Exit.USAGE, "with --pdb standard input is yours; write the cases to a file")


def select_cases(cases: list[Case], arguments: argparse.Namespace) -> list[Case]:
    """Return the cases that are to run, each with its dialect."""
    if arguments.dialect is not None:
        cases = [case.in_dialect(arguments.dialect) for case in cases]
    if arguments.expression is None:
        return cases
    from hooklatch.cli.testing.cases import ExpressionError, parse_selection

    try:
        matches = parse_selection(arguments.expression)
    except ExpressionError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    selected = [
        case for case in cases if matches(f"{case.name} {case.params.event} {case.file} {case.expected.hook or ''}")
    ]
    if not selected:
        raise CommandError(
            Exit.NO_INPUT, f"none of {format_count(len(cases), 'case')} matches -k {arguments.expression!r}"
        )
    return selected


def make_dispatcher_opener(arguments: argparse.Namespace) -> Callable[..., Any]:
    from hooklatch.cli.testing.in_process import open_in_process_dispatcher

    stdout = sys.stderr.fileno() if arguments.json else None  # the report is alone on standard output
    return partial(open_in_process_dispatcher, is_debugging=arguments.pdb, stdout=stdout)


def write_junit(path: str, run: CaseRunner) -> None:
    from hooklatch.cli.testing.coverage import format_junit

    try:
        with open(path, "wb") as file:
            file.write(format_junit(run.results, run.diagnostics))
    except OSError as error:
        raise CommandError(Exit.CANNOT_CREATE, f"{path} cannot be written: {error.strerror}") from None


def measure_coverage(run: CaseRunner) -> list[HookCoverage]:
    from hooklatch.cli.testing.coverage import CaseObservation, cover_hooks

    if run.catalogue is None:
        return []
    return cover_hooks(
        run.active, [CaseObservation(result.decision, result.matched) for result in run.results], run.catalogue
    )


def show_coverage(coverages: list[HookCoverage]) -> None:
    rows = [
        [
            paint_text("LACKS" if hook.missing else "ok", "bad" if hook.missing else "good"), hook.hook, hook.event,
            hook.called,
            hook.objected, hook.passed, hook.changed, ", ".join(hook.missing) or None,
        ]
        for hook in coverages
    ]  # fmt: skip
    output.print_line()
    output.say_table(["", "hook", "event", "called", "denied", "passed", "changed", "missing"], rows)
    output.print_line()


def is_excepted(coverage: HookCoverage, excepted: list[str]) -> bool:
    return coverage.hook in excepted or coverage.hook.partition("/")[2] in excepted


def read_cases(name: str) -> list[Case]:
    from hooklatch.cli.testing.cases import read_cases

    if name == "-":
        return read_cases("standard input", read_input(name), os.getcwd())
    if not name.endswith((".toml", ".jsonl")):
        raise CommandError(Exit.USAGE, f"{name}: a file of cases is named .toml or .jsonl")
    data = read_input(name, "the cases ", limit=MAX_FILE)
    if len(data) > MAX_FILE:
        raise CommandError(Exit.BAD_DATA, f"{name} is over {MAX_FILE // 2**20} MiB; put payloads into payload_file")
    return read_cases(name, data, os.path.dirname(os.path.abspath(name)))


def print_case_result(result: CaseResult, *, is_verbose: bool) -> None:
    """Print the result of a case: of a failure with the differences and what its hooks printed, of a pass if wanted."""
    if not is_verbose and not result.differences:
        return
    from hooklatch.testing.results import list_printed_output

    decision, case = result.decision, result.case
    by = f" by {read_full_name(decision.layer, decision.hook, decision.name)}" if decision.hook else ""
    mark = paint_text("FAIL", "bad") if result.differences else paint_text("pass", "good")
    output.print_line(mark, f"  {case.name}: {decision.verdict}{by}, {decision.duration_ms:.1f} ms")
    lines = [("place", case.place)] if result.differences else []
    lines += [("but", difference) for difference in result.differences]
    if result.differences:
        lines += [("reason", decision.reason or ""), ("warning", "\n".join(decision.warnings))]
        for outcome in decision.outcomes:
            lines += [
                (
                    "asked",
                    f"{read_full_name(outcome.layer, outcome.hook, outcome.name)} {outcome.verdict or outcome.outcome}",
                ),
                *list_printed_output(outcome),
            ]
    lines += [("note", failure) for failure in result.failures]
    for label, text in lines:
        for number, line in enumerate(text.splitlines()):
            output.print_line(f"      {'' if number else label:<8}{line}")


def describe_run(run: CaseRunner, coverages: list[HookCoverage] | None) -> TestReport:
    report: TestReport = {
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
                "decision": cast("Decision", result.decision),  # as a reader of the line has it
            }
            for result in run.results
        ],
    }
    if coverages is not None:
        report["coverage"] = coverages
    return report
