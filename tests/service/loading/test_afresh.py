"""An explicit reload builds every source afresh, or one by its name, and says what it found, not what it assumed.

Slow as a whole: workers are started for each.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from support.daemons import Client, Daemon, RpcFailure, running_daemon

pytestmark = pytest.mark.slow

# What it reads at import is no module that it imports, so no digest shows that it has changed.
GUARD = """
import pathlib
from hooklatch_worker import deny, hook

WORD = (pathlib.Path(__file__).parent / "{data}").read_text()

@hook("pre_tool_use", match="{tool}")
def no(event):
    return deny(WORD) if WORD != "pass" else None
"""
CONFIG = '[[source]]\npath = "{}.py"\n'
FILES = {
    "hooks.toml": CONFIG.format("one") + CONFIG.format("two"),
    "one.py": GUARD.format(data="one.txt", tool="One"),
    "two.py": GUARD.format(data="two.txt", tool="Two"),
    "one.txt": "old",
    "two.txt": "old",
}


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, FILES) as daemon:
        yield daemon


async def reasons(client: Client) -> list[str | None]:
    return [(await client.fire_tool(tool))["reason"] for tool in ("One", "Two")]


def nothing_changed(answer: dict[str, Any]) -> bool:
    empty = not any(answer[key] for key in ("added", "removed", "changed", "accepted", "diagnostics"))
    return empty and answer["previous"] == answer["revision"]


async def test_a_plain_reload_builds_every_source_afresh(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        before = dict(daemon.parts.sources.units)
        for name in ("one.txt", "two.txt"):
            daemon.write(name, "new")
        await daemon.parts.reloader.reload()  # as the watch does
        watched = dict(daemon.parts.sources.units)
        await admin.call("reload")

        assert before == watched
        assert await reasons(client) == ["new", "new"]


@pytest.mark.parametrize("name", ["one:no", "global/one:no", "{folder}/one.py"])
async def test_a_reload_by_name_builds_that_source_alone(daemon: Daemon, name: str) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        before = dict(daemon.parts.sources.units)
        daemon.write("one.txt", "new")
        await admin.call("reload", id=name.format(folder=daemon.folder))
        after = daemon.parts.sources.units

        assert await reasons(client) == ["new", "old"]
        assert [place for place in after if after[place] is not before[place]] == [str(daemon.folder / "one.py")]


async def test_a_source_that_is_the_same_has_new_workers_and_changes_no_hook(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        before = await reasons(client), set(daemon.worker_pids)
        answers = [await admin.call("reload"), await admin.call("reload"), await admin.call("reload", id="one:no")]
        after = await reasons(client), set(daemon.worker_pids)
        sources = [one["source"] for one in (await admin.call("status"))["sources"]]
        noted = (await admin.call("log", kind="source"))["records"]

    assert all(map(nothing_changed, answers))
    assert before[0] == after[0] == ["old", "old"]
    assert not before[1] & after[1]
    assert sorted(sources) == [str(daemon.folder / "one.py"), str(daemon.folder / "two.py")]
    assert len([one for one in noted if one["kind_of_source"] == "file"]) == 2  # the versions are those of the start


async def test_a_fire_under_way_ends_on_the_workers_that_it_has_while_others_are_made(
    tmp_path: Path,
) -> None:
    waits = """
import os, time
from hooklatch_worker import deny, hook

@hook("pre_tool_use")
def no(event):
    while not os.path.exists(os.path.join(os.path.dirname(__file__), "go")):
        time.sleep(0.005)
    return deny(str(os.getpid()))
"""
    files = {"hooks.toml": CONFIG.format("one"), "one.py": waits}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client, daemon.administrator() as admin:
        pids = daemon.worker_pids
        number = await client.send("fire", event="pre_tool_use", payload={"tool_name": "Bash", "tool_input": {}})
        await admin.until_status(lambda status: any(one["busy"] for one in status["sources"]))
        answer = await admin.call("reload")
        daemon.write("go", "")
        first, second = await client.answer_to(number), await client.fire_tool("Bash")

    assert nothing_changed(answer)
    assert int(first["reason"]) in pids
    assert int(second["reason"]) not in pids


async def test_one_source_that_does_not_load_any_more_holds_no_other_up(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        daemon.write("two.txt", "new")
        (daemon.folder / "one.txt").unlink()
        answer = await admin.call("reload")

        assert await reasons(client) == ["old", "new"]
    (wrong,) = answer["diagnostics"]
    assert "FileNotFoundError" in wrong["message"]
    assert "the last good version stays active" in wrong["message"]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"id": "nobody"}, "there is no hook 'nobody'"),
        ({"id": "served"}, "is served by its client, so there is nothing to reload"),
        ({"id": "one:no", "accept_removed": True}, 'give an "id" or "accept_removed"'),
    ],
)
async def test_a_reload_that_means_nothing_is_refused(daemon: Daemon, params: dict[str, Any], text: str) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        await client.call("register", hooks=[{"id": "served", "event": "stop", "served": True}])
        with pytest.raises(RpcFailure) as failure:
            await admin.call("reload", **params)

    assert text in failure.value.message


async def test_what_is_quarantined_is_called_again_once_its_source_is_built_afresh(tmp_path: Path) -> None:
    dies = GUARD.replace("    return deny", '    if WORD == "old": __import__("os")._exit(1)\n    return deny')
    files = {**FILES, "one.py": dies.format(data="one.txt", tool="One")}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client, daemon.administrator() as admin:
        causes = [(await client.fire_tool("One"))["cause"] for _ in range(7)]
        daemon.write("one.txt", "new")
        await admin.call("reload", id="one:no")

        assert causes[-1] == "quarantined"
        assert (await reasons(client))[0] == "new"
