"""A settings file, read for a client: what comes back is registered as it is, and denies what it guards."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.daemons import Client, Daemon, RpcFailure
from support.shared_daemon import daemon_in_thread


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon of which each test changes its own sessions only."""
    with daemon_in_thread(tmp_path_factory.mktemp("d"), {}) as daemon:
        yield daemon


async def registered(daemon: Daemon, text: str) -> tuple[Client, dict[str, Any]]:
    """Open a session of Reasonix with the hooks of a settings file."""
    client = daemon.connect()
    await client.call("hello", protocol=1, dialect="reasonix", session={"cwd": str(daemon.folder)})
    data = base64.b64encode(text.encode()).decode()
    result = await client.call("settings", source="/h/settings.json", data=data, scope="global")
    answer = await client.call("register", hooks=result["hooks"], each=True)
    assert answer["refused"] == []
    return client, result


async def test_what_is_read_is_registered_and_runs_as_it_does_there(daemon: Daemon) -> None:
    text = json.dumps({"hooks": {"PreToolUse": [{"match": "sh.*", "command": "echo no >&2; exit $toolArgs2"}]}})
    client, _ = await registered(daemon, text.replace("$toolArgs2", "2"))
    denied = await client.fire("PreToolUse", toolName="shell", toolArgs={})
    passed = await client.fire("PreToolUse", toolName="read", toolArgs={})
    await client.aclose()
    client, _ = await registered(daemon, text.replace("$toolArgs2", "1"))
    warned = await client.fire("PreToolUse", toolName="shell", toolArgs={})
    await client.aclose()

    assert [one["rendered"]["decision"] for one in (denied, passed, warned)] == ["block", "pass", "warn"]
    assert denied["reason"] == "no"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"hooks": {"PreToolUse": [{"match": "shell", "comand": "exit 2"}]}}', ["block", "pass", "pass", "pass"]),
        ('{"hooks": {"Stop": [{"comand": "exit 2"}]}}', ["pass", "pass", "pass", "warn"]),
        ('{"Hooks": {"PreToolUse": [{"match": "shell", "command": "exit 2"}]}}', ["block", "block", "block", "pass"]),
        ("not JSON", ["block", "block", "block", "pass"]),
        ('{"theme": "dark"}', ["pass", "pass", "pass", "pass"]),
    ],
)
async def test_a_slip_denies_what_it_may_guard(daemon: Daemon, text: str, expected: list[str]) -> None:
    client, _ = await registered(daemon, text)
    fires: list[tuple[str, dict[str, Any]]] = [
        ("PreToolUse", {"toolName": "shell"}), ("PreToolUse", {"toolName": "read"}), ("UserPromptSubmit", {}),
        ("Stop", {}),
    ]  # fmt: skip

    decided = [await client.fire(event, **payload) for event, payload in fires]

    await client.aclose()
    assert [one["rendered"]["decision"] for one in decided] == expected


async def test_it_needs_a_hello_and_the_bytes_as_base64(daemon: Daemon) -> None:
    client = daemon.connect()
    with pytest.raises(RpcFailure, match="hello_required"):
        await client.call("settings", source="s", data="")
    await client.call("hello", protocol=1)

    with pytest.raises(RpcFailure, match="invalid_params"):
        await client.call("settings", source="s", data="{}")

    await client.aclose()
