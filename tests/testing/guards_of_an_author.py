"""Hooks as an author writes them, for the tests of what tests hooks."""

from typing import Any

from hooklatch import PostToolUse, PreToolUse, allow, append, ask, deny, halt, hook


@hook("pre_tool_use", match="Bash")
def no_force_push(event: PreToolUse) -> Any:
    print("looking at", event.tool_input.get("command"))
    if "push --force" in event.tool_input["command"]:
        return deny("force pushes are not allowed here")
    if "reboot" in event.tool_input["command"]:
        return halt("no reboots")
    return ask("which cloud?") if "cloud" in event.tool_input["command"] else None


@hook("pre_tool_use", match="shell", where={"command": "terraform"})
def no_destroy(event: PreToolUse) -> Any:
    return deny("a person destroys")


@hook("pre_tool_use", match="Write", amends=True, config={"mark": "dry"})
def marks(event: PreToolUse) -> Any:
    return allow("fine").amend(tool_input={**event.tool_input, event.config["mark"]: True})


@hook("pre_tool_use", match="Task")
def budget(event: PreToolUse) -> Any:
    spent = event.state.session.increment("tasks", once=True, ttl=60)
    return deny(f"{spent} tasks are enough") if spent > 2 else None


@hook("post_tool_use")
@hook("tool_result", id="late")
async def note(event: PostToolUse) -> Any:
    if event.tool_name == "Bash":
        raise KeyError("oops")
    return append("noted") if event.event == "post_tool_use" else None


@hook("stop")
def talks_nonsense(event: Any) -> Any:
    return deny("a stop cannot be denied")


@hook("pre_compact")
def waits(event: Any) -> Any:
    import time

    time.sleep(60)


@hook("pre_compact", enabled=False)
def is_off(event: Any) -> Any:
    return deny("never")


def without_a_mark(event: Any) -> Any:
    return deny("by name alone")


@hook("deploy_requested", match="prod")
def no_friday(event: Any) -> Any:
    return deny(f"not to {event.target}")
