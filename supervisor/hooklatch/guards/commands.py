"""Shell text as the commands that it would run, those inside others too: sudo, bash -c, $(…), find -exec, pipes.

The text is read by `shell/`, which refuses what it does not know.  Nothing is run, no variable is looked up: what is
decided only when it runs is marked as unknown, and what cannot be read raises, so that a guard which lets that error go
denies.
"""

from __future__ import annotations

from hooklatch.guards.command import Command, UnreadableCommandError
from hooklatch.guards.reading.bounds import MAX_COMMANDS
from hooklatch.guards.reading.readings import ScriptReader
from hooklatch.guards.shell.languages import LANGUAGES

__all__ = ["commands"]

MAX_INNER = 8  # times the length of a text: what the texts within it may have together


def commands(text: str, *, shell: str = "bash") -> list[Command]:
    """Return every command that a shell text would run, in the order of the text; functions' and branches' too.

    `shell` says whose language it is: "bash", "bash --posix", "dash", or "sh" for one that nobody knows.

    Raises:
        UnreadableCommandError: it is not understood, or is too long or too deep.
        ValueError: there is no such shell.
    """
    if shell not in LANGUAGES:
        raise ValueError(f"the shell {shell!r} is not one of {', '.join(sorted(LANGUAGES))}")
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # what a payload holds may be anything
        raise UnreadableCommandError(f"a shell text is a text, not {type(text).__name__}")
    try:
        found = ScriptReader(MAX_INNER * (len(text) + 1024)).whole(text, LANGUAGES[shell])
    except RecursionError:
        raise UnreadableCommandError("its parts are nested too deeply") from None
    if len(found) > MAX_COMMANDS:
        raise UnreadableCommandError(f"it is too large to be read: it has more than {MAX_COMMANDS} commands")
    return found
