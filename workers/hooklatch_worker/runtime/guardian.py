"""Kills what the daemon and its zygote leave behind.  Knows these two processes; idle while both live.

Orphans of a dead zygote are reparented to the nearest subreaper above it.  If that were the daemon, nothing would be
left to kill them once both are dead.  Each of the three processes watches the others, so any two may die at once:

    daemon ──spawns──▶ guardian ──forks──▶ zygote ──forks──▶ worker …

    dead               who notices, and how                        who kills what is left
    zygote             guardian: pidfd;  daemon: control socket    guardian
    daemon             guardian: a pipe; zygote: control socket    both
    guardian           zygote: pidfd;    daemon: pidfd             zygote
    daemon, zygote     guardian                                    guardian
    daemon, guardian   zygote                                      zygote
    guardian, zygote   daemon                                      daemon, which is also a subreaper

Each gets SIGCONT when its parent ends, in case it was stopped.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import socket

from hooklatch_worker.runtime import zygote
from hooklatch_worker.sandbox import linux

__all__ = ["live"]


def live(control: socket.socket) -> None:
    """Fork the zygote, and wait until it or the daemon ends; never return."""
    daemon = multiprocessing.parent_process()
    if daemon is None:
        raise RuntimeError("the guardian is a child of the daemon")
    os.setsid()  # Ctrl-C in the daemon's terminal must only reach the daemon
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # end only when the daemon does: while draining it needs its workers
    linux.become_subreaper()
    linux.wake_when_orphaned()
    try:
        with control:  # close our copy after the fork: otherwise the zygote's end never reads as EOF in the daemon
            process = multiprocessing.get_context("fork").Process(target=zygote.live, args=(control, os.getpid()))
            process.start()
        assert process.pid is not None
        ended = select.poll()
        for fd in (daemon.sentinel, os.pidfd_open(process.pid)):
            ended.register(fd, select.POLLIN)
        ended.poll()
    finally:
        zygote.sweep()
        os._exit(0)
