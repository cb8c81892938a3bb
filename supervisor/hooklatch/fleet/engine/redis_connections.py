"""A connection to Redis that fails in time: dialled, greeted, and given up as soon as an answer stays away.

Knows commands and bytes; knows no fleet.  coredis encodes, decodes and keeps answers in the order of their questions.
We leave its pool and its client alone, and this is why (6.9): a pool forgets a place for good when a connection dies
in use, a command whose time is up leaves its connection in use, and connecting is one long try.  Here a connection
that has not answered in time is closed, whoever else waits on it, and nothing is ever sent a second time.
"""

from __future__ import annotations

import itertools
import logging
import ssl
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.abc
import trio
from anyio.streams.tls import TLSStream
from coredis import exceptions as redis
from coredis.connection import BaseConnection, TCPConnection, TCPLocation, UnixDomainSocketConnection
from coredis.connection import UnixDomainSocketLocation as UnixLocation

from hooklatch.fleet.engine.addresses import Address
from hooklatch.fleet.engine.engine import EngineRefusedError, MissingFileError, UnreachableError
from hooklatch.fleet.engine.redis_answers import fits_command
from hooklatch.fleet.engine.redis_errors import (
    explain_failed_connect,
    explain_no_answer,
    explain_no_connection,
    explain_not_redis,
    explain_reply_error,
    is_of_the_server,
)

__all__ = ["RedisConnection", "RedisCommand", "open_redis_connection", "make_tls_context"]

PORT = 6379
REDIAL = 0.25  # seconds between two SYNs: the kernel would repeat a lost one after 1, 3 and 7 s
PART = 64 * 1024  # bytes sent at once; after each, the peer has shown that it reads
MAX_ANSWER = 256 * 2**20  # bytes since the newest question; we never ask for as many
BEGINNING = 400  # bytes kept of what a peer says first
STARVED = 0.05  # seconds after which a deadline that is noticed so late says more of this process than of its peer
LONGEST = 120.0  # seconds for an answer that keeps coming, however slowly

# It logs each failed attempt with a traceback; we raise what is worth knowing of it.
logging.getLogger("coredis").setLevel(logging.CRITICAL)


class RedisCommand:
    """A command to send.  `key` is its first argument, if it has one; `about` the key that texts name, if another.

    No other argument is ever named: it may be a secret.
    """

    __slots__ = ("about", "arguments", "command")

    def __init__(self, command: str, *arguments: bytes | str | int, key: str = "", about: str = "") -> None:
        self.command = command
        self.arguments = (key, *arguments) if key else arguments
        self.about = about or key


class ReplyDeadline:
    """Until when somebody waits: `patience` seconds after the last byte that moved, and never beyond `end`."""

    __slots__ = ("_end", "_patience", "until")

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._end = trio.current_time() + max(LONGEST, patience)
        self.until = 0.0
        self.renew(patience)

    def renew(self, seconds: float | None = None) -> None:
        self.until = min(trio.current_time() + (self._patience if seconds is None else seconds), self._end)


class StreamActivity:
    """What is seen of a stream.  Whoever waits for its peer has new patience with each part that moves."""

    def __init__(self) -> None:
        self.is_reached = False  # whether there is a stream, though nothing may have been said
        self.said = b""  # how the peer began: why a connection did not come about is often only there
        self._waiting: set[ReplyDeadline] = set()
        self._answered = 0  # bytes since the newest question

    @contextmanager
    def waits(self, patience: float) -> Generator[ReplyDeadline]:
        self._answered = 0
        waiting = ReplyDeadline(patience)
        self._waiting.add(waiting)
        try:
            yield waiting
        finally:
            self._waiting.remove(waiting)

    def heard(self, data: bytes) -> None:
        self.said += data[: BEGINNING - len(self.said)]
        self._answered += len(data)
        if self._answered > MAX_ANSWER:
            raise OSError(f"an answer is longer than {MAX_ANSWER} bytes")
        self.moved()

    def moved(self) -> None:
        for waiting in self._waiting:
            waiting.renew()


