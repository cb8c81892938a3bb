"""Radium's own cases on a real daemon: definitions, where they are read from, and what is accepted (RD)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.native import Place, open_session
from conformance.rows.radium import ROWS
from conformance.runs.radium import KINDS, MODEL, good, hook, results, run, stopped
from conformance.table import Checks
from hooklatch.dialects.radium import RADIUM
from hooklatch.importing import UnreadableFileError, read_hooks
from hooklatch.importing.writing import write_toml
from support.daemons import RpcFailure

check = Checks(ROWS)
STOP = '[[hook]]\nid = "{}"\nevent = "pre_tool_use"\ncommand = "echo stopped >&2; exit 2"\n'
LOG = '[[hook]]\nid = "{}"\nevent = "error_log"\ncommand = "true"\n'
WHOLE = """
[[hooks]]
name = "my-hook"
type = "before_model"
priority = 150
enabled = true
script = "echo stopped >&2; exit 2"

[hooks.config]
log_level = "info"
"""


@pytest.fixture
def place(agent: str, tmp_path: Path, radium_hooks: str) -> Place:
    return Place(agent, tmp_path, radium_hooks)


def read(text: str) -> Any:
    return read_hooks("hooks.toml", text.encode())


def lines(text: str, *, without: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(without))


async def refused(place: Place, match: str, **settings: Any) -> None:
    """Register a definition over the socket, in Radium's words, and see it refused."""
    table = {key: value for key, value in {**hook(place, "succeed"), **settings}.items() if value is not None}
    async with place.session("radium") as client:
        with pytest.raises(RpcFailure, match=match):
            await client.call("register", hooks=[table])
        assert await client.hook_ids() == []


# -- one definition -----------------------------------------------------------------------------------------------


@check("RD-23")
async def no_type(place: Place) -> None:
    await refused(place, "invalid_params", type=None)

    assert read(lines(WHOLE, without="type")).has_losses


@check("RD-26")
async def good_file(place: Place) -> None:
    imported = read(WHOLE)

    assert (imported.kind, imported.has_losses) == ("radium", False)
    (found,) = imported.hooks
    assert found.settings["event"] == "pre_model"
    assert (found.settings["priority"], found.settings["config"]) == (150, {"log_level": "info"})


@check("RD-27")
async def no_toml(place: Place) -> None:
    with pytest.raises(UnreadableFileError, match=r"hooks.toml:\d: not TOML"):
        read("[[hooks]\nname = ")


@check("RD-34")
async def empty_name(place: Place) -> None:
    await refused(place, "id is one line", name="")

    assert read(WHOLE.replace("my-hook", "")).has_losses


@check("RD-35", "RD-36")
async def unknown_type(place: Place) -> None:
    for kind in ("", "invalid_type"):
        await refused(place, "radium has no event", type=kind)
        assert read(WHOLE.replace("before_model", kind)).has_losses


@check("RD-37")
async def no_target(place: Place) -> None:
    files = {"hooks.toml": '[[hook]]\nid = "x"\nevent = "pre_model"\n'}
    async with place.own_daemon(files) as daemon, daemon.session() as client:
        status = await client.call("status")
    table = {"name": "mine", "type": "before_model"}
    async with place.session("radium", table, mine=lambda _: stopped("by the client")) as client:
        answered = await run(client, "before_model")

    assert "needs one target" in str(status["problems"])
    assert read(lines(WHOLE, without="script")).has_losses
    assert answered == [stopped("by the client")]


@check("RD-38", "RD-91")
async def script(place: Place) -> None:
    await refused(place, "Radium never runs it", script="hooks/test.rs")

    definitions = [imported.settings for imported in read(WHOLE).hooks]
    async with place.session("radium", *definitions) as client:
        assert await run(client, "before_model") == [stopped("stopped")]


@check("RD-39")
async def config(place: Place) -> None:
    configured = hook(place, "configured", "before_model", config={"log_level": "info"})

    assert await results(place, "before_model", configured) == [stopped("info")]


@check("RD-40")
async def all_types(place: Place) -> None:
    spelled = {alias: name for name, event in RADIUM.events.items() for alias in event.aliases}
    assert spelled.keys() == KINDS.keys()

    for alias, name in spelled.items():
        async with place.session("radium", hook(place, "succeed", alias)) as client:
            assert await run(client, name, **KINDS[alias]) == await run(client, alias) == [good()]


@check("RD-41")
async def defaults(place: Place) -> None:
    async with place.session("radium", hook(place, "succeed", name="fresh")) as client:
        (before,) = (await client.call("hooks"))["hooks"]
        await run(client)
        (after,) = (await client.call("hooks"))["hooks"]

    assert (before["enabled"], before["priority"]) == (True, 100)
    assert after["timings"]["count"] == before["timings"]["count"] + 1


# -- files --------------------------------------------------------------------------------------------------------


