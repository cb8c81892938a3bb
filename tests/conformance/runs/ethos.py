"""What Ethos's own cases come to here: the first of the checks, and what all of them use."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from conformance.rows.ethos import ROWS
from conformance.table import Checks
from hooklatch import Decision, Session, ToolRun, connect
from support.daemons import Daemon
from support.repository import ROOT

Check = Callable[[Daemon], Awaitable[None]]


CALLBACKS = Path(__file__).parents[1] / "callbacks"


PAGE = ROOT / "docs" / "project" / "coming-from-ethos.md"


CONFIG = """
[[event]]
name = "process_complete"
model = "notify"
fields = { processId = "str", exitCode = "int" }

[[event]]
name = "before_ticket_complete"
model = "gate"
verdicts = ["deny"]
fields = { summary = "str" }

[personality.A]
plugins = ["p1"]

[personality.researcher]
plugins = ["citations"]

[personality.B]
plugins = []
"""


CALL = {"toolName": "terminal", "args": {"command": "ls"}}


MESSAGE = {"platform": "telegram", "chatId": "c", "botKey": "b", "userId": "u", "text": "hi", "isDm": True}


check = Checks[Check](ROWS)


def hook(function: str, event: str = "before_tool_call", *, id: str | None = None, **rest: Any) -> dict[str, Any]:  # noqa: A002
    """A hook in a worker, registered as Ethos names things; what the rest is not, is its config."""
    plugin = {"pluginId": rest.pop("plugin")} if "plugin" in rest else {}
    return {"name": event, "run": f"ethos.py:{function}", "id": id or function, "config": rest, **plugin}


def speak(daemon: Daemon, *hooks: Any, **options: Any) -> Session:
    return connect(daemon.agent, dialect="ethos", cwd=daemon.folder, hooks=hooks, **options)


def plain(daemon: Daemon, *hooks: Any, **options: Any) -> Session:
    """A session in hooklatch's own words, for what a host does around a tool call."""
    return connect(daemon.agent, cwd=daemon.folder, hooks=[ours(table) for table in hooks], **options)


def ours(table: Any) -> Any:
    return {"event" if key == "name" else key: value for key, value in table.items()} if "name" in table else table


async def fire(daemon: Daemon, event: str, hooks: list[Any], payload: Any = None, **options: Any) -> Decision:
    async with speak(daemon, *hooks, **options) as session:
        return await session.fire(event, payload=payload or {})


def ran(decision: Decision) -> list[str]:
    return [outcome.hook for outcome in decision.outcomes]


@check("ET-01")
async def two_void_handlers(daemon: Daemon) -> None:
    decision = await fire(daemon, "agent_done", [hook("fine", "agent_done"), hook("tells", "agent_done")])

    assert (sorted(ran(decision)), decision.rendered) == (["fine", "tells"], None)


@check("ET-02")
async def a_void_handler_throws(daemon: Daemon) -> None:
    hooks = [hook("crash", "session_start"), hook("tells", "session_start")]
    decision = await fire(daemon, "session_start", hooks, {"platform": "cli"})

    assert (decision.verdict, decision.rendered) == ("pass", None)
    assert decision.context == {"told": {"platform": "cli"}}


@check("ET-03")
async def the_first_value_of_a_key_wins(daemon: Daemon) -> None:
    event = "before_prompt_build"
    first = hook("amends", event, id="1", prepend_system="first")
    second = hook("amends", event, id="2", prepend_system="second", append_system="appended")
    by_workers = await fire(daemon, event, [first, second])
    by_client = await fire(
        daemon,
        event,
        [
            (event, lambda _: {"prependSystem": "first", "appendSystem": None}, {"id": "1"}),
            (event, lambda _: {"prependSystem": "second", "appendSystem": "appended"}, {"id": "2"}),
        ],
    )

    assert by_workers.rendered == {"prependSystem": "first", "appendSystem": "appended"}
    assert by_client.rendered == by_workers.rendered


@check("ET-04")
async def the_first_claim_ends_the_chain(daemon: Daemon) -> None:
    hooks = [hook("claims", "inbound_claim"), hook("tells", "inbound_claim")]
    decision = await fire(daemon, "inbound_claim", hooks, {"message": MESSAGE})

    assert (decision.rendered, ran(decision)) == ({"handled": True}, ["claims"])


