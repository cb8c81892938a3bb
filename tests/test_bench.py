"""Each benchmark runs once, small, and writes what it says it does; how fast anything is, no test asserts.

A new script in bench/ is among them without a word here; what it writes is looked at by a row of `WRITES`.  By day run
those of `DAILY`, and the imports of each; the others by night, and where a benchmark is changed (`make test-bench`).
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooklatch_worker.sandbox.isolation import detect_kernel, find_effective_isolation
from hooklatch_worker.wire import ISOLATION_LEVELS, Isolation
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


def benchmarks() -> list[str]:
    """Return the scripts that a person runs: those that no other script starts, or whose figures are looked at here."""
    texts = {path.name: path.read_text() for path in sorted(BENCH.glob("*.py"))}
    started = {name for name in texts for other, text in texts.items() if name != other and f'"{name}"' in text}
    run = {name.removesuffix(".py") for name, text in texts.items() if "__main__" in text}
    return sorted(name for name in run if f"{name}.py" not in started or name in WRITES)


def of_run(found: Any) -> None:
    assert set(found["latency"]) >= CONTENDERS | SCRIPTS
    assert set(found["latency_on_one_core"]) == set(found["latency"])
    assert set(found["latency"]["floor: bare relay, two hops"]) >= {"count", "p50_ms", "p99_ms"}
    assert {"machine", "rounds", "calls_a_second", "slow_hooks", "ratios"} <= set(found)
    assert {"python", "build", "cores"} <= set(found["machine"])
    many, one, called_back, on_one_core = found["calls_a_second"].values()
    assert set(on_one_core) == set(many)
    assert found["loads"].keys() == {"two cores", "one core", "rates"}
    assert set(many) >= CONTENDERS > set(one)
    assert "multiprocessing.Pool" in called_back
    assert all(row["calls_a_second"] > 0 for rows in (many, one, called_back) for row in rows.values())


def of_bytecodes(found: Any) -> None:
    assert found["daemon"] == sum(found["by_function"]["daemon"].values())
    assert found["worker"] == sum(found["by_function"]["worker"].values())
    assert "hooklatch/service/dispatch/dispatcher.py Dispatcher._run" in found["by_function"]["daemon"]


def of_deaths(found: Any) -> None:
    rows = found["deaths"]
    assert {"worker, with a spare", "worker, without a spare", "zygote"} <= set(rows)
    assert all(row["deaths"] > 0 and not row["daemons_ended"] for row in rows.values())


def of_profile_fire(found: Any) -> None:
    stages = found["stages_us"]
    assert {"socket in", "before the worker", "pool send", "worker", "pool receive", "socket out"} <= set(stages)
    assert all(stages[stage] > 0 for stage in ("socket in", "before the worker", "after the worker", "socket out"))


def of_shapes(found: Any) -> None:
    tables = found["tables"]
    assert set(tables) >= {"answers", "hooks", "sessions", "payloads"}
    assert {"silence", "a denial", "an amendment", "10 hooks of 10 sources", "10 hooks of one source"} <= set(
        tables["answers"]
    )
    assert {"1 KiB, daemon", "1 KiB, floor", "1 KiB, copied", "1 KiB, sha256"} <= set(tables["payloads"])
    assert all(row["count"] > 0 for table in tables.values() for row in table.values())


def of_reload(found: Any) -> None:
    assert found["saved_to_announced"]["count"] == 5 * 2
    assert set(found["registration"]) == {"1 sessions", "5 sessions"}
    for rows in (*found["registration"].values(), found["us_a_session"]):
        assert set(rows) == {"ping", "register, own", "register, global"}


def of_weight(found: Any) -> None:
    daemon, zygote, worker, session, reader = found["memory"].values()
    assert daemon["pss_mb"] > zygote["pss_mb"] > 0
    assert reader["resident_mb"] > worker["resident_mb"] >= worker["pss_mb"] > 0
    assert set(session) == {"resident_mb", "pss_mb"}
    assert len(found["start_s"]) == 1
    assert {"python -c pass", "hooklatch --help", "hooklatch status", "hooklatch fire"} <= set(found["commands"])
    assert {"fires", "last_mb", "bytes_a_fire"} <= set(found["growth"])


def of_commands(found: Any) -> None:
    assert [row["command"] for row in found["rows"]] == ["least", "--help", "status", "hooks", "log"]
    assert all(row["x"] > 0 for row in found["rows"])


def of_entries(found: Any) -> None:
    forms = {(row["way"], row["form"], row["answered"]) for row in found["rows"]}
    assert {(way, "python", what) for way in ("itself", "sh -c") for what in ("least", "at once", "daemon")} <= forms
    assert {row["limit"] for row in found["rows"]} >= {None, 1.25}


def of_idle_events(found: Any) -> None:
    assert set(found["rows"]) == {
        f"{kind}, {how}" for kind in ("threads", "trio", "asyncio") for how in ("asked", "skipped")
    }


def of_overload(found: Any) -> None:
    assert len(found["floods"]) == 6
    for row in found["floods"].values():
        assert {"quiet", "flooded", "ratio", "first_after_ms", "refused", "flood_overloads"} <= set(row)
        assert row["flooded"]["count"] > 0


def of_isolation(found: Any) -> None:
    assert set(found["levels"]) == {
        level for level in ISOLATION_LEVELS if not find_effective_isolation(detect_kernel(), Isolation(level)).missing
    }


def of_record_price(found: Any) -> None:
    assert len(found["results"]) == 5
    for one in found["results"]:
        assert {"bytes", "bare_p50_us", "before_p50_us", "after_p50_us", "denied_p50_us", "times_bare"} <= set(one)


def of_record_storage(found: Any) -> None:
    assert set(found["results"]) == {"files", "sqlite, normal", "sqlite, full"}
    for one in found["results"].values():
        assert set(one) == {"append", "durable", "durable_a_second", "query", "bytes"}


def of_state(found: Any) -> None:
    assert {"machine", "rows", "ratios", "quiet", "step"} <= set(found)
    assert found["exact"] == {"served": True, "served, kept": True, "sqlite": True}


def of_registration(found: Any) -> None:
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


def of_idle(found: Any) -> None:
    assert {"daemon", "guardian", "zygote", "worker 1", "worker 4"} <= set(found["idle"])
    assert found["idle"].keys() == found["pss_mib"].keys()
    assert len(found["edit_ms"]) == found["reloads"]
    assert set(found["total"]) == {"wake_ups", "cpu_ms", "pss_mib", "grown_mib", "edit_ms"}


def of_waits(found: Any) -> None:
    assert set(found["rows"]) == {"registered", "edited"}
    assert all(set(row) == {"took", "waited", "alone"} for row in found["rows"].values())


def of_fleet(found: Any) -> None:
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


def of_loaded(found: Any) -> None:
    assert "hooklatch.service.daemon" in found["modules"]
    assert found["lines"] > len(found["modules"])


def of_walks(found: Any) -> None:
    (tree,) = found["trees"].values()
    assert {"lines", "code_lines", "files", "classes", "functions", "rooms"} == set(tree["size"])
    assert {"fire", "register, served", "register, run=", "reload", "host event"} == set(tree["walks"])
    for walk in tree["walks"].values():
        assert walk["calls"] >= len(walk["way"]) > walk["files"] > walk["stacked"] > 0
        assert walk["rooms"] >= walk["parts"] > 0
    headings = {"fire": "fire", "host event": "host event", "registration": "register, run=", "reload": "reload"}
    for heading, name in headings.items():
        walked = [step.partition(" ")[0] for step in tree["walks"][name]["way"]]
        at = -1
        for path in files_on_the_path_of_a(heading):
            if path in walked or path.startswith("hooklatch/"):  # else it is the worker's own
                assert path in walked[at + 1 :], f"{heading}: {path} comes earlier, or not at all"
                at = walked.index(path, at + 1)


def files_on_the_path_of_a(request: str) -> list[str]:
    """Return the files of a table in docs/explanation/design.md, as the walks name them."""
    page = (ROOT / "docs" / "explanation" / "design.md").read_text()
    section = page.partition(f"## The path of a {request}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| \d+ \| ([^|]+) \|", section, re.MULTILINE)
    paths = [path for cell in cells for path in re.findall(r"[\w/]+\.py", cell)]
    return [path if path.startswith("hooklatch_worker/") else f"hooklatch/{path}" for path in paths]


WRITES: dict[str, Callable[[Any], None]] = {
    "bytecodes": of_bytecodes, "commands": of_commands, "deaths": of_deaths, "entries": of_entries, "fleet": of_fleet,
    "idle_events": of_idle_events, "isolation": of_isolation, "loaded": of_loaded, "overload": of_overload,
    "profile_fire": of_profile_fire,
    "record_price": of_record_price, "record_storage": of_record_storage, "registration": of_registration,
    "reload": of_reload, "run": of_run, "shapes": of_shapes, "state": of_state, "walks": of_walks,
    "weight": of_weight,
}  # fmt: skip
WHOLE = "check"  # whole in `make check`, after the tests
DAILY = {"loaded", "walks"}  # a page and a bound are about what they find
NEEDS = {"fleet": [needs_redis]}


def marks(script: str) -> list[pytest.MarkDecorator]:
    return [*NEEDS.get(script, ()), *([] if script in DAILY else [pytest.mark.night])]


@pytest.mark.slow
@pytest.mark.parametrize("script", [pytest.param(one, marks=marks(one)) for one in benchmarks() if one != WHOLE])
def test_a_benchmark_runs_and_writes_what_it_found(script: str) -> None:
    """Slow: it starts daemons, pools and interpreters, and kills some of them."""
    results = BENCH / "results" / f"{script}_quick.json"
    results.unlink(missing_ok=True)

    done = run(script, "--quick")

    assert done.returncode == 0, done.stdout + done.stderr
    WRITES.get(script, bool)(json.loads(results.read_bytes()))


@pytest.mark.slow
def test_each_script_finds_what_it_imports() -> None:
    """Slow: an interpreter that imports most of the package."""
    scripts = [path.stem for path in sorted(BENCH.glob("*.py")) if '__name__ == "__main__"' in path.read_text()]
    code = f"import importlib\nfor name in {scripts}: importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", code], cwd=BENCH, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert set(benchmarks()) <= {*scripts}


def test_each_benchmark_is_run_by_make_check_or_by_night() -> None:
    makefile = (ROOT / "Makefile").read_text()

    assert DAILY <= set(WRITES) <= {*benchmarks()} - {WHOLE}
    assert " -m night" in makefile.partition("\ntest-night:")[2].partition("\n\n")[0]
    assert re.search(r"^check:.* ratios\b", makefile, re.MULTILINE)
    assert f"bench/{WHOLE}.py" in makefile.partition("\nratios:")[2].partition("\n\n")[0]


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


@pytest.mark.slow
@pytest.mark.night
def test_the_kinds_of_a_fires_calls_are_counted() -> None:
    """Slow: it runs a daemon under cProfile, and a client process beside it."""
    done = run("profile_fire", "--quick", "--kinds")

    assert done.returncode == 0, done.stderr
    kinds = json.loads((BENCH / "results" / "profile_fire_kinds_quick.json").read_bytes())["kinds"]
    assert {"system calls", "encoding", "hashing, searching", "trio", "ours: processes"} <= set(kinds)
    assert kinds["system calls"]["calls"] >= 4, "a request, a call, an answer and a decision"


@pytest.mark.slow
@pytest.mark.night
@needs_redis
def test_idle_hosts_are_counted_at_the_engine() -> None:
    """Slow: it starts an engine."""
    done = run("fleet", "--idle", "20", "--quick")

    assert done.returncode == 0, done.stderr
    row = json.loads((BENCH / "results" / "fleet_idle_quick.json").read_bytes())["row"]
    assert (row["hosts"], row["connections"], row["push_to_fetched"]["count"]) == (20, 20, 20)
    assert {"commands_a_second", "bytes_a_second", "engine_share_of_a_core", "engine_memory_bytes"} <= set(row)


FAULT = """
import sys, tempfile
from pathlib import Path
from fleet_engine import run_server
from fleet_hosts import Publisher, running_hosts
from hooklatch.fleet.signing import make_key
key = make_key()
with tempfile.TemporaryDirectory(prefix="hl-") as folder, run_server(Path(folder)) as server:
    with running_hosts(Path(folder) / "hosts", server, 1, key.public.text) as hosts:
        hosts.applied(Publisher(server.url, key).push()[0])
        getattr(hosts, sys.argv[1])[0].kill()
        hosts.applied(2)
"""


@pytest.mark.slow
@pytest.mark.night
@needs_redis
@pytest.mark.parametrize("part", ["links", "daemons"])
def test_a_fault_of_a_simulated_host_ends_the_benchmark_of_a_fleet(part: str) -> None:
    """Slow: it starts an engine, a daemon and a link."""
    command = [sys.executable, "-c", FAULT, part]
    done = subprocess.run(command, cwd=BENCH, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 1
    assert "RuntimeError: a process of " in done.stderr or "BrokenPipeError" in done.stderr
