"""The exit codes of all commands, and the error that ends a command with one.  Knows numbers; prints nothing.

Below 64 a command did its work and the code is its result; from 64 on it failed, with the codes of sysexits(3).
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["MEANINGS", "CommandError", "Exit"]


class Exit(IntEnum):
    """The meaning of an exit code."""

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
    Exit.FINDINGS: "something is wrong, and printed: health is red, a file or hook was rejected, a case failed",
    Exit.REFUSED: "deny or halt; for hook: refused, and every usage error",
    Exit.ASKS: "ask: a person must approve it",
    Exit.FAILED: "refused because something failed (any cause but policy)",
    Exit.USAGE: "usage error: an unknown option or event, a bad value",
    Exit.BAD_DATA: "invalid data: a payload that is not a JSON object, an invalid file of hooks or of cases",
    Exit.NO_INPUT: "what was named does not exist: a file, a hook, a session",
    Exit.UNAVAILABLE: "no daemon is reachable, or it is draining; for serve and test: it cannot start here",
    Exit.SOFTWARE: "a bug in hooklatch",
    Exit.CANNOT_CREATE: "a file exists already and was left unchanged, or cannot be created",
    Exit.IO_ERROR: "standard output cannot be written",
    Exit.PROTOCOL: "the process listening there does not speak this protocol",
    Exit.NOT_PERMITTED: "the daemon, or the mode of a directory, does not permit it",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}


class CommandError(Exception):
    """Ends a command with an exit code; the text says what happened and what to do."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
