"""Folders where commands may run: those that each `cd` of a text, and each program that runs others, leads to.

Knows words of `cd`, and options of programs; parses nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from hooklatch.shelltext.command import Places
from hooklatch.shelltext.option_reader import list_option_values
from hooklatch.shelltext.reading.options import skip_options, skip_to_operands
from hooklatch.shelltext.reading.programs import JOINED, SCRIPTED, WRAPPERS, RunnerOptions
from hooklatch.shelltext.words import Word

__all__ = [
    "HOME_IS_SET", "MACHINES", "MOVING", "WITH_HOMES", "RunFolders", "merge_places", "find_run_folders", "join_place",
]  # fmt: skip

MAX_PATH = 4096  # characters; the kernel takes no longer ones
MAX_PLACES = 16  # folders that a command may run in; beyond that it is unknown
MOVING = frozenset({"cd", "chdir", "pushd", "popd"})
# Where HOME stands and is not read, so that `~` may be another folder.
HOME_IS_SET: Final = re.compile(r"(?<![\w$])(?<!\$\{)HOME\b")
# Run others for another user, or on another machine: `~` may be another home there.
WITH_HOMES: Final = frozenset({
    "sudo", "doas", "su", "runuser", "pkexec", "run0", "ssh", "mosh", "autossh", "systemd-run", "setpriv", "gosu",
    "su-exec", "setuidgid", "nsenter", "chroot", "sg", "machinectl",
})  # fmt: skip
# Options that say in which folder a program runs another one, or itself.
IN_FOLDER: Final = {
    "env": "-C --chdir", "sudo": "-D --chdir", "run0": "-D --chdir", "unshare": "-w --wd", "nsenter": "-w --wd",
    "systemd-run": "--working-directory", "parallel": "--wd --workdir", "git": "-C", "make": "-C --directory",
    "gmake": "-C --directory", "npm": "-C --prefix", "pnpm": "-C --dir", "yarn": "--cwd", "bun": "--cwd",
    "uv": "--directory --project", "poetry": "-C --directory", "cargo": "-C", "just": "-d --working-directory",
    "tmux": "-c", "bwrap": "--chdir", "mise": "-C --cd", "hatch": "-p", "pdm": "-p",
}  # fmt: skip
OF_UNIT: Final = re.compile(r"WorkingDirectory=|\$")
MACHINES: Final = frozenset({"ssh", "mosh", "autossh"})  # run others on another machine, in the home there
LETTERS: Final = re.compile(r"-[A-Za-z]+")


class RunFolders:
    """The folders where the next command may run, and where if the one before it succeeded."""

    __slots__ = ("_always", "moved", "now")

    def __init__(self) -> None:
        self.now: Places = ("",)
        self.moved: Places = ("",)
        self._always: Places = ()  # where a trap may lead to before any command

    def stay(self, places: Places) -> None:
        self.now = self.moved = merge_places(places, self._always) if self._always else places

    def add(self, places: Places) -> None:
        """Note that it may be here, too."""
        self.now = merge_places(self.now, places)

    def trapped(self, before: Places) -> None:
        """Note that a trap, which was read from these places on, may lead from wherever the shell is."""
        if self.now != before:
            self._always = merge_places(self._always, (*(place for place in self.now if place not in before), None))

    def move(self, name: str, words: Sequence[Word]) -> None:
        """Note where the shell is after `cd`; it stays where it was if that fails."""
        named = [word for word in words if not word.text.startswith(("-", "+")) or word.text == "-"]
        target: str | None = "~"
        if name == "popd" or (name == "pushd" and not named):
            target = None
        elif named:
            word = named[-1]
            target = word.text if word.is_known and word.text != "-" and not set(word.text) & set("*?[") else None
            target = None if target is not None and target.startswith(("~-", "~+")) else target
        self.moved = tuple(dict.fromkeys(join_place(place, target) for place in self.now))
        self.now = merge_places(merge_places(self.now, self.moved), self._always)
        self.moved = merge_places(self.moved, self._always)


def find_run_folders(name: str, words: Sequence[Word], places: Places) -> Places:
    """Return where a program that runs in these folders runs what it is told to run."""
    options = WRAPPERS.get(name) or SCRIPTED.get(name) or JOINED.get(name) or RunnerOptions()
    own = words[: skip_options(words, options)] if name in WRAPPERS else words
    targets = list(list_option_values(own, frozenset(IN_FOLDER[name].split()))) if name in IN_FOLDER else []
    if name == "systemd-run":
        settings = list_option_values(own, frozenset({"-p", "--property"}))
        targets += [
            Word(setting.text.partition("=")[2], setting.is_known)
            for setting in settings
            if OF_UNIT.match(setting.text)
        ]
    for target in targets:
        places = tuple(dict.fromkeys(join_place(place, target.text if target.is_known else None) for place in places))
    if name in MACHINES:
        return ("~",)
    if name == "chroot":
        return ("/",)
    if name == "find" and any(word.text in ("-execdir", "-okdir") for word in words):
        return merge_places(places, (None,))  # where each file lies
    if (
        name in ("nsenter", "unshare")
        and not targets
        and any(word.text.startswith(("-w", "--wd", "-R", "--ro")) for word in own)
    ):
        return (None,)
    if name == "systemd-run" and not targets and not any(word.text in ("--scope", "-d", "--same-dir") for word in own):
        return ("/", "~")
    if name in ("sudo", "su", "runuser", "doas"):
        return add_login_home(name, own, options, places)
    return places


def add_login_home(name: str, own: Sequence[Word], options: RunnerOptions, places: Places) -> Places:
    """Return where a program runs others that may log a user in: the user's home is added then."""
    letter = "i" if name in ("sudo", "doas") else "l"
    is_login = any(
        word.text == "-"
        or (LETTERS.fullmatch(word.text) and letter in word.text)
        or (len(word.text) > 3 and "--login".startswith(word.text))
        or not word.is_known
        for word in own
    )
    if not is_login:
        return places
    named = list(list_option_values(own, frozenset({"-u", "--user"})))
    if name in ("su", "runuser") and not named:
        named = [word for word in skip_to_operands(own, options) if word.text != "-"][:1]
    user = named[-1] if named else Word("root")
    return merge_places((f"~{user.text}" if user.is_known and re.fullmatch(r"[\w.-]+", user.text) else None,), places)


def merge_places(places: Places, other: Places) -> Places:
    found = tuple(dict.fromkeys((*places, *other)))
    return found if len(found) <= MAX_PLACES else (None,)


def join_place(place: str | None, target: str | None) -> str | None:
    """Return the place that `cd` leads to from another one; None if either is unknown."""
    if target is None:
        return None
    if os.path.isabs(target) or target[:1] == "~":
        return target
    whole = None if place is None else os.path.join(place, target)
    return whole if whole is None or len(whole) <= MAX_PATH else None
