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

import os
import select
import signal
import socket
import sys

from hooklatch_worker.runtime import zygote
from hooklatch_worker.sandbox import linux

__all__ = ["live"]


def live(control_fd: int, daemon_pid: int) -> None:
    """Fork the zygote, and wait until it or the daemon ends; never return."""
    daemon, own_pid = os.pidfd_open(daemon_pid), os.getpid()
    if os.getppid() != daemon_pid:
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # end only when the daemon does: while draining it needs its workers
    linux.become_subreaper()
    linux.wake_when_orphaned()
    try:
        with socket.socket(fileno=control_fd) as control:
            zygote_pid = os.fork()
            if zygote_pid == 0:
                zygote.live(control, own_pid)
        # Our copy is closed now: otherwise the zygote's end never reads as EOF in the daemon.
        ended = select.poll()
        for fd in (daemon, os.pidfd_open(zygote_pid)):
            ended.register(fd, select.POLLIN)
        ended.poll()
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        zygote.sweep()
        os._exit(0)
