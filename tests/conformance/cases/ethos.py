"""The rows of Ethos that its own registry shows, through the TypeScript client.  Plain data.

The sessions are opened with ids, a folder and plugins unlike those that rows name.
"""

from __future__ import annotations

from typing import Any, Final

from conformance.driving import ABSENT, Case, Command, Step, has, part, step

__all__ = ["CASES", "FILES", "LANGUAGE", "WIRE", "opening"]

LANGUAGE: Final = "typescript"
FILES: Final[dict[str, str]] = {
    "hooks.toml": '[personality.A]\nplugins = ["p1"]\n\n[personality.B]\nplugins = []\n',
}

BUILD = ["before_prompt_build", {"sessionId": "s-9", "history": []}]
DONE = {"sessionId": "s-9", "text": "done", "turnCount": 3}
CALL = {"sessionId": "s-9", "toolCallId": "t-1", "toolName": "terminal", "args": {"command": "ls"}}
INBOUND = {"platform": "telegram", "chatId": "c-1", "text": "hello"}
MESSAGE = {
    "platform": "telegram",
    "chatId": "c-1",
    "botKey": "b-1",
    "userId": "u-1",
    "text": "hello",
    "isDm": True,
}
REQUEST = "3f6c1b2e-8d0a-4a53-9a67-1f0d5b0a9c11"
FULL = {"system": "be brief", "tools": [{"name": "terminal"}], "messages": [{"role": "user", "content": "hi"}]}


def opening(path: str, folder: str) -> list[Command]:
    """Return the commands that open a session at a socket, in a folder unlike those that the rows name."""
    return [{"do": "open", "path": path, "dialect": "ethos", "cwd": folder, "session_id": None}]


def native(call: str, **others: Any) -> Command:
    return {"do": "native", "call": call, **others}


def on(model: str, point: str, *options: Any, **does: Any) -> Step:
    """Register a handler; `named` is what `called` knows it by."""
    named = does.pop("named", "handler")
    return step(
        native(f"register{model}", arguments=[point, *options], handler=does, **{"as": named}), gives="a function"
    )


def fired(model: str, point: str, payload: Any, *plugins: Any, gives: Any) -> Step:
    return step(native(f"fire{model}", arguments=[point, payload, *plugins]), gives=gives)


def called(named: str, *payloads: Any) -> Step:
    return step(native("called", **{"as": named}), gives=list(payloads))


def case(*steps: Step, **options: Any) -> Case:
    return Case(steps, options)


def plugin(name: str) -> dict[str, str]:
    return {"pluginId": name}


def three_on(point: str) -> list[Step]:
    """Register a built-in handler, and one of each of two plugins."""
    return [
        on("Void", point, named="built-in"),
        on("Void", point, plugin("p1"), named="p1"),
        on("Void", point, plugin("p2"), named="p2"),
    ]


def gated(*plugins: Any, ran: list[str]) -> Case:
    """Show which handlers run where a fire has that list of plugins."""
    steps = [called(name, *([DONE] if name in ran else [])) for name in ("built-in", "p1", "p2")]
    return case(*three_on("agent_done"), fired("Void", "agent_done", DONE, *plugins, gives=None), *steps)


def approval(answer: Any, gives: Any) -> Case:
    """Show a person's answer, for which a handler waits as Ethos' own does."""
    return case(
        on("Modifying", "before_tool_call", wait="the person", answer=answer),
        step(native("begin", of="fireModifying", arguments=["before_tool_call", CALL], **{"as": "call"})),
        step(native("until", waits="the person")),
        step(native("release", named="the person")),
        step(native("end", **{"as": "call"}), gives=gives),
    )


def shown(point: str, payload: dict[str, Any]) -> Case:
    """Show that a handler gets exactly what was fired, with a key that nobody knows."""
    payload = {**payload, "more": {"$date": "2026-01-31T12:00:00.000Z"}}
    return case(on("Void", point), fired("Void", point, payload, gives=None), called("handler", payload))


