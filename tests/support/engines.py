"""The servers that engines are tested with: a second engine adds a row to `STORES`, and passes tests/fleet/engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from hooklatch.fleet.engine.engine import POLICY, Engine
from support.redis_server import redis_server

__all__ = ["STORES", "Store", "versions_after"]


async def versions_after(engine: Engine, after: int, seconds: float) -> Sequence[tuple[int, bytes]]:
    """Return the versions after a number, once there are any; none after some seconds."""
    await engine.wait({POLICY: after}, seconds)
    return await engine.versions(after)


class Store(Protocol):
    """A server that runs, as an engine's tests need it."""

    @property
    def url(self) -> str:
        """Return the URL by which its engine is opened with all rights."""
        ...

    def kill(self) -> None:
        """Kill it as a crash would; what it has acknowledged is on its disk."""
        ...

    def start(self) -> None:
        """Start it again upon its data, and wait until it answers."""
        ...

    def pause(self) -> None:
        """Have it answer nobody, while its sockets stay open."""
        ...

    def resume(self) -> None: ...

    def lose_everything(self) -> None:
        """Have it forget all its data, while it runs."""
        ...

    def back_up(self) -> Callable[[], None]:
        """Return what brings its data back to what they are now; it runs afterwards."""
        ...


STORES: dict[str, Callable[[], AbstractContextManager[Store]]] = {"redis": redis_server}
