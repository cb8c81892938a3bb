"""Format what an agent has written or edited, and tell it if that changed the file.

It never stops anything: a formatter that is missing, fails or takes too long is a warning.  Programs are started
without a shell, and only for files below the working directory.  Formatters that load code from the project's own
configuration (prettier, eslint) are left out, since a project that is not trusted could run any code.

This file is yours: change the list.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

from hooklatch import append, hook, warn

FORMATTERS = {
    ".py": ("ruff", "format", "--quiet"),
    ".pyi": ("ruff", "format", "--quiet"),
    ".go": ("gofmt", "-w"),
    ".rs": ("rustfmt",),
    ".sh": ("shfmt", "-w"),
    ".toml": ("taplo", "format"),
    ".tf": ("terraform", "fmt"),
    ".zig": ("zig", "fmt"),
}
VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")  # of the daemon's environment
SECONDS = 10.0


@hook("post_tool_use", match=["write", "edit"], timeout=25.0, description="formats what was written")
def format_after_edit(event: Any) -> Any:
    paths: list[str] = event.paths
    changed: list[str] = []
    problems: list[str] = []
    for path in paths[:2] if event.cwd else []:
        outcome = format_file(str(path), event.cwd)
        if outcome is True:
            changed.append(str(path))
        elif outcome:
            problems.append(outcome)
    answer = append(f"{', '.join(changed)} was formatted; read it again before you edit it.") if changed else None
    if problems:
        return (answer or warn(problems[0])) if answer is None else answer.warn(problems[0])
    return answer


def format_file(path: str, folder: str) -> bool | str:
    """Return whether a formatter changed the file, or what went wrong."""
    program = FORMATTERS.get(os.path.splitext(path)[1])
    whole = os.path.realpath(os.path.join(folder, path))
    if program is None or not whole.startswith(f"{os.path.realpath(folder)}{os.sep}"):
        return False
    executable = shutil.which(program[0])
    if executable is None:
        return f"{program[0]} is not on the daemon's PATH, so {path} was not formatted"
    try:
        before = read_content(whole)
        process = subprocess.run(
            [executable, *program[1:], whole],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={name: os.environ[name] for name in VARIABLES if name in os.environ},
        )
        if process.returncode:
            return f"{program[0]} failed on {path}: {process.stderr.decode(errors='replace').strip()[:300]}"
        return read_content(whole) != before
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program[0]} could not format {path}: {error}"


def read_content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
