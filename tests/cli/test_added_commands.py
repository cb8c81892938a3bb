"""A package may add a command; our own commands cannot be replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
def run(words):
    print("added", *words)
    return 3
"""
POINTS = "[hooklatch.commands]\nmine = acme_command:run\nbroken = acme_command:nothing\nhealth = acme_command:run\n"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Return a folder with an installed package that adds commands."""
    (tmp_path / "acme_command.py").write_text(MODULE)
    metadata = tmp_path / "acme-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(POINTS)
    return tmp_path


def hooklatch(packages: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(packages), "HOOKLATCH_RUNTIME_DIR": str(packages / "nobody")}
    command = [sys.executable, "-m", "hooklatch", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_an_added_command_gets_the_words_after_it_and_gives_the_exit_code(packages: Path) -> None:
    ended = hooklatch(packages, "mine", "a", "--b")

    assert (ended.returncode, ended.stdout) == (3, "added a --b\n")


def test_an_added_command_that_cannot_be_loaded_says_so(packages: Path) -> None:
    ended = hooklatch(packages, "broken")

    assert ended.returncode == 70
    assert "acme_command:nothing cannot be loaded" in ended.stderr


def test_our_own_command_is_not_replaced(packages: Path) -> None:
    assert "added" not in hooklatch(packages, "health").stdout
