"""Connections to Redis that fail in time: opened when they are needed, given up as soon as an answer stays away.

coredis encodes, decodes and keeps answers in the order of their commands.  Its pool and its client (6.9) are not used:
the pool loses a slot for good when a connection dies in use (with two slots, nothing is answered after two such
deaths), and a command whose time is up leaves its connection in use.  Here a connection that has not answered in time
is closed, also for the other tasks that wait on it, and no command is ever sent a second time.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import anyio.abc
import msgspec
import trio
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSStream
from coredis import exceptions as redis
from coredis.connection import BaseConnection, TCPLocation
from coredis.connection import UnixDomainSocketLocation as UnixLocation

from hooklatch.core.text import format_duration
from hooklatch.fleet.engine.engine import Address, EngineRefusedError, MissingFileError, UnreachableError
from hooklatch.fleet.engine.redis_answers import (
    OLDEST,
    bound_answer,
    convert_answer,
    explain_failed_connect,
    explain_not_redis,
    explain_reply_error,
    format_redis_word,
    is_of_the_server,
)
from hooklatch_worker.systems.disks import read_boot_time

__all__ = ["RedisConnection", "RedisCommand", "RedisPool", "make_tls_context"]

PORT = 6379
PART = 64 * 1024  # bytes sent at once; after each, the peer has shown that it reads
MAX_GREETING = 64 * 1024  # bytes until the connection is open
IDLE = 60.0  # seconds after which the second connection is closed
BEGINNING = 400  # bytes kept of a peer's first words, for the text of an error
STARVED = 0.05  # seconds after which a deadline that is noticed so late says more of this process than of its peer
LONGEST = 120.0  # seconds for an answer that keeps coming, however slowly
# The kernel notices a dead peer within half a minute, though nothing is sent while the engine holds a question.
KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}

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


class UnaskedError(OSError):
    """The peer sends more than the answers to what it was asked."""


class MonitoredStream(anyio.abc.ByteStream):
    """A stream that notes when a part of it moved last, and takes no more bytes than the answers may have.

    `has_unasked` returns whether a message came that does not answer any command.  `refusal` is why nothing more is
    taken.
    """

    def __init__(self, stream: anyio.abc.ByteStream, has_unasked: Callable[[], bool]) -> None:
        self.moved_at = 0.0
        self.refusal: str | None = None
        self.bytes_left = MAX_GREETING  # that may still come; none while nothing is asked
        self.greeting = b""  # the peer's first bytes: often only they say why a connection failed
        self._stream = stream
        self._has_unasked = has_unasked

    async def receive(self, max_bytes: int = 65536) -> bytes:
        self.check_unasked()
        data = await self._stream.receive(max_bytes)
        self.moved_at = trio.current_time()
        self.greeting += data[: BEGINNING - len(self.greeting)]
        self.bytes_left -= len(data)
        if self.bytes_left < 0:
            self.refusal = "it sends more than an answer has"
            raise UnaskedError(self.refusal)
        return data

    def check_unasked(self) -> None:
        """Raise UnaskedError if a message came that does not answer any command."""
        if self._has_unasked():
            self.refusal = "it sends messages that nobody asked for"
        if self.refusal is not None:
            raise UnaskedError(self.refusal)

    async def send(self, item: bytes) -> None:
        for start in range(0, len(item), PART):
            await self._stream.send(item[start : start + PART])
            self.moved_at = trio.current_time()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        self._stream = await TLSStream.wrap(self._stream, hostname=host, ssl_context=context, standard_compatible=False)

    async def aclose(self) -> None:
        await self._stream.aclose()


class RedisConnection(BaseConnection):
    """A connection.  Commands are sent in order, each once; the first that gets no answer in time closes it."""

    def __init__(self, address: Address, *, password: str | None, tls: ssl.SSLContext | None, timeout: float) -> None:
        super().__init__(
            UnixLocation(address.path) if address.path else TCPLocation(address.host, address.port or PORT),
            username=address.user, password=password, db=address.number,
        )  # fmt: skip
        self.address = address
        self._has_password = password is not None
        self._tls = tls
        self._timeout = timeout
        self._asking = trio.Lock()
        self._monitored: MonitoredStream | None = None  # once the peer is reached, though it may have sent nothing

    def describe(self) -> str:
        return str(self.address)

    async def _connect(self) -> anyio.abc.ByteStream:
        match self.location:
            case TCPLocation(host, port):
                stream = await anyio.connect_tcp(host, port)
                set_keepalive(stream.extra(SocketAttribute.raw_socket))
                self._monitored = MonitoredStream(stream, self._has_unasked)
                if self._tls is not None:
                    try:
                        await self._monitored.start_tls(self._tls, host)
                    except BaseException:
                        await anyio.aclose_forcefully(self._monitored)
                        raise
            case _:
                self._monitored = MonitoredStream(await anyio.connect_unix(self.address.path), self._has_unasked)
        return self._monitored

    def _has_unasked(self) -> bool:
        return self.usable and not self.reusable

    @property
    def moved_at(self) -> float:
        """Return when a byte was sent or received last."""
        return self._monitored.moved_at if self._monitored is not None else 0.0

    async def open(self, nursery: trio.Nursery) -> None:
        """Connect; a task of the nursery keeps the connection until it is closed or lost.

        Raises:
            EngineError: there is none within the time, or the server refuses us.
        """
        scope = trio.CancelScope(deadline=trio.current_time() + self._timeout)
        try:
            with scope:
                await nursery.start(self.run)
                self._allow(0)
                return
        except Exception as error:  # of names, sockets, TLS, the greeting, and of any bytes that a server may send
            await trio.lowlevel.checkpoint_if_cancelled()
            if not scope.cancel_called:  # coredis raises its own error where it is cancelled
                greeting = self._monitored.greeting if self._monitored is not None else b""
                raise explain_failed_connect(self.address, error, greeting, has_password=self._has_password) from error
        finally:
            if not self.usable:
                self.discard()
        await trio.lowlevel.checkpoint_if_cancelled()
        seconds = format_duration(self._timeout)
        if self._monitored is None:
            what = f"no connection to {self.address} within {seconds}; check its name, routes and firewalls"
        else:
            tls = ", and has TLS on this port" if self.address.scheme == "rediss" else ""
            what = f"{self.address} takes connections and has sent nothing for {seconds}; check that it runs{tls}"
        raise UnreachableError(what)

    def discard(self) -> None:
        """Close the connection, and the queues of coredis, which it leaves open where connecting failed."""
        self.invalidate()
        for queue in vars(self).values():
            if isinstance(queue, anyio.abc.ObjectSendStream | anyio.abc.ObjectReceiveStream):
                queue.close()  # type: ignore[union-attr]

    async def execute(self, *commands: RedisCommand, timeout: float | None = None) -> list[Any]:
        """Send commands at once and return their answers: bytes, numbers, lists, maps and None.

        An answer may stay away for `timeout` seconds; an answer whose bytes keep coming may take longer.  One task at a
        time: each question has bytes of its own that may come, and none may come after its answer.

        Raises:
            UnreachableError: the connection is lost, or was given up; the server may have acted or not.
            EngineError: the server has refused one of them; it has acted on the others.
        """
        async with self._asking:
            return await self._execute(commands, self._timeout if timeout is None else timeout)

    async def _execute(self, commands: Sequence[RedisCommand], timeout: float) -> list[Any]:
        end = trio.current_time() + max(LONGEST, timeout)
        answers: list[Any] = []
        try:
            self._allow(sum(bound_answer(command.command, command.arguments) for command in commands))
            for request in [self._send(command) for command in commands]:
                answers += [await self._await_reply(request, timeout, end)]
        except trio.Cancelled:
            self.invalidate()  # the answer is still to come, and would be taken for that of the next command
            raise
        except trio.TooSlowError:
            self.invalidate()
            late = commands[len(answers)]
            what = f"{late.command} {late.about}".strip()
            raise UnreachableError(f"{self.address} has not answered {what} for {format_duration(timeout)}") from None
        finally:
            self._allow(0)
        assert self._monitored is not None
        try:
            self._monitored.check_unasked()
        except UnaskedError as error:
            self.invalidate()
            what = f"the connection to {self.address} was closed during {commands[0].command}: {error}"
            raise EngineRefusedError(f"{what}; see what runs there, and who writes to it") from None
        return [self._read(command, answer) for command, answer in zip(commands, answers, strict=True)]

    def _allow(self, answer_bytes: int) -> None:
        if self._monitored is not None:
            self._monitored.bytes_left = answer_bytes

    def _send(self, command: RedisCommand) -> Awaitable[Any]:
        try:
            return self.create_request(
                command.command.encode(), *command.arguments, decode=False, raise_exceptions=False
            )
        except redis.ConnectionError as error:
            raise UnreachableError(f"the connection to {self.address} is lost") from error

    async def _await_reply(self, request: Awaitable[Any], timeout: float, end: float) -> Any:
        """Return the answer to a request.

        Raises:
            TooSlowError: it is `end`, or no byte has moved for `timeout` seconds.  Not while this process itself gets
                no time: then the answer may be there, unread.
        """
        assert self._monitored is not None
        until = trio.current_time() + timeout
        while True:
            with trio.move_on_at(min(until, end)):
                return await request  # cancelled here, the request stays valid, and the loop awaits it again
            before, late = until, trio.current_time() - until
            until = max(self._monitored.moved_at + timeout, before + 2 * late if late > STARVED else 0.0)
            if min(until, end) <= before:
                raise trio.TooSlowError

    def _read(self, command: RedisCommand, answer: object) -> Any:
        """Return the server's answer to a command, as a value of its shape."""
        if isinstance(answer, redis.RedisError) and is_of_the_server(answer):
            if isinstance(answer, redis.ReadOnlyError):
                self.invalidate()  # it has become a replica: a new connection is checked for that before it reads there
            raise explain_reply_error(self.address, command.command, command.about, answer) from None
        if isinstance(answer, BaseException):
            self.invalidate()
            raise UnreachableError(f"the connection to {self.address} was lost during {command.command}") from answer
        try:
            return convert_answer(command.command, answer)
        except msgspec.ValidationError:
            self.invalidate()
            raise explain_not_redis(
                self.address, f"it answers {command.command} with {type(answer).__name__}"
            ) from None


