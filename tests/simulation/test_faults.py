"""Each fault of the catalogue can be put back: its old text stands in today's source, and the changed one compiles."""

from __future__ import annotations

import subprocess
import sys

import pytest

from simulation.faults import FAULTS, Fault
from support.repository import ROOT, TESTS


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_faults_text_is_there_once_and_the_changed_one_compiles(fault: Fault) -> None:
    fault.change()

    assert fault.old != fault.new
    assert fault.letter in "ABCDEFGH"
    assert fault.sentence.endswith(".")


def test_a_text_that_is_not_there_is_no_fault() -> None:
    fault = FAULTS["any_answer"]._replace(old="nobody wrote this")

    with pytest.raises(ValueError, match="has the text 0 times"):
        fault.change()


def test_an_installed_fault_is_in_the_module_that_is_imported_next() -> None:
    code = (
        "from simulation.faults import install; install('stale_view');"
        "from hooklatch.service.registry import registries; import inspect;"
        "print(registries.Registries._commit_global.__code__.co_names)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "_epoch" not in done.stdout
    assert "_revision" in done.stdout
