"""The benchmarks run and say what they promise to; how fast anything is, no test asserts."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from support.repository import ROOT

BENCH = ROOT / "bench"
CONTENDERS = {
    "hooklatch daemon, kept connection",
    "floor: bare trio relay, two hops",
    "ProcessPoolExecutor, no socket",
    "trio-parallel, no socket",
    "python -I -S script, spawned per call",
    "python script, spawned per call",
}


@pytest.mark.slow
def test_the_benchmarks_run_and_write_what_they_found() -> None:
    """Slow: it starts several daemons, pools and interpreters, and kills some of them."""
    done = subprocess.run(
        [sys.executable, str(BENCH / "run.py"), "--quick"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    found = json.loads((BENCH / "results" / "quick.json").read_bytes())
    assert set(found["latency"]) == CONTENDERS
    assert set(found["latency"]["floor: bare trio relay, two hops"]) >= {"count", "p50_ms", "p99_ms"}
    assert set(found["deaths"]) == {
        "a normal call",
        "worker, with a spare",
        "worker, without a spare",
        "zygote",
        "denial of a gate whose worker dies",
        "denial of a gate, after its deadline",
    }
    assert {"machine", "rounds", "latency_on_one_core", "calls_a_second", "ratio", "ratio_on_one_core"} <= set(found)
    assert "x floor" in done.stdout


@pytest.mark.slow
def test_the_profile_of_a_fire_names_every_stage() -> None:
    """Slow: it runs a daemon twice, and a client process beside each."""
    command = [sys.executable, str(BENCH / "profile_fire.py"), "--fires", "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    for stage in ("socket in", "select", "machine", "pool send", "worker", "decision encode", "socket out"):
        assert stage in done.stdout


@pytest.mark.slow
def test_the_overload_benchmark_compares_quiet_sessions_with_and_without_each_flood() -> None:
    """Slow: it starts a daemon and a process for each flood."""
    command = [sys.executable, str(BENCH / "overload.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    floods = json.loads((BENCH / "results" / "overload_quick.json").read_bytes())["floods"]
    assert len(floods) == 6
    for row in floods.values():
        assert {"quiet", "flooded", "ratio", "first_after_ms", "refused", "flood_overloads"} <= set(row)
        assert row["flooded"]["count"] > 0


@pytest.mark.slow
def test_the_state_benchmark_counts_exactly_both_ways() -> None:
    """Slow: it starts a pool of workers for each way."""
    command = [sys.executable, str(BENCH / "state.py"), "--quick"]
    results = BENCH / "results" / "state_quick.json"
    results.unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert results.exists(), done.stderr
    found = json.loads(results.read_bytes())
    assert {"machine", "rows", "ratios", "quiet", "step"} <= set(found), done.stderr
    assert found["exact"] == {"served": True, "served, kept": True, "sqlite": True}


@pytest.mark.slow
def test_the_registration_benchmark_measures_idle_and_subscribed_sessions() -> None:
    """Slow: it starts a daemon for each number of sessions and hooks."""
    command = [sys.executable, str(BENCH / "registration.py"), "--quick"]
    results = BENCH / "results" / "registration_quick.json"
    results.unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert results.exists(), done.stderr
    found = json.loads(results.read_bytes())
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


def files_on_the_path_of_a(request: str) -> list[str]:
    """Return the files of a table in docs/design.md, as the walks name them."""
    page = (ROOT / "docs" / "design.md").read_text()
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
