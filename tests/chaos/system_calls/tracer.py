"""Runs a function in a process of its own, sees each of its system calls, and has one of them fail (ptrace(2)).

Traces that process and its threads, and nothing that it starts.  Needs no rights: a process may trace its children.
Knows calls and places; not what the program is for.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import traceback
from collections.abc import Callable
from typing import NamedTuple

from chaos.system_calls.places import SharedPage

__all__ = ["Fault", "SystemCall", "explain_absence", "trace"]

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
LIBC.ptrace.restype = ctypes.c_long
# linux/ptrace.h
SEIZE, INTERRUPT, LISTEN, SYSCALL, CONTINUE, POKE_USER, GET_SYSCALL_INFO = 0x4206, 0x4207, 0x4208, 24, 7, 6, 0x420E
OPTIONS = 0x1 | 0x8 | 0x100000  # TRACESYSGOOD, TRACECLONE, EXITKILL
EVENT_STOP, ENTRY, EXIT = 128, 1, 2
ORIGINAL_RAX, RAX = 15 * 8, 10 * 8  # offsets of registers, sys/user.h
WALL = 0x40000000
INFO = struct.Struct("=BxxxIQQ7Q")


class SystemCall(NamedTuple):
    """A call that a thread is about to make."""

    phase: int
    number: int
    arguments: tuple[int, ...]
    place: str


class Fault(NamedTuple):
    """The call that fails: the first with this number at this place in this phase."""

    phase: int
    number: int
    place: str
    error: int


def explain_absence() -> str | None:
    """Return why nothing can be traced here, or None if it can."""
    if platform.machine() != "x86_64":
        return "the registers of this machine are not known to the tracer"
    page = SharedPage()
    try:
        return None if trace(lambda: 0, page, lambda call: None) == 0 else "the kernel shows no system calls"
    except OSError as error:
        return f"ptrace is not permitted: {error.strerror}"


def ptrace(request: int, pid: int, address: object = None, data: object = None) -> int:
    result: int = LIBC.ptrace(request, pid, address, data)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def trace(program: Callable[[], int], page: SharedPage, decide: Callable[[SystemCall], int | None]) -> int:
    """Run the program and return its exit code, negative for a signal.  `decide` says with which error a call fails.

    Once it has said one, the program runs on alone.
    """
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        code = 255
        try:
            os.read(read, 1)
            os.close(read)
            os.close(write)
            code = program()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    ptrace(SEIZE, pid, None, OPTIONS)
    ptrace(INTERRUPT, pid)
    os.write(write, b"x")
    os.close(write)
    os.close(read)
    return Tracer(pid, page, decide).run()


class Tracer:
    """One trace, from the first stop to the end of the process."""

    def __init__(self, pid: int, page: SharedPage, decide: Callable[[SystemCall], int | None]) -> None:
        self._pid = pid
        self._page = page
        self._decide = decide
        self._buffer = ctypes.create_string_buffer(INFO.size)
        self._failing: dict[int, int] = {}  # by thread: what its call is to return
        self._resume = SYSCALL

    def run(self) -> int:
        while True:
            try:
                thread, status = os.waitpid(-1, WALL)
            except ChildProcessError:
                return 255
            if not os.WIFSTOPPED(status):
                if thread == self._pid:
                    return os.waitstatus_to_exitcode(status)
                continue
            try:
                self._go_on(thread, os.WSTOPSIG(status), status >> 16)
            except ProcessLookupError:
                continue  # killed meanwhile

    def _go_on(self, thread: int, number: int, event: int) -> None:
        request, delivered = self._resume, 0
        if number == signal.SIGTRAP | 0x80:
            self._look(thread)
            request = self._resume if thread not in self._failing else SYSCALL
        elif event == EVENT_STOP and number != signal.SIGTRAP:
            request = LISTEN  # stopped by a signal such as SIGSTOP, until another one
        elif not event:
            delivered = number
        ptrace(request, thread, None, delivered)

    def _look(self, thread: int) -> None:
        ptrace(GET_SYSCALL_INFO, thread, INFO.size, ctypes.byref(self._buffer))
        operation, _, _, _, first, *arguments = INFO.unpack(self._buffer.raw)
        if operation == EXIT and thread in self._failing:
            ptrace(POKE_USER, thread, RAX, self._failing.pop(thread))
        elif operation == ENTRY and self._resume == SYSCALL:
            call = SystemCall(self._page.phase, first, tuple(arguments), self._page.read_place(thread))
            error = self._decide(call)
            if error is not None:
                self._failing[thread] = -error
                self._resume = CONTINUE
                self._page.end()
                if call.number != CLOSE:  # which closes even so (close(2))
                    ptrace(POKE_USER, thread, ORIGINAL_RAX, -1)


CLOSE = 3
