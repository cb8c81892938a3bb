"""Supervises children: starts them, and restarts those that fail.  Knows tasks and time; not what children do.

Its only strategy is one_for_one: no child here holds anything that another one's failure spoils.  `core/restarts.py`
decides about each child; this runs it.

    start(spec)      a child that is kept: permanent or transient; its first start must succeed
    spawn(name, f)   a temporary one, of any number: it is counted, and a failure is logged and ends nobody else

A failure is an Exception, alone or in a group, or an unexpected return.  Cancelled, KeyboardInterrupt and SystemExit
are not failures: they pass through.  Children are ended in the reverse order of their start.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import trio

from hooklatch.core.restarts import ChildLifecycle, Restart, RestartPolicy

__all__ = ["ChildSpec", "ChildStatus", "PartFailedError", "Supervisor", "find_cause", "format_failure_cause"]

logger = logging.getLogger("hooklatch.supervisor")
STEADY = RestartPolicy()


class PartFailedError(Exception):
    """A significant child has failed, and so its supervisor ends."""

    def __init__(self, name: str, fault: str | None) -> None:
        super().__init__(f"the daemon cannot go on without its part {name!r}, which has failed: {fault}")
        self.name = name


class ChildSpec(msgspec.Struct, frozen=True):
    """One child: what runs, and what its end means.

    A child that `reports_start` is given a trio.TaskStatus and reports when it can be used; any other can at once.
    `below` is what it supervises itself.
    """

    name: str
    run: Callable[..., Awaitable[object]]
    restart: Restart = Restart.PERMANENT
    policy: RestartPolicy = STEADY
    is_significant: bool = False
    reports_start: bool = False
    below: Supervisor | None = None


class ChildStatus(msgspec.Struct, frozen=True):
    """What `hooklatch status --tree` shows of a child: its last fault; `running` and `failed` count temporary ones."""

    name: str
    restart: str
    state: str
    is_significant: bool = False
    restarts: int = 0
    fault: str | None = None
    running: int = 0
    failed: int = 0
    children: list[ChildStatus] = []


class Child:
    """A child and its current state."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.life = ChildLifecycle(spec.restart, spec.policy, is_significant=spec.is_significant)
        self.scope = trio.CancelScope()
        self.ended = trio.Event()


class ReadySignal:
    """Receives the report that a child can be used, and passes the first one to whoever started it."""

    def __init__(self, task_status: trio.TaskStatus[Any] | None) -> None:
        self._task_status = task_status
        self.is_started = False

    def started(self, value: object = None) -> None:
        self.is_started = True
        if self._task_status is not None:
            self._task_status.started(value)


