"""The programs that drive each client for the tests: how each is built, and what is said where it cannot be.

All speak the same: one command as a line of JSON on standard input, one answer as a line on standard output.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.repository import ROOT

__all__ = ["LANGUAGES", "Program", "command_of"]

CLIENTS = ROOT / "clients"
# Built once for all that runs it, without what only a debugger or the next build would read.
CARGO = {"CARGO_TARGET_DIR": str(CLIENTS / "rust/target"), "CARGO_INCREMENTAL": "0", "CARGO_PROFILE_DEV_DEBUG": "0"}
PYTHON = ROOT / "tests" / "clients" / "python_driver.py"


def python(kind: str) -> list[str]:
    return [sys.executable, str(PYTHON), kind]


def typescript() -> list[str]:
    node = needed("node", "apt-get install nodejs")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").partition(".")[0]) < 18:
        pytest.skip(f"node is {version.strip()}, and the TypeScript client needs 18 or later")
    return [node, str(CLIENTS / "typescript/test/driver.js")]


def elixir() -> list[str]:
    needed("elixir", "apt-get install elixir")
    folder = CLIENTS / "elixir"
    built(["mix", "compile", "--no-deps-check"], folder, {"MIX_ENV": "prod", "MIX_QUIET": "1", "HEX_OFFLINE": "1"})
    # Standard output is for answers; what the client logs goes to the other one.
    ebin = str(folder / "_build/prod/lib/hooklatch/ebin")
    return [
        "elixir",
        "--erl",
        "-logger console [{device,standard_error}] +sbwt none +sbwtdcpu none +sbwtdio none",  # no waiting by spinning
        "-pa",
        ebin,
        str(folder / "test/driver.exs"),
    ]


def rust() -> list[str]:
    needed("cargo", "apt-get install cargo")
    folder = CLIENTS / "rust"
    built(["cargo", "build", "--quiet", "--offline", "--example", "driver"], folder, CARGO)
    return [str(folder / "target/debug/examples/driver")]


def needed(program: str, advice: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed ({advice})")
    return found


def built(command: list[str], folder: Path, environ: dict[str, str]) -> None:
    """Build in a folder that git ignores, once at a time; what is up to date costs a second."""
    with open(folder / ".build-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **environ}, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr


LANGUAGES: dict[str, Callable[[], list[str]]] = {
    "python": lambda: python("async"),
    "python-threads": lambda: python("blocking"),
    "typescript": typescript,
    "elixir": elixir,
    "rust": rust,
}


@functools.cache
def command_of(language: str) -> list[str]:
    """Return the command of a language's program, built once; skips the test where its toolchain is missing."""
    return LANGUAGES[language]()


class Program:
    """A client in a process of its own."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def do(self, **command: Any) -> Any:
        """Have it run one command; return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the client's program ended, with {self._process.wait()}"
        return json.loads(line)
