"""Ends of the options of a program that runs others, where its command may begin.  Knows words; no program.

Long options may be cut short, as GNU programs take them.  Of an option that no table has, both readings are followed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from hooklatch.shelltext.reading.programs import FLAGS, RunnerOptions
from hooklatch.shelltext.words import Word

__all__ = ["skip_to_operands", "find_command_starts", "skip_options", "takes_next"]

MAX_BEGINS = 8  # places where a command may begin; beyond that they are unknown


def takes_next(text: str, valued: Container[str]) -> bool:
    """Return whether an option takes the next word: -u does, and so does -nu; -un has its value already."""
    if text in valued:
        return True
    if text[:1] not in ("-", "+") or text.startswith("--"):
        return False
    return next((at for at in range(1, len(text)) if text[0] + text[at] in valued), 0) == len(text) - 1 > 0


def skip_options(words: Sequence[Word], options: RunnerOptions) -> int:
    """Return where the options of a program end, if each is one of its own and none is cut short."""
    return find_command_starts(words, options._replace(before=0))[0][0]


def skip_to_operands(words: Sequence[Word], options: RunnerOptions) -> Sequence[Word]:
    """Return what follows the options of a program, as `skip_options` reads them, and the words before the command."""
    return words[find_command_starts(words, options)[0][0] :]


def find_command_starts(words: Sequence[Word], options: RunnerOptions) -> tuple[list[int], bool]:
    """Return where the command of a program that runs others may begin, and whether it may be elsewhere, too.

    The first place is that of the plain reading.  Behind a word that may be none or several, it is unknown.
    """
    found: list[int] = []
    is_lost = False
    for begin, is_open in find_option_ends_from(words, 0, options):
        is_lost = is_lost or is_open
        if not options.before:
            found.append(begin)
            continue
        end = min(begin + options.before, len(words))
        is_lost = is_lost or any(not word.is_one for word in words[begin:end])
        for other, is_other_open in find_option_ends_from(
            words, end, options
        ):  # ssh takes its own behind the host, too
            found.append(other)
            is_lost = is_lost or is_other_open
    unique = list(dict.fromkeys(found))
    return unique[:MAX_BEGINS], is_lost or len(unique) > MAX_BEGINS


def find_option_ends_from(words: Sequence[Word], begin: int, options: RunnerOptions) -> list[tuple[int, bool]]:
    """Return where options may end that begin here, the plain reading first, and whether words before are unknown."""
    found: list[tuple[int, bool]] = []
    waiting, seen = [begin], {begin}
    is_lost = False
    while waiting:
        at = waiting.pop()
        if at >= len(words):
            found.append((len(words), is_lost))
            continue
        word = words[at]
        text = word.text
        following: list[int] = []
        if text == "--":
            at += 1
            while options.assigns and at < len(words) and "=" in words[at].text:
                at += 1
            found.append((at, is_lost))
        elif options.assigns and "=" in text and not text.startswith("-"):
            following = [at + 1]
        elif text.startswith("-") and (len(text) > 1 or options.assigns):  # `env -` is `env -i`
            is_lost = is_lost or not word.is_one
            following = [at + 2 if takes else at + 1 for takes in list_takings(text, options)]
        else:
            found.append((at, is_lost or not word.is_one))
        for other in following:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
        if len(found) > MAX_BEGINS:
            return [*found, (len(words), True)]
    return found


def list_takings(text: str, options: RunnerOptions) -> tuple[bool, ...]:
    """Return whether an option takes the next word: both, where it is unknown; the likely one comes last."""
    valued = options.valued | options.script
    if not text.startswith("--") or "=" in text:
        return (takes_next(text, valued),)
    if text in valued:
        return (True,)
    if text in FLAGS:
        return (False,)
    if any(name.startswith(text) for name in valued):
        return (False, True)
    return (False,) if any(name.startswith(text) for name in FLAGS) else (True, False)
