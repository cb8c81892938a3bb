"""Who may connect: the user and root, and none of the processes that run hooks.  Knows /proc; knows no request.

A hook that could call its daemon could disable the guards beside it, or wait for an answer that waits for it.  It
cannot hide among strangers: what it starts stays below its worker, or comes to the zygote when that is dead, as both
are subreapers.  So the peer's parents are looked at, up to the first one that is older than the daemon.

    refused     another user; a process at or below one that runs hooks; one whose parents cannot be told
    heard       one that is gone already: its user is known (the kernel keeps that from the connect on), its parents are
                not, so it may have been a hook's.  It may have fired one event on the agent socket and no more: nobody
                reads the answer, and nothing else that it asks for is done
    admitted    one of another PID namespace, whose pid reads as 0: what a hook starts is always in ours or below it

A hook whose child fires and ends at once could so call itself for ever.  `LAST_WORDS` bounds that, for all who are gone
together: so many at once, then so many a second; what is more is dropped and counted.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import Counter
from collections.abc import Callable

from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.core.restarts import TokenBucket
from hooklatch_worker.sandbox import linux

__all__ = ["PeerGoneError", "Peers"]

SO_PEERPIDFD = 77  # asm-generic/socket.h, Linux 6.5; Python 3.11 has no name for it
CREDENTIALS = struct.Struct("3i")
LAST_WORDS = 200  # events of clients that are gone, at once; a shell's one-liners are fewer
LAST_WORDS_RATE = 10.0  # and then a second
MOST_PARENTS = 1000  # a longer chain is no chain
PARENT, STARTED = 1, 19  # of the words after the name in /proc/PID/stat (proc(5): fields 4 and 22)


class PeerGoneError(Exception):
    """It ended before it could be looked at."""


class Peers:
    """Looks at those who connect; `roots` names the processes below which everything is that runs hooks."""

    def __init__(self, roots: Callable[[], frozenset[int]], dropped: Counter[str]) -> None:
        self._roots = roots
        self._dropped = dropped
        self._last_words = TokenBucket(rate=LAST_WORDS_RATE, burst=LAST_WORDS)
        self._born = read_stat(os.getpid())[1]

    def check(self, stream: socket.socket) -> None:
        """Let a peer in, or not.

        Raises:
            RpcError: it may not connect.
            PeerGoneError: it is of a user who may, and nobody is there any more.
        """
        pid, uid, _ = CREDENTIALS.unpack(stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
        if uid not in (0, os.geteuid()):
            raise RpcError(ErrorCode.NOT_PERMITTED, f"user {uid} may not connect")
        if pid in (0, os.getpid()):
            return
        try:
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

    def hears(self, now: float) -> bool:
        """Return whether one that is gone may still be heard; count it where not."""
        is_heard = self._last_words.take(now) == 0
        self._dropped["gone"] += not is_heard
        return is_heard

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
    """Return whether the pid still belongs to the process: it runs, or has ended and is not reaped."""
    if not linux.has_ended(pidfd):
        return True
    try:
        with open(f"/proc/self/fdinfo/{pidfd}", "rb") as file:
            return b"\nPid:\t%d\n" % pid in file.read()
    except OSError:
        return False


def read_stat(pid: int) -> tuple[int, int]:
    """Return a process's parent, and when it started in ticks since the boot."""
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        words = file.read().rpartition(b")")[2].split()
    return int(words[PARENT]), int(words[STARTED])


def read_parent(pid: int) -> int:
    try:
        return read_stat(pid)[0]
    except OSError:
        raise PeerGoneError from None


def is_anothers(pid: int) -> bool:
    """Return whether a process that /proc does not show (hidepid) is another user's: then it is no hook's.

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
