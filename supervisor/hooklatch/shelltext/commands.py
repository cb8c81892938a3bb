"""Shell text as the commands that it would run, those inside others too: sudo, bash -c, $(…), find -exec, pipes.

    >>> [command.program for command in commands("sudo rm -rf /srv && echo $(date)")]
    ['sudo', 'rm', 'echo', 'date']

`shell/` reads the text, and refuses syntax that it does not know.  Nothing is run and no variable is looked up: a word
that is decided only when it runs is marked as unknown.  A text that cannot be read raises, so a guard that does not
catch that error denies.
"""

from __future__ import annotations

from hooklatch.shelltext.command import Command, UnreadableCommandError
from hooklatch.shelltext.grammar.languages import LANGUAGES
from hooklatch.shelltext.reading.bounds import MAX_COMMANDS
from hooklatch.shelltext.reading.readings import ScriptReader

__all__ = ["commands"]

MAX_INNER = 8  # times the length of a text: what the texts within it may have together


def commands(text: str, *, shell: str = "bash") -> list[Command]:
    """Return every command that a shell text would run, in the order of the text; functions' and branches' too.

    `shell` says whose language it is: "bash", "bash --posix", "dash", or "sh" for an unknown one.

    Raises:
        UnreadableCommandError: it is not understood, or is too long or too deep.
        ValueError: there is no such shell.
    """
    if shell not in LANGUAGES:
        raise ValueError(f"the shell {shell!r} is not one of {', '.join(sorted(LANGUAGES))}")
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a field of a payload may be anything
        raise UnreadableCommandError(f"a shell text is a text, not {type(text).__name__}")
    try:
        script = ScriptReader(MAX_INNER * (len(text) + 1024)).whole(text, LANGUAGES[shell])
    except RecursionError:
        raise UnreadableCommandError("its parts are nested too deeply") from None
    if len(script) > MAX_COMMANDS:
        raise UnreadableCommandError(f"it is too large to be read: it has more than {MAX_COMMANDS} commands")
    return script
