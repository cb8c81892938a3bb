"""A compiler that makes the same of the same once: what it has made of the forwarder is kept in build/, for all runs.

Each new home of a test gets a forwarder of its own, and compiling it is most of what `install` costs.  All else is as
it is for a person: the compiler is looked for, started, and what it made is given its paths and checked.  Work of any
other kind goes on to the machine's compiler.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from hooklatch.entry import building
from support.repository import ROOT

__all__ = ["with_kept_programs"]

KEPT = ROOT / "build" / "compiled"
SCRIPT = """#!/bin/sh
# Of tests/support/compilers.py.
for word do
    case $before in -I) headers=$word ;; -o) made=$word ;; *) flags="$flags $word" ;; esac
    before=$word
done
case $word in */entry.c) ;; *) exec {compiler} "$@" ;; esac
[ -f "$headers/refusals.h" ] && [ -n "$made" ] || exec {compiler} "$@"
key=$({{ echo "$flags"; cat "$word" "$headers/refusals.h"; }} | sha256sum) && kept={folder}/${{key%% *}}
[ -f "$kept" ] && exec cp "$kept" "$made"
{compiler} "$@" || exit
cp "$made" "$kept.$$" && mv "$kept.$$" "$kept"
"""


def with_kept_programs(path: str) -> str:
    """Return a PATH whose first compiler is this one; as it is where there is none, or it is there already."""
    compiler = next((found for name in building.COMPILERS if (found := shutil.which(name, path=path))), None)
    if compiler is None or Path(compiler).is_relative_to(KEPT):
        return path
    about = os.stat(compiler)  # another compiler may make something else
    folder = KEPT / f"{about.st_ino}-{about.st_size}-{about.st_mtime_ns}"
    script = folder / building.COMPILERS[0]
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f".{os.getpid()}"
        fresh.write_text(SCRIPT.format(compiler=shlex.quote(compiler), folder=shlex.quote(str(folder))))
        fresh.chmod(0o755)
        fresh.replace(script)  # other processes of the tests do the same
    return f"{folder}{os.pathsep}{path}"
