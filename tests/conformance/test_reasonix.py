"""Reasonix's own cases on a real daemon: what its four-event line states (RX).  The Go line is beside it."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest

from conformance.native import Place, open_session
from conformance.rows.reasonix import ROWS
from conformance.runs.reasonix import EDIT, run, settings
from conformance.table import Checks, span, with_checks
from hooklatch import paths
from hooklatch.importing import UnreadableFileError, read_hooks
from support.daemons import RpcFailure

PARTS = ("test_reasonix", "test_reasonix_go", "test_reasonix_claude")
check = Checks(ROWS)


def decisions(answer: dict[str, Any]) -> list[str]:
    return [outcome["decision"] for outcome in answer["outcomes"]]


# -- where hooks come from ----------------------------------------------------------------------------------------


@check("RX-01", "RX-30")
async def no_hooks(place: Place) -> None:
    async with place.session("reasonix") as client:
        answer = await client.render("PreToolUse", toolName="shell", toolArgs={})
        assert await client.hook_ids() == []

    assert (answer["decision"], answer["outcomes"]) == ("pass", [])


@check("RX-02")
async def scopes_in_order(place: Place) -> None:
    hook = '[[hook]]\nid = "{}"\nevent = "stop"\ncommand = "true"\n'
    project = place.write("repo/.hooklatch/hooks.toml", hook.format("p")).parent.parent
    files = {"hooks.toml": hook.format("g1") + hook.format("g2")}

    async with place.own_daemon(files) as daemon, daemon.administrator() as admin:
        await admin.call("trust", folder=str(project))
        async with open_session(daemon.agent, "reasonix", cwd=str(project)) as client:
            answer = await client.render("Stop")

    ran = [f"{outcome['hook']['scope']}:{outcome['hook']['id']}" for outcome in answer["outcomes"]]
    assert ran == ["project:p", "global:g1", "global:g2"]


@check("RX-03")
async def bad_entries_stand_and_deny(place: Place) -> None:
    entries = [{"command": "true"}, {"command": ""}, {"match": "x"}, {"command": 42}]
    text = json.dumps({"hooks": {"Stop": entries, "PreToolUse": entries}})

    async with place.own_daemon({"hooks.d/settings.json": text}) as daemon, daemon.session() as client:
        denied = await client.fire_tool("shell")
        stopped = await client.fire("stop")
        status = await client.call("status")

    assert (denied["verdict"], denied["cause"]) == ("deny", "load")
    assert stopped["verdict"] == "pass"
    assert (status["health"], len(status["problems"])) == ("red", 6)


@check("RX-04")
async def malformed_settings(place: Place) -> None:
    with pytest.raises(UnreadableFileError, match=r"settings.json:1: not JSON"):
        read_hooks("settings.json", b"{ not valid json")

    async with place.own_daemon({"hooks.toml": "{ not valid"}) as daemon, daemon.session() as client:
        denied = await client.fire_tool("shell")
        passed = await client.fire("stop")

    assert (denied["verdict"], denied["cause"], "hooks.toml:1" in denied["reason"]) == ("deny", "load", True)
    assert passed["verdict"] == "pass"


@check("RX-05")
async def no_project_without_a_folder(place: Place) -> None:
    place.write(".hooklatch/hooks.toml", '[[hook]]\nid = "p"\nevent = "stop"\ncommand = "exit 2"\n')

    async with place.session("reasonix", cwd=None) as client:
        assert await client.hook_ids() == []


@check("RX-06")
async def files_of_its_own(place: Place) -> None:
    place.write(".reasonix/settings.json", json.dumps({"hooks": {"PreToolUse": [{"command": "exit 2"}]}}))

    async with place.session("reasonix") as client:
        answer = await client.render("PreToolUse", toolName="shell", toolArgs={})

    assert answer["decision"] == "pass"
    assert paths.find_config_file(None, {"HOME": "/home/me"}) == "/home/me/.config/hooklatch/hooks.toml"


# -- matching -----------------------------------------------------------------------------------------------------


async def fires(place: Place, event: str, match: str | None, tool: str) -> bool:
    entry = {"command": "true"} | ({} if match is None else {"match": match})
    payload = {"prompt": tool} if event == "UserPromptSubmit" else {"toolName": tool, "toolArgs": {}}
    imported = await run(place, event, entry, **payload)
    async with place.session("reasonix", {"hooks": {event: [entry]}}) as client:
        registered = await client.render(event, **payload)
    assert len(imported["outcomes"]) == len(registered["outcomes"])
    return bool(registered["outcomes"])


@check("RX-07")
async def matches_all(place: Place) -> None:
    assert [await fires(place, "PreToolUse", match, "any_tool") for match in (None, "", "*")] == [True] * 3


@check("RX-08")
async def anchored(place: Place) -> None:
    tools = ("edit_file", "write_file", "read_file")

    assert [await fires(place, "PreToolUse", "edit_file|write_file", tool) for tool in tools] == [True, True, False]
    assert not await fires(place, "PreToolUse", "file", "edit_file")


@check("RX-09")
async def malformed_matcher(place: Place) -> None:
    entry = {"match": "[unclosed", "command": "exit 2"}
    read = read_hooks("settings.json", json.dumps({"hooks": {"PreToolUse": [entry]}}).encode())
    hook = '[[hook]]\nid = "typo"\nevent = "pre_tool_use"\nmatch = {regex = "[unclosed"}\ncommand = "exit 0"\n'

    async with place.session("reasonix") as client:
        with pytest.raises(RpcFailure, match="unclosed"):
            await client.call("register", hooks=[{"hooks": {"PreToolUse": [entry]}}])
    async with place.own_daemon({"hooks.toml": hook}) as daemon, daemon.session() as client:
        denied = await client.fire_tool("any_tool")
        status = await client.call("status")

    assert [imported.problem is not None for imported in read.hooks] == [True]
    assert (denied["verdict"], denied["cause"], status["health"]) == ("deny", "load", "red")
    assert "hooks.toml:1" in denied["reason"]
    assert "hooklatch hooks disable global/typo" in denied["reason"]


@check("RX-10")
async def matcher_elsewhere(place: Place) -> None:
    assert await fires(place, "UserPromptSubmit", "never", "hello")


# -- outcomes -----------------------------------------------------------------------------------------------------


def outcome_of(event: str, expected: str, **entry: object) -> Any:
    async def holds(place: Place) -> None:
        answer = await run(place, event, entry)
        assert (answer["decision"], decisions(answer)) == (expected, [expected])
        assert answer["blocked"] == (expected == "block")

    return holds


check("RX-11")(outcome_of("PreToolUse", "pass", command="exit 0"))
check("RX-12")(outcome_of("PreToolUse", "block", command="exit 2"))
check("RX-13")(outcome_of("PostToolUse", "warn", command="exit 2"))


@check("RX-14")
async def other_codes_warn(place: Place) -> None:
    await outcome_of("PreToolUse", "warn", command="exit 1")(place)
    await outcome_of("Stop", "warn", command="exit 127")(place)


@check("RX-15")
async def timed_out(place: Place) -> None:
    await outcome_of("PreToolUse", "block", command="sleep 30", timeout=200)(place)
    await outcome_of("Stop", "warn", command="sleep 30", timeout=200)(place)


@check("RX-16")
async def cannot_start(place: Place) -> None:
    for entry in ({"command": "true", "cwd": "/nowhere"}, {"command": "exit 127"}, {"command": "kill -9 $$"}):
        await outcome_of("PreToolUse", "block", **entry)(place)
        await outcome_of("Stop", "warn", **entry)(place)


# -- a chain ------------------------------------------------------------------------------------------------------


@check("RX-17")
async def only_what_matches(place: Place) -> None:
    tools = [{"match": tool, "command": f"touch {tool}"} for tool in ("write_file", "edit_file")]

    async with place.session("reasonix", *settings(Stop=[{"command": "touch stop"}], PreToolUse=tools)) as client:
        answer = await client.render("PreToolUse", toolName="edit_file", toolArgs={})

    assert (answer["blocked"], decisions(answer)) == (False, ["pass"])
    assert [path.name for path in place.folder.iterdir()] == ["edit_file"]


@check("RX-18")
async def block_ends(place: Place) -> None:
    hooks = [{"command": "true"}, {"command": "echo denied >&2; exit 2"}, {"command": "touch third"}]
    answer = await run(place, "PreToolUse", *hooks)

    assert (answer["blocked"], answer["stderr"], decisions(answer)) == (True, "denied", ["pass", "block"])
    assert not (place.folder / "third").exists()


@check("RX-19")
async def warning_goes_on(place: Place) -> None:
    answer = await run(place, "PreToolUse", {"command": "exit 1"}, {"command": "exit 0"})

    assert (answer["blocked"], decisions(answer)) == (False, ["warn", "pass"])


# -- what a command gets ------------------------------------------------------------------------------------------


@check("RX-20")
async def standard_input(place: Place) -> None:
    await run(place, "PreToolUse", {"command": "cat > seen"}, toolName="edit_file", toolArgs={"path": "a.ts"})

    text = (place.folder / "seen").read_text()
    read = json.loads(text)
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    assert (read["event"], read["toolName"], read["toolArgs"]) == ("PreToolUse", "edit_file", {"path": "a.ts"})
    assert read["cwd"] == str(place.folder)


@check("RX-21", "RX-34")
async def folders(place: Place) -> None:
    payloads, other = str(place.write("payloads/file", "").parent), str(place.write("other/file", "").parent)
    hooks = [{"command": "pwd"}, {"command": "pwd", "cwd": other}]
    sessions = await run(place, "PostToolUse", *hooks)
    stated = await run(place, "PostToolUse", *hooks, cwd=payloads)
    merging = place.write("payloads/.git/MERGE_HEAD", "").parents[1]
    guard = {"command": "test -f .git/MERGE_HEAD && exit 2"}
    blocked = await run(place, "PreToolUse", guard, cwd=str(merging), toolName="shell", toolArgs={})

    assert [outcome["stdout"].strip() for outcome in sessions["outcomes"]] == [str(place.folder), other]
    assert [outcome["stdout"].strip() for outcome in stated["outcomes"]] == [payloads, other]
    assert blocked["blocked"]


@check("RX-22")
async def default_timeouts(place: Place) -> None:
    async with place.session("reasonix", {"hooks": {"PreToolUse": [{"command": "true"}]}}) as client:
        budgets = {event["name"]: event["budget"] for event in (await client.call("events"))["events"]}

    assert (budgets["PreToolUse"], budgets["Stop"]) == (5.0, 30.0)


@check("RX-23")
async def own_timeout(place: Place) -> None:
    entry = {"command": "true", "timeout": 999}
    both = [*settings(Stop=[entry]), {"hooks": {"Stop": [entry]}}]

    async with place.session("reasonix", *both) as client:
        listed = await client.call("hooks")

    assert [hook["timeout"] for hook in listed["hooks"]] == [0.999, 0.999]


@check("RX-33")
async def no_folder(place: Place) -> None:
    async with place.session("reasonix", *settings(Stop=[{"command": "pwd"}]), cwd=None) as client:
        answer = await client.render("Stop")

    assert answer["outcomes"][0]["stdout"] == "/\n"


# -- what people are shown ----------------------------------------------------------------------------------------


async def shown(place: Place, command: str) -> dict[str, Any]:
    """Fire PostToolUse with a hook that was registered in Reasonix's words, and is called by its command."""
    async with place.session("reasonix", {"hooks": {"PostToolUse": [{"command": command}]}}) as client:
        answer: dict[str, Any] = await client.render("PostToolUse", **EDIT)
        return answer


