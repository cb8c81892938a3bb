"""Codex's trust in our entries: a request for it to Codex itself, and the trust that is written for `--trust`.

Codex runs a hook only if the hash of its definition is in `[hooks.state."FILE:EVENT:GROUP:INDEX"]` of its config.toml.
Hash and key come from Codex itself: its app server is asked with one method (`hooks/list`), and a failed request is
reported and changes nothing.  They are written in Codex's form, between two lines that name hooklatch.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import signal
import subprocess
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

from hooklatch.cli.hosts import settings_files
from hooklatch.cli.hosts.changing import FileEdit, apply_edit, diff_edit, plan_edit
from hooklatch.cli.hosts.settings_files import FileError
from hooklatch.hosts.own_entries import is_entry
from hooklatch.version import VERSION
from hooklatch_worker.sandbox import children

__all__ = [
    "CodexConfigError", "CodexUnansweredError", "FILE", "TERMINALS", "TERMINALS_LINE", "add_trust", "list_codex_hooks",
    "list_untrusted", "plan_trust", "plan_untrust", "remove_trust", "settle_codex_trust",
]  # fmt: skip

BEGIN: Final = "# hooklatch: its own entries, trusted with `hooklatch install codex --trust`"
END: Final = "# hooklatch: end"
BLOCK: Final = re.compile(rf"(?:\r?\n)?{re.escape(BEGIN)}\r?\n(?P<tables>.*?){re.escape(END)}(?:\r?\n|\Z)", re.DOTALL)
# What the model writes to a command that runs in a terminal (write_stdin) is reported to no hook.
TERMINALS: Final = "unified_exec_tty"
TERMINALS_LINE: Final = f"{TERMINALS} = false  # hooklatch: no hook is asked about keystrokes to a running command"
FEATURES: Final = re.compile(r"^\[features\][ \t]*(?:#[^\n]*)?\r?\n", re.MULTILINE)
WHOLE_FEATURES: Final = re.compile(
    rf"(?:\r?\n)?^\[features\]\r?\n{re.escape(TERMINALS_LINE)}\r?\n(?=(?:\s|#[^\n]*)*(?:\[|\Z))", re.MULTILINE
)  # and nothing else is in that table
TABLE: Final = re.compile(r'\[hooks\.state\.(?P<key>"[^\r\n]*")\]\r?\ntrusted_hash = "(?P<hash>[^"\r\n]*)"\r?\n')


class CodexConfigError(ValueError):
    """A config.toml that cannot be read, or to which nothing can be added."""


def add_trust(text: str, hashes: Mapping[str, str]) -> str:
    """Return the text with these hashes by their keys, without terminals, and with nothing else changed.

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
    return turn_terminals_off(text)


def list_trust(text: str) -> dict[str, str]:
    """Return the hashes that `add_trust` wrote into a text, such as of another file of entries."""
    tables = (table for block in BLOCK.finditer(text) for table in TABLE.finditer(block["tables"]))
    return {str(json.loads(table["key"])): table["hash"] for table in tables}


def remove_trust(text: str) -> str:
    """Return the text without what `add_trust` wrote; other text that was put between its lines stays."""
    text = BLOCK.sub(lambda match: TABLE.sub("", match["tables"]), text)
    return WHOLE_FEATURES.sub("", text).replace(f"{TERMINALS_LINE}\r\n", "").replace(f"{TERMINALS_LINE}\n", "")


def turn_terminals_off(text: str) -> str:
    """Return the text with the feature off, unless the user has set it, or in a form to which nothing can be added."""
    found: object = tomllib.loads(text.replace("\r\n", "\n")).get("features", {})
    features = cast("dict[str, object]", found) if isinstance(found, dict) else None
    header, end = FEATURES.search(text), "\r\n" if "\r\n" in text else "\n"
    if features is None or TERMINALS in features or (features and header is None):
        return text
    own = "" if header is not None else f"{end if text else ''}[features]{end}"
    at = header.end() if header is not None else len(text)
    after = f"{text[:at]}{own}{TERMINALS_LINE}{end}{text[at:]}"
    with suppress(tomllib.TOMLDecodeError):  # such as where it is written features = {}
        if tomllib.loads(after.replace("\r\n", "\n")).get("features", {}).get(TERMINALS) is False:
            return after
    return text


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


FILE: Final = "config.toml"
LIMIT: Final = 60.0  # seconds; it takes one, ten on a busy machine
BY_HAND: Final = "start Codex, type /hooks, and trust them; or: hooklatch install codex --trust"


class CodexUnansweredError(Exception):
    """Codex did not list its hooks."""


def codex_config_path(hooks_file: str, environ: Mapping[str, str]) -> str:
    home = environ.get("CODEX_HOME", "")
    folder = home if os.path.isabs(home) else os.path.expanduser("~/.codex")
    return os.path.join(folder, FILE)


