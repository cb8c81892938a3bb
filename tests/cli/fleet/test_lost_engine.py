"""An engine that lost its versions, beside a real daemon and link: one command mends it, and no host needs a hand.

Slow: the daemon, the link and the publisher are processes of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from hooklatch import paths
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.signing import make_key
from support.commands import Place, new_place, serving
from support.redis_server import RedisServer, needs_redis, redis_server
from support.survivors import nobody_survives

pytestmark = [pytest.mark.slow, needs_redis]
FLEET, PATIENCE = "acme", 60.0
GUARD = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def no_word(event):
    return deny("the fleet says {text}") if "{word}" in event.tool_input["command"] else None
"""


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@contextmanager
def host_of(server: RedisServer) -> Generator[Place]:
    """Run a daemon and its link on a machine that publishes too."""
    key = make_key()
    config = (
        f'[fleet]\nname = "{FLEET}"\nurl = "{server.url}"\nhost = "web-1"\nkeys = ["{key.public.text}"]\n'
        'max_staleness = "4s"\nreconnect = "100ms"\n'
    )
    with nobody_survives() as word, new_place({"hooks.toml": config}) as place:
        place.environment["HOOKLATCH_TEST_COOKIE"] = word
        (place.folder / "fleet.key").touch(mode=0o600)
        (place.folder / "fleet.key").write_text(key.text)
        with serving(place):
            link = place.begin("link")
            link.line()
            yield place
            link.process.terminate()
            link.end()


def push(place: Place, text: str, *words: str, guarded: str = "a") -> tuple[int, str]:
    """Push a policy; return the exit code and what was said."""
    hooks = place.folder / "hooks"
    hooks.mkdir(mode=0o700, exist_ok=True)
    (hooks / "guards.py").write_text(GUARD.format(text=text, word=guarded))
    done = place.run("fleet", "push", str(hooks), "--key", "fleet.key", "--allow-dirty", "--message", text, *words)
    return done.returncode, done.stdout + done.stderr


def until(ask: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (answer := ask()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)
    return answer


def says(place: Place, text: str) -> bool:
    return f"the fleet says {text}" in place.fire_tool("Bash", command="a").stdout


def status_of(place: Place) -> dict[str, Any]:
    return json.loads(place.run("status", "--json").stdout)["fleet"]


def fault_of(place: Place) -> str | None:
    engine = status_of(place)["engine"]
    return engine["kind"] if engine is not None else None


def put_first(server: RedisServer, count: int) -> None:
    """Have the engine hold only its first versions: it was restored from an old copy."""

    async def work() -> None:
        async with open_engine(server.url, FLEET) as engine:
            kept = (await engine.versions(0))[:count]
            server.command("DEL", f"hooklatch:{FLEET}:policy")
            for number, data in kept:
                await engine.commit(number, data)

    trio.run(work)


def newest(server: RedisServer) -> int:
    async def ask() -> int:
        async with open_engine(server.url, FLEET) as engine:
            return await engine.newest_version()

    return trio.run(ask)


def test_one_command_puts_an_engine_right_and_a_reset_brings_nothing_weaker(server: RedisServer) -> None:
    with host_of(server) as place:
        assert push(place, "weak", guarded="not this")[0] == 0
        assert push(place, "strict")[0] == 0
        until(lambda: says(place, "strict"))

        # -- all is gone
        server.command("FLUSHALL")
        code, text = push(place, "more")
        assert code == 65
        assert "newest version is 0, but this machine has read version 2" in text
        assert "by one command" in text
        assert "hooklatch fleet restore" in text
        until(lambda: fault_of(place) == "behind")
        assert place.run("health").stdout.startswith("red: fleet")
        assert "the fleet's engine: the engine is behind" in place.run("status").stdout
        assert place.json("fleet", "restore") == {
            "version": 2, "versions": [1, 2], "bundles": 2, "key_sets": [], "findings": [],
        }  # fmt: skip
        until(lambda: fault_of(place) is None)
        assert push(place, "more")[0] == 0
        until(lambda: says(place, "more"))

        # -- an old copy of it is restored, and somebody resets the host
        put_first(server, 1)
        until(lambda: fault_of(place) == "behind")
        assert place.run("fleet", "reset", "--reason", "the engine was restored").returncode == 0
        status = until(lambda: (fleet := status_of(place))["head"]["version"] == 1 and fleet)
        assert (status["applied"]["version"], status["floor"]["version"]) == (3, 3)
        until(lambda: "version 3 was in force here: versions were lost" in place.run("status").stdout)
        until(lambda: fault_of(place) == "behind")
        assert says(place, "more")

        # -- mended from the copy of a host, as of another machine
        of_host = os.path.join(paths.state_dir(place.environment), "fleet")
        shutil.copytree(of_host, place.folder / "copied")
        done = place.run("fleet", "restore", "--from", "copied")
        assert (done.returncode, newest(server)) == (0, 3), done.stderr
        until(lambda: fault_of(place) is None and status_of(place)["head"]["version"] == 3)
        assert push(place, "last")[0] == 0
        until(lambda: says(place, "last"))
        assert fault_of(place) is None


def test_what_no_machine_has_any_more_is_given_up_for_all_hosts_by_one_push(server: RedisServer) -> None:
    with host_of(server) as place:
        for text in ("one", "two", "three"):
            assert push(place, text)[0] == 0
        until(lambda: says(place, "three"))
        refused = push(place, "four", "--give-up", "3")
        assert (refused[0], "so there is nothing to give up" in refused[1]) == (65, True)
        put_first(server, 1)

        assert push(place, "anew")[0] == 65
        done = push(place, "anew", "--give-up", "3")

        assert done[0] == 0, done[1]
        assert "all hosts give up version 3" in done[1]
        until(lambda: says(place, "anew"))
        until(lambda: fault_of(place) is None)
        versions = place.json("fleet", "history")["versions"]
        assert [(one["version"], one["gives_up"] and one["gives_up"]["version"]) for one in versions] == [
            (1, None), (2, 3), (3, 3), (4, 3),
        ]  # fmt: skip
        assert status_of(place)["applied"]["version"] == 4
