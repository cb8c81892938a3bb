"""serve --detach: the daemon in a session of its own.  Knows processes and two streams; knows no part of the daemon.

    hooklatch serve --detach ──fork──▶ the daemon: setsid, / as its folder, /dev/null as 0 and 1, its log as 2
              ◀──── one line: it is ready, or why it cannot be ────┘

The fork comes before anything that has threads is imported.  The line goes through a pipe that only the two have, so
that its end says that the daemon ended before it said anything.
"""

from __future__ import annotations

import os
import select
import signal
from typing import Any, BinaryIO, NoReturn

import msgspec

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit

__all__ = ["Told", "await_start", "leave", "open_log"]

PATIENCE = 1000  # milliseconds before it is said what is being waited for


class Told(msgspec.Struct):
    """What a daemon says of its start: what it is ready with, or how it ended."""

    ready: dict[str, Any] | None = None
    code: int = Exit.SOFTWARE
    error: str = ""

    def send(self, stream: BinaryIO) -> None:
        with stream:
            stream.write(msgspec.json.encode(self))


def open_log(folder: str) -> tuple[str, int]:
    """Open the file that a detached daemon's log goes to.

    Raises:
        CommandError: it cannot be opened, or others could write to its folder.
    """
    from hooklatch.service.config.file_safety import UnsafeFileError, make_private

    path = os.path.join(folder, "daemon.log")
    try:
        make_private(folder)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return path, os.open(path, flags, 0o600)
    except UnsafeFileError as error:
        raise CommandError(Exit.UNAVAILABLE, f"{error}; or give this daemon another XDG_STATE_HOME") from None
    except OSError as error:
        raise CommandError(Exit.UNAVAILABLE, f"the log {path} cannot be written: {error.strerror}") from None


def leave(log_fd: int) -> None:
    """Leave the terminal, the folder and the streams of whoever started this process."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd, source in ((0, null), (1, null), (2, log_fd)):
        os.dup2(source, fd)
    os.close(null)
    os.close(log_fd)


def await_start(pid: int, reader: int, log: str) -> dict[str, Any]:
    """Wait until the daemon is ready; give what it says.

    Raises:
        CommandError: it ended instead, with its reason.
    """
    told = b""
    try:
        if not select.select([reader], [], [], PATIENCE / 1000)[0]:
            output.complain(f"the daemon is starting; its log is {log}")
        while data := os.read(reader, 2**16):
            told += data
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)  # it is our child and not waited for, so the number is still its own
        raise
    try:
        answer = msgspec.json.decode(told, type=Told)
    except msgspec.DecodeError:
        end_without_a_word(pid, log)
    if answer.ready is None:
        os.waitpid(pid, 0)
        raise CommandError(Exit(answer.code), answer.error)
    return answer.ready


def end_without_a_word(pid: int, log: str) -> NoReturn:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    raise CommandError(Exit.SOFTWARE, f"the daemon {how} before it was ready; see its log: {log}")
