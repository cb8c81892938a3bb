"""The circuit breaker, row by row of its table, and the token bucket for forks."""

from collections.abc import Iterable

import pytest

from hooklatch.core.restarts import Breaker, BreakerState, ChildLifecycle, Restart, RestartPolicy, Restarts, TokenBucket
from support.tables import table


def breaker_after(deaths: Iterable[float]) -> Breaker:
    breaker = Breaker()
    for moment in deaths:
        breaker.record_death(moment)
    return breaker


@pytest.fixture
def opened() -> Breaker:
    """Quarantined at 100 s, to be probed at 101 s."""
    return breaker_after([100.0] * 6)


@pytest.fixture
def probing(opened: Breaker) -> Breaker:
    assert opened.permits(101.0)
    return opened


def test_five_deaths_in_the_period_do_not_quarantine() -> None:
    breaker = breaker_after([0.0, 1.0, 2.0, 3.0, 4.0])

    assert breaker.permits(4.0)
    assert not breaker.is_quarantined


def test_the_sixth_death_in_the_period_quarantines_and_says_so() -> None:
    breaker = breaker_after([0.0, 1.0, 2.0, 3.0, 4.0])

    assert breaker.record_death(29.9)
    assert breaker.is_quarantined
    assert breaker.until == 30.9


def test_a_death_that_is_a_period_old_counts_no_longer() -> None:
    breaker = breaker_after([0.0, 1.0, 2.0, 3.0, 4.0])

    assert not breaker.record_death(30.0)
    assert breaker.state is BreakerState.CLOSED


def test_answers_between_deaths_do_not_hide_them() -> None:
    breaker = Breaker()

    for moment in range(6):
        breaker.record_answer()
        breaker.record_death(float(moment))

    assert breaker.is_quarantined


def test_a_quarantined_hook_is_refused_until_its_probe(opened: Breaker) -> None:
    assert not opened.permits(100.999)
    assert opened.state is BreakerState.OPEN


def test_one_call_is_the_probe_and_others_are_refused_meanwhile(opened: Breaker) -> None:
    assert opened.permits(101.0)
    assert opened.state is BreakerState.PROBING
    assert not opened.permits(200.0)


def test_a_good_probe_closes_and_forgets_the_past(probing: Breaker) -> None:
    probing.record_answer()

    assert probing.permits(101.0)
    assert [probing.record_death(101.0 + i) for i in range(6)] == [False] * 5 + [True]
    assert probing.until == 107.0


def test_an_answer_of_an_earlier_call_does_not_lift_the_quarantine(opened: Breaker) -> None:
    opened.record_answer()

    assert opened.state is BreakerState.OPEN


def test_probes_come_after_1_2_4_and_so_on_up_to_60_seconds(opened: Breaker) -> None:
    waits = []
    for _ in range(9):
        moment = opened.until
        assert opened.permits(moment)
        assert opened.record_death(moment)
        waits.append(opened.until - moment)

    assert waits == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]


def test_late_deaths_do_not_put_the_probe_off(opened: Breaker) -> None:
    assert not opened.record_death(100.5)
    assert opened.permits(101.0)


def test_a_probe_that_ended_neither_way_is_followed_by_another(probing: Breaker) -> None:
    probing.end_probe(150.0)

    assert probing.state is BreakerState.OPEN
    assert probing.permits(150.0)


@pytest.mark.parametrize("is_probing", [True, False])
def test_a_reset_lifts_a_quarantine_at_once(opened: Breaker, is_probing: bool) -> None:
    if is_probing:
        opened.permits(101.0)

    opened.reset()

    assert opened.permits(100.0)
    assert not opened.is_quarantined


def test_a_quarantine_after_a_reset_begins_with_the_first_wait_again(probing: Breaker) -> None:
    probing.record_death(101.0)
    probing.reset()

    assert [probing.record_death(200.0) for _ in range(6)][-1]
    assert probing.until == 201.0


