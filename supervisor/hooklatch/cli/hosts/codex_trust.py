"""Codex's trust in our entries: asks Codex itself what it makes of them, and writes it if the person says so.

Knows Codex's app server for one question (`hooks/list`); a failed question is said and changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, cast

from hooklatch.hosts.own_entries import is_entry
from hooklatch.install.changing import FileEdit, apply_edit, diff_edit, plan_edit
from hooklatch.install.codex_state import CodexConfigError, add_trust, remove_trust
from hooklatch.install.files import FileError
from hooklatch.version import VERSION
from hooklatch_worker.sandbox import children

__all__ = ["FILE", "CodexUnansweredError", "list_codex_hooks", "plan_untrust", "settle_codex_trust", "list_untrusted"]

FILE: Final = "config.toml"
LIMIT: Final = 60.0  # seconds; it takes one, ten on a busy machine
BY_HAND: Final = "start Codex, type /hooks, and trust them; or: hooklatch install codex --trust"


class CodexUnansweredError(Exception):
    """Codex did not say which hooks it has."""


def codex_config_path(hooks_file: str, environ: Mapping[str, str]) -> str:
    named = environ.get("CODEX_HOME", "")
    folder = named if os.path.isabs(named) else os.path.expanduser("~/.codex")
    return os.path.join(folder, FILE)


def settle_codex_trust(path: str, program: str | None, arguments: argparse.Namespace) -> list[str]:
    """Say whether Codex trusts the entries in a file; with --trust, have it do so."""
    if arguments.dry_run:
        return [f"Codex runs new or changed hooks only once you trust them: {BY_HAND}"]
    if program is None:
        return [f"Codex is not found, so it is unknown whether it trusts these entries; it runs none before: {BY_HAND}"]
    try:
        found = list_codex_hooks(program, path, os.environ)
        waiting = list_untrusted(found)
        if waiting and arguments.trust:
            return trust_entries(path, program, waiting)
    except (CodexUnansweredError, CodexConfigError, FileError) as error:
        return [f"NOT TRUSTED, as far as is known: {error}; {BY_HAND}"]
    if not found:
        return [f"Codex does not see the entries in {path}: is the project trusted, and [features] hooks not off?"]
    if waiting:
        return [f"NOT TRUSTED YET: Codex runs none of {len(waiting)} entries and says nothing of it; {BY_HAND}"]
    return ["Codex trusts these entries"]


def trust_entries(path: str, program: str, hashes: Mapping[str, str]) -> list[str]:
    config = codex_config_path(path, os.environ)
    change = plan_edit(config, lambda text: add_trust(remove_trust(text), hashes), remove_trust, os.environ)
    backup = apply_edit(change, "codex", os.environ)
    still = list_untrusted(list_codex_hooks(program, path, os.environ))
    kept = f" (backup: {backup})" if backup is not None else ""
    if still:
        return [
            f"NOT TRUSTED: Codex still does not trust {len(still)} entries after {config} was written{kept}; {BY_HAND}"
        ]
    return [f"your trust in these {len(hashes)} entries was written to {config}{kept}", *diff_edit(change).splitlines()]


def plan_untrust(path: str, environ: Mapping[str, str]) -> Iterator[FileEdit]:
    """Yield the change that takes our part out of Codex's config.toml, if there is one."""
    change = plan_edit(codex_config_path(path, environ), None, remove_trust, environ)
    if not change.is_none:
        yield change


def list_untrusted(found: list[dict[str, Any]]) -> dict[str, str]:
    """Return the hashes of entries that Codex does not run, by their keys."""
    return {
        str(one["key"]): str(one["currentHash"])
        for one in found
        if one.get("trustStatus") not in ("trusted", "managed") and "key" in one and "currentHash" in one
    }


def list_codex_hooks(program: str, path: str, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what Codex says of our entries in a file.

    Raises:
        UnansweredError: it does not say.
    """
    folder = os.path.dirname(os.path.dirname(path))  # of the project, for its own .codex/hooks.json
    result = ask_codex(program, "hooks/list", {"cwds": [folder]}, environ)
    try:
        listed = [hook for one in result["data"] for hook in one["hooks"]]
        real = os.path.realpath(path)
        return [
            hook
            for hook in listed
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
        line, is_whole, rest = pending.partition(b"\n")
        if is_whole:
            pending = rest
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
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            raise CodexUnansweredError("codex app-server did not answer in time")
        data = os.read(fd, 2**16)
        if not data:
            raise CodexUnansweredError("codex app-server ended without an answer")
        pending += data
