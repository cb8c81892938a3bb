"""A scripted daemon for each test that wants one, and a watch over descriptors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.scripted_daemon import ScriptedDaemon
from support.warm_interpreters import of_the_interpreters


@pytest.fixture(autouse=True)
def no_descriptor_is_left() -> Iterator[None]:
    before = set(os.listdir("/proc/self/fd"))
    yield
    of_no_test = {str(fd) for fd in of_the_interpreters()[1]}
    assert set(os.listdir("/proc/self/fd")) - of_no_test <= before


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.sock"


@pytest.fixture
def daemon(no_descriptor_is_left: None, path: Path) -> Iterator[ScriptedDaemon]:
    running = ScriptedDaemon(path)
    yield running
    running.close()
