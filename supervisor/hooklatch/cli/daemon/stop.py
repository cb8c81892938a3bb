"""The command `stop`: let the daemon drain and exit, and wait for that.

It sends no signal, since the pid may have been reused.
"""

from __future__ import annotations

import argparse
import os
import select
import time

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.credentials import read_credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as sockets

    from hooklatch.cli.schema import StopOutput
    from hooklatch.core.status_answers import StopAnswer

__all__ = ["add_stop"]

NOTICE_AFTER = 1.0  # seconds before the user is told what is being waited for
DEAD_CHECK = 0.5  # seconds between two checks of a process that does not end
TIMEOUT = 30.0  # seconds; the daemon waits up to ten for fires in flight


def add_stop(parser: Parser) -> None:
    parser.runs(run_stop, example="hooklatch stop", exits=(Exit.FINDINGS, Exit.UNAVAILABLE))
    parser.prints("cli.schema:StopOutput")


def run_stop(arguments: argparse.Namespace) -> int:
    begun = time.monotonic()
    # Watched before the request, since a pidfd can only be opened while the process is there.
    with connect_administrator(arguments) as link, DaemonExit(link.stream) as end:
        answer: StopAnswer = link.ask("stop")
        pid = answer["pid"]
        text = f"waiting for the daemon (pid {pid}) to end; fires in flight are given 10 s"
        with look.Spinner(text) as spinner:
            is_gone = end.wait(NOTICE_AFTER, pid)
            if not is_gone:
                if not spinner.is_shown:
                    output.print_error(text)
                is_gone = end.wait(TIMEOUT - NOTICE_AFTER, pid)
        if not is_gone:
            fault = f"the daemon (pid {pid}) was told to stop but has not ended in {TIMEOUT:.0f} s"
            raise CommandError(Exit.FINDINGS, f"{fault}; new gates are denied; to end it: kill -KILL {pid}")
    if arguments.json:
        ended: StopOutput = {"stopped": True, "pid": pid, "seconds": round(time.monotonic() - begun, 3)}
        output.say_json(ended)
    else:
        output.print_line(f"stopped (pid {pid})")
    return Exit.OK


class DaemonExit:
    """The end of a daemon: of its connection, and of its process if that is certainly the one that listens.

    Enter it before the daemon is asked to end.
    """

    def __init__(self, stream: sockets.socket) -> None:
        self._stream = stream
        self._process: tuple[int, int] | None = None

    def __enter__(self) -> DaemonExit:
        self._process = process_behind(self._stream)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            os.close(self._process[1])

    def wait(self, seconds: float, pid: int) -> bool:
        """Wait for at most `seconds`; return whether the daemon has ended.  `pid` is the one that it reported."""
        deadline = time.monotonic() + seconds
        while select.select([self._stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                is_over = not self._stream.recv(2**16)
            except OSError:
                is_over = True
            if is_over:
                break
        else:
            return False
        # SO_PEERCRED names the process that called listen(2): a service manager, for sockets that it made.  A daemon
        # in a container has another pid there than here.
        if self._process is None or self._process[0] != pid:
            return True
        while not select.select([self._process[1]], [], [], max(0.0, min(DEAD_CHECK, deadline - time.monotonic())))[0]:
            if is_dead(pid):
                return True
            if time.monotonic() >= deadline:
                return False
        return True


def is_dead(pid: int) -> bool:
    """Return whether a process is a zombie: it has ended but for a thread that waits for a disk (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] == b"Z"
    except OSError:
        return False  # it has ended, and its descriptor says so


def process_behind(stream: sockets.socket) -> tuple[int, int] | None:
    """Return pid and pidfd of the process that listens; None where that cannot be known."""
    try:
        pid, _ = read_credentials(stream)
        return (pid, os.pidfd_open(pid)) if pid > 0 else None
    except (OSError, AttributeError):  # it has ended, or this is not Linux
        return None
