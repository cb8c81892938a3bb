"""The small parts of a link: pauses, counts, and what it knows."""

from __future__ import annotations

import json
import logging

import msgspec
import pytest

from hooklatch.fleet.link.daemon import FollowAnswer
from hooklatch.fleet.link.known import BUNDLE, DAEMON, ENGINE, POLICY, SHIPPING, Backoff, LinkState
from hooklatch.fleet.link.reporting import GateCounter
from hooklatch.fleet.manifests import BundleVersion, PolicyHead, PolicyVersions
from hooklatch.fleet.reports import GateCounts, encode_report, read_report, sum_gates
from hooklatch.record.storage.chain import ChainLink


def test_pauses_double_up_to_their_bound_and_begin_anew() -> None:
    pauses = Backoff(0.5, first=0.1, chance=lambda: 1.0)

    assert [pauses.next() for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    pauses.reset()
    assert pauses.next() == 0.1


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 0.05), (1.0, 0.1)])
def test_no_two_hosts_pause_alike(chance: float, expected: float) -> None:
    assert Backoff(1.0, first=0.1, chance=lambda: chance).next() == expected


def test_a_bound_below_the_first_pause_holds() -> None:
    pauses = Backoff(0.01, chance=lambda: 1.0)

    assert [pauses.next(), pauses.next()] == [0.01, 0.01]


def line(seq: int, **fields: object) -> bytes:
    return json.dumps({"seq": seq, "kind": "decision", **fields}, separators=(",", ":")).encode() + b"\n"


def test_denials_of_gates_are_counted_by_cause() -> None:
    counter = GateCounter(3)

    counter.take([
        line(2, gate=True, verdict="deny", cause="crash"),
        line(3, gate=True, verdict="deny", cause="crash"),
        line(4, gate=True, verdict="deny", cause="policy"),
        line(5, gate=True, verdict="allow"),
        line(6, gate=True, verdict="pass"),
        line(7, gate=False, verdict="deny", cause="crash"),
        line(8, kind="abandoned", gate=True, verdict="deny", cause="crash"),
        line(9, gate=True, verdict="deny", cause="crash"),
        line(10, gate="yes", verdict="deny"),
        b'{"seq":11,"kind":"decision",\n',
        b"damage\n",
    ])  # fmt: skip

    assert counter.gates == GateCounts(3, 5, {"crash": 2, "policy": 1})


def test_what_would_have_been_denied_is_counted_apart() -> None:
    counter = GateCounter(1)
    would = {"observed": True, "verdict": "deny", "cause": "policy"}

    counter.take([
        line(1, gate=True, verdict="pass", outcomes=[{"verdict": "allow", "cause": "policy"}, would, would]),
        line(2, gate=True, verdict="allow", outcomes=[{"observed": True, "cause": "timeout"}]),
        line(3, gate=True, verdict="deny", cause="policy", outcomes=[would]),
        line(4, gate=True, verdict="pass", outcomes=[{"observed": True, "verdict": "allow", "cause": "policy"}]),
        line(5, gate=True, verdict="pass", outcomes=[{"verdict": "deny", "cause": "policy"}]),
        line(6, gate=False, verdict="pass", outcomes=[would]),
    ])  # fmt: skip

    assert counter.gates == GateCounts(1, 5, {"policy": 1}, would_deny=2)


def test_what_would_have_been_asked_is_counted_apart_from_what_would_have_been_denied() -> None:
    counter = GateCounter(1)
    would_ask = {"observed": True, "verdict": "ask", "cause": "policy"}
    would_deny = {"observed": True, "verdict": "deny", "cause": "policy"}

    counter.take([
        line(1, gate=True, verdict="pass", outcomes=[would_ask, would_ask]),
        line(2, gate=True, verdict="pass", outcomes=[would_ask, would_deny]),
        line(3, gate=True, verdict="ask", outcomes=[would_ask]),
        line(4, gate=True, verdict="deny", cause="policy", outcomes=[would_ask]),
        line(5, gate=True, verdict="pass", outcomes=[{"verdict": "ask", "cause": "policy"}]),
    ])  # fmt: skip

    counts = GateCounts(1, 5, {"policy": 1}, would_deny=1, would_ask=1)
    assert counter.gates == counts
    assert sum_gates([counts, counts]).would_ask == 2
    assert GateCounts(1, 9, {}, 3, 4).after(counts).would_ask == 3


