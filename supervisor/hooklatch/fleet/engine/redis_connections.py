"""A connection to Redis that fails in time: dialled, greeted, and given up as soon as an answer stays away.

coredis encodes, decodes and keeps answers in the order of their commands.  Its pool and its client (6.9) are not used:
the pool loses a slot for good when a connection dies in use, a command whose time is up leaves its connection in use,
and connecting is a single long attempt.  Here a connection that has not answered in time is closed, also for the other
tasks that wait on it, and no command is ever sent a second time.
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
MAX_ANSWER = 256 * 2**20  # bytes since the newest command; no command of ours has so large an answer
BEGINNING = 400  # bytes kept of a peer's first words, for the text of an error
STARVED = 0.05  # seconds after which a deadline that is noticed so late says more of this process than of its peer
LONGEST = 120.0  # seconds for an answer that keeps coming, however slowly

# It logs each failed attempt with a traceback; the errors that we raise say the same in one line.
logging.getLogger("coredis").setLevel(logging.CRITICAL)


class RedisCommand:
    """A command to send.  `key` is its first argument, if it has one; `about` the key that texts name, if another.

    Texts never name another argument, since it may be a secret.
    """

    __slots__ = ("about", "arguments", "command")

    def __init__(self, command: str, *arguments: bytes | str | int, key: str = "", about: str = "") -> None:
        self.command = command
        self.arguments = (key, *arguments) if key else arguments
        self.about = about or key


class ReplyDeadline:
    """The moment until which a task waits: `timeout` seconds after the last byte that moved, and never beyond `end`."""

    __slots__ = ("_end", "_timeout", "until")

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._end = trio.current_time() + max(LONGEST, timeout)
        self.until = 0.0
        self.renew(timeout)

    def renew(self, seconds: float | None = None) -> None:
        self.until = min(trio.current_time() + (self._timeout if seconds is None else seconds), self._end)


class StreamActivity:
    """The activity of a stream.  Each part that moves renews the deadlines of the tasks that wait for its peer."""

    def __init__(self) -> None:
        self.is_reached = False  # whether there is a stream, though the peer may have sent nothing
        self.greeting = b""  # the peer's first bytes: often only they say why a connection failed
        self._deadlines: set[ReplyDeadline] = set()
        self._answer_bytes = 0  # bytes since the newest command

    @contextmanager
    def track_wait(self, timeout: float) -> Generator[ReplyDeadline]:
        self._answer_bytes = 0
        deadline = ReplyDeadline(timeout)
        self._deadlines.add(deadline)
        try:
            yield deadline
        finally:
            self._deadlines.remove(deadline)

    def note_received(self, data: bytes) -> None:
        self.greeting += data[: BEGINNING - len(self.greeting)]
        self._answer_bytes += len(data)
        if self._answer_bytes > MAX_ANSWER:
            raise OSError(f"an answer is longer than {MAX_ANSWER} bytes")
        self.renew_deadlines()

    def renew_deadlines(self) -> None:
        for deadline in self._deadlines:
            deadline.renew()


class MonitoredStream(anyio.abc.ByteStream):
    """A stream that notes each part that comes or goes."""

    def __init__(self, stream: anyio.abc.ByteStream, activity: StreamActivity) -> None:
        self._stream = stream
        self._activity = activity

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._stream.receive(max_bytes)
        self._activity.note_received(data)
        return data

    async def send(self, item: bytes) -> None:
        for start in range(0, len(item), PART):
            await self._stream.send(item[start : start + PART])
            self._activity.renew_deadlines()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


class DiscardedConnection(BaseConnection):
    """A connection of coredis, which leaves its queues open where connecting failed: `discard` closes them."""

    def discard(self) -> None:
        self.invalidate()
        for queue in (
            self._write_buffer_in, self._write_buffer_out,
            self._push_message_buffer_in, self._push_message_buffer_out,
            self._streamed_message_buffer_in, self._streamed_message_buffer_out,
        ):  # fmt: skip
            queue.close()


class TcpConnection(DiscardedConnection, TCPConnection):
    """A TCP connection of coredis, dialled by `dial_host`."""

    def __init__(
        self, activity: StreamActivity, host: str, port: int, tls: ssl.SSLContext | None, **settings: Any
    ) -> None:
        super().__init__(TCPLocation(host, port), **settings)
        self._activity = activity
        self._tls = tls

    async def _connect(self) -> anyio.abc.ByteStream:
        stream: anyio.abc.ByteStream = await dial_host(self.location.host, self.location.port)
        self._activity.is_reached = True
        if self._tls is not None:
            try:
                stream = await TLSStream.wrap(
                    stream, hostname=self.location.host, ssl_context=self._tls, standard_compatible=False
                )
            except BaseException:
                await anyio.aclose_forcefully(stream)
                raise
        return MonitoredStream(stream, self._activity)


class UnixConnection(DiscardedConnection, UnixDomainSocketConnection):
    """A connection of coredis to a Unix socket."""

    def __init__(self, activity: StreamActivity, path: str, **settings: Any) -> None:
        super().__init__(UnixLocation(path), **settings)
        self._activity = activity

    async def _connect(self) -> anyio.abc.ByteStream:
        stream = await super()._connect()
        self._activity.is_reached = True
        return MonitoredStream(stream, self._activity)


class RedisConnection:
    """An open connection.  Commands are sent in order, each once; the first that gets no answer in time closes it."""

    def __init__(self, address: Address, connection: BaseConnection, activity: StreamActivity, timeout: float) -> None:
        self.address = address
        self._connection = connection
        self._activity = activity
        self._timeout = timeout

    @property
    def is_open(self) -> bool:
        return self._connection.usable

    @property
    def version(self) -> str:
        """Return the version that the server gave in its greeting, empty if it gave none."""
        return self._connection.server_version or ""

    def close(self) -> None:
        self._connection.invalidate()

    async def execute(self, *commands: RedisCommand, timeout: float | None = None) -> list[Any]:
        """Send commands at once and return their answers: bytes, numbers, lists, maps and None.

        An answer may stay away for `timeout` seconds; an answer whose bytes keep coming may take longer.

        Raises:
            UnreachableError: the connection is lost, or was given up; the server may have acted or not.
            EngineError: the server has refused one of them; it has acted on the others.
        """
        timeout = self._timeout if timeout is None else timeout
        answers: list[Any] = []
        with self._activity.track_wait(timeout) as deadline:
            try:
                for request in [self._send(command) for command in commands]:
                    answers += [await await_reply(request, deadline)]
            except trio.Cancelled:
                self.close()  # the answer is still to come, and would be taken for that of the next command
                raise
            except trio.TooSlowError:
                self.close()
                late_command = commands[len(answers)]
                raise explain_no_answer(self.address, late_command.command, late_command.about, timeout) from None
        for command, answer in zip(commands, answers, strict=True):
            if isinstance(answer, BaseException):
                self._raise_failure(command, answer)
            elif not fits_command(command.command, answer):
                self.close()
                raise explain_not_redis(self.address, f"it answers {command.command} with {type(answer).__name__}")
        return answers

    def _send(self, command: RedisCommand) -> Any:
        try:
            return self._connection.create_request(
                command.command.encode(), *command.arguments, decode=False, raise_exceptions=False
            )
        except redis.ConnectionError as error:
            raise UnreachableError(f"the connection to {self.address} is lost") from error

    def _raise_failure(self, command: RedisCommand, error: BaseException) -> None:
        if isinstance(error, redis.RedisError) and is_of_the_server(error):
            if isinstance(error, redis.ReadOnlyError):
                self.close()  # it has become a replica: a new connection is checked for that before it reads there
            raise explain_reply_error(self.address, command.command, command.about, error) from None
        self.close()
        raise UnreachableError(f"the connection to {self.address} was lost during {command.command}") from error


async def await_reply(request: Awaitable[Any], deadline: ReplyDeadline) -> Any:
    """Return the answer to a request.

    Raises:
        TooSlowError: it stays away.  Not while this process itself gets no time: then the answer may be there, unread.
    """
    while True:
        until = deadline.until
        with trio.move_on_at(until):
            return await request  # cancelled here, the request stays valid, and the loop awaits it again
        late = trio.current_time() - until
        if late > STARVED:
            deadline.renew(late)
        if deadline.until <= until:
            raise trio.TooSlowError


async def open_redis_connection(
    nursery: trio.Nursery, address: Address, *, password: str | None, tls: ssl.SSLContext | None, timeout: float
) -> RedisConnection:
    """Return an open connection, kept by a task of the nursery until it is closed or lost.

    Raises:
        EngineError: there is none within `timeout` seconds, or the server refuses us.
    """
    activity = StreamActivity()
    settings = {"username": address.user, "password": password, "db": address.number}
    connection: DiscardedConnection
    if address.path:
        connection = UnixConnection(activity, address.path, **settings)
    else:
        connection = TcpConnection(activity, address.host, address.port or PORT, tls, **settings)
    scope = trio.CancelScope(deadline=trio.current_time() + timeout)
    try:
        with scope:
            await nursery.start(connection.run)
            return RedisConnection(address, connection, activity, timeout)
    except Exception as error:  # of names, sockets, TLS, the greeting, and of any bytes that a server may send
        if not scope.cancel_called:  # coredis raises its own error where it is cancelled
            connection.discard()
            await trio.lowlevel.checkpoint_if_cancelled()
            raise explain_failed_connect(
                address, error, activity.greeting, has_password=password is not None
            ) from error
    except BaseException:
        connection.discard()
        raise
    connection.discard()
    await trio.lowlevel.checkpoint_if_cancelled()
    raise explain_no_connection(address, timeout, is_reached=activity.is_reached)


async def dial_host(host: str, port: int) -> anyio.abc.ByteStream:
    """Return the first connection that opens, to any address of a host; a SYN without an answer is soon repeated."""
    # Each dial of a cycle goes on in the background: a slow address still wins if it answers before the others.
    results = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in results))
    errors: dict[str, OSError] = {}
    opened: list[anyio.abc.ByteStream] = []

    async def dial(address: str, failed: trio.Event) -> None:
        try:
            stream = await anyio.connect_tcp(address, port)
        except OSError as error:
            errors[address] = error
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
            if len(errors) == len(addresses):
                nursery.cancel_scope.cancel()
                break
    if opened:
        return opened[0]
    raise errors[addresses[0]]


def make_tls_context(ca: str | None) -> ssl.SSLContext:
    """Return settings of TLS that trust a file of certificates, or those of the system.

    Raises:
        MissingFileError: there is no such file.
        EngineRefusedError: the file cannot be read.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except FileNotFoundError:
        raise MissingFileError(f"the file of certificates {ca!r} cannot be read: No such file or directory") from None
    except (OSError, ssl.SSLError) as error:
        raise EngineRefusedError(f"the file of certificates {ca!r} cannot be read: {error.strerror or error}") from None
