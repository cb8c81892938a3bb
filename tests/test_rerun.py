"""What `make test` makes of a failure, and `make flaky` of a test: on small suites of their own, with a real pytest.

Slow: each test runs pytest once or twice, in processes of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.repository import ROOT

pytestmark = pytest.mark.slow
SUPPORT = ROOT / "tests" / "support"
OPEN = """
import os, pathlib, pytest
def first(name):
    mark = pathlib.Path(name)
    is_first = not mark.exists()
    mark.touch()
    return is_first
def test_sound(): pass
@pytest.mark.skip(reason="not here")
def test_skipped(): pass
"""
ONCE = 'def test_once_{0}(): assert not first("{0}"), "number {0} was first"\n'
BROKEN = 'def test_broken(): assert False, "as ever"\n'
TORN = """
@pytest.fixture
def thing():
    yield
    assert not first("torn"), "a child was left"
def test_torn(thing): pass
"""
CRASHING = "def test_crashing(): os._exit(3)\n"


def judged(folder: Path, text: str, *arguments: str, script: str = "rerun.py") -> tuple[int, list[str]]:
    """Return the exit code for a suite of this text, and the lines that were printed."""
    (folder / "test_it.py").write_text(OPEN + text)
    done = subprocess.run(
        [sys.executable, str(SUPPORT / script), *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
    )  # fmt: skip
    assert done.stderr == "", done.stderr
    return done.returncode, done.stdout.splitlines()


def closing(lines: list[str]) -> str:
    return lines[-1].strip("= ")


@pytest.mark.parametrize("text", ["import nothing_like_that", "assert not 1, 'half of it'"])
def test_processes_that_are_forked_run_what_there_is_and_tell_of_a_file_that_cannot_be_imported(
    tmp_path: Path, text: str
) -> None:
    imports = "import os; (pathlib := __import__('pathlib')).Path(f'imported-{os.getpid()}').touch()\n"
    asks = "def test_it_is_a_fork(): assert 'forked_workers' in __import__('sys').modules\n"
    (tmp_path / "test_broken.py").write_text(f"def test_whole(): pass\n{text}\ndef test_gone(): pass\n")

    sound = judged(tmp_path, imports + asks, "-p", "xdist", "-n", "2", "test_it.py")
    code, lines = judged(tmp_path, imports + asks, "-p", "xdist", "-n", "2")

    assert (sound[0], closing(sound[1]).partition(" in ")[0]) == (0, "2 passed, 1 skipped")
    assert len(list(tmp_path.glob("imported-*"))) == 2, "one process imports for all of a run"
    assert code == 1
    assert any(line.startswith("ERROR test_broken.py") for line in lines), lines


def test_what_passes_alone_is_listed_by_name_with_the_text_of_its_failure(tmp_path: Path) -> None:
    code, lines = judged(tmp_path, ONCE.format(1) + TORN)

    assert code == 0
    assert closing(lines) == "3 passed, 1 skipped, 2 flaky"
    listed = lines[lines.index("FLAKY test_it.py::test_once_1") :]
    assert "number 1 was first" in listed[1]
    assert "a child was left" in listed[listed.index("FLAKY test_it.py::test_torn") + 1]
    assert sum("test session starts" in line for line in lines) == 2


def test_a_run_without_a_failure_ends_as_pytest_does(tmp_path: Path) -> None:
    code, lines = judged(tmp_path, "")

    assert code == 0
    assert closing(lines).startswith("1 passed, 1 skipped in ")


def test_what_fails_twice_is_red_beside_what_is_flaky(tmp_path: Path) -> None:
    code, lines = judged(tmp_path, BROKEN + ONCE.format(1))

    assert code == 1
    assert "FLAKY test_it.py::test_once_1" in lines
    assert "FLAKY test_it.py::test_broken" not in lines
    assert closing(lines) == "1 failed, 2 passed, 1 skipped, 1 flaky"


def test_more_than_three_that_are_flaky_are_red(tmp_path: Path) -> None:
    code, lines = judged(tmp_path, "".join(ONCE.format(number) for number in range(4)))

    assert code == 1
    assert sum(line.startswith("FLAKY ") for line in lines) == 4
    assert closing(lines) == "4 failed, 1 passed, 1 skipped"


@pytest.mark.parametrize(
    ("text", "arguments", "reason", "end"),
    [
        pytest.param(
            CRASHING + ONCE.format(1), ["-p", "xdist.plugin", "-n", "1"],
            "crashed while running 'test_it.py::test_crashing'", "1 failed, 1 passed, 1 skipped, 2 errors",
            id="a process crashed",
        ),
        pytest.param("import absent\n", [], "test_it.py cannot be collected", "0 passed, 1 error", id="no collection"),
        pytest.param(
            CRASHING, [], "pytest ended with 3 before it had any outcome", "0 passed, 1 error", id="pytest crashed"
        ),
        pytest.param(
            ONCE.format(1), ["-x"], "stopping after 1 failures", "1 failed, 1 passed, 1 skipped, 1 error", id="-x"
        ),
        pytest.param(
            "".join(ONCE.format(number) for number in range(21)), [], "over 20 tests failed",
            "21 failed, 1 passed, 1 skipped", id="too many",
        ),
    ],
)  # fmt: skip
def test_what_is_no_bad_luck_of_a_test_is_red_and_nothing_is_run_again(
    tmp_path: Path, text: str, arguments: list[str], reason: str, end: str
) -> None:
    code, lines = judged(tmp_path, text, *arguments)

    assert code == 1
    assert any(reason in line for line in lines)
    assert closing(lines) == end
    assert not any(line.startswith("FLAKY ") for line in lines)


def test_a_test_is_run_many_times_and_the_failures_are_counted(tmp_path: Path) -> None:
    code, lines = judged(
        tmp_path, ONCE.format(1), "test_it.py::test_once_1", "--times=3", "--at-once=1", script="flaky.py"
    )

    assert code == 1
    assert lines[0] == "FAILED test_it.py::test_once_1"
    assert "number 1 was first" in lines[1]
    assert lines[-1] == "1 failed, 2 passed"


def test_a_name_that_no_test_has_fails_each_time(tmp_path: Path) -> None:
    code, lines = judged(tmp_path, "", "test_it.py::test_absent", "--times=1", script="flaky.py")

    assert code == 1
    assert lines == [
        "FAILED pytest ended with 4: `python -m pytest test_it.py::test_absent` shows why",
        "1 failed, 0 passed",
    ]
