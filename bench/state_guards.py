"""The callbacks timed by bench/state.py: the same counter, kept by the daemon and in SQLite."""

import sqlite3
import time
from collections.abc import Callable

from hooklatch_worker import Event, Verdict, context

databases: dict[str, sqlite3.Connection] = {}
COUNT = "insert into counters values ('calls', 1) on conflict (key) do update set value = value + 1 returning value"


def served(event: Event) -> Verdict:
    """Increment a counter kept by the daemon."""
    return timed(lambda: event.state.increment("calls"), event.payload["steps"])


def sqlite(event: Event) -> Verdict:
    """Increment a counter in a file that all workers write; take the write lock first, so that no step is lost."""
    database = connect(event.payload["path"])

    def step() -> int:
        database.execute("begin immediate")
        ((value,),) = database.execute(COUNT).fetchall()
        database.execute("commit")
        return value

    return timed(step, event.payload["steps"])


def connect(path: str) -> sqlite3.Connection:
    if path not in databases:
        made = sqlite3.connect(path, isolation_level=None, timeout=30)
        made.execute("pragma synchronous = normal")
        databases[path] = made
    return databases[path]


def timed(step: Callable[[], object], steps: int) -> Verdict:
    times: list[float] = []
    for _ in range(steps):
        began = time.perf_counter()
        value = step()
        times.append((time.perf_counter() - began) * 1e3)
    return context(times=times, value=value)