class RedisPool:
    """Two connections to one server: `main`, which may wait for news, and `side` for what is asked meanwhile.

    Each is opened when it is first needed, and anew after it was lost; `side` is closed when it was idle for a while.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        address: Address,
        *,
        password: str | None,
        tls: ssl.SSLContext | None,
        timeout: float,
    ) -> None:
        self.address = address
        self._nursery = nursery
        self._settings: dict[str, Any] = {"password": password, "tls": tls, "timeout": timeout}
        self._connections: dict[str, RedisConnection] = {}
        self._connecting = {"main": trio.Lock(), "side": trio.Lock()}
        self._clock = 0.0  # the server's, in seconds since the epoch, when our clock showed `_clock_at`
        self._clock_at = 0.0

    async def connection(self, name: str) -> RedisConnection:
        """Return the open connection of this name, after making it if need be."""
        async with self._connecting[name]:
            connection = self._connections.get(name)
            if connection is None or not connection.usable:
                connection = RedisConnection(self.address, **self._settings)
                await connection.open(self._nursery)
                try:
                    await self._validate_server(connection)
                except BaseException:
                    connection.invalidate()
                    self.close()  # the other connection goes to the same server, which may have become a replica since
                    raise
                self._connections[name] = connection
                if name == "side":
                    self._nursery.start_soon(close_when_idle, connection)
            return connection

    async def _validate_server(self, connection: RedisConnection) -> None:
        """Refuse a server that is too old, in a cluster or a replica, and read its clock."""
        stated = connection.server_version or ""
        if tuple(int(part) if part.isdecimal() else 0 for part in stated.split(".")[:2]) < OLDEST:
            raise EngineRefusedError(f"{self.address} is Redis {stated}; it must be Redis 7.0 or later, or Valkey")
        hello, (seconds, microseconds) = await connection.execute(RedisCommand("HELLO"), RedisCommand("TIME"))
        mode, role = format_redis_word(hello.get(b"mode")), format_redis_word(hello.get(b"role"))
        if mode != "standalone":
            raise EngineRefusedError(
                f"{self.address} is in the mode {mode!r}: name a single server instead, with replicas if need be"
            )
        if role != "master":
            raise EngineRefusedError(
                f"{self.address} is a replica, which may be behind and takes no writes; name the primary"
            )
        try:
            self._clock = int(seconds) + int(microseconds) / 1e6
        except ValueError:
            raise explain_not_redis(self.address, "its answer to TIME is not a time") from None
        self._clock_at = read_boot_time()

    def now(self) -> int:
        """Return the engine's time in ms since the epoch: its last answer, and the time that has passed since."""
        return int((self._clock + read_boot_time() - self._clock_at) * 1000)

    def close(self) -> None:
        """Close the connections; the next caller of `connection` gets a new one."""
        for connection in self._connections.values():
            connection.invalidate()


async def close_when_idle(connection: RedisConnection) -> None:
    while connection.usable:
        idle = trio.current_time() - connection.moved_at
        if idle >= IDLE:
            connection.invalidate()
            return
        await trio.sleep(IDLE - idle)


def set_keepalive(stream: socket.socket) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:  # some are of Linux alone
            stream.setsockopt(socket.IPPROTO_TCP, option, value)


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
