"""Hooks as an author would type them, and calls as a host would.

A type checker must refuse the lines marked so, and no others.
"""

from typing import Literal

from hooklatch import (
    CustomEvent,
    Event,
    PostToolUse,
    PreModel,
    PreToolUse,
    Session,
    SyncSession,
    ToolRun,
    Verdict,
    allow,
    claim,
    deny,
    hook,
    inject,
    last,
    warn,
)


@hook("pre_tool_use", match="Bash", timeout=2.0)
def no_force_push(event: PreToolUse) -> Verdict[Literal["deny"]] | None:
    if "push --force" in event.tool_input["command"]:
        return deny("force pushes are not allowed here").warn("see the handbook")
    return None


@hook("pre_tool_use", match={"regex": "Edit|Write"})
def protect_env(event: PreToolUse) -> Verdict[Literal["allow", "amend"]]:
    return allow().amend(tool_input={**event.tool_input, "dry_run": True})


@hook("pre_tool_use")
@hook("pre_model", priority=200)
async def stacked(event: Event) -> Verdict[Literal["deny", "inject"]]:
    return deny(f"{event.event} is closed").inject({"role": "user", "content": "closed"})


@hook(["pre_tool_use", "post_tool_use"])
def several(event: PreToolUse | PostToolUse) -> Verdict[Literal["inject"]]:
    return inject([{"role": "user", "content": event.tool_name}])


@hook("deploy_requested")
def custom(event: CustomEvent) -> Verdict[Literal["deny"]]:
    return deny(f"not to {event.target}")


@hook("metrics")
def warns_anywhere(event: Event) -> Verdict[Literal["halt"]]:  # refused
    return warn("x").halt("y")


@hook("post_tool_use")
def denies_too_late(event: PostToolUse) -> Verdict[Literal["deny"]]:  # refused
    return deny("too late")


@hook("post_tool_use")
async def denies_too_late_later(event: PostToolUse) -> Verdict[Literal["deny"]] | None:  # refused
    return deny("too late")


@hook("pre_tool_use")
def ends_a_gate(event: PreToolUse) -> Verdict[Literal["allow", "last"]]:  # refused
    return allow().last()


@hook("pre_model")
def takes_another_event(event: PreToolUse) -> None:  # refused
    return None


@hook("pre_tool_use", matc="Bash")  # refused
def misspells_an_option_of_a_hook(event: PreToolUse) -> None:
    return None


@hook("pre_tool_use", timeout="2")  # refused
def gives_a_text_for_a_number(event: PreToolUse) -> None:
    return None


@hook("deploy_requested", matc="Bash")  # refused
def misspells_an_option_of_a_custom_hook(event: CustomEvent) -> None:
    return None


@hook("stop")
def answers_with_text(event: Event) -> str:  # refused
    return event.event


def says_more_than_it_declares() -> Verdict[Literal["claim"]]:
    return claim(1) if Verdict[Literal["last"]]() else last()  # refused


def takes_a_field_for_what_it_is_not(event: PreToolUse) -> int:
    return event.tool_name  # refused


def misspells_a_field(event: PreModel) -> object:
    return event.model_idd  # refused


async def awaits_what_it_calls(s: Session) -> int:
    run: ToolRun = await s.run_tool("Bash", {}, print, tool_use_id="t1")
    await (await s.register("stop", lambda event: None, priority=5)).unregister()
    return await s.enable(run.tool_name, scope="global")


def calls_without_awaiting(s: SyncSession) -> int:
    run: ToolRun = s.run_tool("Bash", {}, print, tool_use_id="t1")
    s.register("stop", lambda event: None, priority=5).unregister()
    return s.enable(run.tool_name, scope="global")


def forgets_to_await(s: Session) -> int:
    return s.enable("guard")  # refused


async def awaits_what_blocks(s: SyncSession) -> int:
    return await s.enable("guard")  # refused


def misspells_an_option(s: SyncSession) -> ToolRun:
    return s.run_tool("Bash", {}, print, tool_id="t1")  # refused
