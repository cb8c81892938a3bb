"""What the daemon and its commands weigh: memory, and the time until they have begun.

memory    resident and proportional (PSS) memory of the daemon's own process with 10 hooks and 10 sessions, of the
          zygote, of an idle worker, and of each further idle session; from /proc/PID/smaps_rollup
growth    of the daemon while it answers very many fires on one connection: a line through what was resident at twenty
          moments of the second half, in bytes a fire
start     from the start of the daemon's process to the first decision
commands  `--version`, `--help`, `status` and `fire` beside `python -c pass`; in turns, medians (bench/entries.py has
          what hosts run)

Bad would be: a worker over 8 MB of PSS; over 0.5 s to the first decision on an idle machine; growth of more than a
byte a fire over a million; a command over 3 times a bare Python.

Run: python bench/weight.py [--fires 1000000] [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from contenders import PAYLOAD_JSON, Client, run_daemon
from hooklatch.guards.catalogue import read_guard_source
from machine import ROOT, print_machine, raise_open_files, save

HOOKS, SESSIONS, MORE_SESSIONS = 10, 10, 1000
MOST_PSS_MB, MOST_START, MOST_GROWTH = 8.0, 0.5, 1.0
MOST_TIMES = 3.0
SAMPLES = 40
IN_FLIGHT = 16
BARE = "python -c pass"
GUARD = '@hook("pre_tool_use", match="Other{0}")\ndef other_{0}(event):\n    return None\n'


def memory_of(pid: int) -> dict[str, float]:
    """Return the resident and the proportional memory of a process in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return {"resident_mb": kilobytes["Rss"] * 1024 / 1e6, "pss_mb": kilobytes["Pss"] * 1024 / 1e6}


def memory(more: int) -> dict[str, dict[str, float]]:
    """Return what the parts of an idle daemon take."""
    others = range(HOOKS - (ROOT / "bench" / "guards.py").read_text().count("@hook("))
    files = {"others.py": "from hooklatch import hook\n" + "".join(map(GUARD.format, others))}
    with run_daemon(files=files) as daemon:
        sessions = [daemon.connect() for _ in range(SESSIONS)]
        for _ in range(20):
            sessions[0].fire()
        status = daemon.administer().call("status")
        own = memory_of(daemon.process.pid)
        workers = [memory_of(pid) for source in status["sources"] for pid in source["pids"]]
        sessions += [daemon.connect() for _ in range(more)]
        grown = memory_of(daemon.process.pid)
        found = {
            f"daemon, {HOOKS} hooks, {SESSIONS} sessions": own,
            "zygote": memory_of(status["zygote"]["pid"]),
            f"an idle worker (of {len(workers)})": {
                key: statistics.median(one[key] for one in workers) for key in workers[0]
            },
            "a further idle session": {key: (grown[key] - own[key]) / more for key in own},
        }
        for client in sessions:
            client.close()
        return found


def memory_of_a_reader() -> dict[str, float]:
    """Return what a worker takes whose guard reads shell commands: the parser and its grammar are native code."""
    name = "destructive_commands"
    with run_daemon(files={f"{name}.py": read_guard_source(name)}) as daemon:
        client = daemon.connect()
        for _ in range(20):
            client.fire()
        status = daemon.administer().call("status")
        pids = [pid for source in status["sources"] if name in str(source) for pid in source["pids"]]
        client.close()
        return max((memory_of(pid) for pid in pids), key=lambda one: one["pss_mb"])


