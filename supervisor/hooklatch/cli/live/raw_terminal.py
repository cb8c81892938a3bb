"""A terminal that a live view has to itself: keys as they are pressed, another screen, and both restored at the end.

It uses termios, signals and three control sequences (xterm, "ctlseqs").  Signals only wake the wait
(`signal.set_wakeup_fd`), which returns them as keys: no step is interrupted halfway, and every change is undone in the
reverse order before the process ends or stops.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from types import FrameType, TracebackType

from hooklatch.cli.terminal.look import StyledText, colour_text, has_colour
from hooklatch_worker.systems import system

__all__ = ["ENDING", "RawTerminal", "parse_keys"]

ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"  # the other screen, without a cursor; and back
HOME, ERASE_LINE = b"\x1b[H", b"\x1b[2K"
SIGNALS = {
    signal.SIGINT: "ctrl-c", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up", signal.SIGTSTP: "suspend",
    signal.SIGWINCH: "resize", signal.SIGQUIT: "quit",
}  # fmt: skip
ENDING = {
    "terminated": signal.SIGTERM,
    "hung up": signal.SIGHUP,
    "quit": signal.SIGQUIT,
}  # the process dies of them, once all is put back
SEQUENCE_TIMEOUT = 0.05  # seconds within which the rest of a key's sequence comes; an escape alone has none
KEYS = {
    "\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down", "\x1b[C": "right", "\x1b[D": "left",
    "\x1b[5~": "page up", "\x1b[6~": "page down", "\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home",
    "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end", "\x1b": "escape", "\r": "enter", "\n": "enter",
    "\x7f": "backspace", "\x08": "backspace", "\x03": "ctrl-c",
}  # fmt: skip
SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b|.", re.DOTALL)
BEGUN = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")


def parse_keys(data: bytes) -> list[str]:
    """Return the keys that a terminal has sent, without those that have no name here and are not printable."""
    texts: list[str] = SEQUENCE.findall(data.decode("utf-8", "ignore"))
    return [key for key in (KEYS.get(text, text) for text in texts) if key.isprintable()]


class RawTerminal:
    """The terminal of standard input and output; `poke` wakes the wait from another thread."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._woken = -1
        self._waking = -1
        self._lock = threading.Lock()

    def __enter__(self) -> RawTerminal:
        with ExitStack() as stack:
            self._woken, self._waking = system.make_wakeup_pipe()
            stack.callback(os.close, self._woken)
            stack.callback(os.close, self._waking)
            stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False))
            for number in list_heeded_signals():  # before the terminal is changed: none of them may end us in between
                stack.callback(signal.signal, number, signal.signal(number, ignore_signal))
            stdin = sys.stdin.fileno()
            stack.callback(restore_attributes, stdin, termios.tcgetattr(stdin))
            tty.setcbreak(stdin)  # Ctrl-C and Ctrl-Z still are signals
            stack.callback(self._write, LEAVE)
            self._write(ENTER)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:  # another thread must not write to a descriptor whose number is soon another file's
            self._waking = -1
        self._stack.__exit__(kind, error, traceback)

    def poke(self) -> None:
        """Make `wait` return; from any thread, also after the end."""
        with self._lock, suppress(OSError):  # a full pipe wakes the wait too
            if self._waking >= 0:
                os.write(self._waking, b"\0")

    def wait(self, seconds: float) -> list[str]:
        """Wait for at most `seconds`; return the keys and signals that came, none if it was poked or nothing came."""
        stdin = sys.stdin.fileno()
        ready, _, _ = select.select([stdin, self._woken], [], [], seconds)
        keys: list[str] = []
        if self._woken in ready:
            numbers = os.read(self._woken, 4096)
            keys += [SIGNALS[number] for number in SIGNALS if number in numbers]
        if stdin in ready:
            keys += self._read_keys(stdin)
        return keys

    def _read_keys(self, stdin: int) -> list[str]:
        try:
            data = os.read(stdin, 1024)
            while BEGUN.search(data) and select.select([stdin], [], [], SEQUENCE_TIMEOUT)[0]:
                more = os.read(stdin, 1024)
                if not more:
                    break
                data += more
        except OSError:  # EIO: the terminal is gone
            data = b""
        return parse_keys(data) if data else ["hung up"]

    def size(self) -> tuple[int, int]:
        """Return the columns and lines of the terminal now."""
        try:
            width, height = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return 80, 24
        return width or 80, height or 24

    def draw(self, lines: Iterable[Iterable[str]]) -> None:
        """Replace the screen by lines of plain pieces, as many as the terminal has."""
        is_painted = has_colour(sys.stdout)
        encoding = sys.stdout.encoding or "utf-8"
        # A line is erased before it is written: after a full one the cursor still stands on its last character.
        texts = [
            "".join(
                colour_text(piece, piece.meaning) if is_painted and isinstance(piece, StyledText) else piece
                for piece in pieces
            )
            for pieces in lines
        ]
        self._write(HOME + b"\r\n".join(ERASE_LINE + text.encode(encoding, "replace") for text in texts))

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # the terminal is gone, which `wait` reports as "hung up"
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


def list_heeded_signals() -> list[signal.Signals]:
    """Return the signals to take: not those that the parent process lets us ignore, such as `nohup` does."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def ignore_signal(number: int, frame: FrameType | None) -> None:
    """Do nothing: the signal wakes the wait by its descriptor."""


def restore_attributes(fd: int, attributes: list[object]) -> None:
    with suppress(termios.error):  # the terminal is gone
        termios.tcsetattr(fd, termios.TCSADRAIN, attributes)  # type: ignore[arg-type]  # as tcgetattr gave them
