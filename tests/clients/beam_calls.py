"""Calls of BeamAgent's functions in Elixir, and what has to come of each.  Plain data; runs nothing."""

from __future__ import annotations

from typing import Any

from clients.elixir_form import CONTEXT, answers, call, fun, gave, keys, merge, tuple_
from conformance.driving import Step, step

__all__ = [
    "BLOCKING", "BUS", "EVENTS", "FINE", "LISTENER", "NOTIFYING", "adds", "ask", "bus", "by_hand", "context", "deny",
    "done", "fire", "hook", "made", "ok", "registry", "told",
]  # fmt: skip

# What each event's context has, in terms that JSON has not.
BLOCKING = {
    "pre_tool_use": keys(tool_name="Bash", tool_input={"command": "ls"}, category=":shell"),
    "user_prompt_submit": keys(prompt="hello", params=keys(model=":fast")),
    "permission_request": keys(tool_name="Bash", tool_input={"command": "ls"}, permission_suggestions=[":once"]),
    "subagent_start": keys(agent_id="a-1", agent_type="explore"),
    "pre_compact": keys(trigger=":auto"),
    "config_change": keys(reload_type=":settings"),
}
NOTIFYING = {
    "post_tool_use": keys(tool_name="Bash", content="done", duration_ms=3),
    "post_tool_use_failure": keys(tool_name="Bash", error=tuple_(":exit", 1)),
    "stop": keys(stop_reason=":end_turn", stop_hook_active=False),
    "session_start": keys(source=":startup", system_info=keys(cwd="/srv/other")),
    "session_end": keys(reason=tuple_(":shutdown", ":normal")),
    "subagent_stop": keys(agent_id="a-1", agent_type="explore"),
    "notification": keys(message="hello", notification_type=":info"),
    "task_completed": keys(task_id="t-1", status=":done"),
    "teammate_idle": keys(teammate="b"),
}
EVENTS = {**BLOCKING, **NOTIFYING}


def ok(context: Any) -> Any:
    return tuple_(":ok", context)


def deny(reason: Any = "no") -> Any:
    return tuple_(":deny", reason)


def ask(reason: Any = "really?") -> Any:
    return tuple_(":ask", reason)


# What a callback answers that has nothing against it.
FINE = answers(ok(CONTEXT))


def adds(**more: Any) -> Any:
    return answers(ok(merge(keys(**more))))


def hook(event: str, does: Any, name: str = "hook", matcher: str | None = None) -> Any:
    """Return what `hook/2` or `hook/3` makes."""
    matchers = [] if matcher is None else [keys(tool_name=matcher)]
    return {"$call": "BeamAgent.hook", "with": [f":{event}", fun(does, name, 1), *matchers]}


def by_hand(event: str, does: Any, name: str = "hook", arity: int = 1, **more: Any) -> Any:
    """Return a hook that was made without `hook/2`, which looks at more."""
    return keys(event=f":{event}", callback=fun(does, name, arity), **more)


def made(event: str, wanted: Any) -> Step:
    return step(call("BeamAgent.hook", f":{event}", fun(FINE, "f", 1)), gives=gave(wanted))


def registry(*hooks: Any) -> Any:
    return {"$call": "BeamAgent.build_registry", "with": [[*hooks]]}


def context(event: str = "pre_tool_use", **more: Any) -> Any:
    """Return an event's own context, with other members or more of them."""
    return {":event": f":{event}", **EVENTS[event], **keys(**more)}


def fire(event: str, hooks: Any, given: Any, answer: Any, *called: Any) -> Step:
    """Fire an event for these hooks, or for what stands for a registry; what comes of it is exactly this."""
    among = registry(*hooks) if isinstance(hooks, list) else hooks
    return step(call("BeamAgent.fire", f":{event}", given, among), gives=gave(answer, *called))


def done(function: str, *arguments: Any) -> Step:
    return step(call(f"BeamAgent.{function}", *arguments), gives=gave(":ok"))


BUS = "Hooklatch.BeamAgent.ReloadBus"
LISTENER = {"$process": "listener"}


def bus(function: str, *arguments: Any, gives: Any = ":ok", process: str = "listener") -> Step:
    return step(call(f"{BUS}.{function}", *arguments, process=process), gives=gave(gives))


def told(*changes: str) -> list[Step]:
    """What its subscriber has been told since `listening` is this, in order, each with the next version."""
    kept = [{"$kept": "told"}, {"$kept": "version"}]
    wanted = [tuple_(f":{change}", number) for number, change in enumerate(changes, 1)]
    return [
        step({"do": "native", "call": "messages", "in": "listener", "count": len(changes), "keep": "told"}),
        step(call("Driver.Actors.since", *kept), gives=gave(wanted)),
        step({"do": "native", "call": "messages", "in": "listener", "count": 0}, gives=gave([])),
    ]
