"""The two processes of `serve --detach`, and the pipe between them.

    hooklatch serve --detach ──fork──▶ the daemon: setsid, chdir to /, /dev/null as 0 and 1, its log as 2
              ◀──── one report: ready, or why not ──┘

The fork happens before anything with threads is imported.  Only these two processes hold the pipe, so EOF means that
the daemon ended before it reported anything.
"""

from __future__ import annotations

import os
import select
import signal
from typing import BinaryIO, NoReturn

import msgspec

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.core.status_answers import DaemonReady

__all__ = ["StartReport", "await_start", "detach_process", "open_log"]

NOTICE_AFTER_MS = 1000  # before the user is told what is being waited for


class StartReport(msgspec.Struct):
    """The daemon's report about its start: its addresses when it is ready, or the code and text of its failure."""

    ready: DaemonReady | None = None
    code: Exit = Exit.SOFTWARE
    error: str = ""

    def send(self, stream: BinaryIO) -> None:
        with stream:  # closed after one report: the parent reads until EOF
            stream.write(msgspec.json.encode(self))


def open_log(folder: str) -> tuple[str, int]:
    """Open the log file of a detached daemon; return its path and descriptor."""
    from hooklatch.files import open_regular
    from hooklatch.service.config.file_safety import UnsafeFileError, make_private

    path = os.path.join(folder, "daemon.log")
    try:
        make_private(folder)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        return path, open_regular(path, flags)
    except UnsafeFileError as error:
        raise CommandError(Exit.UNAVAILABLE, f"{error}; or give this daemon another XDG_STATE_HOME") from None
    except OSError as error:
        raise CommandError(Exit.UNAVAILABLE, f"the log {path} cannot be written: {error.strerror}") from None


def detach_process(log_fd: int) -> None:
    """Detach from the terminal, the working directory and the standard streams of the caller."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd, source in ((0, null), (1, null), (2, log_fd)):
        os.dup2(source, fd)
    os.close(null)
    os.close(log_fd)


def await_start(pid: int, reader: int, log: str) -> DaemonReady:
    """Wait until the daemon is ready; return its report."""
    data = b""
    text = f"the daemon is starting; its log is {log}"
    try:
        with look.Spinner(text) as spinner:
            if not select.select([reader], [], [], NOTICE_AFTER_MS / 1000)[0] and not spinner.is_shown:
                output.print_error(text)
            while chunk := os.read(reader, 2**16):
                data += chunk
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)  # our child, not reaped yet, so the pid cannot have been reused
        raise
    try:
        report = msgspec.json.decode(data, type=StartReport)
    except msgspec.DecodeError:
        raise_without_report(pid, log)
    if report.ready is None:
        os.waitpid(pid, 0)  # it is about to end: only return when its locks and sockets are free again
        raise CommandError(report.code, report.error)
    return report.ready


def raise_without_report(pid: int, log: str) -> NoReturn:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    raise CommandError(Exit.SOFTWARE, f"the daemon {how} before it was ready; see its log: {log}")
