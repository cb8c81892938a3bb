"""Fires of callbacks that misbehave, one event of each model at once, and what comes of the next good ones."""

from __future__ import annotations

from typing import Any

import trio

from support.daemons import Daemon, callbacks

MATCH_FIELDS = {
    "pre_tool_use": "tool_name",
    "notification": "notification_type",
    "post_model": "model_id",
    "message_claim": "platform",
}
WELL_KINDS = {"hang": "sync", "trio-hang": "trio", "asyncio-hang": "asyncio"}  # of those that hang
PASS = {"verdict": "pass", "cause": None, "patch": None, "value": None}


def files_of(*names: str) -> dict[str, str]:
    """Return the files of a daemon with these sources of callbacks."""
    sources = "".join(f'[[source]]\npath = "{name}"\nworkers = 6\n\n' for name in names)
    return {"hooks.toml": f"{sources}[workers]\nmemory_mib = 128\n", **{name: callbacks(name) for name in names}}


async def fire_all(daemon: Daemon, kind: str, how: str) -> dict[str, dict[str, Any]]:
    """Fire one event of each model at the same time, each on a connection of its own."""
    decisions: dict[str, dict[str, Any]] = {}

    async def fire(event: str) -> None:
        client = daemon.connect()
        try:
            payload = {MATCH_FIELDS[event]: kind, "how": how, "tool_input": {"command": "ls"}, "response": "was",
                       "meeting": str(daemon.folder / "meeting")}  # fmt: skip
            decisions[event] = await client.fire(event, **payload)
        finally:
            await client.aclose()

    async with trio.open_nursery() as nursery:
        for event in MATCH_FIELDS:
            nursery.start_soon(fire, event)
    return decisions


def assert_well(decisions: dict[str, dict[str, Any]]) -> None:
    """Assert that each event was answered as the callback meant it."""
    gate = decisions["pre_tool_use"]
    assert (gate["verdict"], gate["cause"], gate["reason"]) == ("deny", "policy", "well")
    assert decisions["notification"]["inject"] == [{"role": "user", "content": "well"}]
    assert decisions["post_model"]["patch"] == {"response": "well"}
    assert (decisions["message_claim"]["verdict"], decisions["message_claim"]["value"]) == ("claim", "well")


def assert_failed(decisions: dict[str, dict[str, Any]], cause: str) -> None:
    """Assert that the gate denied for `cause`, and that the others went on as if the hook were not there."""
    gate = decisions.pop("pre_tool_use")
    assert (gate["verdict"], gate["cause"], gate["layer"]) == ("deny", cause, "global"), gate
    assert gate["hook"].startswith("misbehaving")
    assert gate["hook"] in gate["reason"]
    for decision in decisions.values():
        assert {key: decision[key] for key in PASS} == PASS, decision
        assert [(one["outcome"], one["cause"]) for one in decision["outcomes"]] == [("failed", cause)], decision


async def try_on(daemon: Daemon, kind: str, how: str) -> tuple[dict[str, Any], dict[str, Any], float]:
    """Fire a misbehaviour, then something good; give both sets of decisions, and the seconds that the first took."""
    good, well_kind = "well" if kind in ("sync", "hang") else "denies_async", WELL_KINDS.get(kind, kind)
    if kind != well_kind:  # a deadline counts the start of a worker too: have one for each event before
        assert_well(await fire_all(daemon, well_kind, "meets_the_others"))
    started = trio.current_time()
    decisions = await fire_all(daemon, kind, how)
    elapsed = trio.current_time() - started
    after = await fire_all(daemon, well_kind, good)
    return decisions, after, elapsed
