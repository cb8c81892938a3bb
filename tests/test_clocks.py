"""Tasks reach threads and clocks in one way each, so that both can be set under a test of the whole daemon."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from support.repository import ROOT

SOURCES = [*sorted((ROOT / "supervisor/hooklatch").rglob("*.py")), *sorted((ROOT / "workers").rglob("*.py"))]
RUN, THREADS = "trio.to_thread.run_sync", "threads.py"
# What runs in the daemon's process: its tasks read `trio.current_time()`.
DAEMON = ("core", "processes", "record", "service", "environments", "fleet/host", "metrics.py", "lsp.py", "products.py")
REAL = {
    "processes/worker.py": "compares moments with those of another process",
    "record/verify.py": "runs in a command",
    "record/writer.py": "outside a loop; the daemon gives it the loop's clock",
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT / "supervisor/hooklatch").as_posix() if "supervisor" in path.parts else path.name


def named(text: str, *names: str) -> list[ast.Attribute]:
    """Return where a text names one of these functions of a module, called or not."""
    if not any(name in text for name in names):
        return []
    found = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Attribute) and ast.unparse(one) in names]
    return sorted(found, key=lambda one: one.lineno)


def bound(text: str) -> list[int]:
    """Return the lines that bind the wall clock before it is asked: by import, as a default, or to another name."""
    wall, lines = named(text, "time.time", "time.time_ns"), text.split("\n")
    imported = [
        number for number, line in enumerate(lines, 1) if re.match(r"\s*from time import .*\btime(_ns)?\b", line)
    ]
    return [*imported, *(one.lineno for one in wall if lines[one.lineno - 1][one.end_col_offset or 0 :][:1] != "(")]


def test_a_task_calls_a_thread_in_one_way() -> None:
    found = [name_of(path) for path in SOURCES if named(path.read_text(), RUN)]

    assert found == [THREADS], "a thread is started by in_thread of hooklatch/threads.py"
    assert len(named("await trio.to_thread.run_sync(f)\nn.start_soon(trio.to_thread.run_sync, f)", RUN)) == 2


def test_tasks_of_the_daemon_read_the_clock_of_their_loop() -> None:
    found = {
        name
        for path in SOURCES
        if (name := name_of(path)).startswith(DAEMON) and named(path.read_text(), "time.monotonic", "time.perf_counter")
    }

    assert found == REAL.keys(), "a task asks trio.current_time()"


def test_the_wall_clock_is_asked_and_never_bound() -> None:
    found = [f"{name_of(path)}:{line}" for path in SOURCES for line in bound(path.read_text())]

    assert not found
    assert bound("from time import time\ndef f(now=time.time): ...\nclock = time.time\nnow = time.time()") == [1, 2, 3]
