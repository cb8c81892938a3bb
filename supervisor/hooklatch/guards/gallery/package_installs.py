"""Ask before a package is installed that the project does not declare.

The code of a package runs when it is installed, and its name may be a trap.

`npm ci`, `pip install -r FILE`, `uv sync` and the like install what the project declares, and pass.  This file is
yours: change the list.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from hooklatch import ask, deny, hook
from hooklatch.guards import (
    Command,
    UnreadableCommandError,
    Word,
    call_of,
    codes_of,
    commands,
    packages_installed,
    strictest,
    strip_version,
)
from hooklatch.guards.packages import IN_CODE, INSTALLING
from hooklatch.guards.unseen import may_be

# Globs of tools that this guard passes, such as "mcp__notes__*".  Hosts' own tools that touch nothing are known.
HARMLESS_TOOLS: tuple[str, ...] = ()
KNOWN = (
    "pytest*",
    "ruff",
    "mypy",
    "pre-commit",
    "pip",
    "setuptools",
    "wheel",
    "@types/*",
)  # globs of packages that are installed without a question

# Programs that run a package and install it if it is missing, and the options with which they install nothing.
RUNNERS = {"npx": {"--no-install", "--no"}, "bunx": {"--no-install"}}
RUNNING = {"exec", "x", "dlx", "create", "run"}  # verbs of other programs that do so
FLAGS = {"-y", "--yes", "-q", "--quiet", "--silent", "--bun", "--"}  # their options that take no value
CODED = {"python", "pypy", "ipython", "R", "Rscript", "julia"}  # whose code may install by a call
PLAIN = re.compile(r"[\w-]+")


@hook(
    "pre_tool_use", match=["shell", "mcp", "other"], timeout=2.0, description="asks before a new package is installed"
)
def package_installs(event: Any) -> Any:
    call = call_of(event, HARMLESS_TOOLS)
    if call.fault is not None:
        return deny(call.fault)
    return strictest(judge_installs(line.text, line.folder, is_sure=line.is_sure) for line in call.lines)


def judge_installs(text: str, begin: str, *, is_sure: bool) -> Any:
    """Judge a command that runs in a folder; deny an unreadable one if the tool is surely a shell, else ask."""
    try:
        installs = [(command, packages_installed(command)) for command in commands(text)]
    except UnreadableCommandError as error:
        return (deny if is_sure else ask)(f"the command cannot be judged: {error}")
    if any(
        may_be(command, text, INSTALLING)
        or (strip_version(command.program or "") in CODED and any(map(IN_CODE.search, codes_of(command))))
        for command, _ in installs
    ):
        return ask("whether this installs a package, and which, is decided only when it runs")
    for command, packages in installs:
        if packages is None:
            continue
        is_running = command.program in RUNNERS or any(word.text in RUNNING for word in command.arguments[:2])
        if "xargs" in command.within and not (is_running and packages):
            return ask(f"the packages that {command.program} would install are decided only when it runs")
        if command.program in RUNNERS and is_there(command, packages, begin):
            continue
        own = command
        if is_running and packages:  # the words behind the package are the options of its program
            own = msgspec.structs.replace(command, arguments=tuple(list_words_before(packages[0], command)))
        if own.has_option("--index-url", "--extra-index-url", "--registry", "--find-links"):
            return ask(f"{command.program} would install from an index that the command names")
        undeclared = [
            word.text for word in packages if not any(fnmatchcase(name_of(word.text), glob) for glob in KNOWN)
        ]
        if undeclared:
            return ask(
                f"{command.program} would install {', '.join(undeclared[:5])}, which the project does not declare"
            )
    return None


def list_words_before(package: Word, command: Command) -> Iterator[Word]:
    """Return the words of a command that stand before a package."""
    return itertools.takewhile(lambda word: word is not package, command.arguments)


def is_there(command: Command, packages: Sequence[Word], begin: str) -> bool:
    """Return whether npx would only run what the project has installed already."""
    if not packages or not packages[0].is_known:
        return False
    # Words behind the package are for its program.  An option with a value may take --no-install as it.
    options = [word.text for word in list_words_before(packages[0], command)]
    refraining = RUNNERS[command.program or ""]
    if not all(word in refraining or word in FLAGS for word in options):
        return False
    if refraining & set(options) and not {"-y", "--yes"} & set(options):
        return True
    name, folders = packages[0].text, command.folders(begin)
    return PLAIN.fullmatch(name) is not None and all(
        folder is not None and os.path.exists(os.path.join(folder, "node_modules", ".bin", name)) for folder in folders
    )


def name_of(text: str) -> str:
    """Return a package's name without its version: requests==2.32, lodash@4, @types/node@20."""
    for mark in ("==", ">=", "<=", "~=", "!=", ">", "<", "["):
        text = text.partition(mark)[0]
    return text[:1] + text[1:].partition("@")[0]
