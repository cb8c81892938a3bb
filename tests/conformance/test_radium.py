"""Radium's own cases on a real daemon: its registry, its errors, its adapters, and many at once (RD)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import trio

from conformance.native import Place
from conformance.rows.radium import ROWS
from conformance.runs.radium import KINDS, MODEL, TOOL, good, hook, results, run, served, stopped, wrong
from conformance.table import Checks, span, with_checks
from support.daemons import RpcFailure

PARTS = ("test_radium", "test_radium_files", "test_radium_commands")
check = Checks(ROWS)


@pytest.fixture
def place(agent: str, tmp_path: Any, radium_hooks: str) -> Place:
    return Place(agent, tmp_path, radium_hooks)


# -- registry -----------------------------------------------------------------------------------------------------


@check("RD-01", "RD-08")
async def registers(place: Place) -> None:
    async with place.session("radium", hook(place, "succeed", priority=0)) as client:
        assert [hook["priority"] for hook in (await client.call("hooks"))["hooks"]] == [0]


@check("RD-02", "RD-16", "RD-17")
async def unregisters(place: Place) -> None:
    async with place.session("radium", hook(place, "succeed"), hook(place, "error", "after_tool")) as client:
        for name in ("succeed", "error"):
            await client.call("unregister", id=name)
        assert await client.hook_ids() == []
        assert await run(client) == []


@check("RD-03", "RD-92")
async def higher_first(place: Place) -> None:
    names = {"hook-1": 100, "hook-2": 200, "hook-3": 50, "hook-4": 150}
    hooks = [hook(place, "succeed", name=name, priority=priority) for name, priority in names.items()]

    async with place.session("radium", *hooks) as client:
        decision = await client.fire("before_tool", **TOOL)

    assert [outcome["hook"] for outcome in decision["outcomes"]] == ["hook-2", "hook-4", "hook-1", "hook-3"]


@check("RD-04")
async def one_success(place: Place) -> None:
    assert await results(place, "before_tool", hook(place, "succeed")) == [good()]


@check("RD-05", "RD-93")
async def by_type(place: Place) -> None:
    hooks = [hook(place, "succeed", "before_model", name="model-hook"), hook(place, "succeed", name="tool-hook")]

    async with place.session("radium", *hooks) as client:
        for kind, name in (("before_model", "model-hook"), ("before_tool", "tool-hook")):
            decision = await client.fire(kind, **KINDS[kind])
            assert [outcome["hook"] for outcome in decision["outcomes"]] == [name]


@check("RD-06")
async def nothing(place: Place) -> None:
    assert [await results(place, kind) for kind in KINDS] == [[]] * 13


@check("RD-07")
async def priority_is_bounded(place: Place) -> None:
    async with place.session("radium") as client:
        with pytest.raises(RpcFailure, match="priority is a whole number from 0 to 1000"):
            await client.call("register", hooks=[hook(place, "succeed", priority=4294967295)])
        await client.call("register", hooks=[hook(place, "succeed", priority=1000)])


@check("RD-09")
async def equal_priorities(place: Place) -> None:
    hooks = [hook(place, "succeed", name=name) for name in ("c", "a", "b")]

    async with place.session("radium", *hooks) as client:
        assert await client.hook_ids() == ["c", "a", "b"]
        assert await run(client) == [good()] * 3


@check("RD-10")
async def stop_ends(place: Place) -> None:
    hooks = [hook(place, "succeed", priority=100), hook(place, "stop", priority=200)]
    native = served("native", priority=200)

    own = await results(place, "before_tool", *hooks)
    async with place.session("radium", hooks[0], native, native=lambda _: stopped("stopped")) as client:
        in_their_words = await run(client)
    ended = await results(
        place, "after_tool", hook(place, "end", "after_tool", priority=200), hook(place, "succeed", "after_tool")
    )

    assert own == in_their_words == [stopped("stopped")]
    assert len(ended) == 1


# -- data ---------------------------------------------------------------------------------------------------------


def hands_over(data: Any) -> Any:
    async def holds(place: Place) -> None:
        telemetry = served("look", "telemetry_collection")
        async with place.session("radium", telemetry, look=lambda _: good()) as client:
            assert await run(client, "telemetry_collection", event_type="t", data=data) == [good()]
        assert client.asked == [("look", {"event_type": "t", "data": data})]

    return holds


check("RD-11")(hands_over({}))
check("RD-12")(hands_over({"text": "x" * 1_000_000}))
check("RD-13")(hands_over({"a": {"b": {"c": [1, {"d": None}]}}}))
check("RD-14")(hands_over([1, "two", None, {"three": 3}]))


@check("RD-15")
async def unregister_unknown(place: Place) -> None:
    async with place.session("radium") as client:
        before = (await client.call("hooks"))["revision"]
        answer = await client.call("unregister", id="nobody")

    assert answer == {"revision": before}


@check("RD-59")
async def text_as_data(place: Place) -> None:
    async with place.session("radium", hook(place, "succeed")) as client:
        with pytest.raises(RpcFailure, match="payload must be an object"):
            await client.call("fire", event="before_tool", payload="text")


# -- errors -------------------------------------------------------------------------------------------------------


@check("RD-18")
async def failing_and_succeeding(place: Place) -> None:
    def both(kind: str) -> list[dict[str, Any]]:
        return [hook(place, "succeed", kind, priority=100), hook(place, "fail", kind, priority=200)]

    gate = await results(place, "before_tool", *both("before_tool"))
    after = await results(place, "after_model", *both("after_model"))

    assert [(result["success"], result["should_continue"]) for result in gate] == [(False, False)]
    assert "crash" in gate[0]["message"]
    assert [(result["success"], result["should_continue"]) for result in after] == [(False, True), (True, True)]


@check("RD-19")
async def reported_error(place: Place) -> None:
    async with place.session("radium", served("guard"), guard=lambda _: wrong("disk full")) as client:
        gate = await run(client)
    async with place.session("radium", served("log", "after_model"), log=lambda _: wrong("disk full")) as client:
        after = await client.fire("after_model", **KINDS["after_model"])

    assert [(result["success"], result["should_continue"]) for result in gate] == [(False, False)]
    assert "disk full" in gate[0]["message"]
    assert after["warnings"] == ["disk full"]
    assert after["rendered"] == [wrong("disk full")]


@check("RD-20", "RD-21")
async def switch_unknown(place: Place) -> None:
    async with place.session("radium") as client:
        for method in ("enable", "disable"):
            with pytest.raises(RpcFailure, match="not_found"):
                await client.call(method, id="nobody")


@check("RD-22", "RD-94")
async def switching(place: Place) -> None:
    async with place.session("radium", hook(place, "succeed")) as client:
        await client.call("disable", id="succeed")
        disabled = await run(client)
        await client.call("enable", id="succeed")
        enabled = await run(client)

    assert (disabled, enabled) == ([], [good()])


@check("RD-24", "RD-25")
async def several_failures(place: Place) -> None:
    def three(kind: str) -> list[dict[str, Any]]:
        functions = ("fail", "panic", "succeed")
        return [hook(place, name, kind, priority=300 - index) for index, name in enumerate(functions)]

    gate = await results(place, "before_tool", *three("before_tool"))
    logged = await results(place, "error_logging", *three("error_logging"))

    assert [(result["success"], result["should_continue"]) for result in gate] == [(False, False)]
    assert [result["success"] for result in logged] == [False, False, True]
    assert all(result["should_continue"] for result in logged)


# -- adapters -----------------------------------------------------------------------------------------------------


@check("RD-53")
async def before_tool(place: Place) -> None:
    redirecting = hook(place, "redirect", priority=150, config={"path": "b.ts"})
    second = served("second", priority=50)

    async with place.session("radium", redirecting, second, second=lambda _: good()) as client:
        decision = await client.fire("before_tool", **TOOL)
        listed = (await client.call("hooks"))["hooks"]

    assert [(hook["id"], hook["priority"], hook["event"]) for hook in listed] == [
        ("redirect", 150, "pre_tool_use"),
        ("second", 50, "pre_tool_use"),
    ]
    assert decision["rendered"] == [good(modified_arguments={"path": "b.ts"}), good()]
    # Shown the original, as there; then the changed input once more, since it is what runs.
    assert [payload["arguments"] for _, payload in client.asked] == [{"path": "a.ts"}, {"path": "b.ts"}]


@check("RD-54")
async def after_tool(place: Place) -> None:
    hooks = [hook(place, "shorten", "after_tool", name=text, config={"text": text}) for text in ("first", "last")]

    async with place.session("radium", *hooks) as client:
        decision = await client.fire("after_tool", **KINDS["after_tool"])

    assert decision["patch"] == {"tool_response": "last"}
    assert [result["modified_data"] for result in decision["rendered"]] == [
        {"modified_result": "first"},
        {"modified_result": "last"},
    ]
    assert [followed["event"] for followed in decision["followed_by"]] == ["post_tool_use"]


@check("RD-55")
async def tool_selection(place: Place) -> None:
    stop = await results(place, "tool_selection", hook(place, "stop", "tool_selection"))
    renamed = await results(place, "tool_selection", hook(place, "rename", "tool_selection"))

    assert stop == [stopped("stopped")]
    assert renamed[-1]["should_continue"] is False  # Radium has no field for another tool


@check("RD-56")
async def before_model(place: Place) -> None:
    async with place.session("radium", hook(place, "lower", "before_model")) as client:
        decision = await client.fire("before_model", **MODEL)

    prefixed = await results(place, "before_model", hook(place, "prefix", "before_model"), **MODEL)

    assert prefixed == [good(modified_input=f"[checked] {MODEL['input']}")]
    assert decision["rendered"] == [good(modified_input="hello")]
    assert [followed["event"] for followed in decision["followed_by"]] == ["model_request"]


@check("RD-57")
async def after_model(place: Place) -> None:
    async with place.session("radium", hook(place, "answer", "after_model")) as client:
        decision = await client.fire("after_model", model_id="m-1", response="hi")

    assert decision["rendered"] == [good(response="HI")]
    assert [followed["event"] for followed in decision["followed_by"]] == ["model_response"]


@check("RD-58")
async def error_types(place: Place) -> None:
    intercepted = await results(place, "error_interception", hook(place, "handle", "error_interception"))
    transformed = await results(place, "error_transformation", hook(place, "soften", "error_transformation"))
    recovered = await results(place, "error_recovery", hook(place, "handle", "error_recovery"))
    logged = await results(place, "error_logging", hook(place, "succeed", "error_logging"))

    assert [(result["message"], result["should_continue"]) for result in intercepted] == [("handled: slow down", False)]
    assert transformed == [good(transformed_error="sorry: slow down")]
    assert recovered == [good(recovered_error="handled: slow down")]
    assert logged == [good()]


# -- composition and policy ---------------------------------------------------------------------------------------


@check("RD-65", "RD-66", "RD-67")
async def composition(place: Place) -> None:
    hooks = [hook(place, name) for name in ("both", "one_after_the_other", "conditional")]

    async with place.session("radium", *hooks) as client:
        writing = await run(client, **TOOL)
        reading = await run(client, tool_name="read_file", arguments={})

    assert [result["success"] for result in writing] == [True, True, True]
    assert reading[-1] == stopped("stopped")


@check("RD-68", "RD-69")
async def policy(place: Place) -> None:
    async with place.session("radium", hook(place, "approve")) as client:
        reading = await run(client, tool_name="read_file", arguments={})
        decision = await client.fire("before_tool", **TOOL)

    assert reading == [good()]
    assert decision["verdict"] == "ask"
    assert decision["rendered"] == [stopped("APPROVAL_REQUIRED")]


# -- many at once -------------------------------------------------------------------------------------------------


@check("RD-84")
async def many_registrations(place: Place) -> None:
    async with place.session("radium") as client:
        tables = [[hook(place, "succeed", name=f"hook-{number}")] for number in range(10)]
        await client.answers_to([await client.send("register", hooks=table) for table in tables])
        assert len(await client.hook_ids()) == 10


@check("RD-85")
async def many_fires(place: Place) -> None:
    file = str(place.folder / "calls")
    counting = hook(place, "count", "telemetry_collection", config={"file": file})

    async with place.session("radium", counting) as one, one.again() as other:
        clients = (one, other)  # a connection may have 64 unanswered requests
        payload = KINDS["telemetry_collection"]
        fires = [
            [await c.send("fire", event="telemetry_collection", payload=payload) for _ in range(50)] for c in clients
        ]
        decisions = [
            decision
            for client, numbers in zip(clients, fires, strict=True)
            for decision in await client.answers_to(numbers)
        ]

    assert [decision["rendered"] for decision in decisions] == [[good()]] * 100
    assert len((place.folder / "calls").read_text()) == 100


@check("RD-86")
async def many_switches(place: Place) -> None:
    async with place.session("radium", hook(place, "succeed")) as client:
        methods = [("enable", "disable")[number % 2] for number in range(50)]
        await client.answers_to([await client.send(method, id="succeed") for method in methods])
        assert await run(client) in ([], [good()])


@check("RD-87", "RD-88")
async def shared_by_connections(place: Place) -> None:
    async with place.session("radium", hook(place, "succeed"), hook(place, "error")) as one, one.again() as other:
        await one.call("register", hooks=[hook(place, "stop", "tool_selection")])
        assert await one.hook_ids() == await other.hook_ids() == ["succeed", "error", "stop"]
        await one.call("disable", id="succeed")
        assert [len(await run(client)) for client in (one, other)] == [1, 1]


def called_and_unchanged(before: str, after: str) -> Any:
    async def holds(place: Place) -> None:
        hooks = [served("watch-before", before), served("watch-after", after)]
        watch: Any = {"watch-before": lambda _: good(), "watch-after": lambda _: good()}
        async with place.session("radium", *hooks, **watch) as client:
            decisions = [await client.fire(kind, **KINDS[kind]) for kind in (before, after)]
        assert [name for name, _ in client.asked] == ["watch-before", "watch-after"]
        assert [decision["patch"] for decision in decisions] == [None, None]

    return holds


check("RD-89")(called_and_unchanged("before_model", "after_model"))
check("RD-90")(called_and_unchanged("before_tool", "after_tool"))


@pytest.mark.parametrize("holds", check.cases())
async def test_a_row_of_the_registry(holds: Any, place: Place) -> None:
    with trio.fail_after(20):
        await holds(place)


def test_every_case_has_one_row_and_every_row_a_check() -> None:
    parts = [import_module(f"conformance.{name}") for name in PARTS]
    checked = [row_id for part in parts for row_id in part.check.ids]

    assert [row.id for row in ROWS] == span("RD", 1, 94)
    assert sorted(checked) == sorted(row.id for row in with_checks(ROWS))
