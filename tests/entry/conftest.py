"""Fixtures for entries: a folder for a socket, and daemons that answer as they are told."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator

import pytest

from support.entries import Daemon, Talk


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a state folder in which the C form is built once for all files here."""
    return str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module", autouse=True)
def built(state: str) -> Iterator[None]:
    """Have the C form built there.  Not for the session: tests of other folders follow in the same process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", state)
        yield


@pytest.fixture
def folder() -> Iterator[str]:
    # Not tmp_path: a socket's path may have 107 bytes and no more.
    with tempfile.TemporaryDirectory(prefix="hl-") as path:
        yield path


@pytest.fixture
def serve(folder: str) -> Iterator[Callable[[bytes | Talk], Daemon]]:
    running: list[Daemon] = []

    def serve(talk: bytes | Talk) -> Daemon:
        running.append(Daemon(folder, talk))
        return running[-1]

    yield serve
    for daemon in running:
        daemon.close()
