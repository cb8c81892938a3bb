"""The hook processes of `test --in-process`, which stand in for workers so that a debugger can be used.

Files are loaded as in a worker, hooks are matched and combined by the daemon's own dispatcher, and called by a worker's
code in a process of each source at the same terminal (`hook_process`).  A hook that ends its process so does not end
the report.  Shell hooks still run in workers.  So do sources with an environment of their own, since its packages are
not those of this process.  There is no deadline: a person may be thinking.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import cast

import msgspec
import trio

from hooklatch.cli.terminal import output
from hooklatch.cli.testing.hook_process import ENDED, INTERRUPTED
from hooklatch.core.call import Call
from hooklatch.core.messages import CallOutcome
from hooklatch.processes.fire_context import FireContext
from hooklatch.processes.worker import PoolWorker, SourceLoadError, WorkerProcess, build_call_outcome
from hooklatch.service.dispatch.dialects import DialectDispatcher
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.runners import HookRunner
from hooklatch.service.loading.sources import SourceBuild as Proven
from hooklatch.service.loading.sources import UnitError, find_builtin_source, read_source_version
from hooklatch.service.parts import DaemonComponents
from hooklatch.threads import in_thread
from hooklatch_worker import wire
from hooklatch_worker.sandbox import children
from hooklatch_worker.systems import system

__all__ = ["open_in_process_dispatcher"]

Key = tuple[str, int]
PROGRAM = "import sys; from hooklatch.cli.testing.hook_process import serve_hooks; serve_hooks({}, {}, is_debugging={})"
EXIT_TIMEOUT = 5.0  # seconds for a process that is to end, with the hooks' own `atexit` functions


@asynccontextmanager
async def open_in_process_dispatcher(
    parts: DaemonComponents, faults: list[str], *, is_debugging: bool, stdout: int | None
) -> AsyncGenerator[tuple[Dispatcher, DialectDispatcher]]:
    """Open a dispatcher that runs hooks beside this process.

    At the end, `faults` has a text for each source whose process did not end by itself.
    """
    print_sources_in_workers(parts)
    pools = Pools(parts, is_debugging=is_debugging, stdout=stdout)
    dispatcher = parts.make_dispatcher(pools)
    try:
        yield dispatcher, DialectDispatcher(dispatcher)
        for source in pools.started:
            faults += await source.end()
    finally:
        with trio.CancelScope(shield=True):  # also after Ctrl-C no process may be left at the terminal
            for source in pools.started:
                await source.kill()


def print_sources_in_workers(parts: DaemonComponents) -> None:
    for location, unit in parts.sources.units.items():
        if unit.environment is not None:
            output.print_error(
                f"{location} has an environment of its own, so its hooks run in workers, not in this process"
            )


class Pools(Mapping[Key, HookRunner]):
    """A stand-in for the pools of workers: a process for each source that is not built in, from its first call on."""

    def __init__(self, parts: DaemonComponents, *, is_debugging: bool = False, stdout: int | None = None) -> None:
        self._real = parts.sources.pools
        self._is_debugging, self._stdout = is_debugging, stdout
        self._sources: dict[Key, InProcessSource] = {}
        self._units = parts.sources.units

    @property
    def started(self) -> list[InProcessSource]:
        return list(self._sources.values())

    def __getitem__(self, key: Key) -> HookRunner:
        location = key[0]
        unit = self._units.get(location)
        if unit is None or unit.environment is not None or find_builtin_source(unit.source) is not None:
            return self._real[key]
        if key not in self._sources:
            self._real[key]  # raises KeyError unless a worker has loaded the source
            self._sources[key] = InProcessSource(unit, is_debugging=self._is_debugging, stdout=self._stdout)
        return self._sources[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._real)

    def __len__(self) -> int:
        return len(self._real)


class HookProcess(WorkerProcess):
    """A handle on a hook process, like that on a worker: it shares this one's terminal, and no zygote has forked it."""

    def __init__(self, *, is_debugging: bool, stdout: int | None) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            code = PROGRAM.format(theirs.fileno(), os.getpid(), is_debugging)
            flags = cast("list[str]", subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]
            self.started = children.start_child(
                [sys.executable, *flags, "-P", "-c", code], children.make_user_environment(os.environ), stdout=stdout,
                pass_fds=[theirs.fileno()],
            )  # fmt: skip
        self.generation, self.pid, self.socket = 1, self.started.pid, ours
        self.socket.setblocking(False)
        self.pidfd = system.watch_process(self.pid)
        self.stdout_fd, self.stderr_fd, self.progress_fd = (system.make_anonymous_file("nothing") for _ in range(3))
        os.ftruncate(self.progress_fd, wire.PROGRESS_BYTES)
        self.exit_code, self.exit_known = None, trio.Event()
        self.exit_known.set()  # no zygote reports its end: `wait_ended` finds it out

    @property
    def fault(self) -> None:
        """Return None: an end between two calls is found at the next call."""

    @property
    def is_orphaned(self) -> bool:
        return False

    async def wait_ended(self) -> str:
        """Wait for its end until a timeout, then kill it; return how it ended.

        Raises:
            KeyboardInterrupt: it was interrupted, or its debugger was left.
        """
        with trio.move_on_after(EXIT_TIMEOUT):
            await trio.lowlevel.wait_readable(self.pidfd)
        if not select.select([self.pidfd], [], [], 0)[0]:
            self.kill()
            await trio.lowlevel.wait_readable(self.pidfd)
            self.started.wait()
            return "it closed the pipe of the process that runs it"
        code = self.started.wait()
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code < 0:
            return f"it ended the process that runs it, by {signal.Signals(-code).name}"
        return f"it ended the process that runs it, by os._exit or the like: exit code {code}"


