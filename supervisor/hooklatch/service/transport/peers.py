"""The check of peers: the user and root may connect, but not a process that runs hooks.

A hook that could call its daemon could disable the guards beside it, or deadlock on an answer that waits for it.  It
cannot hide, since each process that it starts stays below its worker, or below the zygote once the worker is dead: both
are subreapers.  So the peer's ancestors are checked, up to the first one that is older than the daemon.

    refused     another user; a process at or below one that runs hooks; a process whose ancestors cannot be determined
    heard       a process that is gone already: its user is known (the kernel keeps it from the connect on), but its
                ancestors are not, so it may have belonged to a hook.  One event on the agent socket is accepted from
                it, whose answer cannot be read. All other requests of it are dropped
    admitted    a process of another PID namespace, whose pid reads as 0: what a hook starts is in ours or below it

A hook whose child fires and ends at once could call itself endlessly that way.  `LAST_WORDS` limits that, for all such
processes together, to a burst and then a rate. Events beyond it are dropped and counted.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable

from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.core.restarts import TokenBucket
from hooklatch.credentials import read_credentials
from hooklatch_worker.systems import system

__all__ = ["PeerGoneError", "PeerInspector"]

LAST_WORDS = 200  # events of clients that are gone already, in one burst; shell one-liners send fewer
LAST_WORDS_RATE = 10.0  # and then each second
MAX_PARENTS = 1000  # a longer chain cannot be real


class PeerGoneError(Exception):
    """The peer ended before it could be inspected."""


class PeerInspector:
    """The inspector of peers. All processes that run hooks are below those that `roots` returns."""

    def __init__(self, roots: Callable[[], frozenset[int]], dropped: Counter[str]) -> None:
        self._roots = roots
        self._dropped = dropped
        self._last_words = TokenBucket(rate=LAST_WORDS_RATE, burst=LAST_WORDS)
        self._born = system.read_parent_and_start(os.getpid())[1]

    def check(self, stream: socket.socket) -> None:
        """Check that a peer may connect.

        Raises:
            RpcError: the peer may not connect.
            PeerGoneError: its user may connect, but the process is gone.
        """
        try:
            pid, uid = read_credentials(stream)
        except OSError:
            raise make_unreadable_peer_error(0) from None
        if uid not in (0, os.geteuid()):
            raise RpcError(
                ErrorCode.NOT_PERMITTED, f"user {uid} may not connect: this daemon is for user {os.geteuid()}"
            )
        if pid in (0, os.getpid()):
            return
        try:
            handle = system.open_peer(stream, pid)
        except OSError:
            raise PeerGoneError from None
        try:
            runs_hooks = self._runs_hooks(pid)
            if not system.is_same_process(handle, pid):  # the walk may have been over another process with the same pid
                raise PeerGoneError
        finally:
            os.close(handle)
        if runs_hooks:
            raise RpcError(
                ErrorCode.NOT_PERMITTED,
                f"a hook may not call the daemon that runs it, and process {pid} belongs to one; "
                "have the hook return what it decides",
            )

    def accepts_gone(self, now: float) -> bool:
        """Return whether one event of a peer that is gone is accepted, and count it if not."""
        is_accepted = self._last_words.take(now) == 0
        self._dropped["gone"] += not is_accepted
        return is_accepted

    def _runs_hooks(self, pid: int) -> bool:
        roots = self._roots()
        below = 0
        for _ in range(MAX_PARENTS):
            if pid in roots:
                return True
            if pid in (0, os.getpid()):
                return False
            try:
                parent, started = system.read_parent_and_start(pid)
            except OSError:  # it ended during the walk, or /proc hides it
                if not below:
                    raise PeerGoneError from None
                if is_anothers(pid):
                    return False
                try:
                    parent = system.read_parent_and_start(below)[0]
                except OSError:
                    raise PeerGoneError from None
                if parent == pid:
                    raise make_unreadable_peer_error(pid) from None
                pid = parent  # it has just died, and its child was reparented
                continue
            if started < self._born:
                return False  # older than any hook
            if parent == pid:
                raise make_unreadable_peer_error(pid)
            below, pid = pid, parent
        raise make_unreadable_peer_error(pid)


def is_anothers(pid: int) -> bool:
    """Return whether a process that /proc does not show (hidepid) is another user's, and so not a hook's.

    Unless the daemon is root, each process that it starts keeps its user (no_new_privs). A process of this user that is
    hidden because it is not dumpable can still be signalled.
    """
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False


def make_unreadable_peer_error(pid: int) -> RpcError:
    return RpcError(
        ErrorCode.NOT_PERMITTED, f"cannot determine whether the caller is a hook: process {pid} cannot be inspected"
    )
