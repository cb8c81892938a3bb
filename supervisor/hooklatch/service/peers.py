"""Who may connect: the user and root, and none of the processes that run hooks.  Knows /proc; knows no request.

A hook that could call its daemon could disable the guards beside it, or wait for an answer that waits for it.  It
cannot hide among strangers: what it starts stays below its worker, or comes to the zygote when that is dead, as both
are subreapers.  So the peer's parents are looked at, up to the first one that is older than the daemon.

    refused     another user; a process at or below one that runs hooks; one whose parents cannot be told
    closed      one that is gone already: nothing is known of it, and nobody would read the answer
    admitted    one of another PID namespace, whose pid reads as 0: what a hook starts is always in ours or below it
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable

from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch_worker import linux

__all__ = ["PeerGoneError", "Peers"]

SO_PEERPIDFD = 77  # asm-generic/socket.h, Linux 6.5; Python 3.11 has no name for it
CREDENTIALS = struct.Struct("3i")
MOST_PARENTS = 1000  # a longer chain is no chain
PARENT, STARTED = 1, 19  # of the words after the name in /proc/PID/stat (proc(5): fields 4 and 22)


class PeerGoneError(Exception):
    """It ended before it could be looked at."""


class Peers:
    """Looks at those who connect; `roots` names the processes below which everything is that runs hooks."""

    def __init__(self, roots: Callable[[], frozenset[int]]) -> None:
        self._roots = roots
        self._born = read_stat(os.getpid())[1]

    def check(self, stream: socket.socket) -> None:
        """Let a peer in, or not.

        Raises:
            RpcError: it may not connect.
            PeerGoneError: nobody is there any more.
        """
        try:
            pid, uid, _ = CREDENTIALS.unpack(stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
            if uid not in (0, os.geteuid()):
                raise RpcError(ErrorCode.NOT_PERMITTED, f"user {uid} may not connect")
            if pid in (0, os.getpid()):
                return
            pidfd = pidfd_of(stream, pid)
        except OSError:
            raise PeerGoneError from None
        try:
            runs_hooks = self._runs_hooks(pid)
            if not still_names(pidfd, pid):  # then that was perhaps another process of the same number
                raise PeerGoneError
        finally:
            os.close(pidfd)
        if runs_hooks:
            raise RpcError(
                ErrorCode.NOT_PERMITTED,
                f"a hook may not call the daemon that runs it, and process {pid} belongs to one; "
                "have the hook return what it decides",
            )

    def _runs_hooks(self, pid: int) -> bool:
        roots = self._roots()
        below = 0
        for _ in range(MOST_PARENTS):
            if pid in roots:
                return True
            if pid in (0, os.getpid()):
                return False
            try:
                parent, started = read_stat(pid)
            except OSError:
                if not below:
                    raise PeerGoneError from None
                if is_anothers(pid):
                    return False
                parent = read_parent(below)
                if parent == pid:
                    raise unreadable(pid) from None
                pid = parent  # it has just died, and its child has a new parent
                continue
            if started < self._born:
                return False  # it was there before any hook
            below, pid = pid, parent
        raise unreadable(pid)


def pidfd_of(stream: socket.socket, pid: int) -> int:
    try:
        return stream.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        return os.pidfd_open(pid)  # an older kernel, where a number may come to name another process before this


def still_names(pidfd: int, pid: int) -> bool:
    """Say whether the pid still belongs to the process: it runs, or has ended and is not reaped."""
    if not linux.has_ended(pidfd):
        return True
    try:
        with open(f"/proc/self/fdinfo/{pidfd}", "rb") as file:
            return b"\nPid:\t%d\n" % pid in file.read()
    except OSError:
        return False


def read_stat(pid: int) -> tuple[int, int]:
    """Give a process's parent, and when it started in ticks since the boot."""
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        words = file.read().rpartition(b")")[2].split()
    return int(words[PARENT]), int(words[STARTED])


def read_parent(pid: int) -> int:
    try:
        return read_stat(pid)[0]
    except OSError:
        raise PeerGoneError from None


def is_anothers(pid: int) -> bool:
    """Say whether a process that /proc does not show (hidepid) is another user's: then it is no hook's.

    Where the daemon is not root, all that it starts has its user for ever (no_new_privs); one of ours that hides by
    not being dumpable can still be signalled.
    """
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False


def unreadable(pid: int) -> RpcError:
    return RpcError(ErrorCode.NOT_PERMITTED, f"whether a hook calls cannot be told: process {pid} cannot be looked at")
