"""Parses and checks the declaration of a shell hook.  Knows keys and forms; does not run anything.

A shell hook is an ordinary Python target: the function `run` of a built-in source, with the command as its config.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from hooklatch.core.hooks.catalogue import EventSpec

__all__ = ["SHELL_KEYS", "ShellCommand", "read_shell", "shell_config"]

SHELL_KEYS = ("command", "argv", "payload", "output", "exit_codes", "cwd", "env")
CHOICES = {
    "payload": ("canonical", "claude", "reasonix"),
    "output": ("exit", "json"),
    "exit_codes": ("strict", "advisory"),
}


class ShellCommand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command and its protocol; exactly one of `command` (a shell line) and `argv` is set."""

    command: str | None = None
    argv: list[str] | None = None
    payload: str = "canonical"
    output: str = "exit"
    exit_codes: str = "strict"
    cwd: str | None = None
    env: dict[str, str] = {}

    def describe(self) -> str:
        return self.command if self.command is not None else " ".join(self.argv or ())


def read_shell(raw: Mapping[str, Any]) -> ShellCommand | None:
    """Parse the keys of a shell hook; return None if it has no command.

    Raises:
        ValueError: a key has an invalid value; the text says what is valid.
    """
    command, argv = raw.get("command"), raw.get("argv")
    if command is None and argv is None:
        for key in SHELL_KEYS:
            if key in raw:
                raise ValueError(f"{key} belongs to a shell hook: one with command or argv")
        return None
    if command is not None and argv is not None:
        raise ValueError("write either command (a shell line) or argv (a program and its arguments)")
    if command is not None and not (isinstance(command, str) and command.strip()):
        raise ValueError(f"command is a shell line, not {command!r}")
    if argv is not None and not is_argv(argv):
        raise ValueError(f'argv is a list of strings like ["prog", "arg"], not {argv!r}')
    for key, known in CHOICES.items():
        if key in raw and raw[key] not in known:
            raise ValueError(f"{key} is one of {', '.join(known)}, not {raw[key]!r}")
    cwd, env = raw.get("cwd"), raw.get("env", {})
    if cwd is not None and not isinstance(cwd, str):
        raise ValueError(f"cwd is a folder, not {cwd!r}")
    if not is_environment(env):
        raise ValueError(f"env is a table of strings, not {env!r}")
    chosen = {key: raw[key] for key in CHOICES if key in raw}
    return ShellCommand(command=command, argv=argv, cwd=cwd, env=dict(env), **chosen)


def is_argv(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    words = cast("list[object]", value)
    return all(isinstance(word, str) and "\0" not in word for word in words) and bool(words[0])


def is_environment(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    pairs = cast("Mapping[object, object]", value).items()
    return all(isinstance(name, str) and isinstance(text, str) and name and "=" not in name for name, text in pairs)


def shell_config(shell: ShellCommand, spec: EventSpec, *, hook_id: str, timeout: float | None, config: bytes) -> bytes:
    """Encode the config of a call: the command, and the facts that it needs about its event."""
    return msgspec.json.encode(
        {
            **msgspec.to_builtins(shell),
            "hook_id": hook_id,
            "timeout": timeout or spec.timeout,
            "fails_closed": spec.fails_closed,
            "allows": sorted(spec.verdicts | spec.outputs),
            "config": msgspec.Raw(config or b"{}"),
        }
    )
