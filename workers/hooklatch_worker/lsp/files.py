"""The file that a tool has written: its place and its content.  Knows tool inputs and the disk, but no servers.

The path comes from an agent, so after resolving links nothing outside the session's working directory is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Final, cast

from msgspec import Struct

__all__ = [
    "MAX_SOURCE", "PATH_KEYS", "Location", "Stamp", "locate_file", "read_source", "find_project_root",
    "read_file_stamp",
]  # fmt: skip

MAX_SOURCE = 2 * 2**20  # bytes; larger files are generated code, and take servers seconds
PATH_KEYS: Final = ("file_path", "filePath", "path", "notebook_path", "target_file", "TargetFile")

Stamp = tuple[int, int]  # modification time in ns and size, to detect changes


class Location(Struct, frozen=True):
    """A file in the working directory: real paths of both, and the relative path to display."""

    path: str
    cwd: str
    shown: str

    @property
    def extension(self) -> str:
        return os.path.splitext(self.path)[1].lower()


def locate_file(tool_input: object, cwd: object) -> Location | None:
    """Return the file named by a tool's input; None if there is none, or it is outside `cwd`."""
    path = find_tool_path(tool_input)
    if path is None or not isinstance(cwd, str) or not os.path.isabs(cwd):
        return None
    try:
        folder = os.path.realpath(cwd)
        real = os.path.realpath(os.path.join(cwd, path))
        real.encode()  # the protocol cannot express a file name that is not UTF-8
    except (OSError, ValueError):  # ValueError: a null byte, or UnicodeEncodeError
        return None
    shown = os.path.relpath(real, folder)
    if shown in (os.curdir, os.pardir) or shown.startswith(os.pardir + os.sep):
        return None
    return Location(real, folder, shown)


def find_tool_path(tool_input: object) -> str | None:
    if not isinstance(tool_input, Mapping):
        return None
    fields = cast("Mapping[str, object]", tool_input)
    for key in PATH_KEYS:
        value = fields.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def find_project_root(location: Location, markers: Sequence[str]) -> str:
    """Return the nearest folder above a file with a marker, up to the working directory, which is the default."""
    folder = os.path.dirname(location.path)
    while folder != location.cwd:
        if any(os.path.exists(os.path.join(folder, marker)) for marker in markers):
            return folder
        folder = os.path.dirname(folder)
    return location.cwd


def read_source(path: str) -> tuple[str, Stamp] | None:
    """Read a text file and its stamp; return None if it is missing, too large, not a regular file or not UTF-8."""
    try:
        # O_NONBLOCK, since opening a named pipe would otherwise block until there is a writer.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SOURCE:
            return None
        data = read_at_most(fd, MAX_SOURCE + 1)
    except OSError:
        return None
    finally:
        os.close(fd)
    if len(data) > MAX_SOURCE or b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig"), (status.st_mtime_ns, status.st_size)
    except UnicodeDecodeError:
        return None


def read_at_most(fd: int, limit: int) -> bytes:
    data = bytearray()
    while len(data) < limit and (part := os.read(fd, limit - len(data))):
        data += part
    return bytes(data)


def read_file_stamp(path: str) -> Stamp | None:
    """Return a file's current stamp, or None if it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
