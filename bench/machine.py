"""Shared by all benchmarks: a description of the machine, summaries of series, and the results folder."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec

__all__ = ["ROOT", "Summary", "describe", "save", "summary"]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


class Summary(msgspec.Struct, frozen=True):
    """A series of milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float
    best_ms: float
    worst_ms: float


def summary(series: Sequence[float]) -> Summary:
    ordered = sorted(series)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return Summary(len(ordered), statistics.median(ordered), p99, ordered[0], ordered[-1])


def describe() -> dict[str, object]:
    """Return the machine and its load: a load near the number of cores makes all results worse."""
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "trio": version("trio"),
        "msgspec": version("msgspec"),
        "load_before": round(os.getloadavg()[0], 2),
    }


def save(name: str, record: dict[str, object]) -> Path:
    """Write one run's record to bench/results/, replacing the previous one."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    return path
