"""trio on the simulated machine: its clock, its I/O manager, its order of tasks, its threads.

The I/O manager parks and wakes tasks; while nothing can run it has the kernel do what is due, which moves the clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import outcome
import trio
import trio._core._run as core

from simulation.kernel import COMPUTE, File, Kernel, Killed, Strand, Stuck

__all__ = ["InputOutput", "SimulatedClock", "run_in_strand", "run_simulated"]

DIVIDED = 0.12  # how much of what is given to threads is done in a strand, between whose calls others may run
FOREVER = 12 * 3600.0  # trio waits a day where no deadline is set


class SimulatedClock(trio.abc.Clock):
    """The kernel's clock."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def start_clock(self) -> None:
        """Do nothing: it goes already."""

    def current_time(self) -> float:
        return self._kernel.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - self._kernel.now


class InputOutput:
    """In place of trio's epoll: it wakes a task when what it waits for is ready."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def close(self) -> None:
        """Do nothing."""

    def force_wakeup(self) -> None:
        """Do nothing: who calls this has made a change that is seen anyway."""

    def get_events(self, timeout: float) -> tuple[()]:
        kernel = self._kernel
        kernel.has_woken = False
        try:
            if timeout >= FOREVER and kernel.is_empty:
                raise Stuck("nothing can ever happen again")
            kernel.run(timeout, lambda: kernel.has_woken)
        except Stuck as error:
            tasks = sorted(f"\n    {task.name}: {describe_wait(task)}" for task in core.GLOBAL_RUN_CONTEXT.runner.tasks)
            raise Stuck(f"{error}; each task is at{''.join(tasks)}") from None
        return ()

    def process_events(self, events: object) -> None:
        """Do nothing: tasks are woken when things change."""

    def _find(self, what: Any) -> File:
        return self._kernel.daemon.find(what) if isinstance(what, int) else what.file

    async def wait_readable(self, what: Any) -> None:
        file = self._find(what)
        await self._wait(file, file.is_readable)

    async def wait_writable(self, what: Any) -> None:
        file = self._find(what)
        await self._wait(file, file.is_writable)

    async def _wait(self, file: File, is_ready: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if is_ready():
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        if is_ready in file.waiting:
            raise trio.BusyResourceError("another task waits for this")
        task = trio.lowlevel.current_task()

        def tell(error: Exception | None = None) -> None:
            if error is not None or is_ready():
                del file.waiting[is_ready]
                trio.lowlevel.reschedule(task, outcome.Value(None) if error is None else outcome.Error(error))
                self._kernel.has_woken = True

        def abort(_: object) -> trio.lowlevel.Abort:
            del file.waiting[is_ready]
            return trio.lowlevel.Abort.SUCCEEDED

        file.waiting[is_ready] = tell
        await trio.lowlevel.wait_task_rescheduled(abort)

    def notify_closing(self, what: Any) -> None:
        try:
            file = self._find(what)
        except OSError:
            return
        for is_ready in (file.is_readable, file.is_writable):
            if (tell := file.waiting.get(is_ready)) is not None:
                tell(trio.ClosedResourceError("closed"))


async def run_in_strand(kernel: Kernel, function: Callable[..., Any], *arguments: Any, may_abandon: bool) -> Any:
    """Do what `trio.to_thread.run_sync` does, in a strand."""
    await trio.lowlevel.checkpoint_if_cancelled()
    task, process, is_waiting = trio.lowlevel.current_task(), kernel.process, True
    result: outcome.Outcome[Any] = outcome.Error(OSError(5, "the process was killed"))

    def act() -> None:
        nonlocal result
        try:
            if not process.is_dead:
                result = outcome.Value(function(*arguments))
        except BaseException as error:
            if not isinstance(error, Killed):
                result = outcome.Error(error)

    def finish() -> None:
        if is_waiting:
            trio.lowlevel.reschedule(task, result)
            kernel.has_woken = True

    def act_at_once() -> None:
        act()
        finish()

    def abort(_: object) -> trio.lowlevel.Abort:
        nonlocal is_waiting
        if not may_abandon:
            return trio.lowlevel.Abort.FAILED
        is_waiting = False
        return trio.lowlevel.Abort.SUCCEEDED

    if kernel.random.random() < DIVIDED:
        Strand(process, act).on_end = finish
    else:  # other than in a strand, nothing happens between its calls
        kernel.at(kernel.random.random() ** 3 * COMPUTE, act_at_once)
    return await trio.lowlevel.wait_task_rescheduled(abort)


def describe_wait(task: trio.lowlevel.Task) -> str:
    """Return where a task waits: its innermost lines, without those of trio."""
    frames = [(frame.f_code, line) for frame, line in task.iter_await_frames()]
    ours = [f"{code.co_qualname}:{line}" for code, line in frames if "/trio/" not in code.co_filename]
    return " < ".join(reversed(ours[-3:]))


def run_simulated(kernel: Kernel, main: Callable[[], Awaitable[Any]], seed: object) -> Any:
    """Run a trio program on the simulated machine, with an order of tasks that the seed decides.

    Raises:
        Stuck: it cannot go on.
    """
    before = core.TheIOManager, core._ALLOW_DETERMINISTIC_SCHEDULING
    core.TheIOManager = lambda: InputOutput(kernel)  # type: ignore[assignment, misc]
    core._ALLOW_DETERMINISTIC_SCHEDULING = True
    core._r.seed(f"{seed} tasks")
    try:
        return trio.run(main, clock=SimulatedClock(kernel))
    finally:
        core.TheIOManager, core._ALLOW_DETERMINISTIC_SCHEDULING = before
