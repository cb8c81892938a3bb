"""The environment that workers start with: an allow-list.  Knows variables' names; starts nothing."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["allowed"]

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
