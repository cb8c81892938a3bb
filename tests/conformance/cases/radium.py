"""The rows of Radium that its registry, its adapters and its orchestrator show in Rust.  Plain data."""

from __future__ import annotations

from typing import Any, Final

from conformance.driving import ANY, Case, Command, Step, has, part, step

__all__ = ["CASES", "FILES", "LANGUAGE", "WIRE", "opening"]

LANGUAGE: Final = "rust"
# What an operator has put beside the registry's own hooks; it judges nothing that the rows do.
OPERATOR: Final = """
from hooklatch import ask, deny, hook

@hook("pre_tool_use", match="operators_tool")
def operators(event):
    return ask("APPROVAL_REQUIRED") if event.tool_input.get("write") else deny("the operator forbids it")
"""
FILES: Final[dict[str, str]] = {
    "hooks.toml": '[[source]]\npath = "operator.py"\n',
    "operator.py": OPERATOR,
}

TOOL: Final = {"tool_name": "write_file", "arguments": {"path": "a.ts", "mode": 1.0, "line": 1}}
FAULT: Final = {"error_type": "rate_limit", "error_message": "slow down", "error_source": "provider"}
EVENT: Final = {"event_type": "model_call", "data": {"cost": 0.5, "tokens": 18446744073709551615, "note": None}}
METADATA: Final = {"trace": "row", "session_id": "not the session's", "attempt": 1.0}
DATA: Final[dict[str, dict[str, Any]]] = {
    "before_model": {"input": "Hello", "model_id": "m-1"},
    "after_model": {"input": "Hello", "model_id": "m-1", "response": "hi"},
    "before_tool": TOOL,
    "after_tool": {**TOOL, "result": "done"},
    "tool_selection": TOOL,
    "error_interception": FAULT,
    "error_transformation": FAULT,
    "error_recovery": FAULT,
    "error_logging": FAULT,
    "telemetry_collection": EVENT,
    "custom_logging": EVENT,
    "metrics_aggregation": EVENT,
    "performance_monitoring": EVENT,
}
TYPES: Final = [*DATA]
GATES: Final = ("before_model", "before_tool", "after_tool", "tool_selection")


def opening(path: str, folder: str) -> list[Command]:
    """Return the commands that open a session at a socket, in a folder unlike those that the rows name."""
    return [{"do": "open", "path": path, "dialect": "radium", "cwd": folder}]


def call(function: str, /, **others: Any) -> Command:
    return {"do": "native", "call": function, **others}


def add(name: str, kind: str = "before_tool", does: object = None, **others: Any) -> Step:
    return step(call("add", name=name, type=kind, does=does, **others), gives={})


def fires(kind: str, *results: object, data: object = None) -> Step:
    """Fire a type with metadata of the row's own; `results` are what the caller has to be given."""
    fired = DATA[kind] if data is None else data
    return step(call("execute", type=kind, data=fired, metadata=METADATA), gives=[*results])


def called(kind: str, *hooks: str, data: object = None) -> Step:
    """Hooks were called in this order since, each with exactly what the host gave."""
    given = DATA[kind] if data is None else data
    return step(
        call("calls"), gives=[{"hook": hook, "type": kind, "data": given, "metadata": METADATA} for hook in hooks]
    )


def count(number: int) -> Step:
    return step(call("count"), gives=number)


def names(kind: str, *hooks: str) -> Step:
    return step(call("names", type=kind), gives=[*hooks])


def good(data: object = None, message: str | None = None) -> dict[str, object]:
    return {"success": True, "message": message, "modified_data": data, "should_continue": True}


def wrong(message: object) -> dict[str, object]:
    return {"success": False, "message": message, "modified_data": None, "should_continue": True}


def stopped(message: object) -> dict[str, object]:
    return {"success": False, "message": message, "modified_data": None, "should_continue": False}


def case(*steps: Step) -> Case:
    return Case(steps)


def hands_over(data: object) -> Case:
    return case(
        add("look", "telemetry_collection"),
        fires("telemetry_collection", good(), data=data),
        called("telemetry_collection", "look", data=data),
    )


def typed(kind: str, moment: str, hook_type: str, **others: Any) -> Step:
    seen = {"name": f"{kind}-{moment}", "priority": 150, "type": hook_type}
    return step(
        call("add_typed", kind=kind, moment=moment, name=f"{kind}-{moment}", priority=150, **others), gives=seen
    )


def method_called(kind: str, moment: str, method: str) -> Step:
    return step(call("calls"), gives=[{"hook": f"{kind}-{moment}", "method": method, "data": ANY}])


