"""Has each system call of the daemon fail in turn, and judges each life; ends with 1 if one broke a rule.

    make system-calls        or        python tests/chaos/system_calls/night.py [--only TEXT] [--first] [--page]

A life without a fault lists the places.  Then each place and each error has a life of its own, two at a time.  What
came of them is in bench/results/system_calls.json.  `--only` takes the lives whose name contains the text, by which one
that broke a rule can be had again, `--first` the first of them for each text.  `--page` writes the page of the docs.
"""

from __future__ import annotations

import argparse
import errno
import multiprocessing
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

TESTS = Path(__file__).parent.parent.parent
sys.path.insert(0, str(TESTS))

# What `hooklatch serve` imports: each daemon is a fork of this process.
import hooklatch.cli.commands  # noqa: E402
import hooklatch.cli.daemon.serve  # noqa: E402
import hooklatch.service.daemon  # noqa: E402
import hooklatch.service.logs  # noqa: E402, F401
from chaos.system_calls.errors import NUMBERS  # noqa: E402
from chaos.system_calls.page import FaultReport, write_page  # noqa: E402
from chaos.system_calls.process import PHASES  # noqa: E402
from chaos.system_calls.session import LifeReport, live  # noqa: E402
from chaos.system_calls.tracer import Fault, explain_absence  # noqa: E402

RESULTS = TESTS.parent / "bench" / "results" / "system_calls.json"
AT_ONCE = 2
REPORTED = 50  # lives


def list_faults(texts: list[str], *, is_first: bool, has_one_error: bool) -> list[Fault]:
    """Return the faults of these names, in the order in which the calls come; with one error a place, each in its turn.

    Raises:
        RuntimeError: a life without a fault breaks a rule.
    """
    report = live(None)
    if report.violations:
        raise RuntimeError(f"a life without a fault broke rules: {report.violations}\n{report.log}")
    faults = [
        Fault(call.phase, call.number, call.place, error)
        for turn, (call, errors) in enumerate(report.calls)
        for error in (errors if not has_one_error else errors[turn % len(errors) :][:1])
    ]
    found = [[fault for fault in faults if text in name_fault(fault)] for text in texts]
    return [fault for those in found for fault in (those[:1] if is_first else those)]


def name_fault(fault: Fault) -> str:
    return f"{PHASES[fault.phase]} {NUMBERS[fault.number]} {errno.errorcode[fault.error]} {fault.place}"


def play(fault: Fault) -> FaultReport:
    try:
        report = live(fault)
    except Exception as error:  # nothing is known of this life, and the night goes on
        report = LifeReport(violations=[f"it could not be judged: {error!r}"])
    return FaultReport(
        PHASES[fault.phase], NUMBERS[fault.number], errno.errorcode[fault.error], fault.place, report.is_reached,
        report.effects, report.violations, report.seconds, report.log if report.violations else "",
    )  # fmt: skip


def say(*texts: str) -> None:
    sys.stdout.write("".join(f"{text}\n" for text in texts))
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT")
    parser.add_argument("--first", action="store_true")
    parser.add_argument(
        "--one-error", action="store_true", help="each place fails with one of its errors, not with all"
    )
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--without-guard", action="store_true", help="to see that a guard that refuses nothing is seen")
    parser.add_argument("--results", default=str(RESULTS), metavar="FILE")
    arguments = parser.parse_args()
    if absence := explain_absence():
        say(f"skipped: {absence}")
        return 0
    if arguments.without_guard:
        say(*(violations := live(None, guards=()).violations))
        return 1 if violations else 0
    faults = list_faults(arguments.only, is_first=arguments.first, has_one_error=arguments.one_error)
    say(f"{len(faults)} faults")
    reports: list[FaultReport] = []
    with suppress(KeyboardInterrupt), multiprocessing.get_context("fork").Pool(AT_ONCE) as pool:
        for report in pool.imap_unordered(play, faults):
            reports.append(report)
            if len(reports) % REPORTED == 0:
                say(f"{len(reports)} lives")
            if report.violations:
                say(f"{report.name}: {report.effects}", *report.violations, report.log)
    Path(arguments.results).parent.mkdir(parents=True, exist_ok=True)
    Path(arguments.results).write_bytes(msgspec.json.format(msgspec.json.encode(reports), indent=1))
    if arguments.page:
        write_page(reports)
    broken = sum(bool(report.violations) for report in reports)
    missed = sum(not report.is_reached for report in reports)
    say(f"{len(reports)} lives, {broken} broke a rule, {missed} did not come to their place")
    return 1 if broken or not reports else 0


if __name__ == "__main__":
    sys.exit(main())
