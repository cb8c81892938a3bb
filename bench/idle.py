"""What a daemon with nothing to do costs: how often it wakes the machine, its processor time and its memory.

idle      one daemon with four workers of one source and nine connections that ask nothing: the voluntary context
          switches and the processor time of each thread of each of its processes in so many seconds, from
          /proc/PID/task/TID; the proportional memory (PSS) of each process, from /proc/PID/smaps_rollup
grown     the same memory after very many calls, each asked about and reported, and after reloads of the source, which
          is changed each time
edited    from the replacement of that source's file to the announcement that it is active, on the same idle daemon

A thread that ends is counted up to the last look at it, one each second.

Bad would be: more than 3 wake-ups or 1 ms of processor a second; more than 60 MiB in all, before or after.

Run: python bench/idle.py [--seconds N] [--fires N] [--reloads N] [--quick] [--json]; with --json one line, the last.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from contenders import PAYLOAD, Client, Daemon, run_daemon
from machine import ROOT, describe, save
from weight import memory_of

WORKERS, CONNECTIONS = 4, 9
MOST_WAKE_UPS, MOST_CPU_MS, MOST_PSS_MIB = 3.0, 1.0, 60.0
SETTLED = 12.0  # seconds until what a fire or a start leaves behind has ended: threads of trio wait for 10 s
LOOK = 1.0
EDITED = "guards.py"
GUARD = '\n\n@hook("stop")\ndef edited(event):\n    return {}\n'
Use = dict[tuple[int, int], tuple[int, int]]  # by process and thread: switches, nanoseconds


def use_of(processes: dict[int, str]) -> Use:
    found: Use = {}
    for pid in processes:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
                status = (task / "status").read_text()
                switches = int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
                found[pid, int(task.name)] = switches, int((task / "schedstat").read_text().split()[0])
    return found


def processes_of(daemon: Daemon) -> dict[int, str]:
    """Return the role of each process of the daemon, the workers numbered."""
    admin = daemon.administer()
    status = admin.call("status")
    admin.close()
    workers = [pid for source in status["sources"] for pid in source["pids"]]
    names = {daemon.process.pid: "daemon", status["zygote"]["pid"]: "zygote"}
    names |= {pid: f"worker {number}" for number, pid in enumerate(workers, 1)}
    for child in psutil.Process(daemon.process.pid).children(recursive=True):
        names.setdefault(child.pid, "guardian" if child.ppid() == daemon.process.pid else "other")
    return names


def watch(processes: dict[int, str], seconds: float) -> dict[str, dict[str, float]]:
    """Return wake-ups and milliseconds of processor a second, by process."""
    before = use_of(processes)
    latest, end = dict(before), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(LOOK, left))
        latest |= use_of(processes)
    found = {name: {"wake_ups": 0.0, "cpu_ms": 0.0} for name in processes.values()}
    for (pid, thread), (switches, nanoseconds) in latest.items():
        earlier_switches, earlier_nanoseconds = before.get((pid, thread), (0, 0))
        row = found[processes[pid]]
        row["wake_ups"] += (switches - earlier_switches) / seconds
        row["cpu_ms"] += (nanoseconds - earlier_nanoseconds) / 1e6 / seconds
    return found


def pss_of(processes: dict[int, str]) -> dict[str, float]:
    """Return the MiB of each process."""
    return {name: memory_of(pid)["pss_mb"] * 1e6 / 2**20 for pid, name in processes.items()}


def employ(clients: list[Client]) -> None:
    """Have all workers run at once, so that none of them is yet to be started."""
    for client in clients[:WORKERS]:
        client.socket.sendall(client.fire_line("Sleep", seconds=0.5))
    for client in clients[:WORKERS]:
        client.socket.recv(2**16)
    for client in clients:
        client.fire()


def call_many(client: Client, calls: int) -> None:
    """Ask about so many calls of a tool, and report each of them as an agent does: else they would count as open."""
    for number in range(calls):
        one = {"payload": PAYLOAD, "call_id": f"toolu_{number}"}
        report = {**one, "payload": {**PAYLOAD, "tool_response": {"stdout": ""}}}
        client.socket.sendall(
            client.request("fire", event="pre_tool_use", **one)
            + client.request("fire", event="post_tool_use", **report)
        )
        unanswered = 2
        while unanswered:
            unanswered -= client.socket.recv(2**16).count(b"\n")


def edit(daemon: Daemon, watcher: Client, number: int) -> float:
    """Replace the edited file; return the milliseconds until that is announced."""
    new = Path(daemon.folder, "edited.new")
    new.write_text((ROOT / "bench" / EDITED).read_text() + GUARD.format(number))
    start = time.perf_counter()
    new.replace(Path(daemon.folder, EDITED))
    watcher.socket.recv(2**16)
    return (time.perf_counter() - start) * 1e3


def measure(seconds: float, fires: int, reloads: int, settled: float) -> dict[str, Any]:
    with run_daemon(workers=WORKERS) as daemon:
        clients = [daemon.connect() for _ in range(CONNECTIONS)]
        employ(clients)
        time.sleep(settled)
        processes = processes_of(daemon)
        time.sleep(min(1.0, settled))
        idle, pss = watch(processes, seconds), pss_of(processes)
        clients[-1].call("subscribe", topics=["registry"])
        edits: list[float] = []
        for number in range(1, reloads + 1):
            edits.append(edit(daemon, clients[-1], number))
            time.sleep(0.5)
        call_many(clients[0], fires)
        employ(clients[:-1])
        time.sleep(settled)
        grown = pss_of(processes_of(daemon))
        for client in clients:
            client.close()
    return {"idle": idle, "pss_mib": pss, "grown_mib": grown, "edit_ms": edits}


def main() -> int:
    parser = argparse.ArgumentParser(description="Show what a daemon with nothing to do costs.")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--fires", type=int, default=100_000)
    parser.add_argument("--reloads", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="a few seconds: shows that it runs, not what it costs")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    machine = describe()
    seconds, fires, reloads, settled = (
        (1.0, 200, 2, 0.5) if options.quick else (options.seconds, options.fires, options.reloads, SETTLED)
    )
    found = measure(seconds, fires, reloads, settled)
    idle, pss, grown = found["idle"], found["pss_mib"], found["grown_mib"]
    total = {
        "wake_ups": sum(row["wake_ups"] for row in idle.values()),
        "cpu_ms": sum(row["cpu_ms"] for row in idle.values()),
        "pss_mib": sum(pss.values()),
        "grown_mib": sum(grown.values()),
        "edit_ms": statistics.median(found["edit_ms"]) if found["edit_ms"] else 0.0,
    }
    record = {"machine": machine, "seconds": seconds, "fires": fires, "reloads": reloads, "total": total, **found}
    save("idle_quick" if options.quick else "idle", record)
    if options.json:
        print(json.dumps(record))
        return 0
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(f"\n{'':<12}{'wake-ups/s':>12}{'CPU ms/s':>12}{'PSS MiB':>12}{'grown MiB':>12}")
    for name in {**pss, **grown}:
        row = idle.get(name, {"wake_ups": 0.0, "cpu_ms": 0.0})
        print(
            f"{name:<12}{row['wake_ups']:12.2f}{row['cpu_ms']:12.3f}{pss.get(name, 0):12.1f}{grown.get(name, 0):12.1f}"
        )
    print(
        f"{'all':<12}{total['wake_ups']:12.2f}{total['cpu_ms']:12.3f}{total['pss_mib']:12.1f}{total['grown_mib']:12.1f}"
    )
    print(f"bad: over {MOST_WAKE_UPS:g}, {MOST_CPU_MS:g}, {MOST_PSS_MIB:g} and {MOST_PSS_MIB:g}")
    print(f"saved to announced: {total['edit_ms']:.1f} ms, worst {max(found['edit_ms'], default=0.0):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