@check("RX-24")
async def pass_is_silent(place: Place) -> None:
    assert (await shown(place, "echo hi"))["message"] == ""


@check("RX-25")
async def warning_is_whole(place: Place) -> None:
    message = (await shown(place, "echo hi; echo careful >&2; exit 2"))["message"]

    for part in ("session/PostToolUse", "echo hi", "warn", "careful"):
        assert part in message


@check("RX-26")
async def command_is_cut(place: Place) -> None:
    message = (await shown(place, "exit 2 # " + "x" * 200))["message"]

    name = ("exit 2 # " + "x" * 200)[:60]
    assert f"{name}…" in message
    assert f"{name}x" not in message


@check("RX-27", "RX-28")
async def output_is_cut(place: Place) -> None:
    answer = await shown(place, "head -c 300000 /dev/zero | tr '\\0' x >&2; exit 2")

    assert answer["outcomes"][0]["truncated"] is True
    assert "(output truncated at 256KB)" in answer["message"]


@check("RX-29")
async def output_is_whole(place: Place) -> None:
    answer = await shown(place, "echo careful >&2; exit 2")

    assert "truncated" not in answer["outcomes"][0]
    assert "truncated" not in answer["message"]


# -- in a loop ----------------------------------------------------------------------------------------------------


@check("RX-31")
async def given_hooks(place: Place) -> None:
    async with place.session("reasonix", *settings(Stop=[{"command": "true"}, {"command": "false"}])) as client:
        first, second = await client.hook_ids()

    assert first.startswith("Stop:true:")
    assert second.startswith("Stop:false:")


