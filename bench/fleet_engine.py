"""A real redis-server for bench/fleet.py, and bare readers and writers of it: what no link can be faster than.

idle hosts     one connection a host, all in one process on epoll: each asks what the link of an idle host asks, in the
               same minute, and checks nothing
bare readers   one connection a host, all in one process on epoll: they wait at the stream of versions, fetch the bundle
               that is named beside each, and check nothing
bare writers   one connection a host; each adds its batches one after the other, and waits for every answer
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["SERVERS", "Bare", "IdleHosts", "RedisServer", "bare_writers", "run_server"]

PATIENCE = 60.0  # seconds
SERVERS = ("redis-server", "valkey-server")
CONFIG = """
port {port}
bind 127.0.0.1
dir {folder}
appendonly yes
appendfsync {fsync}
save ""
maxclients 20000
tcp-backlog 4096
maxmemory-policy noeviction
stream-node-max-bytes 16kb
stream-node-max-entries 100
"""
Words = Sequence[bytes | str | int]
Reply = bytes | int | None | list["Reply"]


class Connection:
    """A bare connection to the server."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, *words: bytes | str | int) -> None:
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(one), one) for one in parts))

    def receive(self) -> Reply:
        while True:
            found = self.receive_some()
            if found is not NOTHING:
                return found  # type: ignore[return-value]  # NOTHING is the only other object

    def receive_some(self) -> object:
        """Read once; return the reply, or NOTHING if it is not whole yet."""
        data = self.socket.recv(2**18)
        if not data:
            raise EOFError("the server closed the connection")
        self._received += data
        try:
            reply, end = parse(self._received, 0)
        except IndexError:
            return NOTHING
        del self._received[:end]
        return reply

    def call(self, *words: bytes | str | int) -> Reply:
        self.send(*words)
        return self.receive()

    def close(self) -> None:
        self.socket.close()


NOTHING = object()


def parse(data: bytearray, start: int) -> tuple[Reply, int]:
    """Read one reply of RESP2; raise IndexError if more bytes are to come."""
    end = data.find(b"\r\n", start)
    if end < 0:
        raise IndexError
    kind, line, end = data[start : start + 1], bytes(data[start + 1 : end]), end + 2
    match kind:
        case b"+":
            return line, end
        case b":":
            return int(line), end
        case b"$":
            size = int(line)
            if size < 0:
                return None, end
            if len(data) < end + size + 2:
                raise IndexError
            return bytes(data[end : end + size]), end + size + 2
        case b"*":
            found: list[Reply] = []
            for _ in range(max(0, int(line))):
                one, end = parse(data, end)
                found.append(one)
            return found, end
        case _:
            raise RuntimeError(line.decode())


class RedisServer:
    """A server with a folder of its own; it can be killed and started again on what it has on the disk."""

    def __init__(self, folder: Path, fsync: str) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._config = folder / "redis.conf"
        self._config.write_text(CONFIG.format(port=self.port, folder=folder, fsync=fsync))
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        program = shutil.which(SERVERS[0]) or shutil.which(SERVERS[1])
        if program is None:
            raise FileNotFoundError(f"none of {SERVERS} is installed")
        with open(self.folder / "redis.log", "ab") as log:
            process = subprocess.Popen([program, os.fspath(self._config)], stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                connection = Connection(self.port)
                if connection.call("ping") == b"PONG":
                    connection.close()
                    return process
            except (OSError, RuntimeError):  # not listening yet, or still loading
                time.sleep(0.005)
        raise TimeoutError(f"redis-server did not start: {(self.folder / 'redis.log').read_text()}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        self.process = self._start()

    def info(self) -> dict[str, str]:
        connection = Connection(self.port)
        text = connection.call("info", "everything")
        connection.close()
        assert isinstance(text, bytes)
        return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def run_server(folder: Path, fsync: str = "always") -> Generator[RedisServer]:
    server = RedisServer(folder, fsync)
    try:
        yield server
    finally:
        server.stop()


class Bare:
    """Bare readers, in a thread."""

    def __init__(self, port: int, count: int, stream: str, bundle_of: Callable[[list[Reply]], str]) -> None:
        self._connections = [Connection(port) for _ in range(count)]
        self._stream = stream
        self._bundle_of = bundle_of

    def times_to(self, publish: Callable[[], float]) -> list[float]:
        """Have one version published, by a function that returns when that began.

        Return for each reader the milliseconds from then until it has the bundle.
        """
        fetched: list[float] = []
        began: list[float] = []
        waits = threading.Event()

        def act() -> None:
            waits.wait()
            began.append(publish())

        publisher = threading.Thread(target=act)
        publisher.start()
        waiting = {one.fileno(): one for one in self._connections}
        fetching: set[int] = set()
        with select.epoll() as ready:
            for fd, one in waiting.items():
                ready.register(fd, select.EPOLLIN)
                one.send("xread", "block", 0, "streams", self._stream, "$")
            waits.set()
            while waiting:
                for fd, _ in ready.poll(PATIENCE):
                    reply = waiting[fd].receive_some()
                    if reply is NOTHING:
                        continue
                    if fd not in fetching:
                        fetching.add(fd)
                        waiting[fd].send("get", self._bundle_of(reply))  # type: ignore[arg-type]
                        continue
                    fetched.append(time.monotonic())
                    ready.unregister(fd)
                    del waiting[fd]
        publisher.join()
        return [(moment - began[0]) * 1e3 for moment in fetched]

    def close(self) -> None:
        for one in self._connections:
            one.close()


class IdleHosts:
    """So many hosts that ask as their links do while nothing happens, in a thread.

    `round_of` returns the commands of a host's minute before the one that the server holds, and `held` that one.
    """

    def __init__(
        self, port: int, count: int, round_of: Callable[[int], Sequence[Words]], held: Callable[[], Words]
    ) -> None:
        self._connections = [Connection(port) for _ in range(count)]
        self._round_of, self._held = round_of, held
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        hosts = {one.fileno(): (number, one) for number, one in enumerate(self._connections)}
        with select.epoll() as ready:
            for fd, (_, one) in hosts.items():
                ready.register(fd, select.EPOLLIN)
                one.send(*self._held())
            while not self._ends.is_set():
                for fd, _ in ready.poll(0.5):
                    number, one = hosts[fd]
                    reply = one.receive_some()
                    if reply is NOTHING:
                        continue
                    for words in self._round_of(number):
                        one.call(*words)
                    one.send(*self._held())

    def close(self) -> None:
        self._ends.set()
        self._thread.join()
        for one in self._connections:
            one.close()


def bare_writers(port: int, prefix: str, count: int, batches: int, data: bytes) -> float:
    """Have each of `count` connections add this many batches, one after the other; return the seconds that it took."""
    connections = [Connection(port) for _ in range(count)]
    left = {one.fileno(): batches for one in connections}
    by_fd = {one.fileno(): one for one in connections}
    start = time.monotonic()
    with select.epoll() as ready:
        for number, one in enumerate(connections):
            ready.register(one.fileno(), select.EPOLLIN)
            one.send("xadd", f"{prefix}:{number}", "*", "f", 1, "d", data)
        while left:
            for fd, _ in ready.poll(PATIENCE):
                if by_fd[fd].receive_some() is NOTHING:
                    continue
                left[fd] -= 1
                if left[fd]:
                    by_fd[fd].send("xadd", f"{prefix}:{connections.index(by_fd[fd])}", "*", "f", 1, "d", data)
                else:
                    ready.unregister(fd)
                    del left[fd]
    took = time.monotonic() - start
    for one in connections:
        one.close()
    return took
