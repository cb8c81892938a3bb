"""The examples of docs/guides/fleet.md, from top to end: typed as they stand, on an empty home and a real engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.commands import PATIENCE, Place, new_place
from support.redis_server import RedisServer, needs_redis, redis_server
from support.repository import ROOT
from support.survivors import nobody_survives
from test_docs import BLOCK

PAGE = (ROOT / "docs" / "guides" / "fleet.md").read_text()
DATA = (ROOT / "docs" / "reference" / "fleet.md").read_text()
FILE = re.compile(r"^`(policy/[\w.-]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FORCED = '{"tool_name": "Bash", "tool_input": {"command": "git push --force"}}'
# A test does not wait for a quarter of an hour, nor for decisions that nobody asks for.
HURRY = ("--wait 15m", "--wait 0.1s --sample 0")
DIFFERENT = "hooklatch fleet diff"  # ends with 1 where there is a difference, as diff does


def lines() -> Iterator[str]:
    for language, text in BLOCK.findall(PAGE):
        if language == "sh":
            yield from text.splitlines()


class Reader:
    """Somebody who follows the page, in a home of their own."""

    def __init__(self, place: Place, engine: RedisServer) -> None:
        self._place = place
        self._engine = engine
        self._links: list[subprocess.Popen[bytes]] = []
        self.environment = {name: value for name, value in place.environment.items() if name != "HOOKLATCH_CONFIG"}
        bin_folder = place.folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "hooklatch").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hooklatch "$@"\n')
        (bin_folder / "hooklatch").chmod(0o755)
        self.environment["PATH"] = f"{bin_folder}:{os.environ['PATH']}"
        for name, text in FILE.findall(PAGE):
            path = place.folder / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.write_text(text)

    def type(self, line: str) -> str:
        """Type one line; return what it says."""
        if line.endswith("&"):
            words = line.removesuffix("&").split()
            self._links.append(
                subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            return ""
        done = subprocess.run(
            ["/bin/sh", "-c", line.replace(*HURRY)], cwd=self._place.folder, env=self.environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or (line.startswith(DIFFERENT) and done.returncode == 1), line + done.stderr
        return done.stdout

    def write_table(self, printed: str) -> None:
        """Put the page's [fleet] into hooks.toml, with the key that keygen printed and the engine that there is."""
        table = next(text for language, text in BLOCK.findall(PAGE) if language == "toml" and "[fleet]" in text)
        found = re.search(r'"(ed25519:[^"]+)"', printed)
        assert found is not None, printed
        table = re.sub(r'keys = \["[^"]+"\]', f'keys = ["{found[1]}"]', table)
        table = re.sub(r'url = "[^"]+"', f'url = "{self._engine.url}"', table)
        table = re.sub(r"^(user|password_file|ca) = .*\n", "", table, flags=re.MULTILINE)  # the engine asks for none
        config = self._place.folder / ".config" / "hooklatch" / "hooks.toml"
        config.parent.mkdir(parents=True, mode=0o700)
        config.write_text(table)

    def wait_for(self, line: str, text: str) -> str:
        """Type a line again and again until it says something."""
        for _ in range(PATIENCE * 10):
            if text in (said := self.type(line)):
                return said
        raise AssertionError(f"{line} never said {text!r}, but: {said}")

    def fire(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["hooklatch", "fire", "pre_tool_use", "--json", "--payload", "-"], input=FORCED, env=self.environment,
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    def leave(self) -> None:
        for link in self._links:
            link.send_signal(signal.SIGTERM)
            assert link.wait(PATIENCE) == 0
        self.type("hooklatch stop")


@contextmanager
def reader_of_the_page() -> Iterator[Reader]:
    with nobody_survives() as word, new_place({}) as place, redis_server() as engine:
        reader = Reader(place, engine)
        reader.environment |= {"HOOKLATCH_TEST_COOKIE": word}
        yield reader
        reader.leave()


@needs_redis
@pytest.mark.slow
def test_the_page_of_the_fleet_can_be_followed_from_its_top_to_its_end() -> None:
    """Slow: it starts a server, a daemon, a link and some fifteen commands."""
    said, timestamp_key = dict[str, str](), ""
    with reader_of_the_page() as reader:
        for line in lines():
            if "--steps" in line:  # as somebody who has changed something
                reader.type("echo '# less strict' >> policy/guards.py")
            said[line] = reader.type(line.replace("ed25519:…", timestamp_key))
            if "keygen" in line and "timestamp" in line:
                (timestamp_key,) = re.findall(r"ed25519:[\w+/=]+", said[line])
            elif "keygen" in line:
                reader.write_table(said[line])
            if "no forced pushes" in line:
                reader.wait_for("hooklatch hooks", "no_force_push")
                denied = reader.fire()
                assert json.loads(denied.stdout)["hook"] == "guards:no_force_push", denied.stderr
        log = reader.wait_for("hooklatch fleet log --verdict deny --since 1h", "force pushes are not allowed here")

    assert "build-7" in log
    (history,) = [text for line, text in said.items() if line.startswith("hooklatch fleet history")]
    assert [line.split()[0] for line in history.splitlines()[1:]] == [
        "4",
        "3",
        "2",
        "1",
    ]  # one host is reached by each step, so there are two
    (diff,) = [text for line, text in said.items() if line.startswith(DIFFERENT)]
    assert "+# less strict" in diff
    assert "build-7: " in said["hooklatch fleet verify"]


def test_the_page_names_the_keys_of_the_engine_as_they_are() -> None:
    code = (ROOT / "supervisor" / "hooklatch" / "fleet" / "engine" / "redis.py").read_text()
    rows = re.findall(r"^\| `hooklatch:acme:([^`]+)` \| (\w+)", DATA, re.MULTILINE)

    assert rows
    for key, kind in rows:
        assert f"| `{key}` | {kind}" in code, key
