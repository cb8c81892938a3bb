"""A separate daemon, to try hooks with: all of its parts, in this process and in a temporary directory.

A running daemon is not involved, and its state is neither read nor changed.  The caller checks first that hooks can run
here (`check_system`).
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hooklatch_worker.systems import system

if TYPE_CHECKING:
    from hooklatch.service.folders import DaemonOptions
    from hooklatch.service.parts import DaemonComponents

__all__ = [
    "NotHereError", "check_system", "make_daemon_options", "reset_daemon", "make_scratch_folder",
    "settle_environments", "write_source_config",
]  # fmt: skip


class NotHereError(Exception):
    """Hooks cannot be run on this system; the text says why."""


def check_system() -> None:
    """Check that hooks can be run here.

    Raises:
        NotHereError: they cannot.
    """
    if not system.is_supported():
        raise NotHereError(f"hooks run on {system.NEEDS} only")
    logging.getLogger("hooklatch").addHandler(logging.NullHandler())  # what matters is in the answers


@contextmanager
def make_scratch_folder() -> Generator[str]:
    """Make a directory for the daemon's files; remove it at the end.

    Raises:
        NotHereError: there is no place for it.
    """
    try:
        folder = tempfile.mkdtemp(prefix="hooklatch-test-")
    except OSError as error:
        raise NotHereError(f"there is no directory for temporary files: {error.strerror}; name one in TMPDIR") from None
    try:
        yield os.path.realpath(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_daemon_options(config: str, scratch: str) -> DaemonOptions:
    """Return the options of a daemon for a file of hooks.  Environments are those of this user's daemon."""
    from hooklatch import paths
    from hooklatch.service.folders import DaemonOptions, environments_folder

    return DaemonOptions(
        config=config,
        runtime_dir=os.path.join(scratch, "run"),
        state_dir=os.path.join(scratch, "state"),
        owns_process=False,
        is_trial=True,
        environments_dir=environments_folder(paths.state_dir(os.environ)),
    )


async def settle_environments(parts: DaemonComponents) -> None:
    """Wait until the environments of all sources are made, and load the hooks of those that were."""
    if parts.environments.is_making:
        await parts.environments.settle()
        await parts.reloader.reload()


def write_source_config(paths: Sequence[str], scratch: str, *, settings: str = "") -> str:
    """Write a file of hooks whose sources are these Python files; return its path."""
    import msgspec

    folder = os.path.join(scratch, "config")
    os.mkdir(folder, 0o700)
    config = os.path.join(folder, "hooks.toml")
    tables = [f"[[source]]\npath = {msgspec.json.encode(os.path.abspath(path)).decode()}\n" for path in paths]
    with open(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write("\n".join([settings, *tables]))
    return config


def reset_daemon(parts: DaemonComponents) -> None:
    """Clear the shared state and the breakers, so that the next run is independent of those before."""
    parts.shared_state.clear()
    parts.breakers.clear()
