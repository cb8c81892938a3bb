"""Personalities: named lists of plugins that a session may ask for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.daemons import Client, Daemon, RpcFailure, child_of, running_daemon
from support.packages import install
from support.shared_daemon import daemon_in_thread

CONFIG = """
[personality.strict]
plugins = ["p1", "p2"]

[personality.plain]
plugins = []
"""


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("packages")
    for name in ("p1", "p2", "p3"):
        install(folder, name, f"{name}_personal")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


@pytest.fixture(scope="module")
def shared(installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_in_thread(tmp_path_factory.mktemp("shared"), {"hooks.toml": CONFIG}) as daemon:
        yield daemon


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, {"hooks.toml": CONFIG}) as daemon:
        yield daemon


async def seen(client: Client) -> set[str]:
    return {hook["plugin"] for hook in (await client.call("hooks"))["hooks"]}


@pytest.mark.parametrize(
    ("params", "plugins"),
    [
        pytest.param({"personality": "strict"}, {"p1", "p2"}, id="ET-45 A lists it"),
        pytest.param({"personality": "plain"}, set(), id="ET-45 B does not"),
        pytest.param({"personality": "strict", "plugins": ["p2", "p3"]}, {"p2"}, id="the host's list narrows it"),
        pytest.param({"personality": None}, {"p1", "p2", "p3"}, id="null: none"),
    ],
)
async def test_a_personality_says_which_plugins_fire(shared: Daemon, params: dict[str, Any], plugins: set[str]) -> None:
    async with shared.session(**params) as client:
        assert await seen(client) == plugins


async def test_an_unknown_personality_is_refused_with_the_names(shared: Daemon) -> None:
    with pytest.raises(RpcFailure) as caught:
        async with shared.session(personality="strikt"):
            pass

    assert caught.value.name == "invalid_params"
    assert "there are plain, strict" in caught.value.message


async def test_a_session_changes_its_personality(shared: Daemon) -> None:
    async with shared.session(personality="plain") as client:
        await client.call("subscribe", topics=["registry"])

        updated = await client.call("session.update", personality="strict")

        assert await seen(client) == {"p1", "p2"}
        announced = await client.announcement()
        assert announced["revision"] == updated["revision"]
        assert "p1.no_bash" in announced["added"]


@asynccontextmanager
async def ethos(daemon: Daemon, **params: Any) -> AsyncGenerator[Client]:
    """Open a session of a dialect in which no list is a list of none."""
    client = daemon.connect()
    try:
        await client.call("hello", protocol=1, dialect="ethos", session=params)
        yield client
    finally:
        await client.aclose()


async def asked(client: Client, plugins: list[str] | None) -> list[str]:
    payload = {"toolName": "Write", "args": {}}
    decision = await client.call("fire", event="before_tool_call", payload=payload, plugins=plugins)
    return [outcome["hook"].partition(".")[0] for outcome in decision.get("outcomes", [])]


async def test_a_personality_that_is_taken_back_leaves_what_a_fresh_session_has(shared: Daemon) -> None:
    async with ethos(shared) as fresh, ethos(shared, personality="strict") as client, shared.session() as plain:
        assert (await seen(fresh), await seen(client)) == (set(), {"p1", "p2"})

        for said in ({"personality": None}, {"plugins": ["p3"]}, {"plugins": None}):
            for one in (client, plain):
                await one.call("session.update", **said)
            expected = set(said.get("plugins") or [])
            assert await seen(client) == expected
            assert await seen(plain) == (expected or {"p1", "p2", "p3"})


async def test_a_fires_list_stands_in_for_the_one_that_a_session_has_not(shared: Daemon) -> None:
    async with ethos(shared) as client:
        assert await asked(client, None) == []
        assert await asked(client, ["p3", "p1"]) == ["p1", "p3"]
        assert await seen(client) == set()  # of that fire alone

        await client.call("session.update", personality="plain")
        assert await asked(client, ["p1"]) == []
        await client.call("session.update", personality=None, plugins=["p2"])
        assert await asked(client, ["p1", "p2"]) == ["p2"]
        await client.call("session.update", plugins=None)
        assert await asked(client, ["p1", "p2"]) == ["p1", "p2"]


async def test_a_fires_list_leaves_a_parents_gates_and_what_is_global(daemon: Daemon) -> None:
    daemon.write("guards.py", "def f(event): pass\n")
    hook = {"id": "own", "event": "pre_tool_use", "run": f"{daemon.folder}/guards.py:f"}
    async with (
        daemon.administrator() as admin,
        daemon.session(id="above", plugins=["p2"], hooks=[{**hook, "id": "above"}]) as above,
        ethos(daemon, **child_of(above), hooks=[{**hook, "id": "listed", "plugin": "p1"}, hook]) as client,
    ):
        await admin.call("register", scope="global", hooks=[{**hook, "id": "global"}])

        assert await asked(client, None) == ["p2", "global", "above", "own"]
        assert await asked(client, []) == ["p2", "global", "above", "own"]
        assert await asked(client, ["p1"]) == ["p1", "p2", "global", "above", "listed", "own"]

        await admin.call("disable", id="p1")
        assert await asked(client, ["p1"]) == ["p2", "global", "above", "listed", "own"]


async def test_an_update_leaves_alone_what_it_does_not_name(shared: Daemon) -> None:
    async with shared.session(personality="strict") as client:
        await client.call("session.update", cwd="/")

        assert await seen(client) == {"p1", "p2"}


async def test_a_changed_personality_reaches_live_sessions(daemon: Daemon) -> None:
    async with daemon.session(personality="strict") as client, daemon.administrator() as admin:
        daemon.write("hooks.toml", CONFIG.replace('["p1", "p2"]', '["p3"]'))
        await admin.call("reload")

        assert await seen(client) == {"p3"}


async def test_a_personality_that_is_gone_stays_with_those_who_have_it(daemon: Daemon) -> None:
    async with daemon.session(personality="strict") as client, daemon.administrator() as admin:
        daemon.write("hooks.toml", "")
        await admin.call("reload")

        assert await seen(client) == {"p1", "p2"}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[personality.a]\nplugin = ["x"]\n', 2, "did you mean 'plugins'?"),
        ('\n[personality.a]\nplugins = "x"\n', 3, "plugins is a list of names"),
        ("personality = 1\n", 1, "write [personality.NAME]"),
    ],
)
async def test_a_bad_personality_is_a_diagnostic(daemon: Daemon, text: str, line: int, message: str) -> None:
    daemon.write("hooks.toml", text)

    async with daemon.administrator() as admin:
        (problem,) = (await admin.call("reload"))["diagnostics"]

    assert problem["line"] == line
    assert message in problem["message"]


async def test_only_the_main_file_may_hold_it(daemon: Daemon) -> None:
    daemon.write("hooks.d/more.toml", CONFIG)

    async with daemon.administrator() as admin:
        (problem,) = (await admin.call("reload"))["diagnostics"]

    assert "belongs in the user's main hooks.toml" in problem["message"]
