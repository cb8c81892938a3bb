"""What is no Redis, or a bad way to one: a server that answers by a list, and a slow way to a real server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

__all__ = ["CLOSES", "GREETED", "answering", "greeting", "slow_way"]

CLOSES = b""  # in place of an answer
ANSWERS_OF_TIME = b"*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"


def greeting(version: bytes) -> bytes:
    return (
        b"%%5\r\n$7\r\nversion\r\n$%d\r\n%s\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n"
        b"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n" % (len(version), version)
    )


GREETED = (greeting(b"7.0.0"), greeting(b"7.0.0") + ANSWERS_OF_TIME)  # what makes an engine of a server


@asynccontextmanager
async def answering(folder: Path, *answers: bytes, for_ever: Callable[[], bytes] | None = None) -> AsyncGenerator[str]:
    """Yield the URL of a server that answers what it reads with these, one for each part, and then is silent.

    With `for_ever` it sends what that returns instead, again and again.
    """

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            for answer in answers:
                if answer == CLOSES or not await stream.receive_some():
                    return
                await stream.send_all(answer)
            while for_ever is not None:
                await stream.send_all(for_ever())
                await trio.lowlevel.checkpoint()
            await trio.sleep_forever()

    async def serve_all(listener: trio.SocketListener) -> None:
        await trio.serve_listeners(partial(quietly, serve), [listener])

    path = folder / "s"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_all, await listening(path))
        yield f"redis+unix://{path}"
        nursery.cancel_scope.cancel()
        path.unlink()


@asynccontextmanager
async def slow_way(server: Path, folder: Path, *, part: int, pause: float) -> AsyncGenerator[str]:
    """Yield the URL of a way to the socket of a server, on which each `part` bytes take `pause` seconds."""

    async def carry(source: trio.SocketStream, target: trio.SocketStream) -> None:
        while data := await source.receive_some(part):
            await trio.sleep(pause)
            await target.send_all(data)

    async def serve(near: trio.SocketStream) -> None:
        async with near, await trio.open_unix_socket(server) as far, trio.open_nursery() as nursery:
            nursery.start_soon(carry, near, far)
            await carry(far, near)

    async def serve_all(listener: trio.SocketListener) -> None:
        await trio.serve_listeners(partial(quietly, serve), [listener])

    path = folder / "slow"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_all, await listening(path))
        yield f"redis+unix://{path}"
        nursery.cancel_scope.cancel()
        path.unlink()


async def listening(path: Path) -> trio.SocketListener:
    socket = trio.socket.socket(trio.socket.AF_UNIX)
    await socket.bind(str(path))
    socket.listen()
    return trio.SocketListener(socket)


async def quietly(serve: Callable[[trio.SocketStream], Awaitable[None]], stream: trio.SocketStream) -> None:
    """Serve until either side has gone."""
    try:
        await serve(stream)
    except* (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
