"""The connections of a session under trio or asyncio: of each link one task reads, and one writes what had to wait.

When the connection ends, for any reason, every waiting request ends at once, each with the same error. A line is sent
or queued whole in one step, so that a cancelled request never leaves half a line behind. Its response is dropped.

Plain sockets instead of `anyio.connect_unix`: with a full backlog both libraries treat a socket as connected that is
not, and each send of anyio's stream costs a turn of the loop.  The tasks do not know what they do.
"""

from __future__ import annotations

import inspect
import logging
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.to_thread
import msgspec

from hooklatch.client.protocol.announcements import Announcement
from hooklatch.client.protocol.decisions import Decision
from hooklatch.client.protocol.exchange import REPORT, CallRequested, SkippedCounts, encode_reply, is_async
from hooklatch.client.protocol.fires import CallFunction, FunctionReturned, RequestStep, RunApart, Steps
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.session_connection import FAREWELL, SessionLink, SessionReconnector
from hooklatch.client.sockets import hang_up
from hooklatch.errors import DaemonUnreachableError, HooklatchError

if TYPE_CHECKING:
    import asyncio
    import socket

__all__ = ["SessionTasks", "open_tasks", "AsyncLink", "AsyncReconnector"]

log = logging.getLogger("hooklatch.client")
# Whatever else the host's functions raise must not end what keeps the session connected.
END_OF_PROGRAM = (KeyboardInterrupt, GeneratorExit)


