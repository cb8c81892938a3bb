"""The engine of a whole fleet: a real redis-server in its namespace, which is backed up, restored and looked into.

It syncs what it acknowledges (AOF, always).  Knows processes and files, and enough of RESP to read whole answers.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from support.redis_server import PATIENCE, RedisServer, encoded

__all__ = ["Server", "password_of"]

DATA = "appendonlydir"


def password_of(user: str) -> str:
    return f"secret-of-{user}"


class Server(RedisServer):
    """One engine in a folder of its own, with a user `admin` who may do everything."""

    def __init__(self, folder: Path, users: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "users.acl"
        file.write_text(f"user default off\nuser admin on >{password_of('admin')} ~* &* +@all\n{users}")
        super().__init__(folder, {"aclfile": str(file), "auto-aof-rewrite-percentage": "0"})
        self._prefix: list[str] = []

    def configure(self, settings: Mapping[str, str], prefix: Sequence[str]) -> None:
        """Say where it listens, and in which namespace it runs."""
        self.settings |= settings
        self._prefix = list(prefix)

    def start(self, *, ready: bool = True, prefix: Sequence[str] = ()) -> None:
        super().start(ready=ready, prefix=prefix or self._prefix)
        while ready and self.ask("INFO", "persistence").count(b"\r\nloading:1"):  # type: ignore[attr-defined]
            continue

    def backup(self) -> Path:
        """Return a copy of its data as of now; each write is in the file before it is acknowledged."""
        copy = self.folder / f"backup-{len(list(self.folder.glob('backup-*')))}"
        shutil.copytree(self.folder / DATA, copy)
        return copy

    def restore(self, copy: Path) -> None:
        """Start again with the data of a backup."""
        self.kill()
        shutil.rmtree(self.folder / DATA)
        shutil.copytree(copy, self.folder / DATA)
        self.start()

    def ask(self, *words: str | bytes | int) -> object:
        """Return the answer to one command of its administrator.

        Raises:
            RuntimeError: it is an error.
        """
        with socket.socket(socket.AF_UNIX) as stream, stream.makefile("rwb") as lines:
            stream.settimeout(PATIENCE)
            stream.connect(str(self.socket))
            lines.write(encoded("AUTH", "admin", password_of("admin")) + encoded(*words))
            lines.flush()
            receive(lines)
            return receive(lines)

    def newest(self, stream: str) -> int:
        """Return the first part of the id of a stream's newest entry, 0 if there is none."""
        entries = self.ask("XREVRANGE", stream, "+", "-", "COUNT", 1)
        assert isinstance(entries, list)
        return int(entries[0][0].partition(b"-")[0]) if entries else 0


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
