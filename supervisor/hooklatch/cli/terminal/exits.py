"""The exit codes of all commands, and the error that ends a command with one.

Below 64 a command did its work and the code is its result; from 64 on it failed, with the codes of sysexits(3).
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["CommandError", "Exit"]


class Exit(IntEnum):
    """An exit code, with its meaning."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "done"
    FINDINGS = 1, "something is wrong, and printed: health is red, a file or hook was rejected, a case failed"
    REFUSED = 2, "deny or halt; for hook: refused, and every usage error"
    ASKS = 3, "ask: a person must approve it"
    FAILED = 4, "refused because something failed (any cause but policy)"
    USAGE = 64, "usage error: an unknown option or event, a bad value"
    BAD_DATA = 65, "invalid data: a payload that is not a JSON object, an invalid file of hooks or of cases"
    NO_INPUT = 66, "what was named does not exist: a file, a hook, a session"
    UNAVAILABLE = (
        69,
        "no daemon, or for fleet no engine, is reachable, or it is draining; for serve and test: it cannot start here",
    )
    SOFTWARE = 70, "a bug in hooklatch"
    CANNOT_CREATE = 73, "a file exists already and was left unchanged, or cannot be created"
    IO_ERROR = 74, "standard output cannot be written"
    CONFLICT = 75, "another publisher was first, and nothing was written: look at what it did, and run it again"
    PROTOCOL = 76, "the process listening there does not speak this protocol"
    NOT_PERMITTED = 77, "the daemon, the engine, or the mode of a file or directory, does not permit it"
    INTERRUPTED = 130, "interrupted by Ctrl-C"


class CommandError(Exception):
    """An error that ends a command with an exit code; its text has the fault and the remedy."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
