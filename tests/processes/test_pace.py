"""The pace of a pool: the median duration of its calls."""

from __future__ import annotations

from hooklatch.processes.queueing import SAMPLES, MedianDuration


def test_a_pace_is_not_known_from_few_calls_and_a_few_slow_ones_do_not_move_it() -> None:
    pace = MedianDuration()
    for _ in range(SAMPLES - 1):
        pace.add(1.0)
    assert pace.median == 0

    pace.add(1.0)
    assert pace.median == 1.0

    for number in range(SAMPLES):
        pace.add(600.0 if number % 4 == 0 else 0.25)
    assert pace.median == 0.25
