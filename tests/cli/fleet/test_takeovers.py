"""What a stolen key signed, and what a push for a label would take, never reach a host: against a real engine.

Slow: the daemon, the link and the publishers are processes of their own.
"""

from __future__ import annotations

import json
import os
import select
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hooklatch import connect_sync
from hooklatch.fleet.signing import PrivateKey, make_key
from support.commands import Daemon, Place, new_place, serving
from support.redis_server import RedisServer, needs_redis
from support.survivors import nobody_survives

pytestmark = [pytest.mark.slow, needs_redis]


def guard(word: str, reason: str) -> str:
    return (
        "from hooklatch import deny, hook\n\n"
        f'@hook("pre_tool_use", match="Bash", id="no-{word}")\n'
        f'def guard(event):\n    if "{word}" in event.tool_input["command"]:\n        return deny("{reason}")\n'
    )


class Fleet:
    """A fleet with one real host, whose machine is the operator's too."""

    def __init__(self, place: Place, url: str, name: str, labels: str, key: PrivateKey) -> None:
        self.place = place
        self.url = url
        self.name = name
        self.labels = labels
        self.daemon: Daemon | None = None
        self.list_key(key)

    def list_key(self, key: PrivateKey) -> None:
        self.place.write({
            "hooks.toml": f'[fleet]\nname = "{self.name}"\nurl = "{self.url}"\nhost = "h1"\nlabels = [{self.labels}]\n'
            f'keys = ["{key.public.text}"]\n'
        })  # fmt: skip
        if self.daemon is not None:
            assert self.place.run("reload").returncode == 0

    def run(self, command: str, *words: str, key: PrivateKey, code: int = 0) -> str:
        """Run a command as a publisher; return what it said."""
        done = self.place.run("fleet", command, *words, "--key", write_key(self.place.folder, key))
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def push(self, files: dict[str, str], *words: str, key: PrivateKey, code: int = 0) -> str:
        folder = self.place.folder / uuid.uuid4().hex
        folder.mkdir(mode=0o700)
        for name, text in files.items():
            (folder / name).write_text(text)
        return self.run("push", str(folder), *words, key=key, code=code)

    def decide(self, command: str) -> str:
        """Return why the host denies a command, or that it passes."""
        assert self.daemon is not None
        with connect_sync(self.daemon.ready["agent"]) as session:
            decision = session.fire("pre_tool_use", tool_name="Bash", tool_input={"command": command})
        return decision.reason or "" if decision.verdict == "deny" else "passes"

    def until(self, command: str, expected: str) -> None:
        """Wait until the host decides a command like that."""
        while expected not in self.decide(command):
            select.select([], [], [], 0.05)

    def until_reported(self, versions: dict[str, int]) -> None:
        """Wait until the report of the only host has these versions of its policies."""
        while True:
            (host,) = self.json("status")["hosts"]
            if {name: of["applied"] for name, of in host["policies"].items()} == versions:
                return
            select.select([], [], [], 0.05)

    def json(self, *words: str) -> Any:
        return json.loads(self.place.run("fleet", *words, "--json").stdout)


def write_key(folder: Path, key: PrivateKey) -> str:
    path = folder / f"{key.public.id}.key"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(key.text)
    return str(path)


@contextmanager
def running_fleet(redis: RedisServer, key: PrivateKey, labels: str = "") -> Generator[Fleet]:
    with nobody_survives() as word, new_place({"hooks.toml": ""}) as place:
        place.environment["HOOKLATCH_TEST_COOKIE"] = word
        fleet = Fleet(place, redis.url, uuid.uuid4().hex, labels, key)
        with serving(place) as fleet.daemon:
            link = place.begin("link", "--json")
            link.line()
            yield fleet
            link.process.terminate()
            link.end()


