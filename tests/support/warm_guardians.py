"""Forks guardians of this process's own Python from a warm interpreter: that is half of what a test of a daemon costs.

tests/processes/test_zygote.py, pools that are to have a fresh one, and daemons whose command is started anew, start
theirs as the product does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from hooklatch.processes import guardian
from hooklatch.processes.guardian import Interpreter
from hooklatch_worker.sandbox import children
from support.warm_interpreters import CLONE, WarmInterpreter, import_path

__all__ = ["warm_guardians"]

FIRST = """gc.disable()  # as a guardian does
from hooklatch_worker.runtime import guardian"""
THEN = """os.set_inheritable(fds[3], True)
os.setsid()
sys.path[:] = asked["path"]
guardian.run_guardian(fds[3], asked["daemon"])"""


class Forked:
    """What the product needs of a process that it started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        return os.waitpid(self.pid, 0)[1]


LOCK = threading.Lock()  # a daemon may run in a thread beside the tests' own
SERVERS: list[WarmInterpreter] = []
IN_USE: list[object] = []
START = guardian.start_guardian


@contextmanager
def warm_guardians() -> Generator[None]:
    """Have each guardian of this process's own Python that starts in the block be forked from the interpreter."""
    mark = object()
    with LOCK:
        IN_USE.append(mark)
        if CLONE is not None:
            setattr(guardian, "start_guardian", start)  # noqa: B010  (its type is a subprocess's)
    try:
        yield
    finally:
        with LOCK:
            IN_USE.remove(mark)
            if not IN_USE:
                guardian.start_guardian = START


def start(line: int, interpreter: Interpreter | None) -> Any:
    if interpreter is not None:
        return START(line, interpreter)
    environ = children.OWN.of(os.environ)
    with LOCK:
        if not SERVERS:
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as for a guardian
            SERVERS.append(WarmInterpreter(environ, first=FIRST, then=THEN, flags=flags))
    pid = SERVERS[0].fork(environ, [0, 1, 2, line], os.getcwd(), path=import_path(), daemon=os.getpid())
    return Forked(pid), guardian.system.watch_process(pid)
