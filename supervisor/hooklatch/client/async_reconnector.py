"""The reconnector of a session under trio or asyncio.  Does not know under which of both."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import anyio
import msgspec

from hooklatch.client.async_link import AsyncLink
from hooklatch.client.protocol.exchange import CallRequested
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.protocol.steps import CallFunction, FunctionReturned, RequestStep, RunApart, Steps
from hooklatch.client.reconnector import FAREWELL, SessionReconnector
from hooklatch.client.tasks import END_OF_PROGRAM, SessionTasks, call_function
from hooklatch.errors import DaemonUnreachableError, HooklatchError

__all__ = ["AsyncReconnector"]

T = TypeVar("T")
log = logging.getLogger("hooklatch.client")


class AsyncReconnector(SessionReconnector[AsyncLink, anyio.Event]):
    """The connections of one session, one at a time, in tasks."""

    def __init__(self, paths: Sequence[str], state: SessionState, tasks: SessionTasks) -> None:
        super().__init__(paths, state)
        self.tasks = tasks
        self.resettled = anyio.Event()

    async def start(self) -> None:
        """Make the first attempt; go on without a daemon unless one is required.

        Raises:
            DaemonUnreachableError, UnreadableAnswerError: one is required and there is none.
            RequestFailedError: the daemon refused the session or one of its hooks.
            InvalidPayloadError: a hook of the session is not plain finite JSON.
        """
        self.opening()
        self.tasks.start_soon(self._stay_connected)
        await self.resettled.wait()
        if self.refusal is not None:
            raise self.refusal

    async def close(self) -> None:
        """Have the daemon end the session, which may take a moment, and stop for good; listeners end."""
        self.state.is_closed, self.state.skipping = True, None
        try:
            if self.link is not None and self.link.failure is None:
                with anyio.move_on_after(FAREWELL, shield=True):
                    await self._take_leave(self.link)
        finally:
            if self.link is not None:
                self.link.end(DaemonUnreachableError("the session was closed"))
            self.resettled.set()
            self.wake_listeners()

    def run(self, steps: Steps[T]) -> Coroutine[Any, Any, T]:
        """Run a session's steps; requests go over the present link."""
        return self._run(steps, self._request)

    async def _run(self, steps: Steps[T], request: Callable[..., Coroutine[Any, Any, msgspec.Raw]]) -> T:
        answer: object
        try:
            step = next(steps)
            while True:
                try:
                    match step:
                        case RequestStep(method, params):
                            answer = await request(method, params)
                        case CallFunction(function, argument):
                            started = time.perf_counter()
                            result = await call_function(function, argument)
                            answer = FunctionReturned(result, (time.perf_counter() - started) * 1000)
                        case RunApart(others):
                            self.tasks.start_soon(self.run, others)
                            answer = None
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            final: T = end.value
            return final

    async def _request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        self.check_open()
        if not self.is_connected:
            await self.resettled.wait()
            self.check_open()
        if self.link is None:
            raise DaemonUnreachableError(self.problem)
        return await self.link.request(method, params)

    async def _take_leave(self, link: AsyncLink) -> None:
        try:
            link.report()
            await link.request("session.close", {})
        except HooklatchError as error:
            log.info("the daemon was not told of the session's end: session=%s %s", self.state.session_id, error)

    async def _stay_connected(self) -> None:
        steps = self.attempts()
        try:
            step = next(steps)
            while True:
                try:
                    answer = await (anyio.sleep(step) if isinstance(step, float) else step)
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration:
            return
        finally:  # however it ends: without it, no request may wait for a link
            self.link = None
            self.resettled.set()

    def make_link(self, connection: socket.socket) -> AsyncLink:
        link = AsyncLink(
            connection,
            self.tasks,
            self.state.liveness,
            serve=self._serve,
            announce=self.announce,
            skipped=self.state.skipped,
        )
        self.tasks.start_soon(link.run)
        return link

    def introduce(self, link: AsyncLink, steps: Steps[int | None]) -> Coroutine[Any, Any, int | None]:
        return self._run(steps, link.request)

    def wait_end(self, link: AsyncLink) -> Coroutine[Any, Any, object]:
        return link.closed.wait()

    def resettle(self) -> None:
        self.resettled.set()
        self.resettled = anyio.Event()

    async def _serve(self, request: CallRequested) -> bytes | str:
        try:
            function, event = self.served(request)
            return self.encoded(await call_function(function, event))
        except (*END_OF_PROGRAM, anyio.get_cancelled_exc_class()):
            raise
        except BaseException as error:
            return self.failed(request, error)
