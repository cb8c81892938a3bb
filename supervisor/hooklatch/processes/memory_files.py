"""The files in memory that processes hold, which count against the limits of a worker at `strict`.

There a worker can keep memory only in its own pages and in files in memory (memfd_create(2)), whose pages count for no
process unless they are mapped.  So the files of all descriptors count there too, shared ones once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from hooklatch.errors import explain_error
from hooklatch.processes.pool_limits import UnmeasuredError, measure_process

__all__ = ["measure_memory_files", "read_memory_field"]

HEXADECIMAL = frozenset("0123456789abcdef")
MEMFD = "/memfd:"  # how the names of files in memory begin


def read_memory_field(pid: int, key: str) -> int:
    """Return a process's resident memory ("Rss:"), or its share of that ("Pss:"), without files in memory."""
    return measure_process("memory", pid, lambda: sum_memory_field(pid, key))


def sum_memory_field(pid: int, key: str) -> int:
    total, is_file = 0, False
    with open(f"/proc/{pid}/smaps", errors="surrogateescape") as file:  # mapped files have any names
        for line in file:
            if line[:1] in HEXADECIMAL:  # a mapping begins; keys begin with a capital
                is_file = f" {MEMFD}" in line
            elif not is_file and line.startswith(key):
                total += int(line.split()[1]) * 1024
    return total


def measure_memory_files(pids: Iterable[int]) -> int:
    """Return the bytes of the files in memory that processes have open, each file once.

    Of a file that is mapped and not open any more, the mapped part counts, since the kernel does not show its size.

    Raises:
        UnmeasuredError: the open files of a process cannot be read.
        PermissionError: a process keeps its open files from being read.
    """
    sizes: dict[int, int] = {}  # by inode
    parts: dict[tuple[int, str], int] = {}  # of mapped files, by where they begin in it
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
            with open(f"/proc/{pid}/maps") as file:
                lines = [line.split() for line in file if MEMFD in line]
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            raise
        except OSError as error:
            raise UnmeasuredError(f"what process {pid} has open cannot be read: {explain_error(error)}") from None
        for addresses, _, offset, _, inode, *_ in lines:
            begin, end = (int(address, 16) for address in addresses.split("-"))
            parts[int(inode), offset] = max(end - begin, parts.get((int(inode), offset), 0))
        for name in names:
            with suppress(FileNotFoundError, ProcessLookupError):  # it was closed just now
                if os.readlink(f"{folder}/{name}").startswith(MEMFD):
                    status = os.stat(f"{folder}/{name}")
                    sizes[status.st_ino] = status.st_blocks * 512
    return sum(sizes.values()) + sum(size for (inode, _), size in parts.items() if inode not in sizes)
