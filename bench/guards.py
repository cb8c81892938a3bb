"""The callbacks of the benchmarks: the guard that every contender calls; others that compute, report, block and count.

`served` and `sqlite` are no hooks of a fire: bench/state.py calls them, to count in the daemon and in a file.
"""

import os
import shlex
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec

from hooklatch import amend, context, deny, hook, warn

databases: dict[str, Any] = {}
COUNT = "insert into counters values ('calls', 1) on conflict (key) do update set value = value + 1 returning value"


@hook("pre_tool_use", match="Bash")
def no_force_push(event: Any) -> Any:
    if "push --force" in event.tool_input["command"]:
        return deny("force pushes are not allowed here")
    return None


@hook("pre_tool_use", match="Work")
def read_commands(event: Any) -> Any:
    """Cost as much as a guard that parses a script: at least half a millisecond of CPU time."""
    for line in event.tool_input["script"].splitlines():
        if shlex.split(line)[:2] == ["rm", "-rf"]:
            return deny("name the files to remove")
    return None


@hook("pre_tool_use", match="WhoAmI")
def tell_pid(event: Any) -> Any:
    return warn(str(os.getpid()))


@hook("pre_tool_use", match="Sleep", timeout=600.0)
def sleep(event: Any) -> Any:
    """Block; tell who does, before that, in the file that is named."""
    if mark := event.tool_input.get("mark"):
        with open(mark, "w") as file:
            file.write(f"{os.getpid()}\n")
    time.sleep(event.tool_input["seconds"])


@hook("pre_tool_use", match="Spin", timeout=600.0)
def spin(event: Any) -> Any:
    """Compute for as long as is asked: by the thread's own processor time, so that a busy machine changes nothing."""
    end = time.thread_time() + event.tool_input["seconds"]
    while time.thread_time() < end:
        pass


@hook("pre_tool_use", match="Amend")
def shorten(event: Any) -> Any:
    return amend(tool_input={**event.tool_input, "timeout": 1000})


def judge(payload: bytes) -> str | None:
    """Call the guard in a pool's worker: what a fire does there, and nothing around it."""
    verdict = no_force_push(SimpleNamespace(**msgspec.json.decode(payload)))
    return None if verdict is None else verdict.reason


def served(event: Any) -> Any:
    """Increment a counter kept by the daemon."""
    return timed(lambda: event.state.increment("calls"), event.payload["steps"])


def sqlite(event: Any) -> Any:
    """Increment a counter in a file that all workers write; take the write lock first, so that no step is lost."""
    database = connect(event.payload["path"])

    def step() -> int:
        database.execute("begin immediate")
        ((value,),) = database.execute(COUNT).fetchall()
        database.execute("commit")
        return value

    return timed(step, event.payload["steps"])


def connect(path: str) -> Any:
    if path not in databases:
        import sqlite3  # here, so that the workers of other benchmarks do without it

        made = sqlite3.connect(path, isolation_level=None, timeout=30)
        made.execute("pragma synchronous = normal")
        databases[path] = made
    return databases[path]


def timed(step: Callable[[], object], steps: int) -> Any:
    times: list[float] = []
    for _ in range(steps):
        began = time.perf_counter()
        value = step()
        times.append((time.perf_counter() - began) * 1e3)
    return context(times=times, value=value)
