"""The files that commands read, or standard input in place of one."""

from __future__ import annotations

import sys

from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.errors import explain_error

__all__ = ["read_input"]


def read_input(name: str, what: str = "", *, limit: int = -1) -> bytes:
    """Return the bytes of a file, or of standard input for "-": of a longer one than the `limit` one byte more.

    Raises:
        CommandError: it cannot be read; `what` says what it is.
    """
    size = limit + 1 if limit >= 0 else -1
    try:
        if name == "-":
            return sys.stdin.buffer.read(size) if sys.stdin else b""
        with open(name, "rb") as file:
            return file.read(size)
    except (OSError, ValueError) as error:
        where = "standard input" if name == "-" else name
        raise CommandError(Exit.NO_INPUT, f"{what}{where} cannot be read: {explain_error(error)}") from None
