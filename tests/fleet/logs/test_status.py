"""fleet status, against a real engine.

Slow: the engine and the daemons are processes of their own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hooklatch.fleet.engine.engine import Engine, StoredReport
from hooklatch.fleet.logs.statuses import list_host_statuses
from hooklatch.fleet.manifests import PolicyHead
from hooklatch.fleet.reports import GateCounts, HostReport, ReportedPolicy, encode_report
from hooklatch.fleet.signing import make_key
from support.records import lines
from support.redis_server import RedisServer, needs_redis
from support.repository import ROOT
from support.shipped import FleetCommands, ask, ship, tell, write_record

pytestmark = [pytest.mark.slow, needs_redis]
WHO = ("build-1", "build-2", "laptop")


def test_a_fleet_in_order_is_green(fleet: FleetCommands) -> None:
    found = fleet.json("status")

    assert found["ok"]
    assert [one["host"] for one in found["hosts"]] == list(WHO)
    first = found["hosts"][0]
    assert (first["labels"], first["health"], first["unshipped"], first["wrong"]) == (["ci"], "ready", 0, [])
    assert first["record"]["seq"] == len(lines(fleet.record("build-1")))
    assert first["seen_s"] >= 0
    assert found["engine"]["appendfsync"] == "always"


def test_status_for_people_has_a_line_a_host(fleet: FleetCommands) -> None:
    done = fleet.run("status")

    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[-3:]] == list(WHO)
    assert "3 hosts, 0 silent, 0 with something wrong" in done.stdout


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"problem": "version 3 is torn"}, "version 3 is torn"),
    ({"health": "red"}, "its daemon is red"),
    ({"lost": 7}, "7 records were removed there before they were shipped"),
    ({"findings": ("the record was truncated to 3",)}, "the record was truncated to 3"),
    ({"wanted": 2, "applied": 1}, "version 2 should be active there, and 1 is"),
    (
        {"head": PolicyHead(4, "f" * 64)},
        "it says that it has read version 4, and the engine's newest is 0: the engine lost some",
    ),
    ({"epoch": 2}, "its record began anew (2 epochs)"),
    ({"health": "left", "problem": "x"}, "it has left the fleet: [fleet] was taken out of its hooks.toml"),
]


def test_what_is_wrong_with_a_host_is_said_and_is_the_exit_code(empty: FleetCommands) -> None:
    async def work(engine: Engine) -> None:
        for number, (changes, _) in enumerate(WRONG):
            await tell(engine, f"host-{number}", **changes)
        await engine.report("unreadable", b"{}")

    empty.do(work)
    found = {one["host"]: one["wrong"] for one in empty.json("status", code=1)["hosts"]}

    for number, (_, text) in enumerate(WRONG):
        assert any(one.startswith(text) for one in found[f"host-{number}"]), text
    assert "cannot be read" in found["unreadable"][0]


def test_hosts_that_are_silent_come_first(empty: FleetCommands) -> None:
    folder = write_record(empty.record("z"))

    async def work(engine: Engine) -> None:
        await tell(engine, "a")
        await ship(engine, "z", folder)

    empty.do(work)
    done = empty.run("status")

    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()[6:8]] == ["z", "a"]
    assert "z: it has a log and no report" in done.stdout
    assert empty.json("status", "--silent", "0.001", code=1)["hosts"][1]["is_silent"]


@pytest.mark.parametrize(
    ("every_s", "age_s", "is_silent"),
    [(60.0, 170, False), (60.0, 190, True), (10.0, 29, False), (10.0, 31, True), (1e9, 190, True)],
)
def test_a_host_is_silent_when_three_of_its_reports_have_not_come(every_s: float, age_s: int, is_silent: bool) -> None:
    data = encode_report(HostReport(host="h1", health="ready", every_s=every_s))
    (found,) = list_host_statuses([StoredReport("h1", data, 0)], [], newest=0, now=age_s * 1000)

    assert found.is_silent is is_silent


def test_the_metrics_of_a_fleet_say_what_its_status_says(fleet: FleetCommands) -> None:
    done = fleet.run("status", "--prometheus")
    hosts = fleet.json("status")["hosts"]

    assert done.returncode == 0, done.stderr
    samples = {
        (sample.name.removeprefix("hooklatch_fleet_"), sample.labels.get("host")): sample.value
        for family in text_string_to_metric_families(done.stdout)
        for sample in family.samples
    }
    for host in hosts:
        assert samples["host_silent", host["host"]] == host["is_silent"]
        assert samples["host_findings", host["host"]] == len(host["wrong"])
        assert samples["host_behind_versions", host["host"]] == host["behind"]
        assert samples["host_seen_seconds", host["host"]] >= 0
    assert {host for _, host in samples} == {None, *WHO}
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert not [name for name, _ in samples if f"`{name}`" not in page]


def test_several_fleets_are_in_one_table(fleet: FleetCommands, empty: FleetCommands, tmp_path: Path) -> None:
    empty.do(lambda engine: tell(engine, "solo", health="red"))
    other, away = tmp_path / "other.toml", tmp_path / "away.toml"
    for path, url in ((other, fleet.server.url), (away, f"redis+unix://{tmp_path}/none")):
        path.write_text(
            f'[fleet]\nname = "{empty.name}"\nhost = "me"\nurl = "{url}"\nkeys = ["{make_key().public.text}"]\n'
        )
        path.chmod(0o600)

    both = fleet.run("status", "--also", str(other))
    listed = fleet.lines("status", "--also", str(other), code=1)
    others = fleet.run_as_given("fleet", "status", "--also", str(other), "--json")
    broken = fleet.run("status", "--also", str(away), "--also", str(other))

    assert both.returncode == 1, both.stderr
    rows = [line.split()[:2] for line in both.stdout.splitlines() if line.startswith(("acme ", f"{empty.name} "))]
    assert rows == [["acme", host] for host in WHO] + [[empty.name, "solo"], [empty.name, "solo:"]]
    assert [(one["fleet"], one["ok"]) for one in listed] == [("acme", True), (empty.name, False)]
    assert json.loads(others.stdout)["fleet"] == empty.name
    assert broken.returncode == 69
    assert "cannot be reached" in broken.stderr
    assert "solo" in broken.stdout


def whose(fleet: FleetCommands, host: str) -> str:
    return f'engine="{fleet.server.url}",fleet="{fleet.name}",host="{host}"'


def test_two_engines_with_fleets_of_one_name_have_metrics_each(
    empty: FleetCommands, redis: RedisServer, tmp_path: Path
) -> None:
    empty.do(lambda engine: tell(engine, "a", unshipped=1))
    ask(redis, lambda engine: tell(engine, "a", unshipped=2), fleet=empty.name)
    other = tmp_path / "other.toml"
    key = make_key().public.text
    other.write_text(f'[fleet]\nname = "{empty.name}"\nhost = "me"\nurl = "{redis.url}"\nkeys = ["{key}"]\n')
    other.chmod(0o600)

    done = empty.run("status", "--prometheus", "--also", str(other))

    for url, count in ((empty.server.url, 1), (redis.url, 2)):
        assert f'unshipped_records{{engine="{url}",fleet="{empty.name}",host="a"}} {count}.0' in done.stdout


def test_what_would_have_been_denied_is_summed(empty: FleetCommands) -> None:
    empty.do(lambda engine: tell(engine, "a", gates=GateCounts(1, 40, {"policy": 2}, 3)))
    empty.do(lambda engine: tell(engine, "b", gates=GateCounts(1, 60, {}, 4)))

    assert "7 of 100 gates would have been denied too, by hooks that only observe" in empty.run("status").stdout
    assert [one["gates"]["would_deny"] for one in empty.json("status")["hosts"]] == [3, 4]
    assert f"gates_would_deny{{{whose(empty, 'b')}}} 4.0" in empty.run("status", "--prometheus").stdout


def test_a_policy_that_only_observes_is_wrong_wherever_it_is_shown(empty: FleetCommands) -> None:
    policies = {"ci": ReportedPolicy(1, 1, "c" * 64, "2030-01-01T00:00:00Z")}
    empty.do(lambda engine: tell(engine, "a", policies=policies, gates=GateCounts(1, 9, {}, 1, 2)))

    done = empty.run("status")

    assert done.returncode == 1
    assert (
        "a: its policy ci only observes until 2030-01-01T00:00:00Z: nothing that it says is enforced there"
        in done.stdout
    )
    assert "nothing is enforced of the policies ci until 2030-01-01T00:00:00Z" in done.stdout
    assert "1 of 9 gates would have been denied too, and 2 asked about, by hooks that only observe" in done.stdout
    metrics = empty.run("status", "--prometheus").stdout
    assert f"host_observing{{{whose(empty, 'a')}}} 1.0" in metrics
    assert f"host_gates_would_ask{{{whose(empty, 'a')}}} 2.0" in metrics


def test_a_host_without_a_report_has_infinite_times(empty: FleetCommands) -> None:
    empty.do(lambda engine: ship(engine, "a", write_record(empty.record("a"))))

    done = empty.run("status", "--prometheus")

    assert done.returncode == 0, done.stderr
    assert f"hooklatch_fleet_host_seen_seconds{{{whose(empty, 'a')}}} +Inf" in done.stdout
    assert f"hooklatch_fleet_host_silent{{{whose(empty, 'a')}}} 1.0" in done.stdout
