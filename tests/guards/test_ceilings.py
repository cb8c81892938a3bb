"""The guard of ceilings in real workers: whose calls, minutes, tokens and repeats it counts, and over a restart."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.guards.catalogue import read_guard_source
from support.daemons import Daemon, running_daemon

pytestmark = pytest.mark.slow  # each runs a daemon
KEPT = "[state]\nkept = true\n"


def guard(**numbers: float | None) -> dict[str, str]:
    """Return the files of a daemon with this guard and no ceilings but these."""
    text = re.sub(r"^(\w+)(: \w+ \| None) = [\d._]+", r"\1\2 = None", read_guard_source("ceilings"), flags=re.MULTILINE)
    for name, number in numbers.items():
        text, count = re.subn(rf"^{name}(:[^=]*)? = .*", f"{name} = {number}", text, flags=re.MULTILINE)
        assert count == 1, name
    return {"hooks.d/ceilings.py": text, "hooks.toml": KEPT}


async def call(daemon: Daemon, session: str = "s", *, agent: str | None = None, path: str = "a") -> dict[str, Any]:
    client = daemon.connect()
    envelope = {"session_id": session, **({"agent_id": agent} if agent else {})}
    payload = {"tool_name": "Read", "tool_input": {"file_path": path}}
    decision = await client.call("fire", event="pre_tool_use", payload=payload, envelope=envelope)
    await client.aclose()
    return decision


async def spend(daemon: Daemon, tokens: int) -> None:
    """Tell the daemon as Codex does that a response took so many tokens, of which all but ten come from a cache."""
    usage = {
        "input_tokens": tokens - 5, "cached_input_tokens": tokens - 10, "cache_write_input_tokens": 0,
        "output_tokens": 5, "reasoning_output_tokens": 0, "total_tokens": tokens,
    }  # fmt: skip
    await tell_codex_usage(daemon, usage)


async def tell_codex_usage(daemon: Daemon, usage: object) -> None:
    document = {
        "session_id": "s", "turn_id": "t", "cwd": "/", "model": "m", "hook_event_name": "PostModelRequest",
        "status": "completed", "error": None, "token_usage": usage,
    }  # fmt: skip
    client = daemon.connect()
    await client.call("host", host="codex", event="PostModelRequest", environ={}, document=document)
    while daemon.parts.dispatcher._background_count:  # noqa: ASYNC110  (it is answered before it is counted)
        await trio.sleep(0.01)
    await client.aclose()


def verdicts(decisions: Sequence[dict[str, Any]]) -> list[str]:
    return [decision["verdict"] for decision in decisions]


async def test_calls_are_counted_by_session_agent_and_day(tmp_path: Path) -> None:
    files = guard(CALLS=4, CALLS_OF_AN_AGENT=2, CALLS_A_DAY=5)

    async with running_daemon(tmp_path, files) as daemon:
        of_agent = [await call(daemon, agent="a", path=str(n)) for n in range(3)]
        of_session = [await call(daemon, path=str(n)) for n in range(2)]
        of_day = [await call(daemon, "other", path=str(n)) for n in range(2)]

    assert verdicts(of_agent) == ["pass", "pass", "deny"]
    assert "2 tool calls for an agent" in of_agent[2]["reason"]
    assert verdicts(of_session) == ["pass", "deny"]
    assert "4 tool calls for a session" in of_session[1]["reason"]
    assert verdicts(of_day) == ["pass", "deny"]
    assert "5 tool calls for a day" in of_day[1]["reason"]


async def test_the_same_call_again_and_again_is_refused_and_another_is_not(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, guard(REPEATS=3)) as daemon:
        same = [await call(daemon, path="a") for _ in range(5)]
        other = [
            await call(daemon, path="b"),
            await call(daemon, agent="x", path="a"),
            await call(daemon, "s2", path="a"),
        ]

    assert verdicts(same) == ["pass", "pass", "pass", "deny", "deny"]
    assert "3 times in 10 minutes" in same[3]["reason"]
    assert verdicts(other) == ["pass", "pass", "pass"]


async def test_minutes_of_work_are_counted_and_long_pauses_are_not(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, guard(MINUTES=0.0)) as daemon:
        working = [await call(daemon) for _ in range(2)]
    async with running_daemon(tmp_path / "paused", guard(MINUTES=0.0, PAUSE=0)) as daemon:
        paused = [await call(daemon) for _ in range(3)]

    assert verdicts(working) == ["pass", "deny"]
    assert "minutes for a session" in working[1]["reason"]
    assert verdicts(paused) == ["pass", "pass", "pass"]


async def test_the_tokens_of_claude_codes_sub_agents_count_for_them_and_for_the_session(tmp_path: Path) -> None:
    main = tmp_path / "projects/p/s.jsonl"
    file = tmp_path / "projects/p/s/subagents/agent-a1.jsonl"
    file.parent.mkdir(parents=True)

    async def tell(daemon: Daemon, event: str, agent: str | None, name: str, tokens: int) -> str:
        """Have a transcript grow by one response, and tell the daemon as Claude Code does."""
        entry = {"agentId": agent, "message": {"id": name, "model": "m", "usage": {"output_tokens": tokens}}}
        with (main if agent is None else file).open("a") as grown:
            grown.write(json.dumps(entry) + "\n")
        main.touch()
        envelope = {"session_id": "s", "host": "claude-code", **({"agent_id": agent} if agent else {})}
        payload = {"tool_name": "Read", "tool_input": {"file_path": name}, "transcript_path": str(main)}
        client = daemon.connect()
        decision = await client.call("fire", event=event, payload=payload, envelope=envelope)
        await client.aclose()
        return str(decision["verdict"])

    async with running_daemon(tmp_path, guard(TOKENS=3000, TOKENS_OF_AN_AGENT=1000)) as daemon:
        came = [
            await tell(daemon, "pre_tool_use", None, "m1", 1200),
            await tell(daemon, "pre_tool_use", "a1", "m2", 500),
            await tell(daemon, "pre_tool_use", "a1", "m3", 600),
            await tell(daemon, "subagent_stop", "a1", "m4", 600),
            await tell(daemon, "pre_tool_use", None, "m5", 50),
            await tell(daemon, "pre_tool_use", None, "m6", 60),
        ]

    assert came == ["pass", "pass", "deny", "pass", "pass", "deny"]


async def test_a_transcript_with_what_is_not_a_count_denies_until_it_is_repaired(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    lines = [
        json.dumps({"message": {"id": f"m{number}", "usage": {"output_tokens": tokens}}})
        for number, tokens in enumerate(["many", 900])
    ]

    async def ask(daemon: Daemon, *written: str) -> str:
        file.write_text("".join(f"{line}\n" for line in written))
        payload = {"tool_name": "Read", "tool_input": {"file_path": "a"}, "transcript_path": str(file)}
        client = daemon.connect()
        envelope = {"session_id": "s", "host": "claude-code"}
        decision = await client.call("fire", event="pre_tool_use", payload=payload, envelope=envelope)
        await client.aclose()
        return str(decision["verdict"])

    async with running_daemon(tmp_path, guard(TOKENS=1000)) as daemon:
        came = [
            await ask(daemon, lines[0]),
            await ask(daemon, *lines),
            await ask(daemon, lines[1]),
            await ask(daemon, lines[1], lines[1].replace("m1", "m2")),
        ]

    assert came == ["deny", "deny", "pass", "deny"]


async def test_the_tokens_of_codex_count_once_and_outlive_the_daemon(tmp_path: Path) -> None:
    files = guard(TOKENS=2500)

    async with running_daemon(tmp_path, files) as daemon:
        await spend(daemon, 1000)
        await spend(daemon, 1000)
        before = await call(daemon)
    async with running_daemon(tmp_path, files) as daemon:
        await spend(daemon, 499)
        under = await call(daemon, path="b")
        await spend(daemon, 10)
        after = await call(daemon, path="c")

    assert verdicts([before, under, after]) == ["pass", "pass", "deny"]
    assert "2,500 tokens for a session" in after["reason"]


@pytest.mark.parametrize(
    "usage",
    [{"input": 5, "output": 5}, {"prompt_tokens": 5.0}, {"usage": {"output_tokens": 5}}, [], {"output_tokens": "5"}],
    ids=str,
)
async def test_tokens_in_words_that_are_not_known_end_the_calls(tmp_path: Path, usage: object) -> None:
    async with running_daemon(tmp_path, guard(TOKENS=2500)) as daemon:
        await tell_codex_usage(daemon, {"output_tokens": 5, "service_tier": "default"})
        await tell_codex_usage(daemon, {})
        before = await call(daemon)
        await tell_codex_usage(daemon, usage)
        after = await call(daemon, path="b")

    assert verdicts([before, after]) == ["pass", "deny"]
    assert "unknown what was spent" in after["reason"]
