"""Runs a program in a real pseudo-terminal of a given size, as a person would: nothing here imitates a terminal."""

from __future__ import annotations

import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from typing import Any

from support.warm_commands import PROGRAM, start_command

__all__ = ["Terminal", "shown_at", "terminal"]

PATIENCE = 60.0  # seconds; only a failing test waits so long


class Terminal:
    """The person's side of a terminal, with everything that was written to it so far."""

    def __init__(self, process: subprocess.Popen[Any], fd: int) -> None:
        self.process = process
        self.seen = ""
        self._fd = fd

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def until(self, text: str, *, after: int = 0) -> str:
        """Read until `text` is there, behind so many characters; return all from there on."""
        while text not in self.seen[after:]:
            assert self._read(), f"{text!r} was never shown, but: {self.seen[after:]!r}"
        return self.seen[after:]

    def rest(self) -> str:
        """Read until the program has ended; return everything that it wrote."""
        while self._read():
            pass
        assert self.process.wait(timeout=PATIENCE) is not None
        return self.seen.replace("\r\n", "\n")

    def _read(self) -> bool:
        assert select.select([self._fd], [], [], PATIENCE)[0], f"nothing more is written after: {self.seen!r}"
        try:
            data = os.read(self._fd, 2**16)
        except OSError:  # EIO: nobody has the other side open any more
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


@contextmanager
def terminal(
    words: Sequence[str], *, environment: Mapping[str, str], folder: Path, columns: int = 80, rows: int = 24
) -> Iterator[Terminal]:
    """Run a program at a terminal of its own; it is ended, and waited for, with the block."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    try:
        options: dict[str, Any] = {
            "stdin": theirs, "stdout": theirs, "stderr": theirs, "cwd": folder,
            "env": {"TERM": "xterm-256color", **environment},
        }  # fmt: skip
        process: subprocess.Popen[Any]
        if [*words[: len(PROGRAM)]] == PROGRAM:
            process = start_command(words[len(PROGRAM) :], terminal=True, **options)
        else:
            options.update(start_new_session=True, preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0))
            process = subprocess.Popen(words, **options)
    finally:
        os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        os.close(ours)  # what is still there gets SIGHUP, as when a window is closed
        deadline = time.monotonic() + 5
        while process.poll() is None and time.monotonic() < deadline:
            select.select([], [], [], 0.01)
        process.kill()
        process.wait()


def shown_at(
    words: Sequence[str], *, environment: Mapping[str, str], folder: Path, columns: int = 80
) -> tuple[int, str]:
    """Run a program to its end at a terminal; return its exit code and what was shown."""
    with terminal(words, environment=environment, folder=folder, columns=columns) as one:
        text = one.rest()
    return one.process.returncode, text
