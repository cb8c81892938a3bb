"""Stands between the daemon and its zygote and kills what they leave.  Knows two processes; idle while both live.

A dead zygote's offspring comes to the nearest subreaper above it.  If that were the daemon, nobody would be there to
kill it once both are dead.  Each of these three watches the others, so any two of them may be killed at one moment:

    daemon ──spawns──▶ guardian ──forks──▶ zygote ──forks──▶ worker …

    dead               who hears of it, and how                    kills what is left
    zygote             guardian: pidfd;  daemon: control socket    guardian
    daemon             guardian: a pipe; zygote: control socket    both
    guardian           zygote: pidfd;    daemon: pidfd             zygote
    daemon, zygote     guardian                                    guardian
    daemon, guardian   zygote                                      zygote
    guardian, zygote   daemon                                      daemon, who is a subreaper too

Each is continued (SIGCONT) when the one above it ends, so it may also have been stopped.
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
    """Fork the zygote, and wait until it or the daemon ends; never returns."""
    daemon = multiprocessing.parent_process()
    if daemon is None:
        raise RuntimeError("the guardian is a child of the daemon")
    os.setsid()  # a Ctrl-C in the daemon's terminal is the daemon's affair
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the daemon's end is ours; until then a draining one needs workers
    linux.become_subreaper()
    linux.wake_when_orphaned()
    try:
        with control:  # ours only to hand on: the daemon must hear of the zygote's end
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