class InProcessSource:
    """One source in a process beside this one; in a new one after a hook has ended that."""

    def __init__(self, proven: Proven, *, is_debugging: bool = False, stdout: int | None = None) -> None:
        self._proven, self._source = proven, proven.source
        self._is_debugging, self._stdout = is_debugging, stdout
        self._call_lock = trio.Lock()
        self._running: tuple[HookProcess, PoolWorker] | None = None

    async def call(self, call: Call, fire: FireContext, deadline: float) -> CallOutcome:
        """Run one call; those that follow it in the same process wait for their turn."""
        async with self._call_lock:
            began = trio.current_time()
            try:
                process, worker = self._running or await self._start()
            except SourceLoadError as error:
                return CallOutcome(cause="load", message=str(error))
            except UnitError as error:
                return CallOutcome(cause="load", message=str(error.diagnostic))
            for stream in (sys.stdout, sys.stderr):
                stream.flush()  # the hooks print to the same terminal
            call = msgspec.structs.replace(call, following=())  # one call at a time, so that a debugger has one hook
            timeout = call.hook.timeout or fire.spec.timeout
            answer = worker.begin(call, fire, timeout) or await worker.end(fire)
            seconds = trio.current_time() - began
            if not isinstance(answer, CallOutcome):
                worker.serving = None
                return build_call_outcome(answer, call.hook, seconds)
            if answer.cause == "crash":
                answer = msgspec.structs.replace(answer, message=await process.wait_ended())
            await self.kill()
            return answer.with_duration(seconds)

    async def _start(self) -> tuple[HookProcess, PoolWorker]:
        # The build that a worker has proven, but open: the person may change files while a debugger waits.
        version = await in_thread(read_source_version, self._source)
        build = self._proven.loaded.build or wire.BuildFiles()
        process = HookProcess(is_debugging=self._is_debugging, stdout=self._stdout)
        self._running = process, PoolWorker(process)
        process.socket.send(wire.encode_frame(wire.ForkWorker(process.generation, self._source, wire.WorkerLimits())))
        await self._running[1].load(wire.LoadCode(version.code, self._proven.folder, build, is_open=True))
        return self._running

    async def end(self) -> list[str]:
        """Let the process end, and return what is wrong with its end."""
        if self._running is None:
            return []
        process, received = self._running[0], b""
        with suppress(OSError), trio.move_on_after(EXIT_TIMEOUT):
            process.socket.shutdown(socket.SHUT_WR)
            while True:
                await trio.lowlevel.wait_readable(process.socket)
                if not (data := process.socket.recv(4096)):
                    break
                received += data
        end = await process.wait_ended()
        if received == ENDED:
            return []
        return [f"{self._source.location}: a function that a hook left to run at the end did not return: {end}"]

    async def kill(self) -> None:
        """Kill the process, and reap it."""
        if self._running is not None:
            process, worker = self._running
            self._running = None
            process.kill()
            await in_thread(process.started.wait)
            worker.close()
