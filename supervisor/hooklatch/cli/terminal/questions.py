"""Questions to a person at a terminal: yes or no, and which of a list.  A program is never asked: it says --yes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit

__all__ = ["ask_line", "ask_yes", "choose_rows", "may_ask"]


def may_ask() -> bool:
    """Return whether a person sits at both ends."""
    return look.is_terminal(sys.stdin) and look.is_terminal(sys.stdout)


def ask_line(question: str) -> str:
    """Return what a person answers, in lower case; the end of the input is an interruption."""
    try:
        return input(f"{question} ").strip().lower()
    except EOFError:
        raise KeyboardInterrupt from None


def ask_yes(question: str, *, is_default: bool) -> bool:
    """Return whether a person says yes; an empty line is the default, and anything else is asked again."""
    while True:
        answer = ask_line(f"{question} [{'Y/n' if is_default else 'y/N'}]")
        if answer in ("", "y", "yes", "n", "no"):
            return answer[:1] == "y" or (not answer and is_default)


def choose_rows(title: str, rows: Sequence[tuple[str, str]], chosen: Sequence[str]) -> list[str]:
    """Return the names of the rows that a person wants: a number switches one, an empty line goes on."""
    wanted = {*chosen}
    while rows:
        output.print_line(look.paint_text(title, "title"))
        width = max(len(name) for name, _ in rows)
        for number, (name, meaning) in enumerate(rows, 1):
            output.print_line(f"  {number:>2} [{'x' if name in wanted else ' '}] {name:<{width}}  {meaning}")
        words = ask_line("numbers switch, Enter goes on:").replace(",", " ").split()
        if not words:
            break
        for word in words:
            if word.isdecimal() and 0 < int(word) <= len(rows):
                wanted ^= {rows[int(word) - 1][0]}
            elif word in ("q", "quit"):
                raise CommandError(Exit.INTERRUPTED, "nothing was written")
            else:
                output.print_line(f"{word!r} is not a number of the list")
    return [name for name, _ in rows if name in wanted]
