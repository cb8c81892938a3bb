"""A rollout beside a real daemon, a real link and a real engine: a guard that breaks there is stopped, and taken back.

Slow: the daemon, the link and the publisher are processes of their own.
"""

from __future__ import annotations

import json
import select
import threading

import pytest

from hooklatch import connect_sync
from hooklatch.fleet.signing import make_key
from support.commands import Daemon, Place, held_to_schema, new_place, serving
from support.redis_server import RedisServer, needs_redis
from support.survivors import nobody_survives

pytestmark = [pytest.mark.slow, needs_redis]
GUARD = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def no_rm(event):
    {body}
    return deny("the fleet says no")
"""
CASE = """
[[case]]
event = "pre_tool_use"
payload = { tool_name = "Bash", tool_input = { command = "a" } }
expect = "deny"
"""
BREAKS = 'assert "rm" not in event.tool_input["command"]'  # its author has no case for that


def pushed(place: Place, body: str, *words: str) -> tuple[int, str]:
    hooks = place.folder / "hooks"
    hooks.mkdir(mode=0o700, exist_ok=True)
    (hooks / "guards.py").write_text(GUARD.format(body=body))
    (hooks / "policy-tests.toml").write_text(CASE)
    done = place.run("fleet", "push", str(hooks), "--key", "fleet.key", *words)
    return done.returncode, done.stdout + done.stderr


def cause_of(daemon: Daemon) -> str | None:
    with connect_sync(daemon.ready["agent"]) as session:
        decision = session.fire("pre_tool_use", tool_name="Bash", tool_input={"command": "rm x"})
    return "crash" if decision.cause == "crash" else "fleet" if "the fleet says no" in (decision.reason or "") else None


def test_a_guard_that_breaks_on_a_host_stops_its_rollout_and_is_taken_back(shared_redis: RedisServer) -> None:
    key = make_key()
    config = f'[fleet]\nname = "real"\nurl = "{shared_redis.url}"\nhost = "web-1"\nkeys = ["{key.public.text}"]\n'
    with nobody_survives() as word, new_place({"hooks.toml": config}) as place:
        place.environment["HOOKLATCH_TEST_COOKIE"] = word
        (place.folder / "fleet.key").touch(mode=0o600)
        (place.folder / "fleet.key").write_text(key.text)
        with serving(place) as daemon:
            link = place.begin("link", "--json")
            assert held_to_schema(["link"], json.loads(link.line()))["host"] == "web-1"
            assert pushed(place, "pass")[0] == 0
            is_over = threading.Event()

            def work() -> None:
                while not is_over.wait(0.2):
                    cause_of(daemon)

            agent = threading.Thread(target=work)
            agent.start()
            try:
                bad = pushed(place, BREAKS, "--steps", "100", "--wait", "1", "--patience", "60", "--sample", "3")
            finally:
                is_over.set()
                agent.join()
            assert bad[0] == 1, bad
            assert "stopped at version" in bad[1]
            assert "(crash " in bad[1]
            assert cause_of(daemon) == "crash"

            assert place.run("fleet", "rollback", "--key", "fleet.key").returncode == 0
            while cause_of(daemon) != "fleet":
                select.select([], [], [], 0.05)
            link.process.terminate()
            link.end()
