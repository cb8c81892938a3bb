"""Has each system call of the daemon fail in turn, and judges each life; ends with 1 if one broke a rule.

    make system-calls        or        python tests/chaos/system_calls/night.py [--only TEXT] [--sample N]

A life without a fault lists the places.  Then each place and each error has a life of its own, two at a time.  Writes
what came of them to bench/results/system_calls.json, from which page.py makes docs/reference/system-calls.md.
`--only` takes the lives whose name contains the text, by which one that broke a rule can be had again.
"""

from __future__ import annotations

import argparse
import errno
import faulthandler
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import msgspec

TESTS = Path(__file__).parent.parent.parent
sys.path.insert(0, str(TESTS))

# What `hooklatch serve` imports: each daemon is a fork of this process.
import hooklatch.cli.commands  # noqa: E402
import hooklatch.cli.daemon.serve  # noqa: E402
import hooklatch.service.daemon  # noqa: E402, F401
import hooklatch.service.logs  # noqa: E402, F401
from chaos.system_calls.errors import NUMBERS, errors_of  # noqa: E402
from chaos.system_calls.session import PHASES, Outcome, live  # noqa: E402
from chaos.system_calls.tracer import Fault, explain_absence  # noqa: E402

__all__ = ["FaultReport", "RESULTS", "name_fault"]

RESULTS = TESTS.parent / "bench" / "results" / "system_calls.json"
AT_ONCE = 2
faulthandler.register(signal.SIGUSR1)


class FaultReport(msgspec.Struct, frozen=True):
    """One life, as it stands in the results."""

    phase: str
    call: str
    error: str
    place: str
    is_reached: bool
    effects: list[str]
    violations: list[str]
    seconds: float
    log: str = ""


def list_faults() -> list[Fault]:
    """Return every fault, in the order in which the calls come.

    Raises:
        RuntimeError: a life without a fault breaks a rule.
    """
    outcome = live(None, time.monotonic)
    if outcome.violations:
        raise RuntimeError(f"a life without a fault broke rules: {outcome.violations}\n{outcome.log}")
    return [
        Fault(call.phase, call.number, call.place, error) for call in outcome.calls for error in call.arguments
    ]


def name_fault(fault: Fault) -> str:
    return f"{PHASES[fault.phase]} {NUMBERS[fault.number]} {errno.errorcode[fault.error]} {fault.place}"


def play(fault: Fault) -> FaultReport:
    outcome: Outcome = live(fault, time.monotonic)
    return FaultReport(
        PHASES[fault.phase], NUMBERS[fault.number], errno.errorcode[fault.error], fault.place, outcome.is_reached,
        outcome.effects, outcome.violations, outcome.seconds, outcome.log if outcome.violations else "",
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="about so many, of all that there are")
    parser.add_argument("--results", default=str(RESULTS), metavar="FILE")
    arguments = parser.parse_args()
    if absence := explain_absence():
        print(f"skipped: {absence}")
        return 0
    faults = [fault for fault in list_faults() if arguments.only in name_fault(fault)]
    if arguments.sample:
        faults = faults[:: max(1, len(faults) // arguments.sample)]
    print(f"{len(faults)} faults", flush=True)
    reports: list[FaultReport] = []
    with multiprocessing.get_context("fork").Pool(AT_ONCE) as pool:
        for report in pool.imap_unordered(play, faults):
            reports.append(report)
            if report.violations or arguments.only:
                print(f"{report.phase} {report.call} {report.error} {report.place}: {report.effects}", flush=True)
                for violation in report.violations:
                    print(f"    {violation}", flush=True)
                if arguments.only:
                    print(report.log)
    broken = [report for report in reports if report.violations]
    missed = sum(not report.is_reached for report in reports)
    Path(arguments.results).write_bytes(msgspec.json.format(msgspec.json.encode(reports), indent=1))
    print(f"{len(reports)} lives, {len(broken)} broke a rule, {missed} did not reach their place")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
