"""The exit codes of all commands, and the error that ends a command with one.  Knows numbers; prints nothing.

Below 64 a command did its work and the code is its finding; from 64 on it could not, and the codes are those of
sysexits(3).
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["MEANINGS", "CommandError", "Exit"]


class Exit(IntEnum):
    """What a command's end means."""

    OK = 0
    FINDINGS = 1
    REFUSED = 2
    ASKS = 3
    FAILED = 4
    USAGE = 64
    BAD_DATA = 65
    NO_INPUT = 66
    UNAVAILABLE = 69
    SOFTWARE = 70
    CANNOT_CREATE = 73
    IO_ERROR = 74
    PROTOCOL = 76
    NOT_PERMITTED = 77
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "done",
    Exit.FINDINGS: "something is wrong, and printed: health is red, a file or a hook was not taken, a case failed",
    Exit.REFUSED: "deny or halt; for hook: refused, and every misuse",
    Exit.ASKS: "ask: somebody has to approve it",
    Exit.FAILED: "refused because something failed (any cause but policy)",
    Exit.USAGE: "misuse: an unknown option or event, a bad value",
    Exit.BAD_DATA: "the data is unusable: a payload that is no JSON object, a file of hooks or of cases that is wrong",
    Exit.NO_INPUT: "what was named does not exist: a file, a hook, a session",
    Exit.UNAVAILABLE: "no daemon is reachable, or it is about to leave; for serve and test: it cannot start here",
    Exit.SOFTWARE: "a bug in hooklatch",
    Exit.CANNOT_CREATE: "a file is there already and was left alone, or cannot be made",
    Exit.IO_ERROR: "standard output cannot be written",
    Exit.PROTOCOL: "what listens there does not speak this protocol",
    Exit.NOT_PERMITTED: "the daemon, or the mode of a folder, does not permit it",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}


class CommandError(Exception):
    """Ends a command: the code, and what happened and what to do."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
