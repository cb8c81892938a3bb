"""Files that commands write to, by the tables of `outputs.py` and by ways of their own.  Knows commands, no policy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from hooklatch.guards.git_commands import list_files_written
from hooklatch.guards.outputs import (
    BEHIND,
    IN_PLACE,
    MARKED,
    READING,
    SCRIPT_FIRST,
    VALUED,
    WRITES_ALL,
    WRITES_FIRST,
    WRITES_LAST,
    WRITES_SECOND,
)
from hooklatch.shelltext.command import Command
from hooklatch.shelltext.patches import list_patched_files
from hooklatch.shelltext.words import Word

__all__ = ["paths_written"]

FOLDERS: Final = frozenset({".", "~", "$HOME", "${HOME}", "$PWD"})
FAR: Final = re.compile(r"[\w@][\w.@/-]*:")  # what lies in a container, a bucket, or on another machine


def paths_written(command: Command) -> Iterator[Word]:
    """Yield the files and folders that a command writes, creates, changes or removes, as far as its words tell."""
    name = command.program or ""
    for redirect in command.redirects:
        if redirect.operator.startswith((">", "&>", "<>")) and not redirect.target.text.isdigit():
            yield redirect.target
    if name in WRITES_ALL or (name in IN_PLACE and command.has_option(*IN_PLACE[name])):
        operands = command.operands
        yield from (
            operands[1:]
            if name in SCRIPT_FIRST and len(operands) > 1 and not is_told_elsewhere(name, command)
            else operands
        )
    elif name == "mv" or name in WRITES_LAST:
        yield from command.operands if name == "mv" else command.operands[-1:]
        yield from list_copies_into(command)
    elif name == "find" and "-delete" in [word.text for word in command.arguments]:
        yield from itertools.takewhile(lambda word: not word.text.startswith(("-", "(", "!")), command.arguments)
    elif name in MARKED:
        yield from (word for last, word in itertools.pairwise(command.arguments) if last.text in MARKED[name])
    elif name in WRITES_FIRST:
        yield from command.operands[:1]
    elif name in WRITES_SECOND:
        yield from command.operands[1:]
    elif (name == "curl" and command.has_option("-O", "--remote-name")) or (
        name == "wget" and not command.has_option("-O", "--output-document", "-i")
    ):
        yield from (
            Word(word.text.rpartition("/")[2]) for word in command.operands if "/" in word.text and word.is_known
        )
    elif name == "dd":
        yield from (Word(word.text[3:], word.is_known) for word in command.arguments if word.text.startswith("of="))
    elif name in ("apply_patch", "applypatch"):
        texts = [*(word.text for word in command.arguments), *(redirect.target.text for redirect in command.redirects)]
        yield from (Word(path) for text in texts for path in list_patched_files(text))
    elif name == "git":
        yield from list_files_written(command)
    if not command.has_option(*READING.get(name, ())):
        yield from command.values_of(*VALUED.get(name, ()))
    for verbs, options, is_last in BEHIND.get(name, ()):
        if (rest := behind(verbs.split(), command.operands)) is not None:
            yield from command.values_of(*options)
            yield from (word for word in rest[-1:] if is_last and FAR.match(word.text) is None)


def behind(verbs: Sequence[str], operands: Sequence[Word]) -> Sequence[Word] | None:
    """Return the operands behind some verbs; None if these are not among them."""
    for verb in verbs:
        at = next((at for at, word in enumerate(operands) if word.text == verb), None)
        if at is None:
            return None
        operands = operands[at + 1 :]
    return operands


def list_copies_into(command: Command) -> Iterator[Word]:
    """Yield the files that a copy makes in a folder, where its words show that it is one: cp a b/, cp a b c, mv a ~."""
    folders = list(command.values_of("-t", "--target-directory"))
    *sources, target = [*command.operands, *folders[-1:]] or [Word("")]
    if folders or len(sources) > 1 or target.text.endswith(("/", "/.", "..")) or target.text in FOLDERS:
        for source in sources:
            name = source.text.rstrip("/").rpartition("/")[2]
            if source.is_known and name not in ("", ".", ".."):
                yield Word(f"{target.text.rstrip('/')}/{name}", target.is_known)


def is_told_elsewhere(name: str, command: Command) -> bool:
    """Return whether an option says what the first operand would: the script or the mode; `chmod -x f` is one."""
    if name == "chmod" and any(re.match(r"-[rwxXst]", word.text) for word in command.arguments):
        return True
    return any(True for _ in command.values_of(*SCRIPT_FIRST[name]))
