"""Calls of ExAthena's functions in Elixir, and what has to come of each.  Plain data; runs nothing."""

from __future__ import annotations

from typing import Any

from clients.elixir_form import call, fun, gave, keys, tuple_
from conformance.driving import Step, part, step

__all__ = ["after", "augment", "before", "deny", "group", "halt", "hook", "outputs", "run"]


def hook(does: Any, name: str = "hook", arity: int = 2) -> Any:
    return fun(does, name, arity)


def group(*functions: Any, **matcher: Any) -> Any:
    """Return a matcher group as per-tool events have them."""
    return keys(**matcher, hooks=[*functions])


def deny(reason: Any = "not this") -> Any:
    return tuple_(":deny", reason)


def halt(reason: Any = ":enough") -> Any:
    return tuple_(":halt", reason)


def augment(text: str) -> Any:
    return tuple_(":augment", text)


def before(hooks: Any, tool: str, arguments: Any, answer: Any, *called: Any) -> Step:
    return step(call("ExAthena.run_pre_tool_use", hooks, tool, arguments, "t-1"), gives=gave(answer, *called))


def after(hooks: Any, tool: str, payload: Any, answer: Any, *called: Any) -> Step:
    return step(call("ExAthena.run_post_tool_use", hooks, tool, payload, "t-1"), gives=gave(answer, *called))


def run(hooks: Any, event: str, payload: Any, answer: Any, *called: Any) -> Step:
    return step(call("ExAthena.run_lifecycle", hooks, f":{event}", payload), gives=gave(answer, *called))


def outputs(hooks: Any, event: str, payload: Any, *called: Any, **found: Any) -> Step:
    all_of_them = {"halt": None, "injects": [], "transform": None, "augments": [], **found}
    command = call("ExAthena.run_lifecycle_with_outputs", hooks, f":{event}", payload)
    return step(command, gives=gave(part(**keys(**all_of_them)), *called))
