"""Fixtures for clients of a daemon's socket."""

import socket
import tempfile
from collections.abc import Iterator

import pytest

from support.host_daemon import Daemon, Start, Talk


@pytest.fixture
def folder() -> Iterator[str]:
    # Not tmp_path: a socket's path may have 107 bytes and no more.
    with tempfile.TemporaryDirectory(prefix="hl-") as path:
        yield path


@pytest.fixture
def start(folder: str) -> Iterator[Start]:
    running: list[Daemon] = []

    def start(behaviour: bytes | Talk) -> Daemon:
        def talk(connection: socket.socket, line: bytes) -> None:
            connection.sendall(behaviour) if isinstance(behaviour, bytes) else behaviour(connection, line)

        running.append(Daemon(folder, talk))
        return running[-1]

    yield start
    for daemon in running:
        daemon.close()
