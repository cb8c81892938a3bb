"""Each guard that a page shows answers in each way in which the pages try one: a session, one fire, an agent, `dev`.

A tool's input is given in an agent's own words, without those that an adapter adds: what an example reads is there.
Slow: each example has a daemon and workers of its own, and a command.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import new_place
from support.daemons import Daemon, running_daemon
from test_docs import blocks

pytestmark = pytest.mark.slow

TOOLS = (
    {"tool_name": "Bash", "tool_input": {"command": "ls -l"}},
    {"tool_name": "Bash", "tool_input": {"command": "git push --force origin main"}},
    {"tool_name": "Write", "tool_input": {"file_path": "notes.md", "content": "x"}},
    {"tool_name": "Edit", "tool_input": {"file_path": "notes.md", "old_string": "x", "new_string": "y"}},
    {"tool_name": "WebFetch", "tool_input": {"url": "https://example.org", "prompt": "x"}},
    {"tool_name": "mcp__memory__read", "tool_input": {"key": "x"}},
    {"tool_name": "their_own", "tool_input": {"text": "x"}},
)
CLAUDE = {"pre_tool_use": "PreToolUse", "post_tool_use": "PostToolUse"}
FILES = {"rules.json": '{"never": []}'}  # that an example names


def failures(decision: dict[str, Any]) -> list[str]:
    """Return what a decision says of hooks that did not answer."""
    outcomes = [one for one in decision.get("outcomes", ()) if one["outcome"] in ("failed", "dropped")]
    return [f"{decision['event']}: {one}" for one in outcomes]


async def fire_each_way(daemon: Daemon, event: str, payload: dict[str, Any]) -> list[str]:
    folder = str(daemon.folder)
    envelope = {"cwd": folder, "session_id": "tried"}
    document = {"hook_event_name": CLAUDE[event], **envelope, **payload}
    once, agent = daemon.connect(), daemon.connect()
    async with daemon.session(cwd=folder) as client, once.stream, agent.stream:
        found = failures(await client.fire(event, **payload))
        found += failures(await once.call("fire", event=event, payload=payload, envelope=envelope))
        answer = json.dumps(await agent.call("host", host="claude-code", event=CLAUDE[event], document=document))
    return found + [answer for word in ("crash", "failed") if word in answer]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in blocks("python") if "@hook" in text])
async def test_an_example_answers_in_each_way(text: str, tmp_path: Path) -> None:
    files = {"hooks.toml": '[[source]]\npath = "example.py"\n', "example.py": text, **FILES}
    found: list[str] = []
    async with running_daemon(tmp_path, files) as daemon:
        events = {hook.event for hook in daemon.parts.registries.view.hooks}
        for event in sorted(events & CLAUDE.keys()):
            for payload in TOOLS:
                found += await fire_each_way(daemon, event, payload)

    assert found == []


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in blocks("python") if "@hook" in text])
def test_an_example_answers_under_dev(text: str) -> None:
    with new_place({"example.py": text, **FILES}) as place:
        done = place.run("dev", str(place.config.parent / "example.py"), "--once", "--json")

    decisions = [json.loads(line)["decision"] for line in done.stdout.splitlines()]
    assert decisions, done.stderr
    assert [failure for decision in decisions for failure in failures(decision)] == []
