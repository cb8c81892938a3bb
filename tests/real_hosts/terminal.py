"""A program at a terminal: started in tmux, typed to, and looked at.  Runs on the stage; knows no host.

Reads steps as JSON from the file that its argument names, plays them, and prints the screen at the end:

    {"wait": TEXT}   until the screen has the text, and then stayed the same for a moment, but for a mark that blinks
    {"type": TEXT}   and Enter, once the text is on the screen
    {"gone": TEXT}   until the screen does not have the text, and stayed the same

It waits for what the program writes (`pipe-pane`), never for time alone.  A text that does not come is exit code 1.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

COLUMNS, ROWS = 110, 50
PATIENCE = 150.0  # seconds for a text to appear; only a failing test waits that long
QUIET = 1.5  # seconds without a change after which a screen counts as painted
BLINKING = "●"  # before what waits or is at work: it is there in every second frame


class Terminal:
    """One program in a tmux of its own."""

    def __init__(self, folder: Path, argv: Sequence[str]) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        pipe = folder / "written"
        os.mkfifo(pipe)
        # Both ends: opening it waits for nobody, and it has no end before this process.
        self._written = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        self.run("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "cat")
        for option, value in (("remain-on-exit", "on"), ("default-terminal", "xterm-256color"), ("status", "off")):
            self.run("set-option", "-g", option, value)
        self.run("pipe-pane", "-O", f"cat >'{pipe}'")
        self.run("respawn-pane", "-k", *argv)

    def run(self, *words: str) -> str:
        """Run a command of tmux, and return what it prints."""
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True).stdout

    def screen(self) -> str:
        """Return the screen as text."""
        return self.run("capture-pane", "-p")

    def wait_for(self, text: str, *, is_there: bool = True) -> None:
        """Wait until the screen has a text, or has it no more, and then until nothing but a blinking mark changes.

        Raises:
            TimeoutError: it does not come, or does not go.
        """
        deadline = time.monotonic() + PATIENCE
        while (text in " ".join(self.screen().split())) != is_there:
            if not self._is_written_to(deadline - time.monotonic()):
                raise TimeoutError(f"{'no' if is_there else 'still'} {text!r} on the screen:\n{self.screen()}")
        shown, begun = self.screen().replace(BLINKING, " "), time.monotonic()
        while (now := time.monotonic()) < min(deadline, begun + QUIET):
            if self._is_written_to(begun + QUIET - now) and (after := self.screen().replace(BLINKING, " ")) != shown:
                shown, begun = after, time.monotonic()

    def _is_written_to(self, seconds: float) -> bool:
        """Wait for output, and take it; return whether there was any in time."""
        if not select.select([self._written], [], [], max(0.0, seconds))[0]:
            return False
        os.read(self._written, 2**16)
        return True

    def close(self) -> None:
        """End the program and its tmux."""
        self.run("kill-server")


def main(script: Path) -> int:
    """Play a script, and return the exit code."""
    given = json.loads(script.read_text())
    terminal = Terminal(script.parent, given["argv"])
    try:
        for each in given["steps"]:
            for step, text in each.items():
                if step == "type":
                    terminal.run("send-keys", "-l", text)
                terminal.wait_for(text, is_there=step != "gone")
                if step == "type":
                    terminal.run("send-keys", "Enter")
        sys.stdout.write(terminal.screen())
    except TimeoutError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        terminal.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
