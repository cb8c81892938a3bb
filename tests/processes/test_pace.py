"""The pace of a pool: the median duration of its calls."""

from __future__ import annotations

from hooklatch.processes.queueing import SAMPLES, CallQueue


def test_a_pace_is_not_known_from_few_calls_and_a_few_slow_ones_do_not_move_it() -> None:
    queue = CallQueue({}, workers=2, capacity=2)
    queue.latest_seconds.extend([1.0] * (SAMPLES - 1))
    assert queue.pace == 0

    queue.latest_seconds.append(1.0)
    assert queue.pace == 1.0

    queue.latest_seconds.extend(600.0 if number % 4 == 0 else 0.25 for number in range(SAMPLES))
    assert queue.pace == 0.25
