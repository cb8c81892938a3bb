"""The command line of the forwarder, which goes into a host's settings.

The line has nothing about hooks, so it stays the same when hooks change: Codex trusts a hash of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["ENTRY", "Form", "Kind", "make_entry_command", "python_form", "is_python_form"]

Form: TypeAlias = Literal["python", "c"]
Kind: TypeAlias = Literal["gate", "context", "notify"]

ENTRY = Path(__file__).resolve().with_name("entry.py")


def make_entry_command(
    host: str,
    event: str,
    kind: Kind,
    wait: float,
    *,
    runtime_dir: str | os.PathLike[str] | None = None,
    daemon_uid: int | None = None,
    start: bool = False,
    config: str | os.PathLike[str] | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    program: Sequence[str] | None = None,
) -> list[str]:
    """Return the words of the command; a host that takes one line gets them by `shlex.join`.

    `wait` is how many seconds the forwarder waits, which must be less than the host's own limit; with kind "notify" it
    does not matter.  `daemon_uid` is the user whose daemon is accepted besides the user's own and root's.  `start` lets
    the forwarder start a daemon where none listens, with this `config` and `state_dir`.  `program` is what is
    started, the Python form by default.
    """
    words = [*(program or python_form()), host, event, "--kind", kind, "--wait", f"{wait:.3f}".rstrip("0").rstrip(".")]
    if runtime_dir is not None:
        words += ["--runtime-dir", str(Path(runtime_dir).absolute())]
    if daemon_uid is not None:
        words += ["--daemon-uid", str(daemon_uid)]
    if start:
        words.append("--start")
        for option, path in (("--config", config), ("--state-dir", state_dir)):
            words += [] if path is None else [option, str(Path(path).absolute())]
    return words


def python_form() -> list[str]:
    """Return the words that start the Python form."""
    # The path as it is, not resolved: the link in a virtual environment is what makes it that environment's.
    return [sys.executable, "-I", "-S", str(ENTRY)]


def is_python_form(words: Sequence[str]) -> bool:
    """Return whether a command line starts the Python form, of this installation or of another."""
    return any(word.endswith("/hooklatch/entry/entry.py") for word in words)