def orchestrates(method: str, *arguments: object, gives: object) -> Step:
    return step(call("orchestrate", method=method, arguments=[*arguments]), gives=gives)


def unchanged(kind: str, methods: tuple[str, str], moments: tuple[str, str] = ("before", "after")) -> Case:
    steps: list[Step] = []
    for moment, method in zip(moments, methods, strict=True):
        hook_type = f"{moment}_{kind}"
        steps += [
            typed(kind, moment, hook_type),
            fires(hook_type, good()),
            method_called(kind, moment, method),
        ]
    return case(*steps)


DONE: Final[dict[str, dict[str, object]]] = {"result": {}}
ENABLED = ({"enabled": True}, {"enabled": False})

CASES: Final[dict[str, Case]] = {
    "RD-01": case(add("one"), count(1), names("before_tool", "one")),
    "RD-02": case(add("one"), step(call("remove", name="one"), gives={}), count(0)),
    "RD-03": case(
        add("low", priority=50), add("high", priority=150), names("before_tool", "high", "low"),
        fires("before_tool", good(), good()), called("before_tool", "high", "low"),
    ),
    "RD-04": case(add("one"), fires("before_tool", good()), called("before_tool", "one")),
    "RD-05": case(
        add("model", "before_model"), add("tool"), names("before_model", "model"), names("before_tool", "tool"),
        fires("before_model", good()), called("before_model", "model"),
        fires("before_tool", good()), called("before_tool", "tool"),
    ),
    "RD-06": case(*(fires(kind) for kind in TYPES)),
    "RD-07": case(
        add("below", priority=1000), add("limit", priority=1001), add("most", priority=4294967295),
        names("before_tool", "most", "limit", "below"),
        fires("before_tool", good(), good(), good()), called("before_tool", "most", "limit", "below"),
    ),
    "RD-08": case(add("last", priority=0), add("first", priority=1), fires("before_tool", good(), good()),
                  called("before_tool", "first", "last")),
    "RD-09": case(
        add("c"), add("a"), add("b"), names("before_tool", "c", "a", "b"),
        fires("before_tool", good(), good(), good()), called("before_tool", "c", "a", "b"),
    ),
    "RD-10": case(
        add("later"), add("stop", does={"stop": "not here"}, priority=200),
        fires("before_tool", stopped("not here")), called("before_tool", "stop"),
        add("log", "after_tool"), add("end", "after_tool", does={"stop": "enough"}, priority=200),
        fires("after_tool", stopped("enough")), called("after_tool", "end"),
    ),
    "RD-11": hands_over({}),
    "RD-12": hands_over({"text": "x" * 1_000_000}),
    "RD-13": hands_over({"a": {"b": {"c": [1, 1.0, {"d": None}]}}}),
    "RD-14": hands_over([1, "two", None, {"three": 3.0}]),
    "RD-15": case(add("one"), step(call("remove", name="nobody"), gives={}), count(1)),
    "RD-16": case(add("one"), add("one"), step(call("remove", name="one"), gives={}), count(0), fires("before_tool")),
    "RD-17": case(add("one"), add("two", "after_tool"), step(call("clear"), gives={}), count(0), fires("before_tool")),
    "RD-18": case(
        add("fails", "after_model", does={"raise": "kaputt"}, priority=200), add("succeeds", "after_model"),
        fires("after_model", wrong(has("kaputt")), good()), called("after_model", "fails", "succeeds"),
        add("guard", does={"raise": "kaputt"}), fires("before_tool", stopped(has("kaputt"))),
    ),
    "RD-19": case(
        *(add(f"log-{kind}", kind, does={"error": "disk is full"}) for kind in TYPES),
        *(fires(kind, (stopped if kind in GATES else wrong)("disk is full")) for kind in TYPES),
    ),
    **{
        row: case(
            step(call("switch", name="nobody", **enabled), gives={"error": "there is no hook nobody"}),
            step(call("is_enabled", name="nobody"), gives=False),
        )
        for row, enabled in zip(("RD-20", "RD-21"), ENABLED, strict=True)
    },
    "RD-22": case(
        add("one", does={"stop": "no"}), step(call("switch", name="one", enabled=False), gives={}),
        fires("before_tool"), step(call("switch", name="one", enabled=True), gives={}),
        fires("before_tool", stopped("no")),
    ),
    "RD-24": case(
        add("first", "after_model", does={"raise": "one"}, priority=300),
        add("second", "after_model", does={"raise": "two"}, priority=200), add("third", "after_model"),
        fires("after_model", wrong(has("one")), wrong(has("two")), good()),
        add("guard", does={"raise": "three"}), add("after"), fires("before_tool", stopped(has("three"))),
    ),
    "RD-25": case(
        add("panics", "after_model", does={"panic": "kaputt"}, priority=200), add("goes_on", "after_model"),
        fires("after_model", wrong(has("kaputt")), good()),
        add("guard", does={"panic": "kaputt"}), fires("before_tool", stopped(has("kaputt"))),
        fires("after_model", ANY, ANY),
    ),
    "RD-32": case(
        add("one"), step(call("switch", name="one", enabled=False), gives={}),
        step(call("is_enabled", name="one"), gives=False),
        step(call("switch", name="two", enabled=False), gives={"error": "there is no hook two"}),
    ),
    "RD-33": case(
        add("one"), step(call("is_enabled", name="one"), gives=True), step(call("is_enabled", name="two"), gives=False),
    ),
    "RD-34": case(
        step(call("add", name="", type="before_tool"), gives={"error": has("one line of at most 200 characters")}),
        count(0), fires("before_tool"),
    ),
    "RD-40": case(
        step(call("types"), gives=TYPES),
        *(add(f"hook-{kind}", kind) for kind in TYPES),
        *(shown for kind in TYPES for shown in (fires(kind, good()), called(kind, f"hook-{kind}"))),
    ),
    "RD-41": case(
        step(call("defaults"), gives={"priority": 100, "result": good()}),
        add("one"), step(call("is_enabled", name="one"), gives=True),
    ),
    "RD-49": case(
        add("off", does={"stop": "no"}), step(call("switch", name="off", enabled=False), gives={}),
        fires("before_tool"),
        step(call("calls"), gives=[]),
    ),
    "RD-53": case(
        typed("tool", "before", "before_tool", does={"data": {"modified_arguments": {"path": "b.ts", "mode": 2.0}}}),
        fires("before_tool", good({"modified_arguments": {"path": "b.ts", "mode": 2.0}})),
        method_called("tool", "before", "before_tool_execution"),
        orchestrates("before_tool_execution", "write_file", {"path": "a"}, gives={"path": "b.ts", "mode": 2.0}),
    ),
    "RD-54": case(
        add("first", "after_tool", does={"data": {"modified_result": "first"}}),
        typed("tool", "after", "after_tool", does={"data": {"modified_result": {"lines": 1.0}, "mine": [1]}}),
        fires(
            "after_tool", good({"modified_result": {"lines": 1.0}, "mine": [1]}), good({"modified_result": "first"}),
        ),
        orchestrates("after_tool_execution", "write_file", {"path": "a"}, "done", gives="first"),
    ),
    "RD-55": case(
        typed("tool", "selection", "tool_selection", does={"stop": "not that one"}),
        fires("tool_selection", stopped("not that one")), method_called("tool", "selection", "tool_selection"),
        orchestrates("tool_selection", "write_file", {}, gives=False),
    ),
    "RD-56": case(
        typed("model", "before", "before_model", does={"data": {"modified_input": "hello"}}),
        fires("before_model", good({"modified_input": "hello"})),
        method_called("model", "before", "before_model_call"),
        orchestrates("before_model_call", "Hello", "m-1", gives=["hello", None]),
    ),
    "RD-57": case(
        typed("model", "after", "after_model", does={"data": {"response": "HI"}}),
        fires("after_model", good({"response": "HI"})), method_called("model", "after", "after_model_call"),
        orchestrates("after_model_call", "Hello", "m-1", "hi", gives="HI"),
    ),
    "RD-58": case(
        typed("error", "interception", "error_interception", does={"stop": "handled"}),
        typed("error", "transformation", "error_transformation", does={"data": {"transformed_error": "sorry"}}),
        typed("error", "recovery", "error_recovery", does={"data": {"recovered_error": "again"}}),
        typed("error", "logging", "error_logging"),
        fires("error_interception", stopped("handled")),
        method_called("error", "interception", "error_interception"),
        fires("error_transformation", good({"transformed_error": "sorry"})),
        method_called("error", "transformation", "error_transformation"),
        fires("error_recovery", good({"recovered_error": "again"})),
        method_called("error", "recovery", "error_recovery"),
        fires("error_logging", good()), method_called("error", "logging", "error_logging"),
        orchestrates("error_interception", "slow down", "rate_limit", "provider", gives="handled"),
        orchestrates("error_transformation", "slow down", "rate_limit", None, gives="sorry"),
        orchestrates("error_recovery", "slow down", "rate_limit", None, gives="again"),
    ),
    "RD-59": case(
        typed("tool", "before", "before_tool"), typed("model", "after", "after_model"),
        typed("error", "logging", "error_logging"),
        fires("before_tool", stopped(has("no object")), data="text"),
        fires("after_model", wrong(has("the data of after_model is no object")), data="text"),
        fires("error_logging", wrong(has("the data of error_logging is no object")), data="text"),
    ),
    "RD-68": case(
        add("policy"), fires("before_tool", good(), data={"tool_name": "read_file", "arguments": {}}),
        orchestrates("before_tool_execution", "read_file", {}, gives={}),
    ),
    "RD-69": case(
        fires("before_tool", stopped("APPROVAL_REQUIRED"),
              data={"tool_name": "operators_tool", "arguments": {"write": True}}),
        add("policy", does={"error": "APPROVAL_REQUIRED"}),
        fires("before_tool", stopped("APPROVAL_REQUIRED")),
        orchestrates("before_tool_execution", "write_file", {}, gives={"error": has("APPROVAL_REQUIRED")}),
    ),
    "RD-84": case(
        step(
            call("at_once", commands=[call("add", name=f"hook-{number}") for number in range(10)]),
            gives=[DONE] * 10,
        ),
        count(10), fires("before_tool", *[good()] * 10),
    ),
    "RD-85": case(
        add("look", "telemetry_collection"),
        step(
            call("at_once", commands=[call("execute", type="telemetry_collection", data=EVENT)] * 100),
            gives=[{"result": [good()]}] * 100,
        ),
        step(
            call("calls"),
            gives=[{"hook": "look", "type": "telemetry_collection", "data": EVENT, "metadata": {}}] * 100,
        ),
    ),
    "RD-86": case(
        add("one"),
        step(
            call("at_once", commands=[call("switch", name="one", enabled=number % 2 == 0) for number in range(50)]),
            gives=[DONE] * 50,
        ),
        step(call("switch", name="one", enabled=True), gives={}), fires("before_tool", good()),
    ),
    "RD-87": case(add("one"), step(call("clone"), gives={}), count(1), add("two"),
    fires("before_tool", good(), good())),
    "RD-88": case(
        add("one", does={"stop": "no"}), step(call("switch", name="one", enabled=False), gives={}),
        step(call("clone"), gives={}), step(call("is_enabled", name="one"), gives=False), fires("before_tool"),
    ),
    "RD-89": unchanged("model", ("before_model_call", "after_model_call")),
    "RD-90": unchanged("tool", ("before_tool_execution", "after_tool_execution")),
    "RD-92": case(
        add("b", priority=100), add("a", priority=200), add("c", priority=50), names("before_tool", "a", "b", "c"),
    ),
    "RD-93": case(
        typed("model", "before", "before_model"), typed("tool", "before", "before_tool"),
        fires("before_model", good()), method_called("model", "before", "before_model_call"),
        fires("before_tool", good()), method_called("tool", "before", "before_tool_execution"),
    ),
    "RD-94": case(
        add("one"), step(call("switch", name="one", enabled=False), gives={}), fires("before_tool"),
        step(call("switch", name="one", enabled=True), gives={}), fires("before_tool", good()),
        step(call("calls"), gives=[part(hook="one")]),
    ),
}  # fmt: skip

