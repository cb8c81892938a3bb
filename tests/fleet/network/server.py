"""A real redis-server that is killed, started again, filled up and restored, and a look past its access control.

It syncs what it acknowledges (AOF, always).  Knows processes and files, and enough of RESP to ask over a Unix socket.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from chaos.arena import wait_until

__all__ = ["Server", "password_of"]

CONFIG = """{listening}
unixsocket {socket}
unixsocketperm 700
dir {data}
aclfile {acl}
appendonly yes
appendfsync always
aof-use-rdb-preamble no
auto-aof-rewrite-percentage 0
save ""
daemonize no
"""


def password_of(user: str) -> str:
    return f"secret-of-{user}"


class Server:
    """One engine in a folder of its own, which may be a file system of its own."""

    def __init__(self, folder: Path, acl: str, log: IO[bytes]) -> None:
        self.folder = folder
        self.socket = folder / "engine.sock"
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        (folder / "users.acl").write_text(acl)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._command: list[str] = []

    def configure(self, listening: Sequence[str], prefix: Sequence[str]) -> None:
        """Say where it listens and in which namespace it runs."""
        file = self.folder / "redis.conf"
        file.write_text(CONFIG.format(
            listening="\n".join(listening), socket=self.socket, data=self.data, acl=self.folder / "users.acl"
        ))  # fmt: skip
        self._command = [*prefix, "redis-server", str(file)]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; come back when it answers."""
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        if not wait_until(self._is_ready):
            raise RuntimeError("redis-server did not start; its log says why")

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def backup(self) -> Path:
        """Return a copy of its data as of now; each write is in the file before it is acknowledged."""
        copy = self.folder / f"backup-{len(list(self.folder.glob('backup-*')))}"
        shutil.copytree(self.data, copy)
        return copy

    def restore(self, copy: Path) -> None:
        """Start again with the data of a backup."""
        self.kill()
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data)
        self.start()

    def ask(self, *words: str | bytes) -> object:
        """Return the answer to one command of its administrator.

        Raises:
            RuntimeError: it is an error.
        """
        with socket.socket(socket.AF_UNIX) as stream, stream.makefile("rwb") as lines:
            stream.settimeout(10)
            stream.connect(str(self.socket))
            send(lines, "AUTH", "admin", password_of("admin"))
            receive(lines)
            send(lines, *words)
            return receive(lines)

    def _is_ready(self) -> bool:
        try:
            return self.ask("PING") == b"PONG"
        except (OSError, RuntimeError):  # not yet, or it still loads
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError("redis-server ended; its log says why") from None
            return False


def send(lines: IO[bytes], *words: str | bytes) -> None:
    encoded = [os.fsencode(word) for word in words]
    lines.write(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded))
    lines.flush()


def receive(lines: IO[bytes]) -> object:
    line = lines.readline()
    if not line.endswith(b"\r\n"):
        raise OSError("the engine closed the connection")
    kind, rest = line[:1], line[1:-2]
    match kind:
        case b"-":
            raise RuntimeError(rest.decode())
        case b":":
            return int(rest)
        case b"$":
            return lines.read(int(rest) + 2)[:-2] if int(rest) >= 0 else None
        case b"*":
            return [receive(lines) for _ in range(int(rest))]
        case _:
            return rest
