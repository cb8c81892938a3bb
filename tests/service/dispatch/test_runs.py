"""Several hooks of one source in a daemon: one worker runs them, and each is decided, counted and blamed as if alone.

Slow as a whole: each has a daemon and workers.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from support.daemons import Client, Daemon, running_daemon

pytestmark = pytest.mark.slow

NAMES = ["one", "two", "three", "four"]
SILENT = [(name, "answered", "policy") for name in NAMES]
HOOKS = """
import os, time
from hooklatch_worker import amend, append, context, deny, hook, warn
from hooklatch_worker.runtime import calls
calls.MAX_RUN_SECONDS = 60.0  # a busy machine ends no run

def act(event, name):
    with open(event.response["log"] if event.event == "post_model" else event.tool_input["log"], "a") as log:
        log.write(f"{name} {os.getpid()}\\n")
    value = event.response if event.event == "post_model" else event.tool_input
    match value.get(name):
        case "exit": os._exit(3)
        case "raise": raise ValueError("broken")
        case "hang": time.sleep(60)
        case "garbage": return 7
        case "deny": return deny("no")
        case "warn": return warn(f"{name} warns")
        case "append": return append(name)
        case "context": return context(by=name)
        case "amend": return amend(tool_input={**value, name: None})
"""
HOOK = """
@hook("pre_tool_use", id="{name}-gate", timeout={timeout})
@hook("post_model", id="{name}-result", timeout={timeout})
def {name}(event):
    return act(event, "{name}")
"""


def source() -> str:
    return HOOKS + "".join(HOOK.format(name=name, timeout=0.8 if name == "two" else 20.0) for name in NAMES)


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    config = '[[source]]\npath = "hooks.py"\n'
    async with running_daemon(tmp_path, {"hooks.toml": config, "hooks.py": source()}) as daemon:
        yield daemon


async def fired(daemon: Daemon, client: Client, event: str = "pre_tool_use", **says: str) -> dict[str, Any]:
    log = daemon.folder / "log"
    log.unlink(missing_ok=True)
    value = {"log": str(log), **says}
    key = "response" if event == "post_model" else "tool_input"
    return await client.fire(event, tool_name="Bash", **{key: value})


def ran(daemon: Daemon) -> tuple[list[str], int]:
    """Return who was called, and how many workers they had."""
    lines = [line.split() for line in (daemon.folder / "log").read_text().splitlines()]
    return [name for name, _ in lines], len({pid for _, pid in lines})


def name(hook: str) -> str:
    return hook.partition("-")[0]


def told(decision: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(name(one["hook"]), one["outcome"], one["cause"]) for one in decision["outcomes"]]


def decided(decision: dict[str, Any]) -> tuple[str, str | None, str]:
    return decision["verdict"], decision["cause"], name(decision["hook"] or "")


async def test_silent_hooks_of_a_source_have_one_worker(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decision = await fired(daemon, client)

    assert told(decision) == SILENT
    assert ran(daemon) == (NAMES, 1)
    assert 0 < sum(one["duration_ms"] for one in decision["outcomes"]) <= decision["duration_ms"] + 0.01


@pytest.mark.parametrize(("what", "cause"), [("exit", "crash"), ("raise", "crash"), ("garbage", "protocol")])
async def test_a_gate_is_denied_by_the_one_that_failed(daemon: Daemon, what: str, cause: str) -> None:
    async with daemon.session() as client:
        for at, failing in enumerate(NAMES):
            decision = await fired(daemon, client, **{failing: what})

            assert decided(decision) == ("deny", cause, failing)
            assert told(decision) == [*SILENT[:at], (failing, "failed", cause)]
            assert ran(daemon)[0] == NAMES[: at + 1]


async def test_a_gate_is_denied_by_the_one_whose_deadline_passed(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decision = await fired(daemon, client, two="hang")

    assert decided(decision) == ("deny", "timeout", "two")
    assert told(decision) == [("one", "answered", "policy"), ("two", "failed", "timeout")]
    assert ran(daemon)[0] == ["one", "two"]


@pytest.mark.parametrize("what", ["exit", "raise", "hang", "garbage"])
async def test_where_a_failure_passes_the_rest_still_runs(daemon: Daemon, what: str) -> None:
    async with daemon.session() as client:
        decision = await fired(daemon, client, "post_model", two=what)

    assert decision["verdict"] == "pass"
    assert [outcome for _, outcome, _ in told(decision)] == ["answered", "failed", "answered", "answered"]
    assert ran(daemon)[0] == NAMES


async def test_whoever_has_something_to_say_is_heard_by_those_after_it(daemon: Daemon) -> None:
    async with daemon.session() as client:
        warned = await fired(daemon, client, two="warn", three="context")
        assert ran(daemon)[0] == NAMES
        amended = await fired(daemon, client, two="amend")
        asked = ran(daemon)[0]
        denied = await fired(daemon, client, three="deny")

    assert (warned["verdict"], warned["warnings"], warned["context"]) == ("pass", ["two warns"], {"by": "three"})
    assert (amended["verdict"], asked) == ("pass", [*NAMES, "one"])  # the one that saw another payload is asked again
    assert amended["patch"]["tool_input"]["two"] is None
    assert (decided(denied), ran(daemon)[0]) == (("deny", "policy", "three"), NAMES[:3])


async def test_each_call_is_counted_for_its_hook(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for says in ({}, {"three": "raise"}, {"two": "exit"}):
            await fired(daemon, client, **says)

    timings = {one: daemon.parts.statistics.timings(f"global/{one}-gate@pre_tool_use") for one in NAMES}
    assert {name: one["count"] for name, one in timings.items()} == {"one": 3, "two": 3, "three": 2, "four": 1}
    assert {name: dict(one["failures"]) for name, one in timings.items() if one["failures"]} == {
        "two": {"crash": 1}, "three": {"crash": 1}
    }  # fmt: skip


async def test_one_that_keeps_ending_its_worker_is_quarantined_alone(daemon: Daemon) -> None:
    async with daemon.session() as client:
        decisions = [await fired(daemon, client, three="exit") for _ in range(7)]
        causes = [decision["cause"] for decision in decisions]
        after = await fired(daemon, client, "post_model", three="exit")

    assert [cause for cause, _ in itertools.groupby(causes)] == ["crash", "quarantined"]
    assert all(told(decision)[:2] == SILENT[:2] for decision in decisions)
    assert told(after)[2:] == [("three", "failed", "crash"), ("four", "answered", "policy")]
