"""What an asynchronous session needs of the library that it runs under.  Imports neither trio nor asyncio.

Which of them it is is seen when the session is opened, by who is running then.
"""

from __future__ import annotations

import inspect
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol

import msgspec

from hooklatch.client.protocol.announcements import Announcement
from hooklatch.client.protocol.core import CallRequested
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.session.served import is_async
from hooklatch.errors import HooklatchError

__all__ = ["Announce", "Event", "Link", "Runtime", "Serve", "called"]

Serve = Callable[[CallRequested], Coroutine[Any, Any, bytes | str]]
Announce = Callable[[Announcement], None]


class Event(Protocol):
    """Something that happens once, and that others wait for."""

    def set(self) -> object: ...
    async def wait(self) -> object: ...


class Link(Protocol):
    """A connection in use. Whatever ends it ends every waiting request at once, each with the same error."""

    @property
    def failure(self) -> HooklatchError | None:
        """Why it has ended, if it has."""
        ...

    async def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        """Send a request and wait for its result.

        One that is cancelled sends nothing, or all of its line; its answer is dropped when it comes.

        Raises:
            InvalidPayloadError: a parameter is not plain finite JSON; nothing was sent.
            RequestFailedError: the daemon answered with an error.
            UnreadableAnswerError: the daemon sent something that is no message.
            DaemonUnreachableError: the connection is lost, or the daemon is silent.
        """
        ...

    @property
    def is_sessions_end(self) -> bool:
        """Whether the session is over when this process is done with it."""
        ...

    @is_sessions_end.setter
    def is_sessions_end(self, value: bool) -> None: ...

    def allow(self, count: int) -> None:
        """Let so many requests wait at a time; one, until then."""
        ...

    def end(self, failure: HooklatchError) -> None:
        """Give up the connection: every waiting request fails now."""
        ...

    async def wait_ended(self) -> None:
        """Return once it has ended."""
        ...


class Runtime(Protocol):
    """The tasks of one session. None outlives `aclose`."""

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> None: ...
    def event(self) -> Event: ...
    def now(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...
    async def call(self, function: Callable[..., object], argument: object) -> object:
        """Call a function of the user: an async one as it is, another one in a thread."""
        ...

    async def finish(self, function: Callable[[Link], Coroutine[Any, Any, None]], link: Link, seconds: float) -> None:
        """Call a last function before `aclose`, for so many seconds at most, also where the caller is cancelled."""
        ...

    async def open_link(self, connection: socket.socket, liveness: Liveness, serve: Serve, announce: Announce) -> Link:
        """Begin to read from a connected socket, which is the link's from now on."""
        ...

    async def aclose(self) -> None:
        """Cancel every task, and wait until all have ended and every link is closed."""
        ...


async def called(
    function: Callable[..., object], argument: object, in_thread: Callable[..., Awaitable[object]]
) -> object:
    """Call an async function as it is, another one in a thread; wait for what either gives to await."""
    result = function(argument) if is_async(function) else await in_thread(function, argument)
    return await result if inspect.isawaitable(result) else result
