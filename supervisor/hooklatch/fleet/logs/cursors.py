"""The cursor file of an export: the last number of each log that the receiver took.

It is replaced as a whole, after the receiver has confirmed.  So after a kill at any moment at most one batch is
exported again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Annotated

import msgspec
from msgspec import Meta

from hooklatch.directories import sync_folder
from hooklatch.errors import explain_error
from hooklatch.files import create_anew, open_regular, open_regular_file
from hooklatch.fleet.logs.reading import LogKey

__all__ = ["ExportCursor", "CursorError", "open_cursor"]

FORMAT = 1


class CursorError(Exception):
    """The cursor file cannot be used.  The text says what to do."""


class CursorFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file: the numbers by host and epoch."""

    format: int
    fleet: str
    logs: dict[str, dict[int, Annotated[int, Meta(ge=0)]]]


class ExportCursor:
    """An open cursor.  `is_new`: there was no file, so all that the engine has is exported."""

    def __init__(self, path: str, fleet: str) -> None:
        self.is_new = True
        self.positions: dict[LogKey, int] = {}
        self._path = path
        self._fleet = fleet
        self._read()

    def _read(self) -> None:
        try:
            with open_regular_file(self._path) as file:
                content = msgspec.json.decode(file.read(), type=CursorFile)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CursorError(
                f"the cursor {self._path} cannot be read: {explain_error(error)}; without it everything is exported"
                " again, so remove it only if you want that"
            ) from None
        if content.format != FORMAT or content.fleet != self._fleet:
            raise CursorError(
                f"the cursor {self._path} is of the fleet {content.fleet!r} (format {content.format}), not of"
                f" {self._fleet!r}; name another file"
            )
        self.is_new = False
        self.positions = {(host, epoch): seq for host, logs in content.logs.items() for epoch, seq in logs.items()}

    def advance(self, key: LogKey, seq: int) -> None:
        """Write that a log was exported through a number, 0 if it begins anew.

        Raises:
            CursorError: the file cannot be written.
        """
        self.positions[key] = seq
        logs: dict[str, dict[int, int]] = {}
        for (host, epoch), last in sorted(self.positions.items()):
            logs.setdefault(host, {})[epoch] = last
        data = msgspec.json.encode(CursorFile(FORMAT, self._fleet, logs))
        try:
            write_cursor(self._path, data)
        except OSError as error:
            raise CursorError(f"the cursor {self._path} cannot be written: {error.strerror}") from None


def write_cursor(path: str, data: bytes) -> None:
    temporary = f"{path}.new"
    fd = create_anew(temporary)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data + b"\n")
            file.flush()
            os.fsync(fd)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(os.path.dirname(path) or ".")


@contextmanager
def open_cursor(path: str, fleet: str) -> Generator[ExportCursor]:
    """Open a cursor and lock it against other processes.

    Raises:
        CursorError: it cannot be read or written, is another fleet's, or in use.
    """
    try:
        fd = open_regular(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    except OSError as error:
        raise CursorError(f"the cursor {path} cannot be locked: {error.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield ExportCursor(path, fleet)
    except BlockingIOError:
        raise CursorError(f"another export uses the cursor {path}; end that one, or name another file") from None
    finally:
        os.close(fd)
