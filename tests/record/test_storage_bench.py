"""The benchmarks of the record still run; no test asserts how fast anything is."""

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


@pytest.mark.slow
def test_the_price_of_a_record_is_measured_beside_a_bare_sha256_and_a_write() -> None:
    """Slow: it hashes some large payloads."""
    command = [sys.executable, str(BENCH / "record_price.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    found = json.loads((BENCH / "results" / "record_price_quick.json").read_bytes())
    assert len(found["results"]) == 5
    for one in found["results"]:
        assert {"bytes", "bare_p50_us", "before_p50_us", "after_p50_us", "denied_p50_us", "times_bare"} <= set(one)
