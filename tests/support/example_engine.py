"""The engine of examples/fleet, set up as its page says, on a port of loopback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.redis_server import RedisServer, free_port, redis_server
from support.repository import ROOT

__all__ = ["EXAMPLE", "FLEET", "HOSTS", "ExampleEngine", "example_engine"]

EXAMPLE = ROOT / "examples" / "fleet"
FLEET, HOSTS = "acme", ("laptop1", "laptop2")
ETC, DATA = "/etc/hooklatch-engine", "/var/lib/hooklatch-engine"


class ExampleEngine:
    """The server, its authority's certificate, and the passwords that the page's commands have made."""

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.ca = str(folder / "etc" / "ca.crt")

    def url(self, user: str) -> str:
        return f"rediss://{user}@localhost:{self.server.port}"

    def password(self, user: str) -> str:
        return (self.folder / f"{user}.password").read_text()

    def command(self, user: str, *words: str | int) -> bytes:
        """Send a command as a user, and return the server's answer."""
        return self.server.command(*words, user=user, password=self.password(user))


@contextmanager
def example_engine() -> Generator[ExampleEngine]:
    """Yield the running engine of the example; skip where there is no server or no openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on this machine")
    with redis_server(start=False) as server:
        folder = server.folder
        for file in ("redis.conf", "users.acl"):
            shutil.copy(EXAMPLE / file, folder / file)
        certificates, users, _start = commands(folder)
        run(certificates, folder)
        run(users, folder)
        server.settings |= settings_of((folder / "etc" / "redis.conf").read_text().replace(ETC, f"{folder}/etc"))
        server.settings |= {"dir": f"{folder}/data", "tls-port": str(free_port()), "bind": "127.0.0.1"}
        server.start()
        yield ExampleEngine(server, folder)


def commands(folder: Path) -> list[str]:
    """Return the page's commands, with the folders of the machine made folders of the test."""
    page = (EXAMPLE / "README.md").read_text().replace(ETC, f"{folder}/etc").replace(DATA, f"{folder}/data")
    return re.findall(r"```sh\n(.*?)```", page, re.DOTALL)


def run(lines: str, folder: Path) -> None:
    done = subprocess.run(
        ["sh", "-euc", lines], cwd=folder, env={**os.environ, "ENGINE": "localhost"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def settings_of(text: str) -> dict[str, str]:
    rows = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in rows}
