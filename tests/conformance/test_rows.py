"""The rows of the systems whose cases are fired in their own words: each case is there once, and is checked."""

from __future__ import annotations

from types import ModuleType

import pytest

from conformance.rows import beam, ethos, exathena
from conformance.runs import beam as beam_runs
from conformance.runs import ethos as ethos_runs
from conformance.runs import exathena as exathena_runs
from conformance.table import with_checks

SYSTEMS = [(beam, beam_runs), (ethos, ethos_runs), (exathena, exathena_runs)]


@pytest.mark.parametrize(("rows", "runs"), SYSTEMS, ids=["beam", "ethos", "exathena"])
def test_every_case_has_one_row_and_every_row_a_check(rows: ModuleType, runs: ModuleType) -> None:
    assert [row.id for row in rows.ROWS] == rows.IDS
    assert runs.check.ids == {row.id for row in with_checks(rows.ROWS)}