def settle_codex_trust(path: str, program: str | None, arguments: argparse.Namespace) -> list[str]:
    """Return notes on whether Codex trusts the entries in a file; with --trust, write that it does."""
    if arguments.dry_run:
        return [f"Codex runs new or changed hooks only once you trust them: {BY_HAND}"]
    if program is None:
        return [f"Codex is not found, so it is unknown whether it trusts these entries; it runs none before: {BY_HAND}"]
    try:
        hooks = list_codex_hooks(program, path, os.environ)
        untrusted = list_untrusted(hooks)
        if arguments.trust and hooks and (untrusted or has_terminals(path, os.environ)):
            return trust_entries(path, program, list_hashes(hooks, ("managed",)))
    except (CodexUnansweredError, FileError, ValueError) as error:
        return [f"NOT TRUSTED, as far as is known: {error}; {BY_HAND}"]
    if not hooks:
        return [f"Codex does not see the entries in {path}: is the project trusted, and [features] hooks not off?"]
    if untrusted:
        return [f"NOT TRUSTED YET: Codex runs none of {len(untrusted)} entries and says nothing of it; {BY_HAND}"]
    return ["Codex trusts these entries"]


def has_terminals(path: str, environ: Mapping[str, str]) -> bool:
    """Return whether terminals are on, and can be turned off in Codex's config.toml."""
    text = (settings_files.read_if_present(codex_config_path(path, environ)) or b"").decode()
    return turn_terminals_off(text) != text


def trust_entries(path: str, program: str, hashes: Mapping[str, str]) -> list[str]:
    config = codex_config_path(path, os.environ)
    change = plan_trust(config, hashes, os.environ)
    backup = apply_edit(change, "codex", os.environ)
    # Asked once more: the form of what was written is Codex's own affair, and may change.
    remaining = list_untrusted(list_codex_hooks(program, path, os.environ))
    copy = f" (backup: {backup})" if backup is not None else ""
    if remaining:
        return [
            f"NOT TRUSTED: Codex still does not trust {len(remaining)} entries after {config} was written{copy}; "
            f"{BY_HAND}"
        ]
    return [f"your trust in these {len(hashes)} entries was written to {config}{copy}", *diff_edit(change).splitlines()]


def plan_trust(config: str, hashes: Mapping[str, str], environ: Mapping[str, str]) -> FileEdit:
    """Return the change that writes these hashes beside those of other files of entries."""
    known = list_trust((settings_files.read_if_present(config) or b"").decode())  # gone from the text that is edited
    return plan_edit(config, lambda text: add_trust(text, {**known, **hashes}), remove_trust, environ)


def plan_untrust(path: str, environ: Mapping[str, str]) -> Iterator[FileEdit]:
    """Yield the change that takes the trust in a file of entries out of Codex's config.toml, if there is one."""
    config = codex_config_path(path, environ)
    known = list_trust((settings_files.read_if_present(config) or b"").decode())
    others = {key: value for key, value in known.items() if not key.startswith(f"{path}:")}
    insert = partial(add_trust, hashes=others) if others else None  # those of a project, or of its user
    change = plan_edit(config, insert, remove_trust, environ)
    if not change.is_none:
        yield change


def list_untrusted(hooks: list[dict[str, Any]]) -> dict[str, str]:
    """Return the hashes of entries that Codex does not run, by their keys."""
    return list_hashes(hooks, ("trusted", "managed"))


def list_hashes(hooks: list[dict[str, Any]], without: Sequence[str]) -> dict[str, str]:
    return {
        str(hook["key"]): str(hook["currentHash"])
        for hook in hooks
        if hook.get("trustStatus") not in without and "key" in hook and "currentHash" in hook
    }


def list_codex_hooks(program: str, path: str, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return Codex's own list of our entries in a file.

    Raises:
        CodexUnansweredError: it does not answer.
    """
    folder = os.path.dirname(os.path.dirname(path))  # of the project, for its own .codex/hooks.json
    result = ask_codex(program, "hooks/list", {"cwds": [folder]}, environ)
    try:
        hooks = [hook for folder_hooks in result["data"] for hook in folder_hooks["hooks"]]
        real = os.path.realpath(path)
        return [
            hook
            for hook in hooks
            if os.path.realpath(hook["sourcePath"]) == real and is_entry(str(hook.get("command")).split())
        ]
    except (KeyError, TypeError) as error:
        raise CodexUnansweredError(f"its answer to hooks/list cannot be read ({error})") from None


def ask_codex(program: str, method: str, params: object, environ: Mapping[str, str]) -> dict[str, Any]:
    info = {"clientInfo": {"name": "hooklatch", "version": VERSION}}
    lines = [
        {"id": 1, "method": "initialize", "params": info},
        {"method": "initialized"},
        {"id": 2, "method": method, "params": params},
    ]
    try:
        process = children.start_child(
            [program, "app-server"], children.make_user_environment(environ), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise CodexUnansweredError(f"{program} cannot be started: {error.strerror}") from None
    with process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):
                process.stdin.write("".join(json.dumps(line) + "\n" for line in lines).encode())
                process.stdin.flush()
            return read_codex_reply(process.stdout.fileno(), time.monotonic() + LIMIT)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(BrokenPipeError):
                process.communicate()


def read_codex_reply(fd: int, deadline: float) -> dict[str, Any]:
    pending = b""
    while True:
        line, is_whole, tail = pending.partition(b"\n")
        if is_whole:
            pending = tail
            try:
                message: object = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict) and cast("dict[str, object]", message).get("id") == 2:
                result = cast("dict[str, object]", message).get("result")
                if not isinstance(result, dict):
                    raise CodexUnansweredError("codex app-server has no hooks/list; is this version too old?")
                return cast("dict[str, Any]", result)
            continue
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([fd], [], [], remaining)[0]:
            raise CodexUnansweredError("codex app-server did not answer in time")
        data = os.read(fd, 2**16)
        if not data:
            raise CodexUnansweredError("codex app-server ended without an answer")
        pending += data
