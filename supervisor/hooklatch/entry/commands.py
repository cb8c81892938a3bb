"""The command line of the forwarder, which goes into a host's settings.

The line has nothing about hooks, so it stays the same when hooks change: Codex trusts a hash of it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["ENTRY", "Form", "Kind", "make_entry_command"]

Form: TypeAlias = Literal["python", "c", "best"]
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
    form: Form = "python",
) -> list[str]:
    """Return the words of the command; a host that takes one line gets them by `shlex.join`.

    `wait` is how many seconds the forwarder waits, which must be less than the host's own limit; with kind "notify" it
    does not matter.  `daemon_uid` is the user whose daemon is accepted besides the user's own and root's.  `start` lets
    the forwarder start a daemon where none listens, with this `config` and `state_dir`.  `form`: "best" is the C form
    where it can be built here, else the Python form.

    Raises:
        BuildError: the C form is requested and cannot be built.
    """
    words = [*entry_program(form), host, event, "--kind", kind, "--wait", f"{wait:.3f}".rstrip("0").rstrip(".")]
    if runtime_dir is not None:
        words += ["--runtime-dir", str(Path(runtime_dir).absolute())]
    if daemon_uid is not None:
        words += ["--daemon-uid", str(daemon_uid)]
    if start:
        words.append("--start")
        for option, path in (("--config", config), ("--state-dir", state_dir)):
            words += [] if path is None else [option, str(Path(path).absolute())]
    return words


def entry_program(form: Form) -> list[str]:
    if form != "python":
        from hooklatch.entry import building

        program = building.build_program() if form == "c" else building.find_or_build_program()
        if program is not None:
            return [str(program)]
    # The path as it is, not resolved: the link in a virtual environment is what makes it that environment's.
    return [sys.executable, "-I", "-S", str(ENTRY)]
