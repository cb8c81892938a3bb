"""How fast the daemon is where something fails: a worker's death, the zygote's, and a deadline.

the next good answer  from the death to the first answer from a callback, of a worker with and without a spare, and of
                      the zygote; calls denied in between (such as a call already sent to the dying worker, by the
                      rules) are counted separately.  Without a spare: the source may have two workers and one is busy,
                      so the next call waits for an import: it shows when a replacement is ready.  The zygote is killed
                      once per daemon, since a second death within a minute is deliberately answered with a backoff
a denial              from the death of the worker that runs a gate, and from the deadline of one that hangs, until the
                      client has its denial
a worker's end        from SIGKILL until the kernel has ended the process: before that nobody can know, so it is no part
                      of the others

A death that ends the daemon has no duration; it is counted and shown.

Bad would be, at p50 on a machine with an idle core: over twice a normal call with a spare, over 5 ms and a call
without one, a denial over 10 ms, over 100 ms for the zygote; or any denied call with a spare if the death was known
before the call came.

Run: python bench/deaths.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contenders import Client, run_daemon
from machine import describe, save, summary

__all__ = ["measure", "show"]

GIVE_UP = 30.0  # seconds without a good answer
QUIET = 0.15  # seconds for a new spare; 20 forks per second are allowed
DEADLINE = 0.1  # seconds that a gate has which hangs


class Deaths:
    """The deaths of one kind: the duration of each in milliseconds, and the calls refused before the good answer."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.ends: list[float] = []
        self.denied = 0
        self.daemons_ended = 0

    def add(self, until: Callable[[Client, int], tuple[float, float, int]], client: Client, pid: int) -> None:
        try:
            end, took, denied = until(client, pid)
        except (EOFError, OSError):
            self.daemons_ended += 1
            return
        self.ends.append(end)
        self.times.append(took)
        self.denied += denied

    def row(self) -> dict[str, float | None]:
        found = summary(self.times) if self.times else None
        return {
            "p50_ms": found and found.p50_ms,
            "p99_ms": found and found.p99_ms,
            "deaths": len(self.times),
            "denied_before": self.denied,
            "daemons_ended": self.daemons_ended,
        }


