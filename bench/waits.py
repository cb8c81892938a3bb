"""How long a neighbour waits while something changes for all: a probe pings all the time, on a session of its own.

registered   a hook is registered with scope "global", and taken back, beside 2,000 sessions that subscribe
edited       one of 500 files of hooks is replaced, and the time until the daemon has announced it

`waited` is the longest ping of each change, and `alone` that of as long a time without one.  `bench/registration.py`
has the turns of the loop themselves, and `bench/reload.py` the time until all subscribers know.

Bad would be: a ping of over 10 ms beside a registration; over 100 ms from save to announcement, or a ping of over 5 ms
meanwhile; each less what a ping took alone, as medians of the rounds.

Run: python bench/waits.py [--rounds N] [--quick] [--json]; with --json one line, the last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from contenders import Client, Daemon, run_daemon
from machine import ROOT, Summary, describe, raise_open_files, save, summary

SESSIONS, FILES = 2000, 500
MOST_WAIT_MS, MOST_EDIT_MS, MOST_EDIT_WAIT_MS = 10.0, 100.0, 5.0
QUIET = 0.5  # seconds between two changes
PAUSE = 0.001  # seconds between two pings: without one they alone would keep the daemon busy
GUARD = """from hooklatch import hook

@hook("stop")
def guard_{number}(event):
    return None  # version {version}
"""
Rows = dict[str, dict[str, Summary]]


class Probe:
    """A session that pings all the time, in a thread, and notes the longest answer since `begin`."""

    def __init__(self, client: Client) -> None:
        self._client, self._line = client, client.request("ping")
        self._is_over, self.worst_ms = False, 0.0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over:
            start = time.perf_counter()
            self._client.exchange(self._line)
            self.worst_ms = max(self.worst_ms, (time.perf_counter() - start) * 1e3)
            time.sleep(PAUSE)

    def begin(self) -> None:
        self.worst_ms = 0.0

    def end(self) -> None:
        self._is_over = True
        self._thread.join()
        self._client.close()


@contextmanager
def subscribers(daemon: Daemon, count: int) -> Generator[None]:
    """Hold so many sessions that subscribe, in a process of their own."""
    command = [sys.executable, str(ROOT / "bench" / "registration.py"), "--agents", daemon.agent]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for order in (f"open {count}", "subscribe"):
            print(order, file=process.stdin, flush=True)
            if not process.stdout.readline():
                raise RuntimeError("the process of the sessions ended")
        yield
        process.kill()


def timed(series: dict[str, list[float]], probe: Probe, change: Callable[[], object]) -> None:
    """Make a change, and note how long it took, the longest ping beside it, and that of as long a time without it."""
    time.sleep(QUIET)
    probe.begin()
    start = time.perf_counter()
    change()
    took = time.perf_counter() - start
    series.setdefault("took", []).append(took * 1e3)
    series.setdefault("waited", []).append(probe.worst_ms)
    time.sleep(QUIET)
    probe.begin()
    time.sleep(took)
    series.setdefault("alone", []).append(probe.worst_ms)


def registered(rounds: int, sessions: int) -> dict[str, Summary]:
    series: dict[str, list[float]] = {}
    with run_daemon() as daemon:
        admin, probe = daemon.administer(), Probe(daemon.connect())
        one = {"id": "one-more", "event": "stop", "run": f"{daemon.folder}/guards.py:tell_pid"}
        with subscribers(daemon, sessions):
            for _ in range(rounds):
                timed(series, probe, lambda: admin.call("register", scope="global", hooks=[one]))
                timed(series, probe, lambda: admin.call("unregister", scope="global", id="one-more"))
        probe.end()
        admin.close()
    return {name: summary(values) for name, values in series.items()}


def edited(rounds: int, files: int) -> dict[str, Summary]:
    series: dict[str, list[float]] = {}
    with run_daemon() as daemon:
        folder, beside = Path(daemon.folder, "hooks.d"), Path(daemon.folder, "new")
        beside.mkdir()
        for number in range(1, files + 1):
            (beside / f"guard_{number}.py").write_text(GUARD.format(number=number, version=0))
        beside.rename(folder)
        admin = daemon.administer()
        admin.call("reload")
        watcher, probe = daemon.connect(), Probe(daemon.connect())
        watcher.call("subscribe", topics=["registry"])

        def edit(version: int) -> None:
            new = folder.with_name("edited.new")
            new.write_text(GUARD.format(number=files // 2, version=version))
            new.replace(folder / f"guard_{files // 2}.py")
            watcher.socket.recv(2**16)

        edit(1)  # the first one warms up
        for version in range(2, rounds + 2):
            timed(series, probe, lambda version=version: edit(version))  # type: ignore[misc]
        probe.end()
        for client in (watcher, admin):
            client.close()
    return {name: summary(values) for name, values in series.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Show how long a neighbour waits while something changes for all.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="few sessions and files: shows that it runs")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    raise_open_files()
    machine = describe()
    sessions, files, rounds = (10, 5, 2) if options.quick else (SESSIONS, FILES, options.rounds)
    rows: Rows = {"registered": registered(rounds, sessions), "edited": edited(rounds, files)}
    record = {"machine": machine, "rounds": rounds, "rows": msgspec.to_builtins(rows)}
    save("waits_quick" if options.quick else "waits", record)
    if options.json:
        print(json.dumps(record))
        return 0
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(f"\n{'ms':<14}{'took p50':>10}{'worst':>10}{'waited p50':>12}{'worst':>10}{'alone p50':>12}{'worst':>10}")
    for name, row in rows.items():
        cells = [f"{one.p50_ms:.2f}".rjust(width) + f"{one.worst_ms:10.2f}" for one, width in
                 ((row["took"], 10), (row["waited"], 12), (row["alone"], 12))]  # fmt: skip
        print(f"{name:<14}" + "".join(cells))
    print(
        f"bad: waited over {MOST_WAIT_MS:g} ms; edited: took over {MOST_EDIT_MS:g}, waited over {MOST_EDIT_WAIT_MS:g}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