def test_nothing_but_a_probe_is_unresolved() -> None:
    breaker = Breaker()

    breaker.end_probe(5.0)

    assert breaker.state is BreakerState.CLOSED


def test_a_bucket_gives_its_burst_at_once_and_then_its_rate() -> None:
    bucket = TokenBucket(rate=2.0, burst=3)

    assert [bucket.take(10.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert bucket.take(10.25) == 0.25
    assert bucket.take(10.5) == 0.0
    assert bucket.take(10.5) == 0.5


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    bucket = TokenBucket(rate=2.0, burst=2)
    bucket.take(0.0)

    assert [bucket.take(1000.0) > 0 for _ in range(3)] == [False, False, True]


@table("rate", [0.3, 3.0, 7.0, 50.0])
@table("now", [0.1, 1234.567, 98765.4321])
def test_who_waits_as_long_as_a_bucket_says_gets_a_token(rate: float, now: float) -> None:
    bucket = TokenBucket(rate=rate, burst=1)
    bucket.take(now)

    for _ in range(100):
        now += bucket.take(now)
        assert bucket.take(now) == 0.0


# -- parts of the daemon -----------------------------------------------------------------------------------------

POLICY = RestartPolicy(intensity=2, period=10.0, waits=(0.0, 1.0, 60.0))


def life_of(restart: Restart = Restart.PERMANENT, *, is_significant: bool = False) -> ChildLifecycle:
    return ChildLifecycle(restart, Restarts(POLICY), 0.0, is_significant)


@table(
    ("restart", "is_significant", "fault", "then", "state"),
    [
        (Restart.PERMANENT, False, "bad", "restart", "waiting"),
        (Restart.PERMANENT, False, None, "restart", "waiting"),
        (Restart.TRANSIENT, False, "bad", "restart", "waiting"),
        (Restart.TRANSIENT, False, None, "end", "ended"),
        (Restart.TEMPORARY, False, "bad", "end", "ended"),
        (Restart.TEMPORARY, False, None, "end", "ended"),
        (Restart.PERMANENT, True, "bad", "escalate", "down"),
        (Restart.PERMANENT, True, None, "escalate", "down"),
        (Restart.TRANSIENT, True, None, "end", "ended"),
    ],
)
def test_what_an_end_calls_for(
    restart: Restart, is_significant: bool, fault: str | None, then: str, state: str
) -> None:
    life = life_of(restart, is_significant=is_significant)

    assert (life.record_end(1.0, fault), life.state) == (then, state)


def test_failures_within_the_period_have_growing_waits_and_too_many_the_longest() -> None:
    life, waits = life_of(), []
    for moment in (1.0, 2.0, 3.0, 4.0):
        life.record_end(moment, "bad")
        waits.append(life.not_before - moment)
        life.record_start(moment)

    assert waits == [0.0, 1.0, 60.0, 60.0]


def test_one_that_was_down_and_fails_again_soon_stays_down() -> None:
    life = life_of()
    for moment in (1.0, 2.0, 3.0):
        life.record_end(moment, "bad")
    life.record_start(63.0)
    life.record_end(64.0, "bad")

    assert (life.state, life.not_before) == ("down", 124.0)


def test_one_that_ran_for_a_period_has_no_past() -> None:
    life = life_of()
    for moment in (1.0, 2.0, 3.0):
        life.record_end(moment, "bad")
    life.record_start(63.0)
    life.record_end(73.0, "bad")

    assert (life.state, life.not_before) == ("waiting", 73.0)


def test_a_failure_is_told_until_it_has_run_for_a_period() -> None:
    life = life_of()
    assert life.explain(0.0) is None
    life.record_end(1.0, "bad")
    life.record_end(1.0, "bad")
    assert life.explain(1.5) == "bad; it is started again in 0.5 s"
    life.record_start(2.0)

    assert life.explain(11.9) == "bad; it was started again"
    assert life.explain(12.0) is None
