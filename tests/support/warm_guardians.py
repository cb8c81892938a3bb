"""Forks guardians from one interpreter that has imported already what each of them imports first.

All that such a guardian does is real, and it is a child of this process, with the environment, limits and descriptors
that it would have; only its interpreter is not started anew, which would be half of what a test of a daemon costs.
tests/processes and every daemon that is a process of its own start theirs as the product does.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from hooklatch.processes import guardian
from hooklatch.processes.guardian import Interpreter
from hooklatch_worker.sandbox import children
from support.survivors import COOKIE

__all__ = ["of_the_interpreter", "warm_guardians"]

CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())  # clone(2); elsewhere each guardian is started anew
LIMITS = [number for name, number in vars(resource).items() if name.startswith("RLIMIT_")]
MOST = 2**18  # bytes of a request
SERVER = """import gc, sys
gc.disable()  # as a guardian does
sys.path[:] = {path}
import json, os, resource, signal, socket
from hooklatch_worker.runtime import guardian
from hooklatch_worker.sandbox import linux

PARENT = 0x8000  # CLONE_PARENT: what is forked is a child of the tests' own process
with socket.socket(fileno={line}) as line:
    while True:
        data, fds, _, _ = socket.recv_fds(line, {most}, 4, socket.MSG_CMSG_CLOEXEC)
        if not data:
            os._exit(0)
        pid = linux.raise_errno(linux.LIBC.syscall({clone}, PARENT | signal.SIGCHLD, 0, 0, 0, 0), "clone")
        if pid == 0:
            break
        for fd in fds:
            os.close(fd)
        line.send(str(pid).encode())
asked = json.loads(data)
for number, fd in enumerate(fds[1:]):
    os.dup2(fd, number)
    os.close(fd)
os.set_inheritable(fds[0], True)
os.setsid()
os.chdir(asked["folder"])
os.umask(asked["umask"])
for number, limits in asked["limits"]:
    if resource.getrlimit(number) != tuple(limits):
        resource.setrlimit(number, limits)
os.environ.clear()
os.environ.update(asked["environ"])
sys.path[:] = asked["path"]
guardian.run_guardian(fds[0], asked["daemon"])
"""


class Server:
    """The interpreter: asked for a guardian over a socket, it answers with the new process's id."""

    def __init__(self) -> None:
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = SERVER.format(path=import_path(), line=theirs.fileno(), most=MOST, clone=CLONE)
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as for a guardian
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", code], env=children.OWN.of(os.environ), pass_fds=[theirs.fileno()],
                start_new_session=True,
            )  # fmt: skip
        self.pid = self._process.pid
        atexit.register(self.close)

    def fork(self, line: int) -> int:
        request = {
            "daemon": os.getpid(), "environ": children.OWN.of(os.environ), "path": import_path(), "folder": os.getcwd(),
            "umask": umask(), "limits": [(number, resource.getrlimit(number)) for number in LIMITS],
        }  # fmt: skip
        socket.send_fds(self.line, [json.dumps(request).encode()], [line, 0, 1, 2])
        return int(self.line.recv(64))

    def close(self) -> None:
        self.line.close()
        self._process.wait()


class Forked:
    """What the product needs of a process that it started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        return os.waitpid(self.pid, 0)[1]


LOCK = threading.Lock()  # a daemon may run in a thread beside the tests' own
SERVERS: list[Server] = []
IN_USE: list[object] = []
START = guardian.start_guardian


def of_the_interpreter() -> tuple[set[int], set[int]]:
    """Return its process and the descriptor of the socket to it, which are no test's."""
    return {one.pid for one in SERVERS}, {one.line.fileno() for one in SERVERS}


@contextmanager
def warm_guardians() -> Generator[None]:
    """Have each guardian of this process's own Python that starts in the block be forked from the interpreter.

    (Not where a word in the environment is to tell every process of a test: the kernel shows the first environment.)
    """
    mark = object()
    with LOCK:
        IN_USE.append(mark)
        if CLONE is not None:
            setattr(guardian, "start_guardian", start)  # noqa: B010  (its type is a subprocess's)
    try:
        yield
    finally:
        with LOCK:
            IN_USE.remove(mark)
            if not IN_USE:
                guardian.start_guardian = START


def start(line: int, interpreter: Interpreter | None) -> Any:
    if interpreter is not None or COOKIE in os.environ:
        return START(line, interpreter)
    with LOCK:
        if not SERVERS:
            SERVERS.append(Server())
        return Forked(SERVERS[0].fork(line))


def import_path() -> list[str]:
    return [os.fspath(entry) or os.getcwd() for entry in sys.path]


def umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
