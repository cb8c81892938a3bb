"""Codex's trust in hooks, in its config.toml: text in, text out.  Pure.

Codex runs a hook only if the hash of its definition is in `[hooks.state."FILE:EVENT:GROUP:INDEX"]`.  Hash and key
come from Codex itself (`hooks/list`).  They are written in Codex's form, between two lines that name hooklatch.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final, cast

__all__ = ["CodexConfigError", "add_trust", "remove_trust"]

BEGIN: Final = "# hooklatch: its own entries, trusted with `hooklatch install codex --trust`"
END: Final = "# hooklatch: end"
BLOCK: Final = re.compile(rf"(?:\r?\n)?{re.escape(BEGIN)}\r?\n(?P<tables>.*?){re.escape(END)}(?:\r?\n|\Z)", re.DOTALL)
TABLE: Final = re.compile(r'\[hooks\.state\.(?P<key>"[^\r\n]*")\]\r?\ntrusted_hash = "[^"\r\n]*"\r?\n')


class CodexConfigError(ValueError):
    """A config.toml that cannot be read, or to which nothing can be added."""


def add_trust(text: str, hashes: Mapping[str, str]) -> str:
    """Return the text with these hashes by their keys, and nothing else changed.

    Raises:
        CodexConfigError: it is not TOML, or its hooks.state has a form to which nothing can be added.
    """
    before = read_codex_state(text)
    text = remove_trust(text)
    bare = read_codex_state(text)
    for key, value in hashes.items():
        if key in bare and bare[key].get("trusted_hash") != value:  # stale, or the user's own: take it over
            text = replace_value(text, key, value)
    new = {key: value for key, value in hashes.items() if key not in bare}
    if new:
        end = "\r\n" if "\r\n" in text else "\n"
        lead = end if text and not text.endswith("\n") else ""
        tables = [
            f'[hooks.state.{json.dumps(key, ensure_ascii=False)}]{end}trusted_hash = "{value}"{end}'
            for key, value in new.items()
        ]
        text += f"{lead}{end if text else ''}{BEGIN}{end}{''.join(tables)}{END}{end}"
    after = read_codex_state(text)
    expected = {**bare, **{key: {**bare.get(key, {}), "trusted_hash": value} for key, value in hashes.items()}}
    if after != expected or not before.keys() <= {*after, *hashes, *before}:
        raise CodexConfigError(
            "nothing can be added to the form of its [hooks.state]; trust the hooks in Codex: /hooks"
        )
    return text


def remove_trust(text: str) -> str:
    """Return the text without the tables of `add_trust`; other text that was put between its lines stays."""
    return BLOCK.sub(lambda match: TABLE.sub("", match["tables"]), text)


def replace_value(text: str, key: str, value: str) -> str:
    header = re.escape(f"[hooks.state.{json.dumps(key, ensure_ascii=False)}]")
    pattern = rf'(^{header}[ \t]*\r?\n(?:(?![ \t]*\[)[^\n]*\n)*?[ \t]*trusted_hash[ \t]*=[ \t]*)"[^"\r\n]*"'
    return re.sub(pattern, lambda match: f'{match[1]}"{value}"', text, count=1, flags=re.MULTILINE)


def read_codex_state(text: str) -> dict[str, dict[str, Any]]:
    try:
        hooks = tomllib.loads(text.replace("\r\n", "\n")).get("hooks", {})
    except tomllib.TOMLDecodeError as error:
        raise CodexConfigError(f"it is not TOML: {error}") from None
    state = cast("dict[str, Any]", hooks).get("state", {}) if isinstance(hooks, dict) else None
    if not isinstance(state, dict) or not all(
        isinstance(table, dict) for table in cast("dict[str, Any]", state).values()
    ):
        raise CodexConfigError("its [hooks.state] is not a table of tables")
    return cast("dict[str, dict[str, Any]]", state)
