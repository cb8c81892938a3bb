"""Replacements of Python's own functions that read the files a source names, for the bytes of its build.

`open`, `os.open` and `os.stat` answer for these paths from memory, and so does all code that calls them, such as
pathlib and importlib.resources.  Other paths, and all writing, go to the disk.  Code that opens a path below Python
(sqlite3, a program) reads the disk.
"""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable
from typing import Any

from hooklatch_worker.systems import system

__all__ = ["open_memory_file", "replace_open_functions"]

WRITING = frozenset("wax+")
Bytes = Callable[[str], "bytes | None"]


def open_memory_file(data: bytes) -> int:
    """Return a descriptor of a file in memory with this content, to be read from its start."""
    fd = system.make_anonymous_file("build")
    try:
        with io.FileIO(fd, "w", closefd=False) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


def replace_open_functions(bytes_of: Bytes) -> None:
    """Let these functions return the bytes that `bytes_of` has for a path, where it has any."""

    def find_bytes(path: object) -> bytes | None:
        try:
            return bytes_of(os.fsdecode(path))  # type: ignore[arg-type]
        except (TypeError, ValueError):  # a descriptor, or not a path at all
            return None

    def open_path(file: Any, mode: Any = "r", *args: Any, **options: Any) -> Any:
        data = find_bytes(file) if isinstance(mode, str) and not WRITING.intersection(mode) else None
        if data is None:
            return plain_open(file, mode, *args, **options)
        opener: Callable[[str, int], int] = lambda _path, _flags: open_memory_file(data)  # noqa: E731  (it has no name)
        return plain_open(file, mode, *args[:5], **(options | {"opener": opener}))

    def os_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        is_read = dir_fd is None and not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | system.LOOKS)
        data = find_bytes(path) if is_read else None
        return plain_os_open(path, flags, mode, dir_fd=dir_fd) if data is None else open_memory_file(data)

    def os_stat(path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        data = find_bytes(path) if dir_fd is None else None
        if data is None:
            return plain_stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        fd = system.make_anonymous_file("build")
        try:
            os.ftruncate(fd, len(data))
            os.utime(fd, (0, 0))  # a constant time: the bytes never change
            return plain_stat(fd)
        finally:
            os.close(fd)

    plain_open, plain_os_open, plain_stat = builtins.open, os.open, os.stat
    builtins.open = io.open = open_path
    os.open, os.stat = os_open, os_stat
    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):  # shutil tests them
        known |= {ours for ours, plain in ((os_open, plain_os_open), (os_stat, plain_stat)) if plain in known}
