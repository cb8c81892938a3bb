"""The Elixir client's own tests, run as its developers run them, and what its package says of itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clients.programs import CLIENTS, needed
from hooklatch.version import VERSION
from support.survivors import nobody_survives

FOLDER = CLIENTS / "elixir"


@pytest.mark.slow  # a compiler, daemons
def test_its_own_tests_pass() -> None:
    mix = needed("mix", "apt-get install elixir")
    command = Path(sys.executable).with_name("hooklatch")

    with nobody_survives():
        environ = {**os.environ, "MIX_ENV": "test", "HEX_OFFLINE": "1", "HOOKLATCH_COMMAND": str(command)}
        done = subprocess.run(
            [mix, "test", "--warnings-as-errors"], cwd=FOLDER, env=environ, capture_output=True, text=True, check=False
        )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "left out" not in done.stdout


def test_its_version_is_the_daemons() -> None:
    said = re.search(r'version: "(.+)"', (FOLDER / "mix.exs").read_text())

    assert said is not None
    assert said[1] == VERSION


def test_no_dependency_is_named() -> None:
    assert "deps: []" in (FOLDER / "mix.exs").read_text()
