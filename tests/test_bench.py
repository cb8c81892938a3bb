"""The benchmarks run and say what they promise to; how fast anything is, no test asserts."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.redis_server import needs_redis
from support.repository import ROOT

BENCH = ROOT / "bench"
CONTENDERS = {  # those that need nothing more to be installed
    "hooklatch daemon",
    "floor: bare relay, two hops",
    "floor + sha256 chain + write",
    "every shape, straight code",
    "ProcessPoolExecutor",
    "multiprocessing.Pool",
    "anyio.to_process",
}
SCRIPTS = {"python -I -S script, spawned", "python script, spawned"}


SAME = ("event", "verdict", "cause", "reason", "layer", "hook", "retryable", "patch", "payload_digest")
BOTH = """
import json, sys
import contenders
forced = {"tool_name": "Bash", "tool_input": {"command": "git push --force"}}
with contenders.run_daemon() as daemon, contenders.relay("straight.py", "1", sys.argv[1]) as straight:
    for client in (daemon.connect(), straight()):
        answers = [client.exchange(line) for line in (client.fire_line(), client.fire_line_of(forced))]
        print(json.dumps([json.loads(answer)["result"] for answer in answers]))
"""


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / f"{script}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def found_by(script: str) -> Any:
    """Return what a quick run writes; how it ends says how fast the machine is, which is not asked here."""
    results = BENCH / "results" / f"{script}_quick.json"
    results.unlink(missing_ok=True)
    done = run(script, "--quick")
    assert results.exists(), done.stderr
    return json.loads(results.read_bytes())


@pytest.mark.bench
@pytest.mark.slow
def test_the_benchmarks_run_and_write_what_they_found() -> None:
    """Slow: it starts several daemons, pools and interpreters, and kills some of them."""
    found = found_by("run")

    assert set(found["latency"]) >= CONTENDERS | SCRIPTS
    assert set(found["latency_on_one_core"]) == set(found["latency"])
    assert set(found["latency"]["floor: bare relay, two hops"]) >= {"count", "p50_ms", "p99_ms"}
    assert {"machine", "rounds", "calls_a_second", "slow_hooks", "ratios"} <= set(found)
    assert {"python", "build", "cores"} <= set(found["machine"])
    many, one, called_back = found["calls_a_second"].values()
    assert set(many) >= CONTENDERS > set(one)
    assert "multiprocessing.Pool" in called_back
    assert all(row["calls_a_second"] > 0 for rows in (many, one, called_back) for row in rows.values())


@pytest.mark.slow
def test_straight_code_decides_and_records_in_the_shape_of_the_daemon(tmp_path: Path) -> None:
    """Slow: it starts a daemon, and the relay that it is compared with."""
    done = subprocess.run(
        [sys.executable, "-c", BOTH, str(tmp_path / "record")], cwd=BENCH, capture_output=True, text=True, check=True
    )
    daemon, straight = (json.loads(line) for line in done.stdout.splitlines())
    lines = (tmp_path / "record").read_bytes().splitlines()

    for own, other in zip(daemon, straight, strict=True):
        assert list(other) == list(own)
        assert [other[key] for key in SAME] == [own[key] for key in SAME]
        assert [set(one) for one in other["outcomes"]] == [set(one) for one in own["outcomes"]]
    head = "0" * 64
    for line in lines:
        body, _, sealed = line.rpartition(b',"hash":')
        assert json.loads(line)["prev"] == head
        head = hashlib.sha256(body + b"}").hexdigest()
        assert sealed == b'"%b"}' % head.encode()
    assert straight[-1]["record"] == {"seq": len(lines), "hash": head}


@pytest.mark.slow
def test_a_slowed_daemon_fails_the_check_of_its_ratios() -> None:
    """Slow: it starts a daemon and two relays, and waits for fires that take a millisecond or two."""
    done = run("check", "--slowed", "1000", "--attempts", "1")

    assert done.returncode == 1, done.stderr
    for kind in ("latency / floor", "throughput / floor"):
        assert f"clearly slower than before: {kind}" in done.stderr


@pytest.mark.bench
@pytest.mark.slow
def test_the_profile_of_a_fire_names_every_stage() -> None:
    """Slow: it runs a daemon twice, and a client process beside each."""
    done = run("profile_fire", "--fires", "100")

    assert done.returncode == 0, done.stderr
    for stage in ("socket in", "before the worker", "pool send", "worker", "pool receive", "after the worker"):
        assert stage in done.stdout
    stages = json.loads((BENCH / "results" / "profile_fire.json").read_bytes())["stages_us"]
    assert all(stages[stage] > 0 for stage in ("socket in", "before the worker", "after the worker", "socket out"))


@pytest.mark.bench
@pytest.mark.slow
def test_the_kinds_of_a_fires_calls_are_counted() -> None:
    """Slow: it runs a daemon under cProfile, and a client process beside it."""
    done = run("profile_fire", "--fires", "100", "--kinds")

    assert done.returncode == 0, done.stderr
    kinds = json.loads((BENCH / "results" / "profile_fire_kinds.json").read_bytes())["kinds"]
    assert {"system calls", "encoding", "hashing, searching", "trio", "ours: processes"} <= set(kinds)
    assert kinds["system calls"]["calls"] >= 4, "a request, a call, an answer and a decision"


@pytest.mark.bench
@pytest.mark.slow
def test_shapes_are_compared_with_the_plainest_fire() -> None:
    """Slow: it starts several daemons."""
    tables = found_by("shapes")["tables"]

    assert set(tables) >= {"answers", "hooks", "sessions", "payloads"}
    assert {"silence", "a denial", "an amendment", "10 hooks of 10 sources", "10 hooks of one source"} <= set(
        tables["answers"]
    )
    assert {"1 KiB, daemon", "1 KiB, floor", "1 KiB, copied", "1 KiB, sha256"} <= set(tables["payloads"])
    assert all(row["count"] > 0 for table in tables.values() for row in table.values())


@pytest.mark.bench
@pytest.mark.slow
def test_a_saved_file_and_a_registration_are_timed_until_sessions_know_of_them() -> None:
    """Slow: it starts two daemons, and waits for the watch of files."""
    found = found_by("reload")

    assert found["saved_to_announced"]["count"] == 5 * 2
    assert set(found["registration"]) == {"1 sessions", "5 sessions"}
    for rows in (*found["registration"].values(), found["us_a_session"]):
        assert set(rows) == {"ping", "register, own", "register, global"}


@pytest.mark.bench
@pytest.mark.slow
def test_what_the_daemon_weighs_is_shown_for_each_of_its_processes() -> None:
    """Slow: it starts some daemons, and commands."""
    found = found_by("weight")

    daemon, zygote, worker, session, reader = found["memory"].values()
    assert daemon["pss_mb"] > zygote["pss_mb"] > 0
    assert reader["resident_mb"] > worker["resident_mb"] >= worker["pss_mb"] > 0
    assert set(session) == {"resident_mb", "pss_mb"}
    assert len(found["start_s"]) == 1
    assert {"python -c pass", "hooklatch --help", "hooklatch status", "hooklatch fire"} <= set(found["commands"])
    assert {"fires", "last_mb", "bytes_a_fire"} <= set(found["growth"])


@pytest.mark.bench
@pytest.mark.slow
def test_each_form_of_the_entry_is_started_as_hosts_start_it() -> None:
    """Slow: it starts a daemon, and some fifty commands."""
    rows = found_by("entries")["rows"]

    found = {(row["way"], row["form"], row["answered"]) for row in rows}
    assert {(way, "python", what) for way in ("itself", "sh -c") for what in ("least", "at once", "daemon")} <= found
    assert {row["limit"] for row in rows} >= {None, 1.25}


@pytest.mark.bench
@pytest.mark.slow
def test_the_benchmark_of_events_that_nobody_hooks_compares_asking_and_skipping() -> None:
    """Slow: it starts a daemon, and each kind of client twice."""
    command = [sys.executable, str(BENCH / "idle_events.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    rows = json.loads((BENCH / "results" / "idle_events_quick.json").read_bytes())["rows"]
    assert set(rows) == {f"{kind}, {how}" for kind in ("threads", "trio", "asyncio") for how in ("asked", "skipped")}


@pytest.mark.bench
@pytest.mark.slow
def test_the_overload_benchmark_compares_quiet_sessions_with_and_without_each_flood() -> None:
    """Slow: it starts a daemon and a process for each flood."""
    floods = found_by("overload")["floods"]

    assert len(floods) == 6
    for row in floods.values():
        assert {"quiet", "flooded", "ratio", "first_after_ms", "refused", "flood_overloads"} <= set(row)
        assert row["flooded"]["count"] > 0


@pytest.mark.bench
@pytest.mark.slow
def test_the_state_benchmark_counts_exactly_both_ways() -> None:
    """Slow: it starts a pool of workers for each way."""
    found = found_by("state")

    assert {"machine", "rows", "ratios", "quiet", "step"} <= set(found)
    assert found["exact"] == {"served": True, "served, kept": True, "sqlite": True}


@pytest.mark.bench
@pytest.mark.slow
def test_the_registration_benchmark_measures_idle_and_subscribed_sessions() -> None:
    """Slow: it starts a daemon for each number of sessions and hooks."""
    found = found_by("registration")

    assert set(found["rows"]) == {
        f"{sessions} sessions, {hooks} hooks, {kind}"
        for sessions in (2, 20)
        for hooks in (1, 100)
        for kind in ("idle", "subscribed")
    }
    for rows in found["rows"].values():
        assert set(rows) == {"register", "reload"}
        assert rows["register"]["held"]["worst_ms"] > 0
    assert {"machine", "ratios", "most_held_ms"} <= set(found)


@needs_redis
@pytest.mark.bench
@pytest.mark.slow
def test_the_benchmark_of_a_fleet_measures_on_a_real_engine() -> None:
    """Slow: it starts a server, and processes of links and simulated daemons."""
    found = found_by("fleet")

    assert [row["hosts"] for row in found["rows"]] == [2]
    for row in found["rows"]:
        assert row["push_to_applied"]["count"] == row["hosts"] * 2
        assert row["storm"]["count"] == row["hosts"]
        assert row["bare"]["push_to_fetched"]["count"] == row["hosts"] * 2
        assert row["among"]["applied"]["count"] == row["hosts"] * 2
        assert row["backlog"]["records"] == row["hosts"] * 20
        assert row["quiet"]["commands_a_second"] > 0
        assert set(row["memory"]) == {"engine_bytes_a_host", "engine_bytes_a_version", "link_bytes_a_host"}
        assert all(size > 0 for size in row["engine_bytes_a_record"].values())
    assert {"machine", "engine", "decisions_a_day", "bundle_bytes"} <= set(found)


def files_on_the_path_of_a(request: str) -> list[str]:
    """Return the files of a table in docs/explanation/design.md, as the walks name them."""
    page = (ROOT / "docs" / "explanation" / "design.md").read_text()
    section = page.partition(f"## The path of a {request}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| \d+ \| ([^|]+) \|", section, re.MULTILINE)
    paths = [path for cell in cells for path in re.findall(r"[\w/]+\.py", cell)]
    return [path if path.startswith("hooklatch_worker/") else f"hooklatch/{path}" for path in paths]


@pytest.mark.slow
def test_the_walks_are_counted_and_the_design_names_their_files_in_order() -> None:
    """Slow: it starts a daemon, and makes each request twice."""
    command = [sys.executable, str(BENCH / "walks.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    (tree,) = json.loads((BENCH / "results" / "walks_quick.json").read_bytes())["trees"].values()
    assert {"lines", "code_lines", "files", "classes", "functions", "rooms"} == set(tree["size"])
    assert {"fire", "register, served", "register, run=", "reload"} == set(tree["walks"])
    for walk in tree["walks"].values():
        assert walk["calls"] >= len(walk["way"]) > walk["files"] > walk["stacked"] > 0
        assert walk["rooms"] >= walk["parts"] > 0
    for heading, name in (("fire", "fire"), ("registration", "register, run="), ("reload", "reload")):
        walked = [step.partition(" ")[0] for step in tree["walks"][name]["way"]]
        at = -1
        for path in files_on_the_path_of_a(heading):
            if path in walked or path.startswith("hooklatch/"):  # else it is the worker's own
                assert path in walked[at + 1 :], f"{heading}: {path} comes earlier, or not at all"
                at = walked.index(path, at + 1)
