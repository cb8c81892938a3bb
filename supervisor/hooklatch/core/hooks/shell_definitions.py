"""The declaration of a shell hook, and the config of its calls.

A shell hook is an ordinary Python target: the function `run` of a built-in source, with the command as its config.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from hooklatch.core.hooks.catalogue import EventSpec

__all__ = ["ShellCommand", "encode_shell_config"]

ARGV = 'a list of strings like ["prog", "arg"]'
Word: TypeAlias = Annotated[str, Meta(pattern=r"^[^\x00]*$")]
Variable: TypeAlias = Annotated[str, Meta(pattern="^[^=]+$")]


class ShellCommand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command and its protocol; exactly one of `command` (a shell line) and `argv` is set."""

    command: Annotated[str, Meta(pattern=r"\S", extra={"is": "a shell line (argv takes a list)"})] | None = None
    argv: Annotated[list[Word], Meta(min_length=1, extra={"is": ARGV})] | None = None
    payload: Annotated[
        Literal["canonical", "claude", "reasonix"], Meta(description="The form of its standard input.")
    ] = "canonical"
    output: Annotated[
        Literal["exit", "json"], Meta(description="Whether standard output is text or holds a verdict.")
    ] = "exit"
    exit_codes: Annotated[
        Literal["strict", "advisory"], Meta(description="What codes other than 0 and 2 mean: a failure, or a warning.")
    ] = "strict"
    run_in: Annotated[
        Literal["session", "file"],
        Meta(description="Where the command runs: in the session's folder, or in that of the file that declares it."),
    ] = "session"
    cwd: Annotated[str, Meta(extra={"is": "a folder"})] | None = None
    env: dict[Variable, str] = {}

    @property
    def is_of_another_system(self) -> bool:
        """True for a command of another system, which keeps that system's working directory and variables."""
        return self.payload != "canonical"

    def describe(self) -> str:
        return self.command if self.command is not None else " ".join(self.argv or ())


def encode_shell_config(
    shell: ShellCommand, spec: EventSpec, *, hook_id: str, timeout: float | None, config: bytes, folder: str
) -> bytes:
    """Encode the config of a call: the command, the folder of its file, and the needed facts about its event."""
    return msgspec.json.encode(
        {
            **msgspec.to_builtins(shell),
            "hook_id": hook_id,
            "folder": folder,
            "timeout": timeout or spec.timeout,
            "fails_closed": spec.fails_closed,
            "allows": sorted(spec.verdicts | spec.outputs),
            "config": msgspec.Raw(config or b"{}"),
        }
    )
