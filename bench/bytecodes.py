"""How many bytecodes one warm fire takes, in the daemon and in its worker, by function.

A daemon of its own answers fires of one guard that only judges, over one kept socket, one fire after the other.  Its
main thread and its worker run under `sys.settrace` with `f_trace_opcodes`, and count each bytecode of our code, of trio
and of the standard library into memory that this script reads before and after each fire, when both sleep again.  A
traced fire takes some milliseconds, so what the daemon does by the clock is put off, and it waits for each answer in
place.  Of many fires the one in the
middle is shown: what remains of the background happens in few of them.

The same code gives the same numbers on any machine under any load, which times do not.  They mean Python 3.11: another
version has other bytecodes.

Bad would be: more than the bounds of tests/bench/test_bytecodes.py.  When a fire gets shorter, lower them.

Run: python bench/bytecodes.py [--quick] [--json]; the last line is JSON: {"daemon": N, "worker": N}.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import mmap
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import contenders
from machine import print_machine, save

COUNTED = ("daemon", "worker")
FIRES, QUICK_FIRES, WARM = 200, 40, 30
SLOTS, NAME = 4096, 120  # functions that can be counted, and the bytes of a name
ANSWER_TIMEOUT = 60.0  # seconds after which a process counts as hung
GUARD = """
from hooklatch import hook

@hook("pre_tool_use", only_judges=True)
def guard(event):
    if "push --force" in event.tool_input["command"]:
        return "never"
    return None
"""
DAEMON = """
import hooklatch.record.writer as record, hooklatch.processes.worker as worker
import hooklatch.processes.pool as pool
import hooklatch.processes.resource_limits as limits, hooklatch.service.loading.watch as files
import hooklatch.service.transport.watches as readers
worker.WAITS = (3600_000,)  # milliseconds; how many looks are in vain would depend on the machine
pool.IN_PLACE = 3600_000  # else a traced fire would count as a long one, for which the loop goes on at once
record.GROUP = limits.INTERVAL = files.SETTLE = readers.TICK = 3600.0

import trio._core._run as turns
turns._r.random = float  # trio turns a batch of tasks around by chance: here each, since float() is 0
"""


def count_bytecodes(path: str, slots: int, name_bytes: int) -> None:
    """Count this thread's bytecodes from now on in a file beside `path`, by function.  Its source stands in workers."""
    import mmap
    import os
    import sys

    size = slots * (8 + name_bytes)
    with open(f"{path}.{os.getpid()}", "w+b") as file:
        file.truncate(size)
        shared = mmap.mmap(file.fileno(), size)
    counts = memoryview(shared)[: slots * 8].cast("Q")
    tracers: dict[CodeType, Callable[..., Any]] = {}

    def make_tracer(code: CodeType) -> Callable[..., Any]:
        slot = len(tracers)
        begin = slots * 8 + slot * name_bytes
        name = f"{code.co_filename} {code.co_qualname}".encode()[-name_bytes:]
        shared[begin : begin + len(name)] = name

        def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
            if event == "opcode":
                counts[slot] += 1
            return trace

        return trace

    def enter(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if (tracer := tracers.get(frame.f_code)) is None:
            tracer = tracers[frame.f_code] = make_tracer(frame.f_code)
        return tracer

    above = sys._getframe().f_back
    while above is not None:
        above.f_trace = enter(above, "call", None)
        above = above.f_back
    sys.settrace(enter)


class Counted:
    """The counts of one process, as it writes them."""

    def __init__(self, path: Path) -> None:
        self.pid = int(path.suffix[1:])
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 0)
        self._counts = memoryview(self._shared)[: SLOTS * 8].cast("Q")

    def wait_asleep(self) -> Counter[str]:
        """Return the counts by function, once its main thread sleeps."""
        end = time.monotonic() + ANSWER_TIMEOUT
        before: list[int] = []
        while time.monotonic() < end:
            try:
                is_asleep = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
            except FileNotFoundError:
                is_asleep = True  # for ever: it has only proved that its source can be loaded
            counts = self._counts.tolist()
            if is_asleep and counts == before:
                return Counter({self._name(slot): count for slot, count in enumerate(counts) if count})
            before = counts
            os.sched_yield()
        raise TimeoutError(f"process {self.pid} does not come to rest")

    def _name(self, slot: int) -> str:
        begin = SLOTS * 8 + slot * NAME
        path, _, name = self._shared[begin : begin + NAME].rstrip(b"\0").decode().rpartition(" ")
        for folder in ("/supervisor/", "/workers/", "/site-packages/", "/lib/"):
            path = path.rpartition(folder)[2]
        return f"{path} {name}"


def at_rest(folder: str, name: str, counted: dict[Path, Counted]) -> Counter[str]:
    """Return what the processes of that name have counted, when each of them sleeps: a worker may be started late."""
    for path in Path(folder).glob(f"{name}.*"):
        if path not in counted:
            counted[path] = Counted(path)
    return sum((one.wait_asleep() for path, one in counted.items() if path.stem == name), Counter[str]())


def measure(fires: int) -> dict[str, Counter[str]]:
    """Return the bytecodes of the fire in the middle, for each of the two processes by itself."""
    with tempfile.TemporaryDirectory() as folder:
        call = f"count_bytecodes({{!r}}, {SLOTS}, {NAME})\n"
        source = inspect.getsource(count_bytecodes)
        annotations = "from __future__ import annotations\n"
        files = {
            "judge.py": annotations + GUARD + source + call.format(f"{folder}/worker"),
            "hooks.toml": '[[source]]\npath = "judge.py"\nworkers = 2\n',
        }
        begin = annotations + DAEMON + source + call.format(f"{folder}/daemon")
        with contenders.run_daemon(files=files, begin=begin) as daemon:
            client = daemon.connect()
            line = client.fire_line()
            for _ in range(WARM):
                answer = json.loads(client.exchange(line))["result"]
                if answer["verdict"] != "pass":
                    raise RuntimeError(f"not the answer that is to be counted: {answer}")
            counted: dict[Path, Counted] = {}
            found: dict[str, list[Counter[str]]] = {name: [] for name in COUNTED}
            for _ in range(fires):
                before = {name: at_rest(folder, name, counted) for name in COUNTED}
                client.exchange(line)
                for name in COUNTED:
                    found[name].append(at_rest(folder, name, counted) - before[name])
            client.close()
    return {name: sorted(several, key=lambda one: one.total())[len(several) // 2] for name, several in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the bytecodes of one fire.")
    parser.add_argument("--quick", action="store_true", help="count fewer fires")
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    options = parser.parse_args()
    found = measure(QUICK_FIRES if options.quick else FIRES)
    totals = {name: counter.total() for name, counter in found.items()}
    if not options.json:
        machine = print_machine()
        for name, counter in found.items():
            print(f"\n{name}: {totals[name]} bytecodes")
            for function, count in counter.most_common():
                print(f"{count:>6}  {function}")
        save("bytecodes_quick" if options.quick else "bytecodes", {"machine": machine, **totals, "by_function": found})
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(totals))
    return 0


if __name__ == "__main__":
    sys.exit(main())
