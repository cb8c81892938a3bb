"""When a silent daemon is asked for a sign of life, and when it counts as gone."""

from __future__ import annotations

from math import inf

import pytest

from hooklatch.client.protocol.announcements import Announcement, AnnouncementQueue
from hooklatch.client.protocol.liveness import Heartbeat, Liveness, compute_backoff


@pytest.fixture
def pulse() -> Heartbeat:
    return Heartbeat(Liveness(interval=1.0, misses=5))


def test_nobody_waits_so_nothing_is_due(pulse: Heartbeat) -> None:
    pulse.heard(100.0)

    assert pulse.due == inf


def test_silence_is_pinged_each_second_and_dead_after_five(pulse: Heartbeat) -> None:
    pulse.begin(0.0)

    assert [pulse.check(now) for now in (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)] == ["fine", *["ping"] * 4, "dead"]


def test_a_byte_begins_the_count_again(pulse: Heartbeat) -> None:
    pulse.begin(0.0)
    for now in (1.0, 2.0, 3.0, 4.0):
        pulse.check(now)

    pulse.heard(4.5)

    assert pulse.check(5.4) == "fine"
    assert pulse.check(5.5) == "ping"


def test_a_client_that_was_suspended_asks_before_it_gives_up(pulse: Heartbeat) -> None:
    pulse.begin(0.0)

    assert pulse.check(3600.0) == "ping"


def test_a_second_request_does_not_put_the_check_off(pulse: Heartbeat) -> None:
    pulse.begin(0.0)
    pulse.begin(0.9)
    pulse.finish()

    assert pulse.check(1.0) == "ping"


def test_the_last_answer_ends_the_watch(pulse: Heartbeat) -> None:
    pulse.begin(0.0)
    pulse.finish()

    assert pulse.due == inf


def test_attempts_come_ever_more_rarely_up_to_five_seconds() -> None:
    delays = [compute_backoff(attempt, 0.0) for attempt in range(9)]

    assert delays == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert compute_backoff(10_000, 1.0) == 2.5


def test_a_listener_that_falls_behind_is_told_to_look_again() -> None:
    inbox = AnnouncementQueue(lambda: None, capacity=2)

    for revision in (1, 2, 3):
        inbox.put(Announcement(topic="registry", revision=revision))

    assert inbox.take() == Announcement(topic="registry", resync=3)
    assert inbox.take() is None
