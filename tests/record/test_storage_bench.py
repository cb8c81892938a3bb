"""The measurement by which the record's storage was chosen runs; how fast anything is, no test asserts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.repository import ROOT

BENCH = ROOT / "bench"


@pytest.mark.slow
def test_files_and_sqlite_are_measured_side_by_side() -> None:
    """Slow: it writes some thousand records, and waits for the disk."""
    command = [sys.executable, str(BENCH / "record_storage.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    found = json.loads((BENCH / "results" / "record_storage_quick.json").read_bytes())
    assert set(found["results"]) == {"files", "sqlite, normal", "sqlite, full"}
    for one in found["results"].values():
        assert set(one) == {"append", "durable", "durable_a_second", "query", "bytes"}
    assert "durable a second" in done.stdout