class Supervisor:
    """Owns children, and keeps each as its spec says."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._children: dict[str, Child] = {}
        self._nursery: trio.Nursery | None = None
        self._running = 0  # temporary ones
        self._failed = 0
        self._last: tuple[float, str] | None = None  # the latest failure of a temporary one

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Supervisor]:
        """Supervise while the block runs."""
        async with trio.open_nursery() as self._nursery:
            try:
                yield self
            finally:
                with trio.CancelScope(shield=True):
                    for child in reversed(list(self._children.values())):
                        child.scope.cancel()
                        await child.ended.wait()
                self._nursery.cancel_scope.cancel()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Supervise until cancelled."""
        async with self.open():
            task_status.started()
            await trio.sleep_forever()

    async def start(self, spec: ChildSpec) -> Any:
        """Start a child and keep it running; return what it reported when it had started.

        Raises:
            Exception: what its first start raised; the child is not kept then.
        """
        assert self._nursery is not None
        assert spec.name not in self._children, f"there is a child {spec.name!r} already"
        child = self._children[spec.name] = Child(spec)
        return await self._nursery.start(self._keep, child)

    def end(self, name: str) -> None:
        """End a child that is kept, if there is one of this name."""
        child = self._children.get(name)
        if child is not None:
            child.scope.cancel()

    def spawn(self, name: str, run: Callable[..., Awaitable[object]], *arguments: Any) -> bool:
        """Run a temporary child; return False if the supervisor does not run, and so the child does not either."""
        if self._nursery is None:
            return False
        try:
            self._nursery.start_soon(self._run_once, name, run, arguments)
        except RuntimeError:
            return False  # trio: the nursery is closed to new arrivals
        self._running += 1
        return True

    async def _run_once(self, name: str, run: Callable[..., Awaitable[object]], arguments: tuple[Any, ...]) -> None:
        try:
            await run(*arguments)
        except* Exception as group:
            cause = find_cause(group)
            logger.error("part failed: %s", name, exc_info=cause, extra={"part": self.name})
            self._failed += 1
            self._last = trio.current_time(), f"{name} failed: {format_failure_cause(cause)}"
        finally:
            self._running -= 1

    async def _keep(self, child: Child, task_status: trio.TaskStatus[Any]) -> None:
        try:
            with child.scope:
                await self._keep_running(child, task_status)
        finally:
            if self._children.get(child.spec.name) is child:
                del self._children[child.spec.name]
            child.ended.set()

    async def _keep_running(self, child: Child, task_status: trio.TaskStatus[Any]) -> None:
        life, spec = child.life, child.spec
        listener: trio.TaskStatus[Any] | None = task_status
        while True:
            life.record_start(trio.current_time())
            started, failure = ReadySignal(listener), None
            try:
                await run_child_body(spec, started)
            except* Exception as group:
                failure = find_cause(group)
                if started.is_started or listener is None:
                    logger.error("part failed: %s", spec.name, exc_info=failure, extra={"part": spec.name})
            if listener is not None and not started.is_started:
                raise failure or RuntimeError(f"{spec.name} ended before it had started")
            listener = None
            match life.record_end(trio.current_time(), format_failure_cause(failure) if failure is not None else None):
                case "end":
                    return
                case "escalate":
                    logger.critical("the daemon ends, since %s has failed: %s", spec.name, life.fault)
                    raise PartFailedError(spec.name, life.fault) from failure
                case "restart":
                    if failure is None:
                        logger.error("part failed: %s: %s", spec.name, life.fault, extra={"part": spec.name})
                    await trio.sleep_until(max(life.not_before, trio.current_time()))

    # -- reports ------------------------------------------------------------------------------------------------------

    def faults(self) -> Iterator[str]:
        """Return which children are down, and which have failed within their period."""
        now = trio.current_time()
        for name, child in self._children.items():
            fault = child.life.explain(now)
            if fault is not None:
                yield f"the daemon's part {name!r} failed: {fault} (its log has the traceback)"
            if child.spec.below is not None:
                yield from child.spec.below.faults()
        if self._last is not None and now - self._last[0] < STEADY.period:
            yield f"a part of the daemon's {self.name!r} failed: {self._last[1]} (its log has the traceback)"

    def tree(self) -> list[ChildStatus]:
        """Show each child with what is below it."""
        return [describe_child(child) for child in self._children.values()]

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many temporary children run, and how many have failed since the start."""
        return self._running, self._failed


async def run_child_body(spec: ChildSpec, started: ReadySignal) -> None:
    if spec.reports_start:
        await spec.run(task_status=started)
    else:
        started.started()
        await spec.run()


def describe_child(child: Child) -> ChildStatus:
    spec, life, below = child.spec, child.life, child.spec.below
    running, failed = below.counts if below is not None else (0, 0)
    return ChildStatus(
        spec.name, spec.restart.value, life.state, spec.is_significant, life.starts - 1, life.fault, running, failed,
        below.tree() if below is not None else [],
    )  # fmt: skip


def find_cause(group: BaseExceptionGroup[Exception]) -> Exception:
    """Return what failed: the only exception of a group, or the group itself if there are several."""
    found: Exception | BaseExceptionGroup[Exception] = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    assert isinstance(found, Exception)
    return found


def format_failure_cause(error: Exception) -> str:
    if isinstance(error, ExceptionGroup):
        several = cast("ExceptionGroup[Exception]", error)
        return "; ".join(format_failure_cause(exception) for exception in several.exceptions)
    if isinstance(error, PartFailedError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
