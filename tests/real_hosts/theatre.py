"""Starts the stage, the process that real programs run below, and hands it one run at a time.

Knows how to get a namespace that has loopback alone, and how to say why there is none; knows no host.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from real_hosts.model.conversation import Turn, call_id
from support.repository import TESTS

__all__ = [
    "PATIENCE",
    "Outcome",
    "Stage",
    "namespace",
    "on_stage",
    "why_there_is_no_namespace",
    "why_there_is_no_other_etc",
]

PATIENCE = 120  # seconds for a run that takes a few; only a failing test waits that long


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    exit_code: int | None  # None: it had to be killed
    seconds: float
    stdout: str
    stderr: str
    told: Mapping[str, str]  # what the model was told of each call, by the call's id
    called: Sequence[str]  # the ids of the calls that the model has made
    requests: Sequence[dict[str, Any]]
    errors: Sequence[str]
    left: Sequence[str]  # names of the processes that it left behind

    def told_of(self, play: str, turn: int, index: int = 0) -> str:
        """Return what the model was told of a call; nothing if it was not told of it."""
        return self.told.get(call_id(play, turn, index), "")

    @property
    def everything(self) -> str:
        """Return all that the person and the model were shown."""
        return self.stdout + self.stderr + json.dumps([request["body"] for request in self.requests])


class Stage:
    """A running stage: its port is that of the model."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        hello = self._read()
        self.port: int = hello["port"]
        assert hello["interfaces"] == ["lo"], f"the programs could reach more than loopback: {hello['interfaces']}"

    def play(
        self, argv: Sequence[str], *, folder: Path, cwd: Path, env: Mapping[str, str],
        plays: Mapping[str, Sequence[Turn]], patience: int = PATIENCE,
    ) -> Outcome:  # fmt: skip
        """Run a program while the model plays `plays`, to its end or for `patience` seconds."""
        job = {
            "argv": list(argv), "folder": str(folder), "cwd": str(cwd), "env": dict(env), "timeout": patience,
            "plays": {name: [[call._asdict() for call in turn] for turn in turns] for name, turns in plays.items()},
        }  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return Outcome(**self._read())

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the stage ended with {self._process.wait()}"
        return json.loads(line)


@contextmanager
def on_stage(etc: Path | None = None) -> Iterator[Stage]:
    """Run a stage; nothing that it started is left afterwards.  `etc` is a folder in place of /etc there."""
    mount = ["--mount", "/bin/sh", "-c", 'mount --bind "$0" /etc && exec "$@"', str(etc)] if etc is not None else []
    with subprocess.Popen(
        [*namespace(), *mount, sys.executable, "-m", "real_hosts.stage"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(TESTS)},
    ) as process:  # fmt: skip
        try:
            yield Stage(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(PATIENCE) == 0


@cache
def namespace() -> list[str]:
    """Return the words before a command that put it into a network namespace; none if this machine has no way to."""
    unshare = shutil.which("unshare") or "unshare"
    for words in ([unshare, "--net"], [unshare, "--map-root-user", "--net"]):
        if not _error_of(words):
            return words
    return []


def why_there_is_no_namespace() -> str:
    """Return why programs cannot be kept off the network here; nothing if they can."""
    return "" if namespace() else f"no network namespace: {_error_of(['unshare', '--map-root-user', '--net'])}"


def why_there_is_no_other_etc() -> str:
    """Return why programs cannot have an /etc of their own here; nothing if they can."""
    words = [*namespace(), "--mount", "/bin/sh", "-c", 'mount --bind "$0" /etc && exec "$@"', "/etc"]
    return why_there_is_no_namespace() or (f"no mount namespace: {error}" if (error := _error_of(words)) else "")


def _error_of(words: Sequence[str]) -> str:
    try:
        done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return done.stderr.strip() or f"exit code {done.returncode}" if done.returncode else ""