CASES: Final[dict[str, Case]] = {
    "ET-01": case(
        on("Void", "agent_done", named="one"),
        on("Void", "agent_done", named="other"),
        fired("Void", "agent_done", DONE, gives=None),
        called("one", DONE),
        called("other", DONE),
    ),
    "ET-02": case(
        on("Void", "session_start", **{"raise": "kaputt"}),
        on("Void", "session_start", named="other"),
        fired("Void", "session_start", {"sessionId": "s-9", "platform": "cli"}, gives=None),
        called("other", {"sessionId": "s-9", "platform": "cli"}),
    ),
    "ET-03": case(
        on("Modifying", BUILD[0], answer={"prependSystem": "first", "appendSystem": None}),
        on("Modifying", BUILD[0], answer={"prependSystem": "second", "appendSystem": "appended"}),
        fired("Modifying", *BUILD, gives={"prependSystem": "first", "appendSystem": "appended"}),
    ),
    "ET-04": case(
        on("Claiming", "inbound_claim", answer={"handled": True}, named="claims"),
        on("Claiming", "inbound_claim", answer={"handled": True}, named="spy"),
        fired("Claiming", "inbound_claim", {"message": INBOUND}, gives={"handled": True}),
        called("claims", {"message": INBOUND}),
        called("spy"),
    ),
    "ET-05": case(
        *three_on("agent_done"),
        step(native("unregisterPlugin", arguments=["p1"])),
        fired("Void", "agent_done", DONE, ["p1", "p2"], gives=None),
        called("built-in", DONE),
        called("p1"),
        called("p2", DONE),
    ),
    "ET-06": gated(ran=["built-in"]),
    "ET-07": gated([], ran=["built-in"]),
    "ET-08": gated(["p1"], ran=["built-in", "p1"]),
    "ET-09": case(
        on("Void", "agent_done", plugin("p1"), **{"raise": "kaputt"}),
        on("Void", "agent_done", named="built-in"),
        fired("Void", "agent_done", DONE, ["p1"], gives=None),
        called("built-in", DONE),
    ),
    "ET-10": case(
        on("Modifying", BUILD[0], answer={"prependSystem": "built-in"}),
        on("Modifying", BUILD[0], plugin("p1"), answer={"appendSystem": "plugin"}),
        fired("Modifying", *BUILD, [], gives={"prependSystem": "built-in"}),
    ),
    "ET-11": case(
        on("Modifying", BUILD[0], plugin("p1"), answer={"appendSystem": "plugin"}),
        on("Modifying", BUILD[0], plugin("p2"), answer={"appendSystem": "other"}),
        fired("Modifying", *BUILD, ["p1"], gives={"appendSystem": "plugin"}),
    ),
    "ET-12": case(
        on("Claiming", "inbound_claim", plugin("p1"), answer={"handled": True}),
        fired("Claiming", "inbound_claim", {"message": INBOUND}, [], gives={"handled": False}),
        called("handler"),
    ),
    "ET-13": case(
        on("Claiming", "inbound_claim", plugin("p1"), answer={"handled": True}),
        fired("Claiming", "inbound_claim", {"message": INBOUND}, ["p1"], gives={"handled": True}),
    ),
    "ET-14": case(
        fired("Modifying", "before_tool_call", CALL, gives={"error": has("requires a hook for pre_tool_use")}),
        require_handlers=["before_tool_call"],
    ),
    "ET-15": case(
        on("Modifying", "before_tool_call", answer=None),
        fired("Modifying", "before_tool_call", CALL, gives={}),
        require_handlers=["before_tool_call"],
    ),
    "ET-20": case(
        on("Modifying", "before_tool_call", answer={"error": "blocked by policy"}),
        fired("Modifying", "before_tool_call", CALL, gives=part(error=has("blocked by policy"), args=ABSENT)),
    ),
    "ET-22": case(
        on("Modifying", "before_tool_call", answer={"error": "no writing"}),
        fired("Modifying", "before_tool_call", {**CALL, "toolName": "write_file"}, gives={"error": "no writing"}),
        fired(
            "Modifying",
            "before_tool_call",
            {"toolName": "write_file", "args": {}, "by": "script"},
            gives={"error": "no writing"},
        ),
    ),
    "ET-25": case(
        on("Modifying", "before_tool_call", answer={"error": "blocked by policy"}),
        fired("Modifying", "before_tool_call", CALL, gives={"error": "blocked by policy"}),
    ),
    "ET-26": case(
        on("Claiming", "before_dispatch", answer={"handled": True, "reply": "not now"}),
        fired("Claiming", "before_dispatch", MESSAGE, gives={"handled": True, "reply": "not now"}),
    ),
    "ET-28": case(
        on("Claiming", "before_dispatch", answer={"handled": True}),
        fired("Claiming", "before_dispatch", MESSAGE, gives={"handled": True}),
    ),
    "ET-29": case(
        on("Claiming", "before_dispatch", answer={"handled": False}),
        fired("Claiming", "before_dispatch", MESSAGE, gives={"handled": False}),
    ),
    "ET-30": case(fired("Claiming", "before_dispatch", MESSAGE, gives={"handled": False})),
    "ET-31": case(
        on("Claiming", "before_dispatch", answer={"handled": False}),
        fired("Claiming", "before_dispatch", MESSAGE, gives={"handled": False}),
        called("handler", MESSAGE),
    ),
    "ET-43": case(
        on("Void", "agent_done", plugin("p1")),
        fired("Void", "agent_done", DONE, ["p1"], gives=None),
        called("handler", DONE),
    ),
    "ET-44": case(
        on("Void", "agent_done", plugin("p1")),
        step(native("cleanup", **{"as": "handler"})),
        fired("Void", "agent_done", DONE, ["p1"], gives=None),
        called("handler"),
    ),
    "ET-45": case(
        on("Void", "agent_done", plugin("p1"), named="listed"),
        on("Void", "agent_done", plugin("p2"), named="other"),
        fired("Void", "agent_done", DONE, gives=None),
        called("listed", DONE),
        called("other"),
        step({"do": "reopen", "personality": "B"}),
        on("Void", "agent_done", plugin("p1"), named="listed"),
        fired("Void", "agent_done", DONE, gives=None),
        called("listed"),
        personality="A",
    ),
    "ET-46": shown(
        "before_llm_call", {"sessionId": "s-9", "model": "m-1", "turnNumber": 2, "requestId": REQUEST, **FULL}
    ),
    "ET-47": shown(
        "after_llm_call",
        {
            "sessionId": "s-9",
            "text": "hi",
            "requestId": REQUEST,
            **FULL,
            "usage": {"inputTokens": 1},
            "finishReason": "end_turn",
            "durationMs": 0.5,
        },
    ),
    "ET-48": case(
        on("Void", "after_tool_call"),
        step(
            native(
                "together",
                runs=[
                    {"call": "fireVoid", "arguments": ["after_tool_call", {"toolName": tool, "durationMs": duration}]}
                    for tool, duration in (("fast", 1.5), ("slow", 90.5))
                ],
            ),
            gives=[None, None],
        ),
        step(
            native("sorted", by="toolName", **{"as": "handler"}),
            gives=[{"toolName": "fast", "durationMs": 1.5}, {"toolName": "slow", "durationMs": 90.5}],
        ),
    ),
    "ET-49": case(
        on("Modifying", "before_tool_call", answer=None),
        fired("Modifying", "before_tool_call", {**CALL, "voiceOrigin": {"device": "phone"}}, gives={}),
        called("handler", {**CALL, "voiceOrigin": {"device": "phone"}}),
    ),
    "ET-50": case(
        on("Modifying", "before_tool_call", answer=None),
        fired("Modifying", "before_tool_call", CALL, gives={}),
        called("handler", CALL),
    ),
    "ET-51": case(
        on("Modifying", "before_tool_call", answer=None),
        fired("Modifying", "before_tool_call", CALL, gives={}),
    ),
    "ET-52": approval(None, gives={}),
    "ET-53": approval({"error": "not today: it deletes files"}, gives={"error": "not today: it deletes files"}),
    "ET-55": case(
        on("Modifying", "before_tool_call", answer=None, named="the list"),
        fired("Modifying", "before_tool_call", {**CALL, "args": {"command": "rm a"}}, gives={}),
    ),
}

LOOP = "it is about the loop that runs tools: `run_tool`, which only the Python client has"
CUSTOM = "Ethos' registry here has 17 points; a custom event is fired by a session without a dialect"
WIRE: Final[dict[str, str]] = {
    "ET-16": "the notice is of the Python client's `ungated`, which the TypeScript client has not",
    "ET-17": "the notice is of the Python client's `ungated`, which the TypeScript client has not",
    "ET-18": LOOP,
    "ET-19": LOOP,
    "ET-21": LOOP,
    "ET-24": LOOP,
    "ET-32": CUSTOM,
    "ET-34": CUSTOM,
    "ET-35": CUSTOM,
    "ET-36": CUSTOM,
    "ET-38": CUSTOM,
    "ET-39": CUSTOM,
    "ET-54": "whom to ask, and what to show, is the handler's own affair: the registry knows no person",
}
