"""The environment that workers start with: an allow-list.  Knows variables' names; starts nothing."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager

__all__ = ["allowed", "only"]

NAMES = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV"})
PREFIXES = ("LC_", "XDG_", "HOOKLATCH_")
SECRETS = frozenset({"HOOKLATCH_PARENT"})  # an agent's, if an agent starts the daemon


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep what programs need to run, and no secret of the daemon's own environment."""
    return {
        name: value
        for name, value in environ.items()
        if name in NAMES or (name.startswith(PREFIXES) and name not in SECRETS)
    }


@contextmanager
def only(variables: Mapping[str, str]) -> Generator[None]:
    """Set this process's environment to `variables` for a moment.

    multiprocessing gives a spawned child its parent's environment and accepts no other, and clearing it later would
    leave the secrets readable in /proc/PID/environ.
    """
    kept = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)
