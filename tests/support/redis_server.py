"""A real redis-server, or valkey-server, in a folder of its own: started, killed and restarted by a test."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

__all__ = ["NO_SERVER", "SERVER", "RedisServer", "free_port", "needs_redis", "redis_server"]

NAMES = ("redis-server", "valkey-server")
CHOSEN = "HOOKLATCH_TEST_ENGINE"  # a path of another server to test with
SERVER = os.environ.get(CHOSEN) or next((found for name in NAMES if (found := shutil.which(name))), None)
NO_SERVER = f"there is no {' or '.join(NAMES)} on this machine: as root, apt-get install redis-server"
PATIENCE = 20.0  # seconds in which a server is up or gone; only a failing test waits so long
PR_SET_PDEATHSIG = 1
SETTINGS = {
    "port": "0",
    "unixsocketperm": "700",
    "appendonly": "yes",
    "appendfsync": "always",
    "save": '""',
    "maxmemory-policy": "noeviction",
    "daemonize": "no",
    "enable-debug-command": "yes",
}

needs_redis = pytest.mark.skipif(SERVER is None, reason=NO_SERVER)


class RedisServer:
    """A server whose data is in `folder`; `settings` are those of redis.conf, over those above."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = {}) -> None:
        assert SERVER is not None, NO_SERVER
        self.folder = folder
        files = {"dir": f"{folder}", "unixsocket": f"{folder}/redis.sock", "logfile": f"{folder}/redis.log"}
        self.settings = {**SETTINGS, **files, **settings}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return self.folder / "redis.sock"

    @property
    def url(self) -> str:
        """Return the URL of its Unix socket."""
        return f"redis+unix://{self.socket}"

    def url_as(self, user: str) -> str:
        return f"redis+unix://{user}@{self.socket}"

    @property
    def port(self) -> int:
        """Return its port: that for TLS if it has one."""
        return int(self.settings.get("tls-port") or self.settings["port"])

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        return (self.folder / "redis.log").read_text(errors="replace")

    def start(self, *, ready: bool = True, prefix: Sequence[str] = ()) -> None:
        """Start it, with the words of `prefix` before its command; wait until it answers, unless not `ready`."""
        assert not self.is_running
        assert SERVER is not None
        config = self.folder / "redis.conf"
        config.write_text("".join(f"{name} {value}\n" for name, value in self.settings.items()))
        self._process = subprocess.Popen(
            [*prefix, SERVER, str(config)], cwd=self.folder, preexec_fn=die_with_parent,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if ready:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            if not self.is_running or time.monotonic() > deadline:
                raise AssertionError(f"the server did not start:\n{self.log}")
            time.sleep(0.005)

    def answers(self) -> bool:
        with suppress(OSError):
            return self.command("PING").startswith((b"+PONG", b"-NOAUTH", b"-NOPERM"))
        return False

    def kill(self) -> None:
        """Kill it as a crash would, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Have it save and leave, and wait until it is gone."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill it and start it again upon its data."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Have it answer nobody, while its sockets stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def lose_everything(self) -> None:
        """Have it forget all its data, while it runs."""
        assert self.command("FLUSHALL") == b"+OK\r\n"

    def back_up(self) -> Callable[[], None]:
        """Return what brings its data back to what they are now; it runs afterwards."""
        kept, copy = self.folder / "appendonlydir", self.folder / f"copy-{time.monotonic_ns()}"
        shutil.copytree(kept, copy)

        def restore() -> None:
            self.kill()
            shutil.rmtree(kept)
            shutil.copytree(copy, kept)
            self.start()

        return restore

    def _end(self, sign: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(sign)
        if sign is not signal.SIGKILL:
            process.send_signal(signal.SIGCONT)
        try:
            process.wait(PATIENCE)  # a stopped one ends by SIGKILL too
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the server did not end:\n{self.log}") from None

    def command(self, *words: str | bytes | int, user: str = "", password: str = "") -> bytes:
        """Send a command and return its answer as sent, up to 64 KiB: `-ERR …`, `+OK`, `:1`, `$3 …`."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(self.socket))
            if user:
                connection.sendall(encoded("AUTH", user, password))
                if (answer := connection.recv(4096)) != b"+OK\r\n":
                    return answer
            connection.sendall(encoded(*words))
            return connection.recv(65536)


def encoded(*words: str | bytes | int) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    """Return a port of loopback that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def redis_server(settings: Mapping[str, str] = {}, *, start: bool = True) -> Generator[RedisServer]:
    """Yield a server that is gone, with its data, after the block; skip where there is none to start."""
    if SERVER is None:
        pytest.skip(NO_SERVER)
    with tempfile.TemporaryDirectory(prefix="hooklatch-engine-") as folder:  # short: the path of a socket has 107 bytes
        server = RedisServer(Path(folder), settings)
        try:
            if start:
                server.start()
            yield server
        finally:
            server.kill()