@check("RX-32")
async def exchanged_hooks(place: Place) -> None:
    async with place.session("reasonix", *settings(PreToolUse=[{"command": "exit 2"}])) as client:
        blocked = await client.render("PreToolUse", toolName="shell", toolArgs={})
        (name,) = await client.hook_ids()
        await client.call("register", hooks=[{**settings(PreToolUse=[{"command": "exit 0"}])[0], "id": name}])
        passed = await client.render("PreToolUse", toolName="shell", toolArgs={})
        await client.call("unregister", id=name)
        empty = await client.render("PreToolUse", toolName="shell", toolArgs={})

    assert [answer["decision"] for answer in (blocked, passed, empty)] == ["block", "pass", "pass"]
    assert empty["outcomes"] == []


@check("RX-35")
async def turn_without_tools(place: Place) -> None:
    async with place.session("reasonix", *settings(PreToolUse=[{"command": "touch ran; exit 1"}])) as client:
        prompt = await client.render("UserPromptSubmit", prompt="hello", turn=1)
        stop = await client.render("Stop", lastAssistantText="hi", turn=1)

    assert (prompt["message"], stop["message"], list(place.folder.iterdir())) == ("", "", [])


@pytest.mark.parametrize("holds", check.cases())
async def test_a_row_of_the_four_event_line(holds: Any, place: Place) -> None:
    await holds(place)


def test_every_case_has_one_row_and_every_row_a_check() -> None:
    parts = [import_module(f"conformance.{name}") for name in PARTS]
    checked = [row_id for part in parts for row_id in part.check.ids]

    assert [row.id for row in ROWS] == [*span("RX", 1, 35), *span("RG", 1, 35)]
    assert sorted(checked) == sorted(row.id for row in with_checks(ROWS))
