"""The tasks of one asynchronous session, under trio or asyncio.  Knows anyio; does not know what the tasks do."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from hooklatch.client.protocol.exchange import is_async

if TYPE_CHECKING:
    import asyncio
    import socket

__all__ = ["END_OF_PROGRAM", "SessionTasks", "call_function", "open_tasks"]

log = logging.getLogger("hooklatch.client")
# Whatever else the host's functions raise must not end what keeps the session connected.
END_OF_PROGRAM = (KeyboardInterrupt, GeneratorExit)


class SessionTasks:
    """A group of tasks in a task of its own, out of reach of any cancellation of the session's block."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop  # asyncio's
        self._starting: object = None
        self._group = anyio.create_task_group()
        self._begun = anyio.Event()
        self._ended = anyio.Event()
        self._is_ending = False

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> None:
        """Run an async function as a task; if it raises, that is logged and affects no other task."""
        self._group.start_soon(self._contained, function, *arguments)

    def start_from_anywhere(self, function: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> None:
        """Like `start_soon`, also if asyncio runs no task: in a callback of its loop, or between two runs of it."""
        if self._loop is None:
            self.start_soon(function, *arguments)
        else:
            self._starting = self._loop.create_task(self._start(function, *arguments))  # the loop's is a weak reference

    async def watch_readable(self, connection: socket.socket, read: Callable[[], object]) -> None:
        """Call `read`, maybe in no task, whenever there is something to read, until this is cancelled."""
        if self._loop is None:
            while True:
                await anyio.wait_readable(connection)
                read()
        # Under asyncio `wait_readable` registers the socket anew, and takes one more turn of the loop, for each answer.
        self._loop.add_reader(connection, read)
        try:
            await anyio.sleep_forever()
        finally:
            self._loop.remove_reader(connection)

    @staticmethod
    def event() -> anyio.Event:
        """Return an event for others to wait for."""
        return anyio.Event()

    async def run(self) -> None:
        """Keep the group open until `aclose`."""
        try:
            async with self._group:
                # The session's end has to be sent to the daemon even if the block was cancelled, so its tasks go on.
                self._group.cancel_scope.shield = True
                self._begun.set()
                await anyio.sleep_forever()
        finally:
            self._ended.set()

    async def wait_begun(self) -> None:
        """Return once tasks can be started."""
        await self._begun.wait()

    async def aclose(self) -> None:
        """Cancel every task, and wait until all have ended."""
        self._is_ending = True
        self._group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._ended.wait()

    async def _start(self, function: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> None:
        self.start_soon(function, *arguments)

    async def _contained(self, function: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> None:
        try:
            await function(*arguments)
        except anyio.get_cancelled_exc_class():
            # Under asyncio a hook may cancel its own task, which would end the whole group with it.
            if self._is_ending:
                raise
        except END_OF_PROGRAM:
            raise
        except BaseException:
            log.exception("a task of the session failed")


@asynccontextmanager
async def open_tasks() -> AsyncGenerator[SessionTasks]:
    """Run a session's tasks under the library that runs the calling task.

    Raises:
        RuntimeError: neither trio nor asyncio runs it.
    """
    async with AsyncExitStack() as stack:
        if is_under_trio():
            host = await stack.enter_async_context(anyio.create_task_group())
            tasks = SessionTasks(None)
            host.start_soon(tasks.run)
        else:
            loop = find_running_loop()
            tasks = SessionTasks(loop)
            # No group of the calling task: under asyncio a session may be opened in one task, or one
            # `run_until_complete`, and closed in another, and any number of sessions in any order.
            _root = loop.create_task(tasks.run())  # keeps the task alive: the loop has only a weak reference
        stack.push_async_callback(tasks.aclose)
        await tasks.wait_begun()
        yield tasks


def is_under_trio() -> bool:
    # Checked first: in guest mode an asyncio loop runs beneath trio's tasks.
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


def find_running_loop() -> asyncio.AbstractEventLoop:
    import asyncio  # not loaded under trio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "a session is opened under trio or asyncio; for threads there is hooklatch.connect_sync()"
        ) from None


async def call_function(function: Callable[..., object], argument: object) -> object:
    """Call a function of the user: an async one directly, any other in a thread; await what either returns."""
    try:
        result = function(argument) if is_async(function) else await call_in_thread(function, argument)
        return await result if inspect.isawaitable(result) else result
    except anyio.get_cancelled_exc_class():
        if is_cancelled():
            raise
        raise RuntimeError("it waited for a task that was cancelled") from None


async def call_in_thread(function: Callable[..., object], argument: object) -> object:
    return await anyio.to_thread.run_sync(function, argument, abandon_on_cancel=True)


def is_cancelled() -> bool:
    """Return whether the calling task is cancelled, not just something that it waited for."""
    if is_under_trio():
        return True
    import asyncio

    task = asyncio.current_task()
    return task is None or bool(task.cancelling())
