"""A client of the simulated world: a process of its own that speaks the protocol over a simulated socket."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

import msgspec
import trio

from simulation.kernel import Kernel, Process
from simulation.standard_library import Socket

__all__ = ["Client", "ConnectionLost", "Refusal", "connected"]

DECODE, ENCODE = msgspec.json.Decoder(dict[str, Any]).decode, msgspec.json.Encoder().encode
ANSWERED_WITHIN = 70.0  # seconds, whatever is asked: the budget of a fire, a person, and a file that loads slowly


class ConnectionLost(Exception):
    """The daemon is gone, or has hung up."""


class Refusal(Exception):
    """The daemon answered with an error. `name` is the error's."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error))
        self.name = str((error.get("data") or {}).get("name", error.get("code")))


class Client:
    """One connection. `run` reads; requests may be made from several tasks at once."""

    complain: ClassVar[Callable[[str], None]]  # with what no daemon may send

    def __init__(
        self, kernel: Kernel, path: str, on_call: Callable[[dict[str, Any]], Awaitable[Any]] | None = None
    ) -> None:
        self._kernel, self._on_call = kernel, on_call
        self._numbers = itertools.count(1)
        self._done: dict[int, trio.Event] = {}  # by request
        self._answers: dict[int, dict[str, Any]] = {}
        self._sending = trio.Lock()
        self.is_stalled = False  # it reads nothing
        self.session: str | None = None  # its name, once the daemon knows it
        self.announcements: list[dict[str, Any]] = []
        self.heard = trio.Event()
        self.is_over = False
        self.on_end: Callable[[], None] = lambda: None
        self.process = Process(kernel, kernel.init, "client")
        with kernel.acting_as(self.process):
            self.socket = Socket()
            self.socket.setblocking(False)
            try:
                self.socket.connect(path)
            except OSError:  # the daemon has just died: it is a client that has lost its connection
                self.end()

    async def run(self) -> None:
        """Read what the daemon sends, until the end."""
        rest = b""
        async with trio.open_nursery() as nursery:
            try:
                while True:
                    await trio.lowlevel.wait_readable(self.socket)
                    while self.is_stalled:
                        await trio.sleep(0.05)
                    if not (data := self.socket.recv(2**16)):
                        break
                    *lines, rest = (rest + data).split(b"\n")
                    for text in lines:
                        self._take(text, nursery)
            except (OSError, trio.ClosedResourceError, msgspec.DecodeError):
                pass
            finally:
                self.end()
                nursery.cancel_scope.cancel()

    def _take(self, text: bytes, nursery: trio.Nursery) -> None:
        try:
            line = DECODE(text)
        except msgspec.DecodeError:
            self.complain(f"A: no line: {text!r:.200}")
            raise
        if line.get("method") == "call":
            nursery.start_soon(self._answer, line)
        elif "method" in line:
            self.announcements.append(line["params"])
            self.heard.set()
        elif line.get("id") in self._done:
            self._answers[line["id"]] = line
            self._done.pop(line["id"]).set()

    async def _answer(self, line: dict[str, Any]) -> None:
        assert self._on_call is not None
        result = await self._on_call(line["params"])
        with suppress(ConnectionLost):
            await self.send({"jsonrpc": "2.0", "id": line["id"], "result": result})

    async def send(self, line: dict[str, Any]) -> None:
        rest = memoryview(ENCODE(line) + b"\n")
        async with self._sending:
            while rest:
                try:
                    rest = rest[self.socket.send(rest) :]
                except BlockingIOError:
                    await self._wait_writable()
                except OSError as error:
                    raise ConnectionLost(str(error)) from None

    async def _wait_writable(self) -> None:
        try:
            await trio.lowlevel.wait_writable(self.socket)
        except (OSError, trio.ClosedResourceError):
            raise ConnectionLost("closed") from None

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request. Return its result.

        Raises:
            Refusal: it was answered with an error.
            ConnectionLost: there is no answer, and will be none.
        """
        if self.is_over:
            raise ConnectionLost("closed")
        number, done = next(self._numbers), trio.Event()
        self._done[number] = done
        self._kernel.at(ANSWERED_WITHIN, self._expire, number, method, params)
        try:
            await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            await done.wait()
        finally:
            self._done.pop(number, None)
        answer = self._answers.pop(number, None)
        if answer is None:
            raise ConnectionLost("closed")
        if "error" in answer:
            raise Refusal(answer["error"])
        if "result" not in answer:
            self.complain(f"A: no answer: {answer!r:.200}")
            raise ConnectionLost("closed")
        result: dict[str, Any] = answer["result"]
        return result

    def _expire(self, number: int, method: str, params: dict[str, Any]) -> None:
        if number in self._done and not self.is_over:
            self.complain(f"C: no answer to {method} within {ANSWERED_WITHIN:.0f} s: {params!r:.300}")
            self.end()
            self._kernel.has_woken = True

    def end(self) -> None:
        """Close the socket, as the end of the process does."""
        if not self.is_over:
            self.is_over = True
            self.on_end()
            trio.lowlevel.notify_closing(self.socket)
            self.process.end(0)
            for event in (self.heard, *self._done.values()):
                event.set()


@asynccontextmanager
async def connected(
    kernel: Kernel, path: str, on_call: Callable[[dict[str, Any]], Awaitable[Any]] | None = None
) -> AsyncGenerator[tuple[Client, trio.Nursery]]:
    """Be a client for the duration of the block, which ends early if the connection is lost, or a request refused."""
    try:
        async with trio.open_nursery() as nursery:
            client = Client(kernel, path, on_call)
            nursery.start_soon(client.run)
            yield client, nursery
            client.end()
    except* (ConnectionLost, Refusal):
        pass