def measure(rounds: int) -> dict[str, dict[str, float | None]]:
    normal, spared, unspared, zygote = Deaths(), Deaths(), Deaths(), Deaths()
    crashed, expired, ends = Deaths(), Deaths(), Deaths()
    with run_daemon(workers=2) as daemon:
        agent, busy, admin = daemon.connect(), daemon.connect(), daemon.administer()
        for _ in range(rounds):
            admin.call("reload")  # lifts the quarantine: the benchmark caused these deaths, not the hook
            taken_next = whose(agent)
            normal.times.append(a_call(agent))
            spared.add(until_answered, agent, taken_next)
            crashed.add(until_denied, agent, asleep(agent, GIVE_UP))
            admin.call("reload")
            whose(agent)
            expired.times.append(past_deadline(agent))
            taken = asleep(busy, 1.0)
            unspared.add(until_answered, agent, other_than(taken, admin))
            busy.socket.recv(2**16)
    for _ in range(max(2, rounds // 4)):
        with run_daemon(workers=2) as daemon:
            agent, admin = daemon.connect(), daemon.administer()
            whose(agent)
            zygote.add(until_answered, agent, admin.call("status")["zygote"]["pid"])
    ends.times = spared.ends + unspared.ends
    return {
        "a normal call": normal.row(),
        "a worker's end, after SIGKILL": ends.row(),
        "worker, with a spare": spared.row(),
        "worker, without a spare": unspared.row(),
        "zygote": zygote.row(),
        "denial of a gate whose worker dies": crashed.row(),
        "denial of a gate, after its deadline": expired.row(),
    }


def whose(client: Client) -> int:
    """Return the pid of the worker that answers, which will also answer the next call."""
    for _ in range(20):
        time.sleep(QUIET)
        decision = client.fire("WhoAmI")
        if decision["verdict"] == "pass":
            return int(decision["warnings"][0])
    raise RuntimeError(f"no worker answers: {decision['reason']}")


def asleep(client: Client, seconds: float) -> int:
    """Have a gate sleep; return the pid of its worker once it does. Its answer is left to be received."""
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder, "pid")
        client.socket.sendall(client.fire_line("Sleep", seconds=seconds, mark=os.fspath(mark)))
        return int(until_there(lambda: mark.exists() and mark.read_text().strip()))


def other_than(taken: int, admin: Client) -> int:
    """Return the pid of the source's other worker once there is one."""
    return int(
        until_there(
            lambda: next((pid for one in admin.call("status")["sources"] for pid in one["pids"] if pid != taken), None)
        )
    )


def until_there(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + GIVE_UP
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no worker was found within {GIVE_UP:.0f} s")
        time.sleep(0.002)
    return found


def a_call(client: Client) -> float:
    """Return how many milliseconds a call takes where nothing fails, after a pause as before the others."""
    line = client.fire_line("WhoAmI")
    time.sleep(QUIET)
    start = time.perf_counter()
    client.exchange(line)
    return (time.perf_counter() - start) * 1e3


def kill(pid: int) -> tuple[float, float]:
    """Kill a process and wait for its death; return when that was, and how many milliseconds it took."""
    pidfd = os.pidfd_open(pid)
    start = time.perf_counter()
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [], GIVE_UP)
        dead = time.perf_counter()
    finally:
        os.close(pidfd)
    return dead, (dead - start) * 1e3


def until_answered(client: Client, pid: int) -> tuple[float, float, int]:
    """Kill a process, fire until a callback answers; return milliseconds of its end and the answer, and refusals."""
    line = client.fire_line("WhoAmI")
    refusals = 0
    dead, end = kill(pid)
    while b'"verdict":"pass"' not in client.exchange(line):
        refusals += 1
        if time.perf_counter() - dead > GIVE_UP:
            raise TimeoutError(f"no good answer within {GIVE_UP:.0f} s of the death of process {pid}")
    return end, (time.perf_counter() - dead) * 1e3, refusals


def until_denied(client: Client, pid: int) -> tuple[float, float, int]:
    """Kill the worker of this process, which runs a gate; return milliseconds of its end and the denial."""
    dead, end = kill(pid)
    answer = client.socket.recv(2**16)
    took = (time.perf_counter() - dead) * 1e3
    if b'"cause":"crash"' not in answer:
        raise RuntimeError(f"not the denial that is to be timed: {answer!r}")
    return end, took, 0


def past_deadline(client: Client) -> float:
    """Have a gate hang; return how many milliseconds after its deadline the denial came."""
    payload = {"tool_name": "Sleep", "tool_input": {"seconds": GIVE_UP}}
    line = client.request("fire", event="pre_tool_use", payload=payload, timeout=DEADLINE)
    start = time.perf_counter()
    answer = client.exchange(line)
    took = time.perf_counter() - start
    if b'"cause":"timeout"' not in answer:
        raise RuntimeError(f"not the denial that is to be timed: {answer!r}")
    return (took - DEADLINE) * 1e3


def show(found: dict[str, dict[str, float | None]]) -> None:
    call = found["a normal call"]["p50_ms"] or 1.0
    print(f"\n{'where something fails':<40}{'p50 ms':>10}{'p99 ms':>10}{'x call':>9}{'times':>9}{'denied':>9}")
    for name, row in found.items():
        p50, p99 = (f"{row[key]:.2f}" if row[key] else "never" for key in ("p50_ms", "p99_ms"))
        ratio = f"{(row['p50_ms'] or 0.0) / call:.1f}"
        print(f"{name:<40}{p50:>10}{p99:>10}{ratio:>9}{row['deaths']:>9}{row['denied_before']:>9}")
        if row["daemons_ended"]:
            print(f"    BAD: {row['daemons_ended']} of these deaths ended the daemon")


def main() -> int:
    parser = argparse.ArgumentParser(description="Time the next good answer after a death.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="a few seconds: shows that it runs, not how fast")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    machine = describe()
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    found = measure(rounds)
    show(found)
    save("deaths_quick" if options.quick else "deaths", {"machine": machine, "rounds": rounds, "deaths": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