@check("RD-28")
async def from_a_file(place: Place) -> None:
    text = write_toml(read(WHOLE), origin="hooks.toml", stem="radium")

    async with place.own_daemon({"hooks.d/radium.toml": text}) as daemon, daemon.session() as client:
        denied = await client.fire("pre_model", **MODEL)

    assert (denied["verdict"], denied["reason"]) == ("deny", "stopped")


@check("RD-29", "RD-42", "RD-44")
async def no_file(place: Place) -> None:
    async with place.own_daemon({"hooks.d/README": ""}) as daemon, daemon.session() as client:
        assert (await client.call("hooks"))["hooks"] == []
        assert (await client.call("status"))["health"] == "green"
        assert (await client.fire_tool("any"))["verdict"] == "pass"


@check("RD-30", "RD-31")
async def kept_in_its_own_state(place: Place) -> None:
    stop = {"id": "kept", "event": "pre_tool_use", "command": "exit 2"}

    async with place.own_daemon({"hooks.toml": ""}) as daemon, daemon.administrator() as admin:
        await admin.call("register", scope="global", hooks=[stop])
        assert (daemon.folder / "hooks.toml").read_text() == ""
        assert (daemon.folder / "state").is_dir()
    async with place.own_daemon({}) as daemon, daemon.session() as client:
        assert (await client.fire_tool("any"))["verdict"] == "deny"


@check("RD-32", "RD-33", "RD-49")
async def switched(place: Place) -> None:
    disabled = STOP.format("off") + "enabled = false\n"
    files = {"hooks.toml": STOP.format("on") + disabled}
    async with place.own_daemon(files) as daemon, daemon.administrator() as admin, daemon.session() as client:
        before = await client.fire_tool("any")
        await admin.call("disable", id="on", scope="global")
        await admin.call("reload")
        states = {hook["id"]: hook["enabled"] for hook in (await admin.call("hooks"))["hooks"]}
        after = await client.fire_tool("any")
        with pytest.raises(RpcFailure, match="not_found"):
            await admin.call("enable", id="unknown", scope="global")

    assert (before["hook"], after["verdict"]) == ("on", "pass")
    assert states == {"on": False, "off": False}


@check("RD-43")
async def broken_among_good(place: Place) -> None:
    files = {"hooks.d/a.toml": "invalid toml [", "hooks.d/b.toml": LOG.format("log")}

    async with place.own_daemon(files) as daemon, daemon.session() as client:
        denied = await client.fire_tool("any")
        logged = await client.fire("error_log", error_type="x", message="m")

    assert (denied["verdict"], denied["cause"], "a.toml:1" in denied["reason"]) == ("deny", "load", True)
    assert [outcome["hook"] for outcome in logged["outcomes"]] == ["log"]


@check("RD-45", "RD-50")
async def discovered(place: Place) -> None:
    marked = 'from hooklatch import hook\n\n@hook("error_log")\ndef log(event):\n    pass\n'
    files = {"hooks.d/a.toml": LOG.format("one") + LOG.format("two"), "hooks.d/b.py": marked}

    async with place.own_daemon(files) as daemon, daemon.session() as client:
        assert [hook["id"] for hook in (await client.call("hooks"))["hooks"]] == ["one", "two", "b:log"]


@check("RD-46")
async def function_that_is_missing(place: Place) -> None:
    table = '[[hook]]\nid = "guard"\nevent = "pre_tool_use"\nrun = "hooks.py:missing"\n'
    files = {"hooks.toml": table, "hooks.py": "def present(event):\n    pass\n"}

    async with place.own_daemon(files) as daemon, daemon.session() as client:
        denied = await client.fire_tool("any")

    assert (denied["verdict"], denied["cause"]) == ("deny", "load")


@check("RD-48", "RD-52")
async def function_that_is_named(place: Place) -> None:
    await refused(place, "load_failed.*has no function 'missing'", run=f"{place.hooks_file}:missing")

    async with place.session("radium") as client:
        assert (await client.call("register", hooks=[hook(place, "succeed")]))["ids"] == ["succeed"]


@check("RD-51")
async def workspace(place: Place) -> None:
    project = place.write("repo/.hooklatch/hooks.toml", STOP.format("project")).parent.parent
    place.write("repo/.radium/hooks.toml", WHOLE)

    async with (
        place.own_daemon({}) as daemon,
        daemon.administrator() as admin,
        open_session(daemon.agent, "radium", cwd=str(project)) as client,
    ):
        untrusted = [await run(client, kind) for kind in ("before_tool", "before_model")]
        await admin.call("trust", folder=str(project))
        trusted = [await run(client, kind) for kind in ("before_tool", "before_model")]

    assert untrusted == [[], []]
    assert trusted == [[stopped("stopped")], []]


@pytest.mark.parametrize("holds", check.cases())
async def test_a_row_of_definitions(holds: Any, place: Place) -> None:
    await holds(place)