class SessionTasks:
    """A group of tasks in a task of its own, out of reach of any cancellation of the session's block."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop  # asyncio's
        self._starting: object = None
        self._group = anyio.create_task_group()
        self.begun = anyio.Event()  # from then on tasks can be started
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
                self.begun.set()
                await anyio.sleep_forever()
        finally:
            self._ended.set()

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
        await tasks.begun.wait()
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
        if is_async(function):
            result = function(argument)
        else:
            result = await anyio.to_thread.run_sync(function, argument, abandon_on_cancel=True)
        return await result if inspect.isawaitable(result) else result
    except anyio.get_cancelled_exc_class():
        if is_cancelled():
            raise
        raise RuntimeError("it waited for a task that was cancelled") from None


def is_cancelled() -> bool:
    """Return whether the calling task is cancelled, not just something that it waited for."""
    if is_under_trio():
        return True
    import asyncio

    task = asyncio.current_task()
    return task is None or bool(task.cancelling())


MAX_UNBROKEN: Final = 250  # events skipped without a turn for other tasks; a request for the next one is such a turn


class AsyncLink(SessionLink):
    """A connection in use. Its creator has to `run` it in a task, which closes the socket."""

    def __init__(
        self,
        connection: socket.socket,
        tasks: SessionTasks,
        liveness: Liveness,
        *,
        serve: Callable[[CallRequested], Coroutine[Any, Any, bytes | str]],
        announce: Callable[[Announcement], None],
        skipped: SkippedCounts,
    ) -> None:
        super().__init__(
            connection, liveness, lock=nullcontext(), hang_up=self._hang_up, announce=announce, skipped=skipped
        )
        self.closed = anyio.Event()
        self._tasks = tasks
        self._serve = serve
        self._ended = anyio.Event()
        self._slots = anyio.Semaphore(1, fast_acquire=True)
        self._unsent = bytearray()
        self._has_unsent = anyio.Event()
        self._is_watched = False
        self._unbroken = 0

    def allow(self, count: int) -> None:
        self._slots = anyio.Semaphore(count, fast_acquire=True)

    async def run(self) -> None:
        """Read and write until the connection ends."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write)
                group.start_soon(self._tasks.watch_readable, self._socket, self._receive)
                await self._ended.wait()
                group.cancel_scope.cancel()
        finally:
            self.end(DaemonUnreachableError("the session was closed"))
            self._socket.close()
            self.closed.set()

    def skip(self, event: str) -> Decision | None:
        self._unbroken += 1
        if self._unbroken > MAX_UNBROKEN:
            self._unbroken = 0
            return None
        return super().skip(event)

    def report(self) -> None:
        if line := self._take_report():
            self._start_send(line)

    async def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        """Send a request and wait for its result.

        Raises:
            InvalidPayloadError: a parameter is not plain finite JSON; nothing was sent.
            RequestFailedError: the daemon answered with an error.
            UnreadableAnswerError: the daemon sent something that is not a message.
            DaemonUnreachableError: the connection is lost, or the daemon is silent.
        """
        async with self._slots:
            answered = anyio.Event()
            waiter, line = self._exchange.begin(method, params, wake=answered.set, now=time.monotonic())
            try:
                self._start_send(line)
                self._watch()
                await answered.wait()
            finally:
                self._exchange.finish(waiter)
        return waiter.read()

    def _hang_up(self) -> None:
        hang_up(self._socket)
        self._ended.set()

    def _start_report(self) -> None:
        self._tasks.start_from_anywhere(self._report_later)

    async def _report_later(self) -> None:
        await anyio.sleep(REPORT)
        self.report()

    def _start_answer(self, call: CallRequested) -> None:
        self._tasks.start_from_anywhere(self._answer, call)

    async def _answer(self, call: CallRequested) -> None:
        self._start_send(encode_reply(call, await self._serve(call)))

    def _start_send(self, line: bytes) -> None:
        if self.failure is not None:
            return
        # Only if nothing is queued, or this line would overtake an earlier one.
        sent = 0 if self._unsent else self._write_some(line)
        if sent < len(line):
            if not self._unsent:
                self._exchange.pulse.begin(time.monotonic())
                self._watch()
            self._unsent += memoryview(line)[sent:]
            self._has_unsent.set()

    async def _write(self) -> None:
        while self.failure is None:
            if not self._unsent:
                self._has_unsent = anyio.Event()
                await self._has_unsent.wait()
            await anyio.wait_writable(self._socket)
            if sent := self._write_some(self._unsent):  # the buffer was full, and the daemon made room: a sign of life
                self._exchange.pulse.heard(time.monotonic())
                del self._unsent[:sent]
                if not self._unsent:
                    self._exchange.pulse.finish()

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._tasks.start_from_anywhere(self._watch_pulse)

    async def _watch_pulse(self) -> None:
        """Check the daemon's pulse while a request or a line waits, so that a session without any never wakes up."""
        while self.failure is None and self._exchange.pulse.due < inf:
            await anyio.sleep(max(0.0, self._exchange.pulse.due - time.monotonic()))
            if ping := self._exchange.check(time.monotonic()):
                self._start_send(ping)
        self._is_watched = False


T = TypeVar("T")


class AsyncReconnector(SessionReconnector[AsyncLink, anyio.Event]):
    """The connections of one session, one at a time, in tasks."""

    def __init__(self, paths: Sequence[str], state: SessionState, tasks: SessionTasks) -> None:
        super().__init__(paths, state, anyio.Event)
        self.tasks = tasks

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
            connection, self.tasks, self.state.liveness, serve=self._serve, announce=self.announce,
            skipped=self.state.skipped,
        )  # fmt: skip
        self.tasks.start_soon(link.run)
        return link

    def introduce(self, link: AsyncLink, steps: Steps[int | None]) -> Coroutine[Any, Any, int | None]:
        return self._run(steps, link.request)

    def wait_end(self, link: AsyncLink) -> Coroutine[Any, Any, object]:
        return link.closed.wait()

    async def _serve(self, request: CallRequested) -> bytes | str:
        try:
            function, event = self.served(request)
            return self.encoded(await call_function(function, event))
        except (*END_OF_PROGRAM, anyio.get_cancelled_exc_class()):
            raise
        except BaseException as error:
            return self.failed(request, error)
