"""The bell of a terminal when an ask begins to wait, and the number of asks in its title while a live command runs.

Both are control sequences (xterm, "ctlseqs"), so they are for a terminal alone.  No text of an ask is in them.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress

from hooklatch.cli.terminal.look import is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.cli.terminal.parser import Parser
    from hooklatch.client.admin import AdminConnection
    from hooklatch.core.answers import AskAnnounced

__all__ = ["AskBell", "add_bell_option"]

RING = "\a"
TITLE = "\x1b]2;{}\x1b\\"
SAVE, RESTORE = "\x1b[22;2t", f"{TITLE.format('')}\x1b[23;2t"  # a terminal that keeps no title is left without one


def add_bell_option(parser: Parser) -> None:
    parser.add_argument(
        "--no-bell", action="store_true", help="at a terminal: ring no bell when an ask waits, and leave its title"
    )
    parser.set_defaults(no_bell=False)


class AskBell:
    """The bell and the title of standard output, unless that is not a terminal or they are switched off.

    The title is restored at the end of the block.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        is_wanted = not (arguments.no_bell or arguments.json)
        self.is_on = is_wanted and is_terminal(sys.stdout) and os.environ.get("TERM", "dumb") != "dumb"
        self._ids: set[str] = set()
        self._shown = 0

    def __enter__(self) -> AskBell:
        self._write(SAVE)
        return self

    def __exit__(self, *_: object) -> None:
        self._write(RESTORE)

    @property
    def topics(self) -> list[str]:
        """Return what to subscribe to for `take`."""
        return ["asks"] if self.is_on else []

    def follow(self, link: AdminConnection) -> None:
        """Show the number of asks that a daemon has open, before its announcements."""
        if self.is_on:
            self._ids = {ask["id"] for ask in link.ask("asks")["asks"]}
            self.show(len(self._ids))

    def take(self, link: AdminConnection, message: AskAnnounced) -> None:
        """Ring for an ask that has opened, and count it until it ends."""
        if "opened" in message:
            is_new = message["opened"]["id"] not in self._ids
            self._ids.add(message["opened"]["id"])
            self.show(len(self._ids), is_new=is_new)
        elif "closed" in message:
            self._ids.discard(message["closed"]["id"])
            self.show(len(self._ids))
        else:  # announcements are missing
            self.follow(link)

    def show(self, waiting: int, *, is_new: bool = False) -> None:
        """Have the number of asks in the title, and ring if one has just begun to wait."""
        title = (
            TITLE.format(f"({waiting}) {'ask waits' if waiting == 1 else 'asks wait'}") if waiting else RESTORE + SAVE
        )
        self._write(title * (waiting != self._shown) + RING * is_new)
        self._shown = waiting

    def _write(self, sequences: str) -> None:
        if self.is_on and sequences:
            with suppress(OSError, ValueError):  # the terminal is gone
                sys.stdout.write(sequences)
                sys.stdout.flush()
