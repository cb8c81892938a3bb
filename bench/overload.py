"""What a flood costs the others: quiet sessions next to sessions that offer more than can be served.

Quiet sessions fire a few times a second each, in interleaved blocks with and without a flood, so that other load on the
machine affects both alike.  The flood is another process, which keeps a number of fires in flight on a number of
sessions.

one session       64 fires in flight on one connection, once with an instant hook and once with one that computes
its connections   eight connections of one session, 64 in flight on each
slow hooks        one session blocks workers of the same source, 50 ms at a time; the quiet ones' hook is instant
many sessions     200 sessions with 50 in flight each: 10,000 offered at once; 2,000 more are open and idle

`ratio` is the quiet sessions' p99 with the flood divided by that without it.  Bad would be: over 2; a quiet fire that
policy did not answer; or a first fire after the flood that takes longer than the quiet p99.  On two cores a flood also
takes CPU time from the quiet clients and their workers, which no daemon can prevent: `spin` is the same ratio without a
flood but with a busy process on every core, the kernel's own share of it.

Run: python bench/overload.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from contenders import Client, Daemon, run_daemon
from machine import Summary, print_machine, raise_open_files, save, summary

__all__ = ["measure", "show"]

AIM = 2.0  # times the quiet p99
QUIET_SESSIONS = 32
GAP = 0.01  # seconds between their fires: each asks for less than its fair share among 208 sessions
SETTLE = 0.1  # seconds of flood before measuring
BLOCK = 5.0  # seconds at most
SCRIPT = "\n".join(f"git -C /srv/project/{number} log --oneline --since='2 days ago'" for number in range(8))
INPUTS: dict[str, dict[str, object]] = {"Bash": {}, "Work": {"script": SCRIPT}, "Sleep": {"seconds": 0.05}}


class Flood(NamedTuple):
    name: str
    sessions: int
    connections: int  # of each session
    in_flight: int  # on each connection
    tool: str
    quiet_tool: str
    idle: int = 0


FLOODS = [
    Flood("one session, instant hook", 1, 1, 64, "Bash", "Bash"),
    Flood("one session, hook that works", 1, 1, 64, "Work", "Work"),
    Flood("eight connections of one session", 1, 8, 64, "Bash", "Bash"),
    Flood("one session, slow hooks", 1, 1, 64, "Sleep", "Bash"),
    Flood("200 sessions, 2,000 idle", 200, 1, 50, "Bash", "Bash", idle=2000),
]


def flood(path: str, sessions: int, connections: int, in_flight: int, tool: str) -> None:
    """Run the flood: between `go` and `stop` on standard input keep every connection full; report the results."""
    raise_open_files()
    clients: dict[int, Client] = {}
    for _ in range(sessions):
        params: dict[str, Any] = {"host": "flood"}
        for _ in range(connections):
            client = Client(path)
            hello = client.call("hello", protocol=1, session=params)
            params = {"id": hello["session_id"], "resume_token": hello["resume_token"]}
            clients[client.socket.fileno()] = client
    line = Client(path).fire_line(tool, **INPUTS[tool])
    waited = dict.fromkeys(clients, 0)
    causes: Counter[str] = Counter()
    print("ready", flush=True)
    with select.epoll() as answers:
        for fd in clients:
            answers.register(fd, select.EPOLLIN)
        answers.register(0, select.EPOLLIN)
        is_on = False
        while True:
            for fd, _ in answers.poll():
                if fd == 0:
                    word = sys.stdin.readline()
                    if not word:
                        return
                    is_on = word == "go\n"
                    for one in clients if is_on else ():
                        waited[one] += in_flight
                        clients[one].socket.sendall(line * in_flight)
                else:
                    data = clients[fd].socket.recv(2**20)
                    count = data.count(b"\n")
                    causes["overload"] += data.count(b'"cause":"overload"') + data.count(b'"name":"overload"')
                    causes["answers"] += count
                    waited[fd] -= count
                    if is_on:
                        waited[fd] += count
                        clients[fd].socket.sendall(line * count)
            if not is_on and not any(waited.values()):
                print(json.dumps(causes), flush=True)
                causes.clear()


class Flooder:
    """The flood's process, and its switch."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.causes: Counter[str] = Counter()
        self.seconds = 0.0

    @contextmanager
    def on(self) -> Generator[None]:
        start = time.perf_counter()
        self._tell("go")
        time.sleep(SETTLE)
        yield
        self._tell("stop")
        self.causes.update(json.loads(self._line()))
        self.seconds += time.perf_counter() - start

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def flooding(path: str, kind: Flood) -> Generator[Flooder]:
    numbers = (str(number) for number in (kind.sessions, kind.connections, kind.in_flight))
    command = [sys.executable, __file__, "--flood", path, *numbers, kind.tool]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            flooder = Flooder(process)
            if (said := flooder._line()) != "ready\n":
                raise RuntimeError(f"the flood did not start: {said!r}")
            yield flooder
        finally:
            process.kill()


