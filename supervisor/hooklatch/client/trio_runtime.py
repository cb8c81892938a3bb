"""A session's tasks under trio.  Knows tasks and threads; knows nothing of what they do."""

from __future__ import annotations

import socket
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

import trio

from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.runtime import Announce, Serve, called
from hooklatch.client.runtime import Link as RuntimeLink
from hooklatch.client.trio_link import Link

__all__ = ["TrioRuntime"]


class TrioRuntime:
    """A nursery that is entered with the session and cancelled at its end."""

    def __init__(self, manager: AbstractAsyncContextManager[trio.Nursery], nursery: trio.Nursery) -> None:
        self._manager = manager
        self._nursery = nursery

    @classmethod
    async def enter(cls) -> TrioRuntime:
        """Open the nursery in the calling task, which has to close it."""
        manager = trio.open_nursery()
        return cls(manager, await manager.__aenter__())

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> None:
        self._nursery.start_soon(function, *arguments)

    def event(self) -> trio.Event:
        return trio.Event()

    def now(self) -> float:
        return trio.current_time()

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def call(self, function: Callable[..., object], argument: object) -> object:
        return await called(function, argument, in_thread)

    async def finish(
        self, function: Callable[[RuntimeLink], Coroutine[Any, Any, None]], link: RuntimeLink, seconds: float
    ) -> None:
        with trio.CancelScope(deadline=trio.current_time() + seconds, shield=True):
            await function(link)

    async def open_link(self, connection: socket.socket, liveness: Liveness, serve: Serve, announce: Announce) -> Link:
        link = Link(connection, self._nursery, liveness, serve=serve, announce=announce)
        self._nursery.start_soon(link.run)
        return link

    async def aclose(self) -> None:
        # The nursery learns nothing of the body's own exception, which it would wrap in a group.
        self._nursery.cancel_scope.shield = True
        self._nursery.cancel_scope.cancel()
        await self._manager.__aexit__(None, None, None)


async def in_thread(function: Callable[..., object], argument: object) -> object:
    return await trio.to_thread.run_sync(function, argument, abandon_on_cancel=True)
