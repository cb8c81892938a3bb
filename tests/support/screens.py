"""A command in a real pseudo-terminal, and what a person would see there: `pyte` is the terminal."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyte

from support.commands import PATIENCE, PROGRAM, Place

__all__ = ["Terminal", "terminal"]


class Terminal:
    """A terminal of so many columns and lines, with one command in it."""

    def __init__(
        self, place: Place, words: Sequence[str], columns: int, lines: int, environment: dict[str, str]
    ) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.written = b""
        self._master, self._slave = os.openpty()
        self.resize(columns, lines)
        self.before = self.attributes
        self.process = subprocess.Popen(
            [*PROGRAM, *words], stdin=self._slave, stdout=self._slave, stderr=self._slave, cwd=place.folder,
            env={**place.environment, "TERM": "xterm-256color", **environment}, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip

    @property
    def attributes(self) -> list[Any]:
        """Return the settings of the terminal: echo, line mode and so on."""
        return termios.tcgetattr(self._slave)

    @property
    def lines(self) -> list[str]:
        """Return the lines that are to be seen."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def colour_at(self, text: str) -> str:
        """Return the colour of the first letter of a text on the screen."""
        place = next(number for number, line in enumerate(self._screen.display) if text in line)
        return str(self._screen.buffer[place][self._screen.display[place].index(text)].fg)

    def resize(self, columns: int, lines: int) -> None:
        """Have another size; the kernel tells the command."""
        self._screen.resize(lines, columns)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, is_so: Callable[[], object]) -> None:
        """Read what the command writes until something is to be seen."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"not seen in {PATIENCE} s; the screen is:\n{self.text}")
            self._read()

    def until_seen(self, *texts: str) -> None:
        self.until(lambda: all(text in self.text for text in texts))

    def end(self) -> int:
        """Wait for the end of the command, and return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"not ended in {PATIENCE} s; the screen is:\n{self.text}")
            if select.select([self._master], [], [], 0.05)[0]:
                self._read()
        while select.select([self._master], [], [], 0)[0]:
            self._read()
        return self.process.returncode

    def hang_up(self) -> None:
        """Close the terminal, as its window does."""
        os.close(self._slave)
        os.close(self._master)
        self._master = self._slave = -1

    def _read(self) -> None:
        data = os.read(self._master, 65536)
        self.written += data
        self._stream.feed(data)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._master >= 0:
            self.hang_up()


@contextmanager
def terminal(place: Place, *words: str, columns: int = 80, lines: int = 24, **environment: str) -> Iterator[Terminal]:
    """Run a command in a terminal; it is killed at the end, if it still runs."""
    opened = Terminal(place, words, columns, lines, environment)
    try:
        yield opened
    finally:
        opened.close()
