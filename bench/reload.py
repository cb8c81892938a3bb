"""How soon a change is active and known: from a saved file to its announcement, and a registration beside a ping.

reload        hooks.toml is replaced on the disk while 1,000 sessions subscribe to the registry; for each session the
              time until it has the announcement, of all rounds.  What changes is a hook of a loaded source
registration  a session registers a hook that it serves itself, and takes it back, beside 1, 100 and 1,000 sessions that
              subscribe; and one with scope "global".  A ping on the same connection, in turns with both, is the unit.
              `us a session` is what each further session adds to the median

`bench/registration.py` looks at the same from inside: for how long one change holds the loop.

Bad would be: a p99 of over 100 ms from save to announcement; a registration over twice a ping beside one session.

Run: python bench/reload.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from contenders import Client, Daemon, run_daemon
from machine import WARM_ROUNDS, Summary, print_machine, raise_open_files, save, summary

SESSIONS, BESIDE = 1_000, (1, 100, 1_000)
MOST_MS, MOST_PINGS = 100.0, 2.0
GIVE_UP = 30.0  # seconds
QUIET = 0.3  # seconds between two changes of the file: the watch takes one at a time
HOOKS = """
[[source]]
path = "guards.py"

[[hook]]
id = "again"
event = "stop"
run = "guards.py:tell_pid"
priority = {}
"""
SERVED = {"id": "own", "event": "stop", "served": True}


class Subscribers:
    """Sessions that subscribe to the registry."""

    def __init__(self, daemon: Daemon, count: int) -> None:
        self._clients: dict[int, Client] = {}
        for _ in range(count):
            client = daemon.connect()
            client.call("subscribe", topics=["registry"])
            self._clients[client.socket.fileno()] = client

    def times_until_told(self, start: float) -> list[float]:
        """Return for each session the milliseconds until it had an announcement."""
        took: list[float] = []
        with select.epoll() as told:
            for fd in self._clients:
                told.register(fd, select.EPOLLIN)
            while len(took) < len(self._clients):
                ready = told.poll(GIVE_UP)
                if not ready:
                    raise TimeoutError(f"{len(self._clients) - len(took)} sessions were not told of the change")
                for fd, _ in ready:
                    self._clients[fd].socket.recv(2**16)
                    told.unregister(fd)
                    took.append((time.perf_counter() - start) * 1e3)
        return took

    @contextmanager
    def reading(self) -> Generator[None]:
        """Have a thread read whatever they are told, so that none of them lags."""
        ended, end = os.pipe()

        def read() -> None:
            with select.epoll() as told:
                for fd in (*self._clients, ended):
                    told.register(fd, select.EPOLLIN)
                while True:
                    for fd, _ in told.poll():
                        if fd == ended:
                            return
                        os.read(fd, 2**16)

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            os.close(end)
            thread.join()
            os.close(ended)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def reload(rounds: int, sessions: int) -> Summary:
    took: list[float] = []
    with run_daemon(files={"hooks.toml": HOOKS.format(100)}) as daemon:
        config = Path(daemon.folder, "hooks.toml")
        subscribers = Subscribers(daemon, sessions)
        for number in range(rounds + 1):
            time.sleep(QUIET)
            new = config.with_suffix(".new")
            new.write_text(HOOKS.format(101 + number % 2))
            start = time.perf_counter()
            new.replace(config)
            times = subscribers.times_until_told(start)
            if number:  # the first round warms up
                took += times
        subscribers.close()
    return summary(took)


def registration(rounds: int, beside: tuple[int, ...]) -> dict[str, dict[str, Summary]]:
    found: dict[str, dict[str, Summary]] = {}
    with run_daemon() as daemon:
        loaded = {"id": "one-more", "event": "stop", "run": f"{daemon.folder}/guards.py:tell_pid"}
        for count in beside:
            agent, admin = daemon.connect(), daemon.administer()
            subscribers = Subscribers(daemon, count)
            series: dict[str, list[float]] = {"ping": [], "register, own": [], "register, global": []}

            def timed(name: str, client: Client, method: str, **params: object) -> None:
                line = client.request(method, **params)
                start = time.perf_counter()
                answer = client.exchange(line)
                series[name].append((time.perf_counter() - start) * 1e3)  # noqa: B023  (called in this turn only)
                if b'"error"' in answer:
                    raise RuntimeError(answer.decode())

            with subscribers.reading():
                for _ in range(rounds + WARM_ROUNDS):
                    timed("ping", agent, "ping")
                    timed("register, own", agent, "register", hooks=[SERVED])
                    agent.call("unregister", id=SERVED["id"])
                    timed("register, global", admin, "register", scope="global", hooks=[loaded])
                    admin.call("unregister", scope="global", id=loaded["id"])
            found[f"{count} sessions"] = {name: summary(took[WARM_ROUNDS:]) for name, took in series.items()}
            for client in (agent, admin, subscribers):
                client.close()
    return found


def slopes(found: dict[str, dict[str, Summary]], beside: tuple[int, ...]) -> dict[str, float]:
    """Return how many microseconds each further session adds, between the fewest and the most."""
    first, *_, last = found.values()
    more = beside[-1] - beside[0]
    return {name: (last[name].p50_ms - first[name].p50_ms) * 1e3 / more for name in first}


def main() -> int:
    parser = argparse.ArgumentParser(description="Time a change from the file or the request until all know it.")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="few sessions: shows that it runs, not how fast")
    options = parser.parse_args()
    raise_open_files()
    sessions, beside, rounds = (5, (1, 5), 2) if options.quick else (SESSIONS, BESIDE, options.rounds)
    machine = print_machine()
    announced = reload(max(2, rounds // 3), sessions)
    found = registration(rounds, beside)
    added = slopes(found, beside)

    print(
        f"\nsaved to announced, {sessions} sessions: p50 {announced.p50_ms:.1f} ms, p99 {announced.p99_ms:.1f} ms, "
        f"worst {announced.worst_ms:.1f} ms (bad: p99 over {MOST_MS:g})"
    )
    print(f"\n{'':<20}" + "".join(f"{f'{name} p50 ms':>26}{'x ping':>8}" for name in added))
    for name, row in found.items():
        cells = (f"{one.p50_ms:26.3f}{one.p50_ms / row['ping'].p50_ms:8.2f}" for one in row.values())
        print(f"{name:<20}" + "".join(cells))
    print(f"{'us a session':<20}" + "".join(f"{one:26.2f}{'':8}" for one in added.values()))
    alone = next(iter(found.values()))
    pings = {name: row.p50_ms / alone["ping"].p50_ms for name, row in alone.items()}
    print(f"beside one session: {pings['register, own']:.2f} pings (bad: over {MOST_PINGS:g})")
    record = {
        "machine": machine,
        "rounds": rounds,
        "saved_to_announced": announced,
        "registration": msgspec.to_builtins(found),
        "us_a_session": added,
        "pings": pings,
    }
    print(f"written: {save('reload_quick' if options.quick else 'reload', record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
