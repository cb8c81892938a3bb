"""Where a traced program is in its Python source, for the tracer: a page of memory that both see.

The place of a call is its number and the innermost lines from which it is made.  A profile function in the program
(sys.setprofile) writes it before each function in C that can make a system call, and the tracer reads it while the
program stands still.  Return addresses on the stack would name the interpreter's loop and no line of ours, and the n-th
call of a phase is another one as soon as a thread is faster.
"""

from __future__ import annotations

import fcntl
import io
import itertools
import mmap
import os
import posix
import re
import select
import socket
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

__all__ = ["UNKNOWN", "SharedPage"]

SIZE, THREADS, TEXTS = 2**23, 200, 4096
PHASE, IS_OVER, END = 0, 1, 1  # bytes and words
UNKNOWN = "code without Python"
FRAMES = 8  # at most that a place is made of
DEPTH = 3  # at most of hooklatch's
OURS = re.compile(r"/(?:supervisor/hooklatch|workers/hooklatch_worker)/(.*)")  # the checkout may have any name
# Functions in C that make system calls.
NAMES = {
    name
    for owner in (
        posix, fcntl, select, select.epoll, socket.socket, io.FileIO, io.BufferedReader, io.BufferedWriter,
        io.TextIOWrapper, mmap.mmap,
    )
    for name in dir(owner)
    if not name.startswith("__")
} | {"fork_exec", "start_new_thread", "start_joinable_thread", "pidfd_send_signal", "set_wakeup_fd"}  # fmt: skip
# What makes a system call without being one of those: a foreign function, or the making of an object.
MAKERS = {"LIBC", "CDLL", "FileIO", "epoll", "socket", "mmap", "RustNotify", "super", "Popen", "scandir", "libc"}


class SharedPage:
    """The page.  It is made before the program is forked."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SIZE)
        self._words = memoryview(self._memory).cast("Q")
        self._bytes = memoryview(self._memory)
        self._words[END] = TEXTS
        self._offsets: dict[str, int] = {}  # in the program
        self._lock = threading.Lock()
        self._slots = itertools.cycle(range(16, 16 + 2 * THREADS, 2))
        self._texts: dict[int, str] = {}  # in the tracer

    # -- the driver ------------------------------------------------------------------------------------------------

    @property
    def phase(self) -> int:
        return self._bytes[PHASE]

    @phase.setter
    def phase(self, number: int) -> None:
        self._bytes[PHASE] = number

    # -- the tracer ------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Have the program note no more places."""
        self._bytes[IS_OVER] = 1

    def read_place(self, thread: int) -> str:
        for slot in range(16, 16 + 2 * THREADS, 2):
            if self._words[slot] == thread:
                return self._read_text(self._words[slot + 1])
        return UNKNOWN

    def _read_text(self, offset: int) -> str:
        if offset not in self._texts:
            end = self._memory.find(b"\0", offset)
            self._texts[offset] = self._memory[offset:end].decode()
        return self._texts[offset]

    # -- the program -----------------------------------------------------------------------------------------------

    def note_places(self) -> None:
        """Have this thread, and each one that it starts, note where it is before what can be a system call."""
        threading.setprofile(self._begin_thread)
        sys.setprofile(self._make_profile())

    def _begin_thread(self, frame: FrameType, event: str, argument: object) -> None:
        sys.setprofile(self._make_profile())

    def _make_profile(self) -> Callable[[FrameType, str, Any], None]:
        own = threading.get_native_id()
        slot = next(self._slots)
        words, flags, names, place = self._words, self._bytes, NAMES, self._place
        cache: dict[tuple[object, ...], int] = {}
        makers: dict[CodeType, bool] = {}
        words[slot + 1] = place(sys._getframe(1))
        words[slot] = own

        def profile(frame: FrameType, event: str, argument: Any) -> None:
            if flags[IS_OVER]:
                sys.setprofile(None)
            elif event == "c_call":
                if argument.__name__ in names:
                    words[slot + 1] = find(frame)
            elif event == "call":
                code = frame.f_code
                if (makes := makers.get(code)) is None:
                    makes = makers[code] = not MAKERS.isdisjoint(code.co_names)
                if makes:
                    words[slot + 1] = find(frame)

        def find(frame: FrameType) -> int:
            key = []
            at: FrameType | None = frame
            while at is not None and len(key) < 2 * FRAMES:
                key += (at.f_code, at.f_lineno)
                at = at.f_back
            found = cache.get(tuple(key))
            if found is None:
                found = cache[tuple(key)] = place(frame)
            return found

        return profile

    def _place(self, frame: FrameType | None) -> int:
        text = describe(frame)
        with self._lock:
            if text in self._offsets:
                return self._offsets[text]
            data = text.encode() + b"\0"
            start = self._words[END]
            self._words[END] = start + len(data)
            self._bytes[start : start + len(data)] = data
            self._offsets[text] = start
        return self._offsets[text]


def describe(frame: FrameType | None) -> str:
    """Return the innermost line, and the innermost ones of hooklatch's up to `DEPTH`."""
    found: list[str] = []
    for _ in range(FRAMES):
        if frame is None or len(found) == DEPTH:
            break
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib") or "importlib" in file:
            return "an import"
        ours = OURS.search(file)
        if ours is not None or not found:
            name = ours[1] if ours is not None else os.path.basename(file)
            found.append(f"{name}:{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)
