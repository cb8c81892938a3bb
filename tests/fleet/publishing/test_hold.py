"""Whether a step of a rollout goes on, waits or stops: tables of what hosts report."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.fleet.manifests import DEFAULT_POLICY, PolicyHead
from hooklatch.fleet.publishing.rollout import (
    CanaryComparison,
    RolloutAction,
    StopThreshold,
    compare_hosts,
    format_missing_hosts,
    judge_rollout,
)
from hooklatch.fleet.reports import GateCounts, HostReport, ReportedPolicy
from support.publishers import history_of, report_of
from support.tables import table

NEW = history_of(("a", 100), ("b", 100)).entries[-1].manifest
CANARY = history_of(("a", 100), ("b", 30)).entries[-1].manifest
BOUND = StopThreshold(max_increase=0.02, min_decisions=50)
AT = PolicyHead(2, "0" * 64)


def seen(*reports: HostReport, before: tuple[HostReport, ...] = ()) -> CanaryComparison:
    assert NEW is not None
    return compare_hosts(NEW, {one.host: one for one in before}, {one.host: one for one in reports})


@table(
    ("on", "off", "expected"),
    [
        ((100, {}), (100, {}), RolloutAction.GO_ON),
        ((50, {}), (0, {}), RolloutAction.GO_ON),
        ((100, {"crash": 2}), (100, {}), RolloutAction.GO_ON),
        ((100, {"crash": 3}), (100, {}), RolloutAction.STOP),
        ((100, {"timeout": 3}), (100, {}), RolloutAction.STOP),
        ((100, {"load": 3}), (0, {}), RolloutAction.STOP),
        ((100, {"quarantined": 3}), (100, {}), RolloutAction.STOP),
        ((100, {"protocol": 3}), (100, {}), RolloutAction.STOP),
        ((100, {"crash": 5}), (100, {"crash": 3}), RolloutAction.GO_ON),
        ((100, {"crash": 6}), (100, {"crash": 3}), RolloutAction.STOP),
        ((100, {"policy": 90, "overload": 5, "draining": 5}), (100, {}), RolloutAction.GO_ON),
        ((49, {}), (1000, {}), RolloutAction.WAIT),
        ((0, {}), (1000, {}), RolloutAction.WAIT),
        ((1, {"crash": 1}), (100, {}), RolloutAction.WAIT),
        ((2, {"crash": 2}), (100, {}), RolloutAction.STOP),  # more than 2 % of 50, whatever the other 48 are
    ],
)
def test_denials_of_broken_hooks_are_compared(
    on: tuple[int, Mapping[str, int]], off: tuple[int, Mapping[str, int]], expected: RolloutAction
) -> None:
    comparison = CanaryComparison(
        canary=("a",), baseline=("b",), canary_gates=GateCounts(1, *on), baseline_gates=GateCounts(1, *off)
    )

    assert judge_rollout(comparison, BOUND).action is expected


@table(
    ("on", "off", "expected"),
    [
        ((100, {"policy": 5}), (100, {}), RolloutAction.GO_ON),
        ((100, {"policy": 6}), (100, {}), RolloutAction.STOP),
        ((100, {"policy": 4, "overload": 2}), (100, {}), RolloutAction.STOP),
        ((100, {"policy": 12}), (100, {"policy": 7}), RolloutAction.GO_ON),
        ((100, {"policy": 13}), (100, {"policy": 7}), RolloutAction.STOP),
        ((2, {"policy": 2}), (100, {}), RolloutAction.WAIT),
        ((3, {"policy": 3}), (100, {}), RolloutAction.STOP),  # more than 5 % of 50, whatever the other 47 are
    ],
)
def test_all_denials_are_compared_if_that_is_wanted(
    on: tuple[int, Mapping[str, int]], off: tuple[int, Mapping[str, int]], expected: RolloutAction
) -> None:
    comparison = CanaryComparison(
        canary=("a",), baseline=("b",), canary_gates=GateCounts(1, *on), baseline_gates=GateCounts(1, *off)
    )
    bound = StopThreshold(0.02, 50, max_denied_increase=0.05)

    assert judge_rollout(comparison, bound).action is expected


def test_hosts_are_on_it_by_the_bundle_that_is_in_force() -> None:
    comparison = seen(
        report_of("a", "b", 10, {"crash": 1}, head=AT),
        report_of("b", "b", 20, head=PolicyHead(1, "0" * 64)),  # the same bundle by an older version
        report_of("c", "a", 30, head=AT),
        report_of("d", "a", 40, head=AT, problem="the bundle does not load"),
        report_of("e", "a", 50, problem="something else", head=PolicyHead(1, "0" * 64)),
    )

    assert comparison.canary == ("a", "b")
    assert comparison.canary_gates == GateCounts(0, 30, {"crash": 1})
    assert comparison.missing == ("c", "e")
    assert comparison.refusing == (("d", "the bundle does not load"),)


def test_hosts_outside_the_rollout_are_what_it_is_compared_with() -> None:
    assert CANARY is not None
    inside = [host for host in "abcdefgh" if CANARY.rollout.includes(host, ())]

    comparison = compare_hosts(
        CANARY, {}, {host: report_of(host, "a", 10, {"load": 1}, head=AT) for host in "abcdefgh"}
    )

    assert list(comparison.missing) == inside
    assert comparison.baseline_gates == GateCounts(0, 10 * (8 - len(inside)), {"load": 8 - len(inside)})


def test_only_what_was_counted_since_the_rollout_began_counts() -> None:
    comparison = seen(
        report_of("a", "b", 100, {"crash": 7}, head=AT),
        report_of("b", "b", 30, {"crash": 2}, since=900, head=AT),
        before=(report_of("a", "b", 60, {"crash": 7}), report_of("b", "b", 500, {"crash": 1}, since=1)),
    )

    assert comparison.canary_gates == GateCounts(0, 70, {"crash": 2})


def test_a_host_that_has_just_got_it_brings_no_counts_of_the_bundle_before() -> None:
    comparison = seen(
        report_of("a", "b", 60, {"crash": 1}, since=1, head=AT),
        before=(report_of("a", "a", 50, {"crash": 1}, since=1),),
    )

    assert comparison.canary_gates == GateCounts(0, 60, {"crash": 1})


def test_a_busy_host_does_not_hide_one_that_denies_everything() -> None:
    judgement = judge_rollout(
        seen(
            report_of("ci-1", "b", 100_000, head=AT),
            report_of("laptop-1", "b", 9, {"load": 5, "policy": 1}, head=AT),
            report_of("laptop-2", "a", 10_000, head=AT),
        ),
        BOUND,
    )

    assert judgement.action is RolloutAction.STOP
    assert judgement.reason.startswith("on the host laptop-1 most is denied because a hook is broken: 5 of 9")


def test_a_host_that_was_broken_before_is_not_held_against_the_version() -> None:
    comparison = seen(
        report_of("ci-1", "b", 10_000, head=AT),
        report_of("old-1", "b", 50, {"crash": 50}, since=7, head=AT),
        before=(report_of("old-1", "a", 100, {"crash": 90}),),
    )

    assert comparison.broken == ()
    assert judge_rollout(comparison, BOUND).action is RolloutAction.GO_ON


def test_one_host_that_refuses_stops_it_and_is_named() -> None:
    judgement = judge_rollout(
        seen(report_of("web-1", "b", 500, head=AT), report_of("web-2", "a", 500, head=AT, problem="guards.py:3: no")),
        BOUND,
    )

    assert judgement.action is RolloutAction.STOP
    assert judgement.reason == "the host web-2 refuses it: guards.py:3: no"


def test_what_was_wrong_with_a_host_before_is_no_refusal() -> None:
    wrong = "version 1, which is in force, is signed by a key that is not listed any more"

    comparison = seen(report_of("web-1", "a", head=AT, problem=wrong), before=(report_of("web-1", "a", problem=wrong),))

    assert (comparison.missing, comparison.refusing) == (("web-1",), ())


def test_it_waits_for_half_of_the_hosts_and_names_those_that_are_missing() -> None:
    assert NEW is not None
    reports = {host: report_of(host, "b" if host == "a" else "a", 100, head=AT) for host in "abcd"}

    comparison = compare_hosts(NEW, {}, reports, silent={"c"}, absent={"d"})

    judgement = judge_rollout(comparison, BOUND)
    assert judgement.action is RolloutAction.WAIT
    assert judgement.reason.endswith(
        "only 1 of 3 hosts have it: do not have it yet: b; have not reported since: c; were away before: d"
    )


def test_daemons_that_cannot_be_reached_are_no_reason_to_go_on() -> None:
    judgement = judge_rollout(seen(report_of("a", "b", 100, head=AT, health="unreachable")), BOUND)

    assert (judgement.action, judgement.reason) == (RolloutAction.WAIT, "1 daemon cannot be reached: a")


def test_nothing_was_seen_is_no_reason_to_go_on_whatever_the_sample() -> None:
    assert judge_rollout(seen(), StopThreshold(min_decisions=0)).action is RolloutAction.WAIT


def test_many_hosts_are_not_all_named() -> None:
    comparison = seen(*(report_of(f"web-{number}", "a", head=AT) for number in range(30)))

    assert format_missing_hosts(comparison).endswith("web-14, web-15 and 22 more")


gates = st.builds(
    lambda faults, others: GateCounts(1, faults + others, {"crash": faults}), st.integers(0, 200), st.integers(0, 2000)
)


@given(gates, gates, st.integers(1, 200))
def test_it_never_goes_on_over_the_bound_or_below_the_sample(on: GateCounts, off: GateCounts, sample: int) -> None:
    comparison = CanaryComparison(canary=("a",), baseline=("b",), canary_gates=on, baseline_gates=off)

    word = judge_rollout(comparison, StopThreshold(0.02, sample)).action

    usual = off.faults / off.decided if off.decided else 0.0
    if word is RolloutAction.GO_ON:
        assert on.decided >= sample
        assert on.faults / on.decided <= usual + 0.02 + 1e-9


def test_a_host_that_still_observes_does_not_have_the_version_that_ends_it() -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    observing = msgspec.structs.replace(NEW, observe_until=until)
    policies = {DEFAULT_POLICY: ReportedPolicy(2, 2, NEW.bundle, "2030-01-01T00:00:00Z")}
    report = HostReport(host="h", health="ready", head=AT, policies=policies)

    assert compare_hosts(NEW, {}, {"h": report}).missing == ("h",)
    assert compare_hosts(observing, {}, {"h": report}).canary == ("h",)