class MonitoredStream(anyio.abc.ByteStream):
    """A stream that tells a watch of each part that comes or goes."""

    def __init__(self, stream: anyio.abc.ByteStream, watch: StreamActivity) -> None:
        self._stream = stream
        self._watch = watch

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._stream.receive(max_bytes)
        self._watch.heard(data)
        return data

    async def send(self, item: bytes) -> None:
        for start in range(0, len(item), PART):
            await self._stream.send(item[start : start + PART])
            self._watch.moved()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


class DiscardedConnection(BaseConnection):
    """What coredis makes of a connection, which leaves its queues open where none came of it."""

    def discard(self) -> None:
        self.invalidate()
        for queue in (
            self._write_buffer_in, self._write_buffer_out,
            self._push_message_buffer_in, self._push_message_buffer_out,
            self._streamed_message_buffer_in, self._streamed_message_buffer_out,
        ):  # fmt: skip
            queue.close()


class TcpConnection(DiscardedConnection, TCPConnection):
    """What coredis makes of a TCP connection, dialled in our way."""

    def __init__(
        self, watch: StreamActivity, host: str, port: int, tls: ssl.SSLContext | None, **settings: Any
    ) -> None:
        super().__init__(TCPLocation(host, port), **settings)
        self._watch = watch
        self._tls = tls

    async def _connect(self) -> anyio.abc.ByteStream:
        stream: anyio.abc.ByteStream = await dial_host(self.location.host, self.location.port)
        self._watch.is_reached = True
        if self._tls is not None:
            try:
                stream = await TLSStream.wrap(
                    stream, hostname=self.location.host, ssl_context=self._tls, standard_compatible=False
                )
            except BaseException:
                await anyio.aclose_forcefully(stream)
                raise
        return MonitoredStream(stream, self._watch)


class UnixConnection(DiscardedConnection, UnixDomainSocketConnection):
    """What coredis makes of a Unix socket."""

    def __init__(self, watch: StreamActivity, path: str, **settings: Any) -> None:
        super().__init__(UnixLocation(path), **settings)
        self._watch = watch

    async def _connect(self) -> anyio.abc.ByteStream:
        stream = await super()._connect()
        self._watch.is_reached = True
        return MonitoredStream(stream, self._watch)


class RedisConnection:
    """An open connection.  Questions are sent in order, each once; the first that gets no answer in time closes it."""

    def __init__(self, address: Address, connection: BaseConnection, watch: StreamActivity, patience: float) -> None:
        self.address = address
        self._connection = connection
        self._watch = watch
        self._patience = patience

    @property
    def is_open(self) -> bool:
        return self._connection.usable

    @property
    def version(self) -> str:
        """Return what the server said of its version."""
        return self._connection.server_version or ""

    def close(self) -> None:
        self._connection.invalidate()

    async def ask(self, *questions: RedisCommand, patience: float | None = None) -> list[Any]:
        """Send commands at once and return their answers: bytes, numbers, lists, maps and None.

        An answer may stay away for `patience` seconds; what is on its way may take longer.

        Raises:
            UnreachableError: the connection is lost, or was given up; whether the server acted is not known.
            EngineError: the server has refused one of them; it has acted on the others.
        """
        patience = self._patience if patience is None else patience
        answers: list[Any] = []
        with self._watch.waits(patience) as waiting:
            try:
                for request in [self._send(question) for question in questions]:
                    answers += [await await_reply(request, waiting)]
            except trio.Cancelled:
                self.close()  # its answer would be taken for that of the next question's time
                raise
            except trio.TooSlowError:
                self.close()
                late = questions[len(answers)]
                raise explain_no_answer(self.address, late.command, late.about, patience) from None
        for question, answer in zip(questions, answers, strict=True):
            if isinstance(answer, BaseException):
                self._failed(question, answer)
            elif not fits_command(question.command, answer):
                self.close()
                raise explain_not_redis(self.address, f"it answers {question.command} with {type(answer).__name__}")
        return answers

    def _send(self, question: RedisCommand) -> Any:
        try:
            return self._connection.create_request(
                question.command.encode(), *question.arguments, decode=False, raise_exceptions=False
            )
        except redis.ConnectionError as error:
            raise UnreachableError(f"the connection to {self.address} is lost") from error

    def _failed(self, question: RedisCommand, error: BaseException) -> None:
        if isinstance(error, redis.RedisError) and is_of_the_server(error):
            if isinstance(error, redis.ReadOnlyError):
                self.close()  # it has become a replica: whoever connects again learns that before he reads there
            raise explain_reply_error(self.address, question.command, question.about, error) from None
        self.close()
        raise UnreachableError(f"the connection to {self.address} was lost during {question.command}") from error