def growth(fires: int) -> dict[str, float]:
    """Return how the daemon's memory grows with fires, over the second half of them."""
    every = max(1, fires // SAMPLES)
    series: list[tuple[float, float]] = []
    with run_daemon() as daemon:
        client = daemon.connect()
        for number in range(1, SAMPLES + 1):
            fire_many(client, every)
            series.append((number * every, memory_of(daemon.process.pid)["resident_mb"]))
    half = series[len(series) // 2 :]
    slope, _ = statistics.linear_regression(*zip(*half, strict=True))
    return {
        "fires": float(every * SAMPLES),
        "first_mb": series[0][1],
        "half_mb": half[0][1],
        "last_mb": half[-1][1],
        "bytes_a_fire": slope * 1e6,
    }


def fire_many(client: Client, fires: int) -> None:
    line = client.fire_line()
    unsent, unanswered = fires, 0
    while unsent or unanswered:
        if unsent and unanswered < IN_FLIGHT:
            count = min(unsent, IN_FLIGHT - unanswered)
            client.socket.sendall(line * count)
            unsent -= count
            unanswered += count
        unanswered -= client.socket.recv(2**18).count(b"\n")


def start(rounds: int) -> list[float]:
    """Return the seconds from the start of the process to the first decision, for each round."""
    took: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        with run_daemon() as daemon:
            client = daemon.connect()
            if client.fire()["verdict"] != "pass":
                raise RuntimeError("the first decision is not the guard's")
            took.append(time.perf_counter() - began)
    return took


def commands(rounds: int) -> dict[str, dict[str, float]]:
    """Return the median of each command, and how many times a bare Python that is."""
    with run_daemon() as daemon:
        own = [sys.executable, "-m", "hooklatch"]
        there = ["--runtime-dir", f"{daemon.folder}/run"]
        cases: dict[str, tuple[list[str], bytes]] = {
            BARE: ([sys.executable, "-c", "pass"], b""),
            "hooklatch --version": ([*own, "--version"], b""),
            "hooklatch --help": ([*own, "--help"], b""),
            "hooklatch status": ([*own, "status", *there], b""),
            "hooklatch fire": ([*own, "fire", "pre_tool_use", "--payload", "-", *there], PAYLOAD_JSON),
        }
        times: dict[str, list[float]] = {name: [] for name in cases}
        for turn in range(rounds + 1):
            for name, (command, text) in cases.items():
                took = milliseconds(command, text)
                if turn:  # the first fills caches, and compiles the modules once
                    times[name].append(took)
    medians = {name: statistics.median(series) for name, series in times.items()}
    return {
        name: {"p50_ms": median, "x": median / medians[BARE], "best_ms": min(times[name])}
        for name, median in medians.items()
    }


def milliseconds(command: list[str], text: bytes) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    took = (time.perf_counter() - began) * 1e3
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()}")
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description="Show what the daemon and its commands weigh.")
    parser.add_argument("--fires", type=int, default=100_000, help="for the growth; 1000000 takes minutes")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="a few seconds: shows that it runs, and little more")
    options = parser.parse_args()
    raise_open_files()
    fires, rounds, more = (400, 1, 20) if options.quick else (options.fires, options.rounds, MORE_SESSIONS)
    machine = print_machine()

    parts = {**memory(more), "a worker whose guard reads commands": memory_of_a_reader()}
    print(f"\n{'memory':<44}{'resident MB':>12}{'PSS MB':>10}")
    for name, one in parts.items():
        print(f"{name:<44}{one['resident_mb']:12.3f}{one['pss_mb']:10.3f}")
    print(f"bad: an idle worker over {MOST_PSS_MB:g} MB of PSS")

    began = start(max(1, rounds // 4))
    print(
        f"\nstart to first decision: {statistics.median(began):.2f} s, worst {max(began):.2f} "
        f"(bad: over {MOST_START:g})"
    )

    found = commands(rounds)
    print(f"\n{'commands':<44}{'p50 ms':>12}{'x bare':>10}")
    for name, row in found.items():
        print(f"{name:<44}{row['p50_ms']:12.1f}{row['x']:10.2f}")
    print(f"bad: over {MOST_TIMES:g} times")

    grown = growth(fires)
    print(
        f"\ngrowth over {grown['fires']:,.0f} fires: {grown['half_mb']:.2f} MB after half of them, "
        f"{grown['last_mb']:.2f} at the end, {grown['bytes_a_fire']:.2f} bytes a fire "
        f"(bad: over {MOST_GROWTH:g}, over a million)"
    )
    record = {
        "machine": machine,
        "memory": parts,
        "start_s": began,
        "commands": found,
        "growth": grown,
    }
    print(f"written: {save('weight_quick' if options.quick else 'weight', record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
