"""Interpreters that have imported already what processes under test import first, and fork those on request.

All that such a process does is real, and it is a child of the tests' own process, with the environment, limits and
descriptors that it would have; only its interpreter is not started anew, which would be most of what it costs.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from support.survivors import COOKIE

__all__ = ["CLONE", "WarmInterpreter", "import_path", "of_the_interpreters"]

CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())  # clone(2); elsewhere each process is started anew
LIMITS = [number for name, number in vars(resource).items() if name.startswith("RLIMIT_")]
MOST = 2**18  # bytes of a request
RUNNING: list[WarmInterpreter] = []
NO_WORD = "0" * 32  # as long as the word by which a test knows its processes
SERVER = """import ctypes, gc, json, os, resource, signal, socket, sys, time
sys.path[:] = {path}
{first}
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, and for what is forked
C, PYTHON = ctypes.CDLL(None, use_errno=True), ctypes.pythonapi
PARENT = 0x8000  # CLONE_PARENT: what is forked is a child of the tests' own process
with socket.socket(fileno={line}) as line:
    while True:
        data, fds, _, _ = socket.recv_fds(line, {most}, 4, socket.MSG_CMSG_CLOEXEC)
        while data and not data.endswith(b"\\n"):
            data += line.recv({most})
        if not data:
            os._exit(0)
        {before}
        PYTHON.PyOS_BeforeFork()
        pid = C.syscall({clone}, PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            PYTHON.PyOS_AfterFork_Child()
            break
        PYTHON.PyOS_AfterFork_Parent()
        for fd in fds:
            os.close(fd)
        line.send(str(pid if pid > 0 else -ctypes.get_errno()).encode())
signal.signal(signal.SIGINT, signal.default_int_handler)
asked = json.loads(data)
if word := asked["environ"].get("{cookie}"):
    # What the kernel shows of a process is the environment with which it began: this is that very memory.
    C.getenv.restype = ctypes.c_void_p
    ctypes.memmove(C.getenv(b"{cookie}"), word.encode(), len(word))
for number, fd in enumerate(fds[:3]):
    os.dup2(fd, number)
    os.close(fd)
os.chdir(asked["folder"])
os.umask(asked["umask"])
for number, limits in asked["limits"]:
    if resource.getrlimit(number) != tuple(limits):
        resource.setrlimit(number, limits)
os.environ.clear()
os.environ.update(asked["environ"])
time.tzset()
{then}
"""


class WarmInterpreter:
    """An interpreter that is asked for a process over a socket, and answers with its id.

    It executes `first` at its start, `before` ahead of each fork, and `then` in the new process, where `asked` holds
    the words of the request and `fds` the descriptors beyond the three standard ones.
    """

    def __init__(
        self, environ: Mapping[str, str], *, first: str, before: str = "pass", then: str, flags: Sequence[str] = ()
    ) -> None:
        self._lock = threading.Lock()  # a daemon may run in a thread beside the tests' own
        self.line, theirs = socket.socketpair()
        code = SERVER.format(
            path=import_path(), line=theirs.fileno(), most=MOST, clone=CLONE, cookie=COOKIE, first=first, before=before,
            then=then,
        )  # fmt: skip
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", code], env={**environ, COOKIE: NO_WORD}, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self.pid = self._process.pid
        RUNNING.append(self)
        atexit.register(self.close)

    def fork(self, environ: Mapping[str, str], fds: Sequence[int], folder: str, **words: Any) -> int:
        """Fork a process with these descriptors, of which the first three are the standard ones; return its id."""
        assert len(environ.get(COOKIE, NO_WORD)) == len(NO_WORD)
        request = {
            "environ": dict(environ), "folder": folder, "umask": umask(),
            "limits": [(number, resource.getrlimit(number)) for number in LIMITS], **words,
        }  # fmt: skip
        with self._lock:
            data = json.dumps(request).encode() + b"\n"
            self.line.sendall(data[socket.send_fds(self.line, [data], fds) :])
            pid = int(self.line.recv(64))
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        return pid

    def close(self) -> None:
        self.line.close()
        self._process.wait()


def of_the_interpreters() -> tuple[set[int], set[int]]:
    """Return their processes and the descriptors of the sockets to them, which are no test's."""
    return {one.pid for one in RUNNING}, {one.line.fileno() for one in RUNNING}


def import_path() -> list[str]:
    return [os.fspath(entry) or os.getcwd() for entry in sys.path]


def umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
