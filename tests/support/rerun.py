"""Runs the tests, and what failed once more, alone: what passes then is flaky, and is listed by name.

A test that fails once in a thousand runs is a mistake, but not of the change that met it.  Up to `MOST` of them are
listed at the end, each with the text of its failure, and the run is green.  Red are more of them, a test that fails
again, and all that is no failure of a test: a process that crashed, a file that cannot be collected, an interrupt.

Run: python tests/support/rerun.py [ARGUMENTS OF PYTEST]; `make test` does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from forked_workers import ForkedWorkers

__all__ = ["Failure", "Run", "run"]

MOST = 3  # flaky tests of a run that is green
MOST_AGAIN = 20  # failures that are run again: more of them are no bad luck
LINES = 12  # of a failure's text
OUTCOMES = "--outcomes"
MEMORY = Path("/dev/shm")
ROOM = 2 * 2**30  # bytes that must be free there: a run takes some 300 MiB, which the next one gives back
CRASHED = "???"  # what pytest-xdist calls the phase of a test whose process is gone


class Failure(NamedTuple):
    test: str
    text: str


class Run(NamedTuple):
    """The outcomes of one run of pytest; `code` is its exit code."""

    code: int
    passed: list[str]
    skipped: int
    failures: list[Failure]  # one for each test that failed, of the first phase that did
    errors: list[str]  # what went wrong that is no failure of a test


class Outcomes:
    """A plugin of pytest that writes the outcomes of the tests to a file, as the fields of a `Run`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._passed: list[str] = []
        self._skipped: list[str] = []
        self._failures: dict[str, str] = {}
        self._errors: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == CRASHED:
            self._errors.append(str(report.longrepr))
        elif report.failed:
            self._failures.setdefault(report.nodeid, text_of(report))
        elif report.skipped:
            self._skipped.append(report.nodeid)
        elif report.when == "call":
            self._passed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._errors.append(f"{report.nodeid} cannot be collected")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error:
            self._errors.append(f"process {node.gateway.id} of the tests ended: {error}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if stopped := session.shouldstop or session.shouldfail:
            self._errors.append(str(stopped))
        passed = [test for test in self._passed if test not in self._failures]  # else it failed when it was torn down
        found = (passed, len(self._skipped), list(self._failures.items()), self._errors)
        Path(self._path).write_text(json.dumps(found))


def text_of(report: pytest.TestReport) -> str:
    """Return where a test failed, and the first lines of why."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = f"{crash.path}:{crash.lineno}: {crash.message}" if crash else report.longreprtext
    return "\n".join(text.splitlines()[:LINES])


def temporary_folder() -> str:
    """Return where the tests put their files: in memory, since each of some thousand daemons syncs ten times.

    Else the usual folder: if the user has chosen one, or what is in memory may not be run or is too little.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK | os.X_OK):
        return tempfile.gettempdir()
    disk = os.statvfs(MEMORY)
    is_fit = not disk.f_flag & os.ST_NOEXEC and disk.f_bavail * disk.f_frsize >= ROOM
    return os.fspath(MEMORY) if is_fit else tempfile.gettempdir()


def run(arguments: Sequence[str], **options: Any) -> Run:
    """Run pytest in a process of its own; `options` are those of `subprocess.Popen`."""
    # A folder for this run alone, which goes with it: what is in memory would stay there, and another run may clean up.
    with tempfile.TemporaryDirectory(prefix="t-", dir=temporary_folder(), ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)  # some tests are about other users, who have folders of their own below it
        path = Path(folder, "outcomes.json")
        command = [sys.executable, __file__, OUTCOMES, os.fspath(path), f"--basetemp={folder}/p", *arguments]
        process = subprocess.Popen(command, **{"env": {**os.environ, "TMPDIR": folder}, **options})
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:  # it has that too: it prints what it has found, and ends
                continue
        if not path.exists():
            return Run(code, [], 0, [], [f"pytest ended with {code} before it had any outcome"])
        passed, skipped, failures, errors = json.loads(path.read_bytes())
    if not errors and code != (pytest.ExitCode.TESTS_FAILED if failures else pytest.ExitCode.OK):
        errors = [f"pytest ended with {code}"]
    return Run(code, passed, skipped, [Failure(*one) for one in failures], errors)


def judge(arguments: Sequence[str]) -> int:
    """Run the tests, and again those that failed; return the exit code of both."""
    first = run(arguments)
    if first.errors:
        for error in first.errors:
            print(error)
        return closing(first, "nothing is run again, as more went wrong than tests")
    if not first.failures:
        return 0
    if len(first.failures) > MOST_AGAIN:
        return closing(first, f"nothing is run again: over {MOST_AGAIN} tests failed")
    title(f"{len(first.failures)} failed: once more, alone")
    again = run(["-p", "no:xdist", *(failure.test for failure in first.failures)])
    flaky = [failure for failure in first.failures if not again.errors and failure.test in again.passed]
    title(f"flaky: {len(flaky)}, up to {MOST} may be; `make flaky TEST=...` runs one 50 times")
    for failure in flaky:
        print(f"FLAKY {failure.test}", *failure.text.splitlines(), sep="\n    ")
    return closing(first, "", flaky if len(flaky) <= MOST else ())


def closing(first: Run, reason: str, flaky: Sequence[Failure] = ()) -> int:
    """Print a line for both runs, in the form of pytest's last one; return the exit code."""
    if reason:
        title(reason)
    failed = len(first.failures) - len(flaky)
    counts = {
        "failed": failed,
        "passed": len(first.passed) + len(flaky),
        "skipped": first.skipped,
        "error" if len(first.errors) == 1 else "errors": len(first.errors),
        "flaky": len(flaky),
    }
    title(", ".join(f"{count} {name}" for name, count in counts.items() if count or name == "passed"))
    return int(failed > 0 or bool(first.errors))


def title(text: str) -> None:
    print(f" {text} ".center(100, "="), flush=True)


def be_pytest(path: str, arguments: Sequence[str]) -> int:
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    return int(pytest.main([*arguments], plugins=[Outcomes(path), ForkedWorkers()]))


if __name__ == "__main__":
    sys.exit(be_pytest(sys.argv[2], sys.argv[3:]) if sys.argv[1:2] == [OUTCOMES] else judge(sys.argv[1:]))