class Spinner:
    """One busy process per core."""

    @contextmanager
    def on(self) -> Generator[None]:
        command = [sys.executable, "-c", "while True: sum(range(100000))"]
        processes = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
        time.sleep(SETTLE)
        try:
            yield
        finally:
            for process in processes:
                process.kill()
                process.wait()


class Quiet:
    """The quiet sessions: they fire one at a time, on alternating sessions."""

    def __init__(self, daemon: Daemon, tool: str) -> None:
        self._clients = [daemon.connect() for _ in range(QUIET_SESSIONS)]
        self._lines = [client.fire_line(tool, **INPUTS[tool]) for client in self._clients]
        self.refused = 0

    def fire(self, calls: int) -> list[float]:
        """Return the milliseconds of these calls, or of those that fit into the duration of a block."""
        took: list[float] = []
        end = time.perf_counter() + BLOCK
        for number in range(calls):
            time.sleep(GAP)
            which = number % QUIET_SESSIONS
            start = time.perf_counter()
            answer = self._clients[which].exchange(self._lines[which])
            took.append((time.perf_counter() - start) * 1e3)
            self.refused += b'"verdict":"pass"' not in answer
            if time.perf_counter() > end:
                break
        return took

    def close(self) -> None:
        for client in self._clients:
            client.close()


class Row(msgspec.Struct):
    quiet: Summary
    flooded: Summary
    ratio: float
    ratio_p50: float
    first_after_ms: float
    refused: int
    flood_calls_a_second: float = 0.0
    flood_overloads: int = 0


def compare(daemon: Daemon, source: Flooder | Spinner, tool: str, rounds: int, calls: int) -> Row:
    quiet = Quiet(daemon, tool)
    quiet.fire(2 * QUIET_SESSIONS)
    alone: list[float] = []
    flooded: list[float] = []
    first: list[float] = []
    for _ in range(rounds):
        alone += quiet.fire(calls)
        with source.on():
            flooded += quiet.fire(calls)
        first += quiet.fire(1)
    quiet.close()
    before, during = summary(alone), summary(flooded)
    ratios = during.p99_ms / before.p99_ms, during.p50_ms / before.p50_ms
    row = Row(before, during, *ratios, summary(first).p50_ms, quiet.refused)
    if isinstance(source, Flooder):
        row.flood_calls_a_second = source.causes["answers"] / source.seconds
        row.flood_overloads = source.causes["overload"]
    return row


def measure(rounds: int, calls: int, *, scale: float = 1.0, only: str = "") -> dict[str, Row]:
    found: dict[str, Row] = {}
    with run_daemon() as daemon:
        if only in "spin":
            found["spin: no flood, busy cores"] = compare(daemon, Spinner(), "Bash", rounds, calls)
        for kind in FLOODS:
            if only not in kind.name:
                continue
            if scale < 1:
                sessions, idle = max(1, int(kind.sessions * scale)), int(kind.idle * scale)
                kind = kind._replace(sessions=sessions, idle=idle, in_flight=8)
            idle = [daemon.connect() for _ in range(kind.idle)]
            with flooding(daemon.agent, kind) as flooder:
                found[kind.name] = compare(daemon, flooder, kind.quiet_tool, rounds, calls)
            for client in idle:
                client.close()
    return found


def show(found: dict[str, Row]) -> None:
    heads = ("p50", "p99 ms", "flood p50", "p99 ms", "ratio", "of p50", "1st after", "refused", "flood/s", "overload")
    print(f"\n{'quiet sessions beside a flood':<36}" + "".join(f"{head:>11}" for head in heads))
    for name, row in found.items():
        numbers = (
            row.quiet.p50_ms, row.quiet.p99_ms, row.flooded.p50_ms, row.flooded.p99_ms, row.ratio, row.ratio_p50,
            row.first_after_ms,
        )  # fmt: skip
        cells = [f"{number:11.2f}" for number in numbers]
        print(
            f"{name:<36}"
            + "".join(cells)
            + f"{row.refused:11d}{row.flood_calls_a_second:11.0f}{row.flood_overloads:11d}"
        )
    for name, row in found.items():
        print(f"p99 of quiet sessions, {name}: {row.ratio:.2f} times that without (bad: over {AIM:g})")


def main() -> int:
    if sys.argv[1:2] == ["--flood"]:
        path, *numbers, tool = sys.argv[2:]
        flood(path, *map(int, numbers), tool)  # type: ignore[call-arg]
        return 0
    parser = argparse.ArgumentParser(description="Compare quiet sessions with and without a flood beside them.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="the floods whose name holds this")
    parser.add_argument("--quick", action="store_true", help="a few seconds: shows that it runs, not how fast")
    options = parser.parse_args()
    raise_open_files()
    rounds, calls, scale = (1, 10, 0.02) if options.quick else (options.rounds, 200, 1.0)
    machine = print_machine()
    found = measure(rounds, calls, scale=scale, only=options.only)
    show(found)
    path = save(
        "overload_quick" if options.quick else "overload",
        {
            "machine": machine,
            "rounds": rounds,
            "aim": AIM,
            "floods": {name: msgspec.to_builtins(row) for name, row in found.items()},
        },
    )
    print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