LOADER: Final = "the crate reads no files: the daemon does"
FACTORIES: Final = "the crate makes no hooks of definitions: a factory's place is a file's `run` or `command`"
TIMINGS: Final = "the daemon takes the timings, and shows them"
COMPOSITION: Final = "in the crate a hook is any code; composition is in Python's `hooklatch`"
COMMANDS: Final = "a command line, not a function"
WIRE: Final[dict[str, str]] = {
    **dict.fromkeys(("RD-23", "RD-35", "RD-36"), "in Rust a hook cannot be without a type, or of an unknown one"),
    **dict.fromkeys(("RD-26", "RD-27", "RD-28", "RD-29", "RD-30", "RD-31", "RD-42", "RD-43", "RD-44"), LOADER),
    **dict.fromkeys(("RD-45", "RD-51"), LOADER),
    **dict.fromkeys(("RD-37", "RD-38", "RD-39", "RD-46", "RD-48", "RD-50", "RD-52", "RD-91"), FACTORIES),
    **dict.fromkeys(("RD-60", "RD-61", "RD-62", "RD-63", "RD-64"), TIMINGS),
    **dict.fromkeys(("RD-65", "RD-66", "RD-67"), COMPOSITION),
    **dict.fromkeys((f"RD-{number}" for number in range(70, 84)), COMMANDS),
}