def test_what_a_stolen_key_signed_comes_back_by_no_command_that_a_text_suggests(shared_redis: RedisServer) -> None:
    stolen, own = make_key(), make_key()
    past = ("--trust", stolen.public.text)
    with running_fleet(shared_redis, stolen) as fleet:
        for reason in ("one", "two"):
            fleet.push({"guards.py": guard("rm", reason)}, key=stolen)
        fleet.until("rm", "two")
        fleet.list_key(own)
        with new_place({}) as thief:
            (thief.folder / "evil").mkdir(mode=0o700)
            (thief.folder / "evil" / "guards.py").write_text(guard("rm", "evil").replace('"rm" in', '"never" in'))
            theirs = ("--to", fleet.url, "--fleet", fleet.name, "--key", write_key(thief.folder, stolen))
            assert thief.run("fleet", "push", str(thief.folder / "evil"), *theirs).returncode == 0
        fleet.push({"guards.py": guard("rm", "four")}, *past, key=own)
        fleet.until("rm", "four")

        said = fleet.run("rollback", key=own, code=66)
        assert f"passed over versions 1, 2, 3 of the key {stolen.public.id}" in said
        assert "--trust" in fleet.run("rollback", "2", key=own, code=66)
        assert f"the key {stolen.public.id}" in fleet.run("rollback", *past, key=own, code=66)
        for words in (("rollout", "3", "--percent", "100"), ("rollout", "2", "--steps", "50,100")):
            assert "not believed" in fleet.run(*words, *past, key=own, code=66)
        said = fleet.run("rollback", "3", *past, key=own, code=65)
        assert '+    if "never" in event' in said
        assert "version 3 was not signed again" in said
        assert "name the version twice" in fleet.run("rollback", "--resign", "3", *past, key=own, code=64)

        believed = [(one["version"], one["believed"], one["key"]) for one in fleet.json("history", *past)["versions"]]
        assert believed == [*((n, False, stolen.public.id) for n in (1, 2, 3)), (4, True, own.public.id)]
        assert f"{stolen.public.id} (not believed)" in fleet.place.run("fleet", "history", *past).stdout
        assert "four" in fleet.decide("rm")
        shown = fleet.place.run("fleet", "diff", "3", "4", *past)
        assert "no hook of version 3 is built" in shown.stderr
        fleet.run("rollback", "2", "--resign", "2", *past, key=own)
        fleet.until("rm", "two")


def test_a_push_for_a_label_adds_to_the_base_or_says_what_it_takes(shared_redis: RedisServer) -> None:
    key = make_key()
    with running_fleet(shared_redis, key, '"ci"') as fleet:
        fleet.push({"guards.py": guard("rm", "base")}, key=key)
        fleet.until("rm", "base")

        said = fleet.push({"guards.py": guard("curl", "ci")}, "--label", "ci", key=key, code=65)
        assert "this takes the hook no-rm from hosts labelled ci with version 1 (h1)" in said
        assert "--policy of its own" in said
        assert "--removes no-rm" in said
        fleet.push({"guards.py": guard("curl", "ci")}, "--label", "ci", "--policy", "ci", key=key)
        fleet.until("curl", "ci")
        assert "base" in fleet.decide("rm")
        fleet.push({"guards.py": guard("rm", "newer base")}, key=key)
        fleet.until("rm", "newer base")

        assert "ci" in fleet.decide("curl")
        fleet.until_reported({"ci": 2, "default": 3})
        assert "ci 2, default 3" in fleet.place.run("fleet", "status").stdout
        assert "say which policy with --policy; there are ci, default" in fleet.run("rollback", key=key, code=66)
        fleet.run("rollback", "--policy", "default", key=key)
        fleet.until("rm", "base")
        assert "ci" in fleet.decide("curl")
        fleet.push({"guards.py": guard("dd", "base")}, "--removes", "no-rm", key=key)
        fleet.until("dd", "base")
        assert fleet.decide("rm") == "passes"
        fleet.push({}, "--policy", "ci", "--label", "ci", "--allow-empty", key=key)
        fleet.until("curl", "passes")
        assert "base" in fleet.decide("dd")
