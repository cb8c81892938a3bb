"""The supervisor of children: it starts them, and restarts those that fail.  Knows tasks and time; not their work.

Its only strategy is one_for_one, since no child here holds state that another child's failure spoils.
`core/restarts.py` decides whether and when a child is started again, and this module runs it.

    start(spec)      a child that is kept: permanent or transient. Its first start must succeed
    spawn(name, f)   a temporary child, of any number. It is counted. A failure is logged, and ends no other child

A failure is an Exception, alone or in a group, or an unexpected return.  Cancelled, KeyboardInterrupt and SystemExit
are not failures: they pass through.  Children are ended in the reverse order of their start.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec
import trio

from hooklatch.core.restarts import ChildLifecycle, Restart, RestartPolicy, Restarts

if TYPE_CHECKING:
    from hooklatch.core.status_answers import ChildStatus

__all__ = ["ChildSpec", "PartFailedError", "Supervisor", "find_cause", "format_failure_cause"]

logger = logging.getLogger("hooklatch.supervisor")
STEADY = RestartPolicy()


class PartFailedError(Exception):
    """A significant child has failed, and so its supervisor ends."""

    def __init__(self, name: str, fault: str | None) -> None:
        super().__init__(f"the daemon cannot go on without its part {name!r}, which has failed: {fault}")
        self.name = name


class ChildSpec(msgspec.Struct, frozen=True):
    """The specification of a child: the function that it runs, and what its end means.

    A child that `reports_start` is given a trio.TaskStatus and reports when it can be used. Any other can at once.
    `below` is the supervisor that it runs itself.
    """

    name: str
    run: Callable[..., Awaitable[object]]
    restart: Restart = Restart.PERMANENT
    policy: RestartPolicy = STEADY
    is_significant: bool = False
    reports_start: bool = False
    below: Supervisor | None = None


class Child(msgspec.Struct, eq=False):
    """A child and its current state."""

    spec: ChildSpec
    life: ChildLifecycle
    scope: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    ended: trio.Event = msgspec.field(default_factory=trio.Event)


class ReadySignal(msgspec.Struct, eq=False):
    """The receiver of a child's report that it can be used. It passes the first report on to the caller of `start`."""

    caller: trio.TaskStatus[Any] | None
    is_started: bool = False

    def started(self, value: object = None) -> None:
        self.is_started = True
        if self.caller is not None:
            self.caller.started(value)


class Supervisor:
    """The owner of children, which keeps each as its spec says."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._children: dict[str, Child] = {}
        self._nursery: trio.Nursery | None = None
        self._running = 0  # temporary children
        self._failed = 0
        self._last: tuple[float, str] | None = None  # the latest failure of a temporary child

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Supervisor]:
        """Supervise for the duration of the block."""
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
        """Start a child and keep it running. Return the value that it reported at its start.

        Raises:
            Exception: what its first start raised. The child is not kept then.
        """
        assert self._nursery is not None
        assert spec.name not in self._children, f"there is a child {spec.name!r} already"
        life = ChildLifecycle(spec.restart, Restarts(spec.policy), trio.current_time(), spec.is_significant)
        child = self._children[spec.name] = Child(spec, life)
        return await self._nursery.start(self._keep, child)

    def end(self, name: str) -> None:
        """End a child that is kept, if there is one of this name."""
        child = self._children.get(name)
        if child is not None:
            child.scope.cancel()

    def spawn(self, name: str, run: Callable[..., Awaitable[object]], *arguments: Any) -> bool:
        """Run a temporary child. Return False if the supervisor does not run, and the child neither."""
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
        spec, signal = child.spec, ReadySignal(task_status)
        try:
            with child.scope:
                while True:
                    failure: Exception | None = None
                    try:
                        if spec.reports_start:
                            await spec.run(task_status=signal)
                        else:
                            signal.started()
                            await spec.run()
                    except* Exception as group:
                        failure = find_cause(group)
                    if not self._may_restart(child, signal, failure):
                        return
                    signal = ReadySignal(None)  # later failures are restarts, and not an exception of the caller
                    await trio.sleep_until(max(child.life.not_before, trio.current_time()))
                    child.life.record_start(trio.current_time())
        finally:
            if self._children.get(spec.name) is child:
                del self._children[spec.name]
            child.ended.set()

    def _may_restart(self, child: Child, signal: ReadySignal, failure: Exception | None) -> bool:
        """Record the end of a child that has returned, or failed. Return whether it is started again.

        Raises:
            Exception: it has failed before it could be used, or it is significant.
        """
        life, name = child.life, child.spec.name
        if signal.caller is not None and not signal.is_started:
            raise failure or RuntimeError(f"{name} ended before it had started")
        if failure is not None:
            logger.error("part failed: %s", name, exc_info=failure, extra={"part": name})
        match life.record_end(trio.current_time(), format_failure_cause(failure) if failure is not None else None):
            case "end":
                return False
            case "escalate":
                logger.critical("the daemon ends, since %s has failed: %s", name, life.fault)
                raise PartFailedError(name, life.fault) from failure
            case "restart":
                if failure is None:
                    logger.error("part failed: %s: %s", name, life.fault, extra={"part": name})
                return True

    # -- reports ------------------------------------------------------------------------------------------------------

    def faults(self) -> Iterator[str]:
        """Yield a text for each child that is down or has failed within its period."""
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
        """Return the status of each child, with the children below it."""
        return [describe_child(child) for child in self._children.values()]

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many temporary children run, and how many have failed since the start."""
        return self._running, self._failed


def describe_child(child: Child) -> ChildStatus:
    spec, life, below = child.spec, child.life, child.spec.below
    running, failed = below.counts if below is not None else (0, 0)
    return {
        "name": spec.name, "restart": spec.restart.value, "state": life.state, "is_significant": spec.is_significant,
        "restarts": life.starts - 1, "fault": life.fault, "running": running, "failed": failed,
        "children": below.tree() if below is not None else [],
    }  # fmt: skip


def find_cause(group: BaseExceptionGroup[Exception]) -> Exception:
    """Return the only exception of a group, or the group itself if there are several."""
    cause: Exception | BaseExceptionGroup[Exception] = group
    while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]
    assert isinstance(cause, Exception)
    return cause


def format_failure_cause(error: Exception) -> str:
    if isinstance(error, ExceptionGroup):
        several = cast("ExceptionGroup[Exception]", error)
        return "; ".join(format_failure_cause(exception) for exception in several.exceptions)
    if isinstance(error, PartFailedError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
