"""A session's tasks under asyncio.  Knows tasks and threads; knows nothing of what they do."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from hooklatch.client.asyncio_link import Link
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.runtime import Announce, Serve, called
from hooklatch.client.runtime import Link as RuntimeLink

__all__ = ["AsyncioRuntime"]

log = logging.getLogger("hooklatch.client")


class AsyncioRuntime:
    """A set of tasks, and of links that close in their own time.

    No TaskGroup: it would wrap the body's own exception in a group, and a failed task would cancel the host's.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[object]] = set()
        self._links: set[Link] = set()

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> None:
        task = self._loop.create_task(function(*arguments))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def event(self) -> asyncio.Event:
        return asyncio.Event()

    def now(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[..., object], argument: object) -> object:
        try:
            return await called(function, argument, in_thread)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancels this task: something that the function waited for was cancelled, and it failed by that.
            raise RuntimeError("it waited for a task that was cancelled") from None

    async def finish(
        self, function: Callable[[RuntimeLink], Coroutine[Any, Any, None]], link: RuntimeLink, seconds: float
    ) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(function(link), seconds)

    async def open_link(self, connection: socket.socket, liveness: Liveness, serve: Serve, announce: Announce) -> Link:
        link = Link(self.start_soon, liveness, serve=serve, announce=announce)
        try:
            await self._loop.create_unix_connection(lambda: link, sock=connection)
        except BaseException:
            connection.close()
            raise
        self._links.add(link)
        return link

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        for link in self._links:
            await link.wait_closed()

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        self._links = {link for link in self._links if not link.is_closed}
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the session failed", exc_info=error)


async def in_thread(function: Callable[..., object], argument: object) -> object:
    result, error = await asyncio.to_thread(contained, function, argument)
    if error is not None:
        raise error
    return result


def contained(function: Callable[..., object], argument: object) -> tuple[object, BaseException | None]:
    # A StopIteration cannot be set on a future (python/cpython#112182): whoever waits for it would wait for ever.
    try:
        return function(argument), None
    except BaseException as error:
        return None, error
