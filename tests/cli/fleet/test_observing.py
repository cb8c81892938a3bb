"""fleet observe and push --observe, as a publisher runs them against a real engine.

Slow: a push builds the hooks and runs them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hooklatch.fleet.signing import make_key
from support.publishers import GUARDS, Bench
from support.redis_server import needs_redis

pytestmark = [pytest.mark.slow, needs_redis]


def end_of(version: dict[str, str]) -> timedelta:
    return datetime.fromisoformat(version["observe_until"]) - datetime.now(UTC)


def test_one_command_has_all_hosts_observe_a_policy_and_another_ends_it(bench: Bench) -> None:
    first = bench.push()

    (observing,) = bench.json("observe", "--for", "3d")
    told = bench.run("history").out
    (enforced,) = bench.json("observe", "--end")

    assert "observe_until" not in bench.json("history")["versions"][0]  # hosts of before take it
    assert (observing["version"], observing["bundle"], observing["same_as"]) == (2, first["bundle"], 1)
    assert timedelta(days=2.9) < end_of(observing) <= timedelta(days=3)
    assert "100 % only observe until" in told
    assert (enforced["version"], enforced["bundle"], "observe_until" in enforced) == (3, first["bundle"], False)
    assert bench.json("observe", "--end") == []


def test_it_ends_after_a_week_unless_told_and_never_later_than_in_30_days(bench: Bench) -> None:
    bench.push()

    (observing,) = bench.json("observe")
    refused = bench.run("observe", "--for", "31d")

    assert timedelta(days=6.9) < end_of(observing) <= timedelta(days=7)
    assert refused.code == 64
    assert "is not a time from 1s to 30d" in refused.err


def test_of_several_policies_one_is_named_or_all(bench: Bench) -> None:
    bench.push("--policy", "base")
    bench.write("guards.py", GUARDS.replace("no_rm", "no_dd"))
    bench.push("--policy", "ci", "--label", "ci")

    unnamed = bench.run("observe")
    (ci,) = bench.json("observe", "--policy", "ci")
    both = bench.json("observe", "--all")

    assert unnamed.code == 66
    assert "say which policy with --policy; there are base, ci" in unnamed.err
    assert (ci["policy"], ci["rollout"]["labels"]) == ("ci", ["ci"])
    assert [(one["policy"], one["rollout"]["labels"]) for one in both] == [("base", []), ("ci", ["ci"])]


def test_each_host_keeps_the_bundle_that_it_has(bench: Bench) -> None:
    old = bench.push()
    bench.write("guards.py", GUARDS.replace("no_rm", "no_dd"))
    new = bench.push("--percent", "10", "--removes", "guards:no_rm")

    changed = bench.json("observe")

    assert [(one["bundle"], one["rollout"]["percent"]) for one in changed] == [
        (old["bundle"], 100.0), (new["bundle"], 10.0),
    ]  # fmt: skip
    assert bench.json("rollout", str(changed[1]["version"]), "--percent", "50")["observe_until"]


def test_a_push_enforces_unless_it_is_told_to_observe(bench: Bench) -> None:
    observing = bench.push("--observe", "1d")
    pushed = bench.push()
    again = bench.push()
    told = bench.run("diff", "1", "2")

    assert timedelta(hours=23) < end_of(observing) <= timedelta(days=1)
    assert (pushed["version"], pushed["is_new"], pushed["observe_until"]) == (2, True, None)
    assert again["is_new"] is False
    assert "hosts of version 1 only observe until" in told.err
    assert "hosts of version 2 enforce it" in told.err


def test_a_rollback_enforces_what_it_leads_to(bench: Bench) -> None:
    bench.push()
    bench.run("observe")

    assert "observe_until" not in bench.json("rollback", "1")


def test_a_key_of_another_policy_ends_no_enforcement_and_writes_nothing(bench: Bench) -> None:
    other = make_key()
    bench.push("--policy", "base")
    bench.write("guards.py", GUARDS.replace("no_rm", "no_dd"))
    bench.push("--policy", "ci")
    of_ci = [f"--policy=ci={key.public.text}" for key in (bench.key, other)]
    assert bench.run("keys", "init", *of_ci).code == 0
    (bench.place.folder / "other.key").touch(mode=0o600)
    (bench.place.folder / "other.key").write_text(other.text)

    words = ("observe", "--all", "--trust", bench.key.public.text)
    refused = bench.run(*words, key=str(bench.place.folder / "other.key"))

    assert refused.code == 65
    assert "may not sign the policy 'base'" in refused.err
    assert len(bench.json("history")["versions"]) == 2
