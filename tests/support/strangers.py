"""Other users and other processes, for tests of who may do what."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from trio._core import _thread_cache as thread_cache

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def as_nobody(act: Callable[[], object]) -> str:
    """Do something as another user, in a child of this process; give what came of it as text."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        text = "nothing"
        try:
            signal.alarm(20)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            text = str(act())
        except BaseException as error:  # whatever it is, the child must not go on as a second test run
            text = f"{type(error).__name__}: {error}"
        finally:
            os.write(write_end, text.encode())
            os._exit(0)
    os.close(write_end)
    with open(read_end) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text


@contextmanager
def folder_for_all() -> Generator[Path]:
    """Yield a folder that every user can look into; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="hooklatch-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@contextmanager
def bound_by_permissions() -> Generator[None]:
    """Have the modes of files count for this thread of root too (capabilities(7)); it may still take that back."""
    header, both = (ctypes.c_uint32 * 2)(0x20080522, 0), ctypes.c_uint32 * 6  # _LINUX_CAPABILITY_VERSION_3
    libc, before = ctypes.CDLL(None, use_errno=True), both()
    assert libc.capget(header, before) == 0
    without = both(*before)
    without[0] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, of what is effective
    assert libc.capset(header, without) == 0
    # What threads may do they have from the one that starts them: those that wait in trio's cache have it still.
    cached, thread_cache.THREAD_CACHE = thread_cache.THREAD_CACHE, thread_cache.ThreadCache()
    try:
        yield
    finally:
        thread_cache.THREAD_CACHE = cached
        assert libc.capset(header, before) == 0


def listen_as_nobody(path: str | os.PathLike[str]) -> socket.socket:
    """Return a socket on which another user listens, for this process to serve; its folder is given to that user.

    To the kernel whoever called listen(2) is the one at the other end, and the descriptor is shared with that child.
    """
    folder, name = os.path.split(path)
    os.chown(folder, NOBODY, NOBODY)
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    listener = socket.socket(socket.AF_UNIX)

    def listen() -> str:
        os.fchdir(here)  # the folders above may be closed to that user
        listener.bind(name)
        listener.listen()
        return "listens"

    try:
        said = as_nobody(listen)
    finally:
        os.close(here)
    assert said == "listens", said
    return listener


@contextmanager
def listener_of_another(path: str, *, says: bytes = b"") -> Generator[Callable[[], bytes]]:
    """Have another user's daemon answer each connection with that; yield what returns all that it was sent."""
    heard: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines, suppress(OSError):
                heard.append(lines.readline())
                connection.sendall(says)

    def all_heard() -> bytes:
        return b"".join(heard)

    with listen_as_nobody(path) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield all_heard
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
            thread.join()


CALL = """
import json, socket, sys
stream = socket.socket(socket.AF_UNIX)
stream.settimeout(10)
stream.connect(sys.argv[1])
try:
    stream.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}\\n')
    print(stream.makefile().readline(), end="")
except OSError:
    print(stream.makefile().readline(), end="")
"""


def start_caller(socket_path: str, code: str = CALL) -> subprocess.Popen[bytes]:
    """Start a program that connects, asks, and prints the answer."""
    return subprocess.Popen([sys.executable, "-c", code, socket_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
