"""The environment that workers start with: an allow-list.  Knows variables' names; starts nothing."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager

__all__ = ["allowed", "only"]

NAMES = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV"})
PREFIXES = ("LC_", "XDG_", "HOOKLATCH_")
SECRETS = frozenset({"HOOKLATCH_PARENT"})  # an agent's, where one starts the daemon


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep what programs need to run, and no secret that the daemon's own environment happens to hold."""
    return {
        name: value
        for name, value in environ.items()
        if name in NAMES or (name.startswith(PREFIXES) and name not in SECRETS)
    }


@contextmanager
def only(variables: Mapping[str, str]) -> Generator[None]:
    """Have this process's environment be `variables` for a moment.

    multiprocessing hands a spawned child its parent's environment and takes no other, and clearing it later would
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