@check("ET-05")
async def a_plugin_is_unregistered(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        table = {"id": "a", "event": "stop", "plugin": "p9", "run": f"{daemon.folder}/ethos.py:tells"}
        await admin.call("register", scope="global", hooks=[table])
        try:
            before = await fire(daemon, "agent_done", [], plugins=["p9"])
            await admin.call("disable", id="p9")
            after = await fire(daemon, "agent_done", [], plugins=["p9"])
        finally:
            await admin.call("enable", id="p9")
            await admin.call("unregister", id="a")

    assert (ran(before), ran(after)) == (["a"], [])


def three_on(event: str) -> list[Any]:
    return [hook("tells", event, id="built-in")] + [hook("tells", event, id=p, plugin=p) for p in ("p1", "p2")]


def gated(*expected: str, plugins: list[str] | None = None) -> Check:
    """Which hooks run where a session has that list of plugins, where one fire has it, and where both have one."""

    async def fires(daemon: Daemon) -> None:
        hooks = three_on("agent_done")
        of_a_session = await fire(daemon, "agent_done", hooks, **({} if plugins is None else {"plugins": plugins}))
        async with speak(daemon, *hooks) as session:
            of_a_fire = await session.fire("agent_done", plugins=plugins)
        async with speak(daemon, *hooks, plugins=["p1", "p2"]) as session:
            of_both = await session.fire("agent_done", plugins=plugins or [])
        async with speak(daemon, *hooks, plugins=[]) as session:
            of_neither = await session.fire("agent_done", plugins=["p1", "p2"])

        assert sorted(ran(of_a_session)) == sorted(expected)
        assert sorted(ran(of_a_fire)) == sorted(expected)
        assert sorted(ran(of_both)) == sorted(expected)
        assert ran(of_neither) == ["built-in"]  # a fire's list widens nothing

    return fires


check |= {
    "ET-06": gated("built-in"),
    "ET-07": gated("built-in", plugins=[]),
    "ET-08": gated("built-in", "p1", plugins=["p1"]),
}


@check("ET-09")
async def a_plugin_throws(daemon: Daemon) -> None:
    hooks = [hook("crash", "agent_done", plugin="p1"), hook("tells", "agent_done")]
    decision = await fire(daemon, "agent_done", hooks, {"text": "done"}, plugins=["p1"])

    assert (decision.verdict, decision.context) == ("pass", {"told": {"last_assistant_message": "done"}})


def amending(expected: dict[str, str], *hooks: Any, plugins: list[str]) -> Check:
    async def amends(daemon: Daemon) -> None:
        assert (await fire(daemon, "before_prompt_build", list(hooks), plugins=plugins)).rendered == expected

    return amends


BUILD = "before_prompt_build"


check |= {
    "ET-10": amending(
        {"prependSystem": "built-in"},
        hook("amends", BUILD, id="a", prepend_system="built-in"),
        hook("amends", BUILD, id="b", plugin="p1", append_system="plugin"),
        plugins=[],
    ),
    "ET-11": amending(
        {"appendSystem": "plugin"},
        hook("amends", BUILD, id="a", plugin="p1", append_system="plugin"),
        hook("amends", BUILD, id="b", plugin="p2", append_system="other"),
        plugins=["p1"],
    ),
}


def claiming(plugins: list[str], *, is_claimed: bool) -> Check:
    async def claims(daemon: Daemon) -> None:
        hooks = [hook("claims", "inbound_claim", plugin="p1")]
        decision = await fire(daemon, "inbound_claim", hooks, {"message": MESSAGE}, plugins=plugins)

        assert (decision.rendered["handled"], bool(ran(decision))) == (is_claimed, is_claimed)

    return claims


check |= {"ET-12": claiming([], is_claimed=False), "ET-13": claiming(["p1"], is_claimed=True)}


@check("ET-43", "ET-44")
async def a_plugins_hook_and_its_clean_up(daemon: Daemon) -> None:
    told: list[Any] = []
    options = {"id": "mine", "pluginId": "p1", "model": "void"}
    async with speak(daemon, plugins=["p1"]) as session:
        (registration,) = await session.register_all(
            [("agent_done", lambda event: told.append(event.payload), options)]
        )
        await session.fire("agent_done", text="one", turnCount=1)
        await registration.unregister()
        await session.fire("agent_done", text="two", turnCount=2)

    assert told == [{"text": "one", "turnCount": 1}]


@check("ET-45")
async def two_personalities(daemon: Daemon) -> None:
    hooks = [hook("tells", "agent_done", plugin="p1")]
    decisions = [await fire(daemon, "agent_done", hooks, personality=name) for name in "AB"]

    assert [ran(decision) for decision in decisions] == [["tells"], []]


@contextmanager
def notices() -> Iterator[list[str]]:
    """Yield what the client has logged meanwhile."""
    found: list[str] = []
    ear = logging.Handler(logging.WARNING)
    ear.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("hooklatch.client")
    logger.addHandler(ear)
    try:
        yield found
    finally:
        logger.removeHandler(ear)


async def run(session: Session, tool: str = "terminal", command: str = "ls", **options: Any) -> ToolRun:
    return await session.run_tool(tool, {"command": command}, lambda _: "done", tool_use_id="t-1", **options)


@check("ET-14")
async def gated_without_a_handler(daemon: Daemon) -> None:
    decision = await fire(daemon, "before_tool_call", [], CALL, require_handlers=["before_tool_call"])

    assert decision.cause == "load"
    assert "requires a hook for pre_tool_use" in decision.rendered["error"]


@check("ET-15")
async def gated_with_a_handler(daemon: Daemon) -> None:
    decision = await fire(daemon, "before_tool_call", [hook("fine")], CALL, require_handlers=["before_tool_call"])

    assert decision.rendered == {}


@check("ET-16", "ET-17")
async def ungated(daemon: Daemon) -> None:
    with notices() as said:
        async with plain(daemon, ungated="a test of nothing else") as session:
            await run(session)
            await run(session)

    (notice,) = said
    assert "no gate is required" in notice
    assert notice.endswith("a test of nothing else")


@check("ET-18")
async def three_denials(daemon: Daemon) -> None:
    async with plain(daemon, hook("no", "pre_tool_use"), denial_breaker=3) as session:
        runs = [await run(session) for _ in range(3)]

    assert [one.halt for one in runs] == [False, False, True]
    assert runs[-1].halt_reason == "3 refusals in a row"
    assert runs[-1].as_tool_result()["is_error"] is True


@check("ET-19")
async def two_denials_and_a_success(daemon: Daemon) -> None:
    async with plain(daemon, hook("guards_the_terminal", "pre_tool_use"), denial_breaker=3) as session:
        commands = ["rm -rf a", "rm -rf b", "ls", "rm -rf c", "rm -rf d"]
        runs = [await run(session, command=command) for command in commands]

    assert [one.allowed for one in runs] == [False, False, True, False, False]
    assert [one.halt for one in runs] == [False] * 5


@check("ET-20", "ET-24", "ET-25")
async def a_denied_call(daemon: Daemon) -> None:
    called: list[object] = []
    async with plain(daemon, hook("no", "pre_tool_use")) as session:
        refused = await session.run_tool("terminal", {"command": "ls"}, called.append, tool_use_id="t-1")

    assert (refused.allowed, refused.is_error, called) == (False, True, [])
    assert refused.as_tool_result() == {
        "type": "tool_result", "tool_use_id": "t-1", "content": "blocked by policy", "is_error": True,
    }  # fmt: skip


@check("ET-21")
async def rejections_of_the_host(daemon: Daemon) -> None:
    async with plain(daemon, hook("fine", "pre_tool_use"), denial_breaker=3) as session:
        runs = [await run(session, permission=lambda _: "not on this server") for _ in range(4)]

    assert [(one.allowed, one.halt) for one in runs] == [(False, False)] * 4
    assert runs[0].content == "not on this server"


@check("ET-22")
async def a_script_calls_a_tool(daemon: Daemon) -> None:
    async with everywhere(daemon, hook("no", "pre_tool_use")), plain(daemon) as session:
        by_model = await run(session, "write_file")
        script = daemon.connect()  # its first request is a fire: no session, answered and closed
        by_script = await script.fire_tool("write_file", command="ls")
        await script.aclose()

    assert (by_model.decision.reason, by_model.decision.verdict) == (by_script["reason"], by_script["verdict"])
    assert by_script["reason"] == "blocked by policy"


@asynccontextmanager
async def everywhere(daemon: Daemon, *hooks: dict[str, Any]) -> AsyncGenerator[None]:
    """Register global hooks, and take them out again."""
    async with daemon.administrator() as admin:
        tables = [ours(table) | {"run": f"{daemon.folder}/{table['run']}"} for table in hooks]
        await admin.call("register", scope="global", hooks=tables)
        try:
            yield
        finally:
            for table in tables:
                await admin.call("unregister", id=table["id"])


@check("ET-26")
async def a_claim_with_a_reply(daemon: Daemon) -> None:
    hooks = [hook("claims", "before_dispatch", reply="not now")]
    by_worker = await fire(daemon, "before_dispatch", hooks, MESSAGE)
    served = ("before_dispatch", lambda _: {"handled": True, "reply": "not now"}, {"id": "served"})
    by_client = await fire(daemon, "before_dispatch", [served], MESSAGE)

    assert by_worker.rendered == {"handled": True, "reply": "not now"}
    assert by_client.rendered == by_worker.rendered


@check("ET-28")
async def a_claim_without_a_reply(daemon: Daemon) -> None:
    assert (await fire(daemon, "before_dispatch", [hook("claims", "before_dispatch")], MESSAGE)).rendered == {
        "handled": True
    }


@check("ET-29")
async def an_unclaimed_message(daemon: Daemon) -> None:
    served = ("before_dispatch", lambda _: {"handled": False}, {"id": "served"})
    hooks = [hook("fine", "before_dispatch"), served]
    decision = await fire(daemon, "before_dispatch", hooks, MESSAGE)

    assert (decision.rendered, ran(decision)) == ({"handled": False}, ["fine", "served"])
