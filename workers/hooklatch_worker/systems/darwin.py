"""macOS: the calls of its own that `PortableSystem` asks for, by the constants of its headers.

kqueue(2)    the end of a process (EVFILT_PROC), and the hangup of a socket (EV_EOF of EVFILT_WRITE)
sysctl(3)    the list of processes (KERN_PROC), as an array of struct kinfo_proc
libproc      how many threads a process has (proc_pidinfo, PROC_PIDTASKINFO)
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
from contextlib import suppress
from typing import Any

from hooklatch_worker.systems.portable import PortableSystem, ProcessEntry, find_entry, make_ended_handle

__all__ = ["DarwinSystem", "KernelEvents", "read_processes", "system"]

# sys/event.h
EVFILT_READ, EVFILT_WRITE, EVFILT_PROC = -1, -2, -5
EV_ADD, EV_DELETE, EV_CLEAR, EV_EOF = 0x1, 0x2, 0x20, 0x8000
NOTE_EXIT = 0x80000000
MOST_EVENTS = 64
# sys/sysctl.h
CTL_KERN, KERN_PROC, KERN_PROC_ALL = 1, 14, 0
# struct kinfo_proc on 64-bit machines: its size, and where its parts begin
ENTRY_BYTES = 648
STARTED = struct.Struct("=qi")  # p_starttime, at its beginning
STATE, PID, NAME, PARENT, GROUP = 36, 40, 243, 560, 564
NAME_BYTES = 17  # MAXCOMLEN and a null byte
STATES = {1: b"D", 2: b"R", 3: b"S", 4: b"T", 5: b"Z"}  # SIDL to SZOMB of sys/proc.h
ROOM = 64  # entries more than there were when the size was asked
# sys/proc_info.h
PROC_PIDTASKINFO, TASK_INFO_BYTES, THREADS = 4, 96, 84
# sys/resource.h: struct rusage_info_v0, and where ri_proc_start_abstime is
RUSAGE_INFO_V0, RUSAGE_BYTES, START_TIME = 0, 96, 80
LATE = 2**63


class KernelEvents:
    """Descriptors that are waited for as one, in a kqueue."""

    def __init__(self, select: Any = select) -> None:
        self._select = select
        self._queue = select.kqueue()
        self._filters: dict[int, int] = {}
        self.fileno, self.close = self._queue.fileno, self._queue.close

    def add(self, fd: int) -> None:
        """Wait until a descriptor is readable."""
        self._change(fd, EVFILT_READ, EV_ADD)

    def add_hangup(self, fd: int) -> None:
        """Wait until the peer of a socket has closed it: nothing can be sent then (kqueue(2), EVFILT_WRITE)."""
        self._change(fd, EVFILT_WRITE, EV_ADD | EV_CLEAR)  # without EV_CLEAR each socket with room would be ready

    def remove(self, fd: int) -> None:
        """Wait for a descriptor no more."""
        self._change(fd, self._filters.pop(fd, EVFILT_WRITE), EV_DELETE)

    def take(self) -> list[int]:
        """Return the descriptors that are ready, of those that are waited for by `add_hangup`."""
        return [event.ident for event in self._queue.control(None, MOST_EVENTS, 0) if event.flags & EV_EOF]

    def _change(self, fd: int, kind: int, flags: int) -> None:
        if flags & EV_ADD:
            self._filters[fd] = kind
        self._queue.control([self._select.kevent(fd, kind, flags)], 0, 0)


class DarwinSystem(PortableSystem):
    """macOS.  `libc` and `select` are the modules through which it is called."""

    NEEDS = "macOS 11 or later"
    EventSet = KernelEvents

    def __init__(self, libc: Any = None, select: Any = select) -> None:
        super().__init__()
        self._libc = libc or ctypes.CDLL(None, use_errno=True)
        self._select = select

    def is_supported(self) -> bool:
        """Return whether there is a kqueue, and the list of processes has this one where it is expected."""
        try:
            return hasattr(self._select, "kqueue") and self._tabulate()[os.getpid()].parent == os.getppid()
        except (OSError, AttributeError, KeyError):
            return False

    def list_processes(self) -> list[ProcessEntry]:
        """Return all processes.  Their sessions are asked for one by one: the list only has an address of each."""
        return read_processes(self._read_list())

    def _read_list(self) -> bytes:
        path = (ctypes.c_int * 3)(CTL_KERN, KERN_PROC, KERN_PROC_ALL)
        while True:
            size = ctypes.c_size_t(0)
            self._call("sysctl", path, 3, None, ctypes.byref(size), None, ctypes.c_size_t(0))
            buffer = ctypes.create_string_buffer(size.value + ROOM * ENTRY_BYTES)
            size = ctypes.c_size_t(len(buffer))
            try:
                self._call("sysctl", path, 3, buffer, ctypes.byref(size), None, ctypes.c_size_t(0))
            except OSError as error:
                if error.errno != errno.ENOMEM:  # there are many more by now
                    raise
                continue
            return buffer.raw[: size.value]

    def watch_process(self, pid: int) -> int:
        """Return a kqueue in which the end of a process is reported, and stays so."""
        queue = self._select.kqueue()
        try:
            queue.control([self._select.kevent(pid, EVFILT_PROC, EV_ADD, NOTE_EXIT)], 0, 0)
            return os.dup(queue.fileno())  # a number of ours: the object closes its own
        except ProcessLookupError:  # one that has ended is not watched, though it is not reaped yet
            if find_entry(self._tabulate(), pid).parent != os.getpid():
                raise
            return make_ended_handle()
        finally:
            queue.close()

    def count_threads(self, pid: int) -> int:
        """Return how many threads a process has."""
        buffer = ctypes.create_string_buffer(TASK_INFO_BYTES)
        number = self._call("proc_pidinfo", pid, PROC_PIDTASKINFO, ctypes.c_uint64(0), buffer, TASK_INFO_BYTES)
        if number != TASK_INFO_BYTES:
            error = ctypes.get_errno() or errno.ESRCH
            raise OSError(error, os.strerror(error), f"process {pid}")
        return int(struct.unpack_from("=i", buffer, THREADS)[0])

    def read_start(self, entry: ProcessEntry) -> int:
        """Return when a process started, in units of mach_absolute_time(3).

        Not as the list has it: by a clock that is set back, a later process would seem older than the daemon, and so no
        hook's.  Another user's process does not tell, and counts as a late one.
        """
        buffer = ctypes.create_string_buffer(RUSAGE_BYTES)
        try:
            self._call("proc_pid_rusage", entry.pid, RUSAGE_INFO_V0, buffer)
        except OSError:
            return LATE
        return int(struct.unpack_from("=Q", buffer, START_TIME)[0]) or LATE

    def _call(self, name: str, *arguments: object) -> int:
        result = int(getattr(self._libc, name)(*arguments))
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)
        return result


def read_processes(data: bytes) -> list[ProcessEntry]:
    """Return the processes in an array of struct kinfo_proc.

    Raises:
        OSError: it is none, as of a system with another struct.
    """
    if len(data) % ENTRY_BYTES:
        raise OSError(errno.EINVAL, f"the list of processes has {len(data)} bytes, no multiple of {ENTRY_BYTES}")
    return [read_entry(data[at : at + ENTRY_BYTES]) for at in range(0, len(data), ENTRY_BYTES)]


def read_entry(data: bytes) -> ProcessEntry:
    seconds, microseconds = STARTED.unpack_from(data)
    pid, parent, group = (struct.unpack_from("=i", data, at)[0] for at in (PID, PARENT, GROUP))
    name = data[NAME : NAME + NAME_BYTES].partition(b"\0")[0]
    session = 0  # of one that has ended, or is another's to ask for
    with suppress(OSError):
        session = os.getsid(pid)
    return ProcessEntry(
        pid, parent, group, session, seconds * 10**6 + microseconds, STATES.get(data[STATE], b"D"), name
    )


system = DarwinSystem()