async def await_reply(request: Awaitable[Any], waiting: ReplyDeadline) -> Any:
    """Return the answer to a request.

    Raises:
        TooSlowError: it stays away.  Not while this process gets no time itself: then the answer may be there, unread.
    """
    while True:
        until = waiting.until
        with trio.move_on_at(until):
            return await request  # coredis lets go of it unharmed
        late = trio.current_time() - until
        if late > STARVED:
            waiting.renew(late)
        if waiting.until <= until:
            raise trio.TooSlowError


async def open_redis_connection(
    nursery: trio.Nursery, address: Address, *, password: str | None, tls: ssl.SSLContext | None, timeout: float
) -> RedisConnection:
    """Return an open connection, kept by a task of the nursery until it is closed or lost.

    Raises:
        EngineError: there is none within `timeout` seconds, or the server does not want us.
    """
    watch = StreamActivity()
    settings = {"username": address.user, "password": password, "db": address.number}
    connection: DiscardedConnection
    if address.path:
        connection = UnixConnection(watch, address.path, **settings)
    else:
        connection = TcpConnection(watch, address.host, address.port or PORT, tls, **settings)
    scope = trio.CancelScope(deadline=trio.current_time() + timeout)
    try:
        with scope:
            await nursery.start(connection.run)
            return RedisConnection(address, connection, watch, timeout)
    except Exception as error:  # of names, sockets, TLS, the greeting, and of whatever a server may send
        if not scope.cancel_called:  # coredis raises its own error where it is cancelled
            connection.discard()
            await trio.lowlevel.checkpoint_if_cancelled()
            raise explain_failed_connect(address, error, watch.said, has_password=password is not None) from error
    except BaseException:
        connection.discard()
        raise
    connection.discard()
    await trio.lowlevel.checkpoint_if_cancelled()
    raise explain_no_connection(address, timeout, is_reached=watch.is_reached)


async def dial_host(host: str, port: int) -> anyio.abc.ByteStream:
    """Return the first connection that opens, to any address of a host; a SYN without an answer is soon repeated."""
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    refused: dict[str, OSError] = {}
    opened: list[anyio.abc.ByteStream] = []

    async def dial(address: str, failed: trio.Event) -> None:
        try:
            stream = await anyio.connect_tcp(address, port)
        except OSError as error:
            refused[address] = error
            failed.set()
            return
        if opened:
            await anyio.aclose_forcefully(stream)
        else:
            opened.append(stream)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for address in itertools.cycle(addresses):
            failed = trio.Event()
            nursery.start_soon(dial, address, failed)
            with trio.move_on_after(REDIAL):
                await failed.wait()
            if len(refused) == len(addresses):
                nursery.cancel_scope.cancel()
                break
    if opened:
        return opened[0]
    raise refused[addresses[0]]


def make_tls_context(ca: str | None) -> ssl.SSLContext:
    """Return settings of TLS that believe a file of certificates, or those of the system.

    Raises:
        MissingFileError: there is no such file.
        RefusedError: the file cannot be read.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except FileNotFoundError:
        raise MissingFileError(f"the file of certificates {ca!r} cannot be read: No such file or directory") from None
    except (OSError, ssl.SSLError) as error:
        raise EngineRefusedError(f"the file of certificates {ca!r} cannot be read: {error.strerror or error}") from None
