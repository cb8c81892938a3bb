"""The table of hooks: what is wrong comes first, and the number says when a hook is called."""

from __future__ import annotations

from typing import Any, get_args

from hooklatch.cli.hooks.hooks import is_wrong, number_turns
from hooklatch.cli.terminal.output import order_failures_first
from hooklatch.core.hooks.registry import HookState
from support.tables import table


def hook(name: str, **values: object) -> dict[str, Any]:
    return {
        "name": name, "event": "pre_tool_use", "layer": "global", "project": None, "amends": False, "state": "active",
        "failing": False, **values,
    }  # fmt: skip


@table(
    "hooks, numbers",
    [
        ([hook("a"), hook("b")], [1, 2]),
        ([hook("a"), hook("b", event="stop"), hook("c")], [1, 1, 2]),
        ([hook("a"), hook("b", amends=True)], [2, 1]),  # at a gate an amender is called before the others
        ([hook("a", amends=True), hook("b", amends=True, layer="plugin"), hook("c", layer="plugin")], [2, 1, 3]),
        ([hook("a", event="message_send"), hook("b", event="message_send", amends=True)], [1, 2]),
    ],
)
def test_a_hook_is_numbered_by_when_its_event_calls_it(hooks: list[dict[str, Any]], numbers: list[int]) -> None:
    found = number_turns(hooks, {"pre_tool_use"})

    assert [found[one["name"]] for one in hooks] == numbers


def test_what_is_wrong_comes_first_and_the_rest_in_firing_order() -> None:
    states = [hook(state, state=state) for state in get_args(HookState)]
    states += [hook("failing", failing=True), hook("new", state="unheard of")]
    shown = order_failures_first([hook("well"), *states], is_wrong)

    assert [one["name"] for one in shown] == [
        "suspended", "inactive", "quarantined", "failing", "new", "well", "active", "disabled",
    ]  # fmt: skip
