"""Our entries in files that are not JSON: tables of TOML, as Kimi Code has them, and Cline's scripts, one for an event.

Text in, text out.  A table is found by what it says and not by where it stands: the program writes its file anew.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from hooklatch.cli.hosts.entries import InstalledHandler, list_flat_handlers
from hooklatch.cli.hosts.settings_files import FileError
from hooklatch.hosts.own_entries import is_entry, read_handler_command

__all__ = ["SCRIPT", "add_tables", "find_script_entry", "is_script", "make_script", "remove_tables"]

SCRIPT: Final = ".bash"  # the ending of our scripts, which Cline starts by their first line
HEAD: Final = "#!/bin/sh\n# hooklatch's entry: `hooklatch uninstall cline` removes it.\n"
TABLE: Final = re.compile(r"^\[\[hooks\]\][^\n]*(?:\n(?![ \t]*\[)[^\n]*)*\n?", re.MULTILINE)


def make_script(words: Sequence[str]) -> str:
    """Return a script that is the entry."""
    return f"{HEAD}exec {shlex.join(words)}\n"


def is_script(data: bytes) -> bool:
    """Return whether a file is such a script, edited or not."""
    return data.startswith(HEAD.encode())


def find_script_entry(text: str) -> Iterator[InstalledHandler]:
    """Yield the entry in a script of ours."""
    line = text.rstrip("\n").rpartition("\n")[2].removeprefix("exec ")
    words = tuple(shlex.split(line))
    if is_entry(words) and "--kind" in words[1:]:
        yield InstalledHandler(words[words.index("--kind") - 1], {"command": line}, words, ())


def add_tables(path: str, text: str, handlers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text with a table for each event at its end.

    Raises:
        FileError: it would not be TOML, or would say more than that.
    """
    tables = [{"event": event, **handler} for event, handler in handlers.items()]
    blocks = [f"{text}\n" if text and not text.endswith("\n") else text] if text else []
    for table in tables:
        pairs = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in table.items()]
        blocks.append("[[hooks]]\n" + "".join(pairs))
    after = "\n".join(blocks)
    before = read_toml(path, text)
    if read_toml(path, after) != {**before, "hooks": [*list_hooks(before), *tables]}:
        raise FileError(f"{path} has hooks in a form that tables cannot be added to; nothing was changed")
    return after


def remove_tables(path: str, text: str) -> str:
    """Return the text without our tables.

    Raises:
        FileError: they cannot be told from the rest.
    """
    before = read_toml(path, text)
    after = TABLE.sub(lambda found: "" if is_own_table(found.group()) else found.group(), text)
    hooks = [hook for hook in list_hooks(before) if read_handler_command(hook) is None]
    expected = {key: value for key, value in before.items() if key != "hooks"} | ({"hooks": hooks} if hooks else {})
    if read_toml(path, after) != expected:
        raise FileError(
            f"{path}: the tables of hooklatch cannot be told from others; nothing was changed: take them out"
        )
    return after.rstrip("\n") + "\n" if after != text and after.strip() else after


def list_hooks(document: Mapping[str, Any]) -> list[object]:
    hooks: object = document.get("hooks")
    return cast("list[object]", hooks) if isinstance(hooks, list) else []


def is_own_table(text: str) -> bool:
    try:
        return any(handler.words for handler in list_flat_handlers(tomllib.loads(text).get("hooks")))
    except tomllib.TOMLDecodeError:  # a value with lines that look like a table, so it is not ours
        return False


def read_toml(path: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{path}: {error}; nothing was changed: fix the file, then try again") from None
