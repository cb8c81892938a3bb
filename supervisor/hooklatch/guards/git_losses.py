"""Losses by commands of git: work that was not committed or pushed, or what names it.  Knows git, no policy."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from hooklatch.guards.git_commands import git_options, git_parts
from hooklatch.shelltext.command import Command

__all__ = ["work_lost"]

# git commands that throw away what was not committed or pushed, or what names it, with the options or words that make
# them do it; "*" is any, and a word that ends with "*" is what others begin with.
THROWING_AWAY: Final[Mapping[str, tuple[str, ...]]] = {
    "clean": ("-f", "--force"), "reset": ("--hard", "--merge"), "stash": ("drop", "clear"),
    "branch": ("-D", "-f", "--force", "-M", "-C"), "tag": ("-d", "--delete", "-f", "--force"),
    "push": ("-f", "--force", "--mirror", "--delete", "-d", "--prune", "+*", ":*"),
    "send-pack": ("-f", "--force", "--mirror", "+*", ":*"),
    "fetch": ("-f", "--force", "-u", "--update-head-ok", "+*"), "pull": ("-f", "--force", "+*"),
    "checkout": (".", "..", "/*", "./*", "../*", ":*", "--", "-B", "--force", "-f", "--pathspec-from-file"),
    "switch": ("-C", "--force-create", "--discard-changes", "--force", "-f"), "restore": ("*",),
    "rm": ("-f", "--force"),
    "mv": ("-f", "--force"), "reflog": ("expire", "delete"), "update-ref": ("*",), "symbolic-ref": ("-d", "--delete"),
    "read-tree": ("--reset", "-u"), "checkout-index": ("-f", "--force"), "worktree": ("-f", "--force"),
    "remote": ("prune", "remove", "rm"), "gc": ("--prune",), "submodule": ("-f", "--force"), "prune": ("*",),
    "filter-branch": ("*",), "filter-repo": ("*",), "replace": ("-d", "--delete", "-f", "--force"),
    "notes": ("remove", "prune", "-f", "--force"), "lfs": ("prune", "migrate"),
}  # fmt: skip
# With one of the first options, and none of the second ones, these throw nothing away.
HARMLESS: Final = {
    "restore": (("-S", "--staged"), ("-W", "--worktree")), "rm": (("--cached",), ()),
    "clean": (("-n", "--dry-run"), ()), "worktree": (("-n", "--dry-run"), ()),
    "checkout": (("-p", "--patch"), ("-f", "--force")),
    "prune": (("-n", "--dry-run"), ()),
}  # fmt: skip
# What `git checkout` is likelier to take for a file than for a branch.
A_FILE: Final = re.compile(r".*[*?\[].*|(?:.*/)?[\w-][\w.-]*\.[A-Za-z][A-Za-z0-9]{0,4}")


def work_lost(command: Command, folder: str | None) -> str | None:
    """Return what a command of git throws away where it runs; None if nothing, or if git has it elsewhere."""
    settings, verb, rest = git_parts(command)
    options, throwing = git_options(command), THROWING_AWAY.get(verb, ())
    harmless, undoing = HARMLESS.get(verb, ((), ()))
    if options.has(*harmless) and not options.has(*undoing):
        return None
    texts = [word.text for word in options.operands] + (["--"] if "--" in rest else [])
    is_meant = "*" in throwing or options.has(*throwing) or not set(texts[:1]).isdisjoint(throwing)
    is_meant = is_meant or any(fnmatchcase(text, word) for text in texts for word in throwing if not word.isalpha())
    if verb == "clean" and any(setting.lower().startswith("clean.requireforce") for setting in settings):
        is_meant = True
    if verb == "checkout" and not options.has("-b", "-B", "--orphan", "-t", "--track", "-d", "--detach"):
        names_file = any(map(A_FILE.fullmatch, texts))
        is_there = folder is not None and any(os.path.lexists(os.path.join(folder, text)) for text in texts)
        is_meant = is_meant or len(texts) > 1 or names_file or is_there
    if not is_meant:
        return None
    return "overwrites what others have pushed" if verb in ("push", "send-pack") else "throws away work"
