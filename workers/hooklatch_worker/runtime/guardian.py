"""The guardian, which kills the processes that the daemon and its zygote leave behind.  It is idle while both live.

It forks each zygote, so that a new one needs no interpreter and no imports.  It does so only when the zygote before is
gone, with all of its processes.

Orphans of a dead zygote are reparented to the nearest subreaper above it.  If that were the daemon, nothing would be
left to kill them once both are dead.  Each of the three processes watches the others, so any two may die at once:

    daemon ──spawns──▶ guardian ──forks──▶ zygote ──forks──▶ worker …

    dead               noticed by                                  remaining processes killed by
    zygote             guardian: pidfd;  daemon: control socket    guardian
    daemon             guardian: pidfd;  zygote: control socket    both
    guardian           zygote: pidfd;    daemon: its zygote's end  zygote
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
from hooklatch_worker.systems import system

__all__ = ["run_guardian"]


def run_guardian(line_fd: int, daemon_pid: int) -> None:
    """Fork a zygote for each control socket that the daemon sends, one at a time, until it ends; never return."""
    daemon = system.watch_process(daemon_pid)
    if os.getppid() != daemon_pid:
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # end only with the daemon, which needs its workers while it drains
    system.become_subreaper()
    system.wake_when_orphaned()
    try:
        with system.open_message_socket(line_fd) as line:
            while (control := receive_control(line)) is not None:
                watch_zygote(fork_zygote(control, line), daemon)
                if not zygote.kill_descendants():
                    # A new zygote could not be told from the remaining processes: the daemon starts another guardian.
                    return
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        zygote.kill_descendants()
        os._exit(0)


def receive_control(line: socket.socket) -> socket.socket | None:
    _, fds = system.receive_message(line, 1)
    return system.open_message_socket(fds[0]) if fds else None


def fork_zygote(control: socket.socket, line: socket.socket) -> int:
    # Our copy is closed at the end: otherwise the zygote's end never reads as EOF in the daemon.
    with control:
        guardian_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            line.close()
            zygote.run_zygote(control, guardian_pid)
        return pid


def watch_zygote(zygote_pid: int, daemon: int) -> None:
    """Wait until the zygote or the daemon ends."""
    pidfd = system.watch_process(zygote_pid)
    poll = select.poll()
    for fd in (daemon, pidfd):
        poll.register(fd, select.POLLIN)
    poll.poll()
    os.close(pidfd)
