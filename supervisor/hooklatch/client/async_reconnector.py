"""Keeps a session connected: connects, introduces it, serves its hooks, and starts again when that ends.

no link ──connect, hello──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off

Does not know what is requested over the link, or under which library it runs. A request that finds the link just lost
waits for the first attempt to get another: replacing a daemon takes a moment. After that attempt, and until a later one
succeeds, every request fails at once.
"""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import anyio
import msgspec

from hooklatch.client.async_link import AsyncLink
from hooklatch.client.protocol.exchange import CallRequested
from hooklatch.client.protocol.liveness import compute_backoff
from hooklatch.client.protocol.operations import introduce_session
from hooklatch.client.protocol.session_base import FAREWELL, SessionBase
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.protocol.steps import CallFunction, FunctionReturned, RequestStep, RunApart, Steps
from hooklatch.client.sockets import connect_to_first
from hooklatch.client.tasks import END_OF_PROGRAM, SessionTasks, call_function
from hooklatch.errors import DaemonUnreachableError, HooklatchError

__all__ = ["AsyncReconnector"]

T = TypeVar("T")
log = logging.getLogger("hooklatch.client")


class AsyncReconnector(SessionBase):
    """The connections of one session, one at a time."""

    def __init__(self, paths: Sequence[str], state: SessionState, tasks: SessionTasks) -> None:
        super().__init__(paths, state)
        self.tasks = tasks
        self._link: AsyncLink | None = None
        self._resettled = anyio.Event()  # the first attempt is over, or the first one after the loss of a link
        self._is_first = True
        self._refusal: Exception | None = None

    @property
    def is_connected(self) -> bool:
        return self._link is not None and self._link.failure is None

    async def start(self) -> None:
        """Make the first attempt; go on without a daemon unless one is required.

        Raises:
            DaemonUnreachableError, UnreadableAnswerError: one is required and there is none.
            RequestFailedError: the daemon refused the session or one of its hooks.
            InvalidPayloadError: a hook of the session is not plain finite JSON.
        """
        self.opening()
        self.tasks.start_soon(self._stay_connected)
        await self._resettled.wait()
        if self._refusal is not None:
            raise self._refusal

    async def close(self) -> None:
        """Have the daemon end the session, which may take a moment, and stop for good; listeners end."""
        self.state.is_closed, self.state.skipping = True, None
        try:
            if self._link is not None and self._link.failure is None:
                with anyio.move_on_after(FAREWELL, shield=True):
                    await self._take_leave(self._link)
        finally:
            if self._link is not None:
                self._link.end(DaemonUnreachableError("the session was closed"))
            self._resettled.set()
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
            await self._resettled.wait()
            self.check_open()
        if self._link is None:
            raise DaemonUnreachableError(self.problem)
        return await self._link.request(method, params)

    async def _take_leave(self, link: AsyncLink) -> None:
        try:
            link.report()
            await link.request("session.close", {})
        except HooklatchError as error:
            log.info("the daemon was not told of the session's end: session=%s %s", self.state.session_id, error)

    async def _stay_connected(self) -> None:
        try:
            await self._connect_again_and_again()
        finally:  # however it ends: without it, no request may wait for a link
            self._link = None
            self._resettled.set()

    async def _connect_again_and_again(self) -> None:
        attempts = 0
        while not self.state.is_closed:
            try:
                connection = await self._connect()
            except DaemonUnreachableError as error:
                self._failed(error)
            else:
                link = AsyncLink(
                    connection,
                    self.tasks,
                    self.state.liveness,
                    serve=self._serve,
                    announce=self.announce,
                    skipped=self.state.skipped,
                )
                with connection:  # this block waits for the link's end
                    async with anyio.create_task_group() as group:
                        group.start_soon(self._introduce, link)
                        await link.run()
                if self._link is not None:
                    self._link, attempts = None, 0
                    self.note(link.failure)
            await anyio.sleep(compute_backoff(attempts, random.random()))
            attempts += 1

    async def _connect(self) -> socket.socket:
        attempts = connect_to_first(self._paths, self.state.daemon_uid, self.state.liveness.connect)
        try:
            while True:
                delay = next(attempts)
                await anyio.sleep(delay)
        except StopIteration as connected:
            connection: socket.socket = connected.value
            return connection

    async def _introduce(self, link: AsyncLink) -> None:
        try:
            revision = await self._run(introduce_session(self.state, lambda: self._publish(link)), link.request)
        except HooklatchError as error:
            self._link = None
            link.end(DaemonUnreachableError(str(error)))
            self._failed(error)
        else:
            self._is_first = False
            self._resettled.set()
            self._resettled = anyio.Event()
            self.connected(revision)

    def _publish(self, link: AsyncLink) -> None:
        link.allow(self.state.in_flight)
        link.report()  # what the last connection could not
        self._link = self.state.skipping = link

    def _failed(self, error: HooklatchError) -> None:
        if self._is_first and self.state.must_raise(error):
            self._refusal = error
            self.state.is_closed = True
        self._is_first = False
        self.note(error)
        self._resettled.set()

    async def _serve(self, request: CallRequested) -> bytes | str:
        try:
            function, event = self.served(request)
            return self.encoded(await call_function(function, event))
        except (*END_OF_PROGRAM, anyio.get_cancelled_exc_class()):
            raise
        except BaseException as error:
            return self.failed(request, error)
