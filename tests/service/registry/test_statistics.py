"""Figures are appended and added up later: whoever reads one finds everything that had happened by then."""

import pytest

from hooklatch.core.messages import CallOutcome
from hooklatch.service.registry.statistics import TOGETHER, Fires, Statistics
from support.plays import hook

COUNTS = (0, 1, TOGETHER - 1, TOGETHER, TOGETHER + 1, 3 * TOGETHER + 7)
GUARD = hook("guard")


def fire(statistics: Statistics, event: str, fires: Fires | None = None) -> None:
    """Count a fire as the dispatcher does."""
    statistics.fired.append((event, fires, 0.0))
    if len(statistics.fired) >= TOGETHER:
        statistics.add_up()


def counted(count: int) -> Statistics:
    """Return the statistics after so many fires of one call each."""
    statistics = Statistics()
    for _ in range(count):
        fire(statistics, "pre_tool_use")
        statistics.calls.append((GUARD, "crash", 2.0))
        statistics.decided.append(("pre_tool_use", "deny", "crash", 3.0))
    return statistics


@pytest.mark.parametrize("count", COUNTS)
def test_a_figure_is_exact_whenever_it_is_read(count: int) -> None:
    assert counted(count).decisions.get(("pre_tool_use", "deny", "crash"), 0) == count
    assert counted(count).verdicts["deny"] == counted(count).causes["crash"] == count
    assert counted(count).count_all() == counted(count).event("pre_tool_use").fired == count
    assert counted(count).event("pre_tool_use").timings["count"] == count
    assert sum(record.count for record in counted(count).event_statistics.values()) == count
    assert counted(count).events().keys() == ({"pre_tool_use"} if count else set())

    calls = counted(count).timings(GUARD.name)

    assert (calls["count"], calls["failures"]) == (count, {"crash": count} if count else {})


def test_figures_that_are_read_between_fires_count_each_once() -> None:
    statistics, fires = Statistics(), Fires()

    for number in range(1, 600):
        fire(statistics, "stop", fires)
        statistics.calls.append((GUARD, "policy", 1.0))
        statistics.decided.append(("stop", "pass", None, 0.0))
        if number % 7 == 0:
            assert statistics.decisions == {("stop", "pass", "none"): number}
            assert statistics.timings(GUARD.name)["count"] == number
            assert statistics.event_of(fires, "stop").fired == statistics.count_all(fires) == number


def test_calls_of_fires_that_are_never_decided_do_not_pile_up() -> None:
    statistics = Statistics()

    for _ in range(10 * TOGETHER):
        fire(statistics, "pre_tool_use")
        statistics.calls.append((GUARD, "policy", 1.0))
        statistics.abandoned += 1

    assert len(statistics.calls) <= TOGETHER >= len(statistics.fired)
    assert statistics.timings(GUARD.name)["count"] == 10 * TOGETHER


def test_a_success_that_is_not_added_up_yet_ends_a_streak_of_failures() -> None:
    statistics = Statistics()

    def called(cause: str) -> None:
        outcome = CallOutcome(cause="policy" if cause == "policy" else "crash")
        statistics.calls.append((GUARD, outcome.cause, 1.0))
        if cause != "policy":
            statistics.failures.note_failure(
                GUARD, outcome, decision_id="d", event="stop", subject="stop", session=None
            )

    for _ in range(4):
        called("crash")
    called("policy")
    called("crash")
    assert statistics.failures.find_failing([GUARD]) == []

    for _ in range(4):
        called("crash")
    assert [(one["hook"], one["count"]) for one in statistics.failures.find_failing([GUARD])] == [(GUARD.name, 5)]

    called("policy")
    assert statistics.failures.find_failing([GUARD]) == []


def test_what_a_session_had_called_is_forgotten_with_it() -> None:
    statistics, own = Statistics(), hook("own", owner="s1")
    statistics.calls += [(own, "policy", 1.0), (GUARD, "policy", 1.0)]

    statistics.forget("s1")

    assert (statistics.timings(own.name, "s1")["count"], statistics.timings(GUARD.name)["count"]) == (0, 1)