def test_causes_of_any_number_and_length_are_bounded() -> None:
    counter = GateCounter(1)

    counter.take(line(number, gate=True, verdict="deny", cause=f"{number}" + "x" * 1000) for number in range(1, 1001))

    assert sum(counter.gates.denied.values()) == 1000
    assert len(msgspec.json.encode(counter.gates)) < 4000


@pytest.fixture
def known() -> LinkState:
    return LinkState("h1", ("ci",), "1.2.3")


ANSWER = FollowAnswer(
    BundleVersion(3, "b3"),
    BundleVersion(2, "b2"),
    head=PolicyHead(3, "d"),
    problem="it does not load",
    host="h1",
    labels=("eu",),
    health="red",
    revision=41,
    stale_s=2.0,
    policies={"default": PolicyVersions(BundleVersion(3, "b3"), BundleVersion(2, "b2"))},
)


def test_a_report_says_what_the_daemon_said(known: LinkState) -> None:
    known.update(ANSWER, 100.0)
    known.newest = ChainLink(20, "", "", "", "h20")
    known.epoch, known.shipped, known.oldest = 2, 17, 1

    report = read_report(encode_report(known.make_report(103.0, 1.5)), "h1")

    assert (report.head, report.wanted, report.applied, report.bundle) == (PolicyHead(3, "d"), 3, 2, "b2")
    assert (report.health, report.revision, report.stale_s, report.problem) == ("red", 41, 5.0, "it does not load")
    assert (report.unshipped, report.shipped, report.epoch, report.labels) == (3, 17, 2, ("eu",))
    assert (report.clock, report.link) == (1500, "1.2.3")


def test_before_anything_is_known_a_report_is_possible(known: LinkState) -> None:
    report = known.make_report(0.0, 0.0)

    assert (report.health, report.labels, report.record, report.stale_s) == ("unreachable", ("ci",), None, None)


def test_the_problem_is_the_one_that_is_nearest_to_the_policy(known: LinkState) -> None:
    known.update(ANSWER, 0.0)
    known.set_fault(DAEMON, "away")
    assert known.make_report(0.0, 0.0).health == "unreachable"

    known.set_fault(BUNDLE, "no bundle")
    assert known.make_report(0.0, 0.0).problem == "no bundle"
    known.set_fault(POLICY, "behind")
    assert known.make_report(0.0, 0.0).problem == "behind"
    known.set_fault(SHIPPING, "full")
    assert known.make_report(0.0, 0.0).findings == ("full",)


def test_what_lasts_is_logged_once_and_its_end_too(known: LinkState, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    told: list[int] = []
    known.on_change = lambda: told.append(1)

    for text in ("gone", "gone", None, None, "gone"):
        known.set_fault(ENGINE, text)

    assert [record.message for record in caplog.records] == ["gone", "the engine is well again", "gone"]
    assert len(told) == 3


def test_a_report_stays_small_whatever_is_found(known: LinkState) -> None:
    for number in range(1000):
        known.add_finding(f"{number} " + "\\" * 10_000)
    known.set_fault(POLICY, "x" * 100_000)

    report = known.make_report(0.0, 0.0)

    assert len(report.findings) == 20
    assert len(encode_report(report)) < 64 * 1024


def test_the_status_line_says_all_in_one(known: LinkState) -> None:
    known.update(ANSWER, 0.0)
    known.newest = ChainLink(20, "", "", "", "h20")
    known.set_fault(ENGINE, "the engine is away")

    assert known.format_status() == "version 2 applied, 20 records to ship; the engine is away"


def test_numbers_that_retention_removed_do_not_wait(known: LinkState) -> None:
    known.newest = ChainLink(20, "", "", "", "h20")
    known.oldest = 15

    assert known.unshipped == 6
