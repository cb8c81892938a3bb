"""Hooks of the Ethos rows, as they are written here; what each shall say stands in its config."""

from typing import Any

from hooklatch import allow, amend, ask, claim, context, deny


def fine(event: Any) -> object:
    return None


def crash(event: Any) -> object:
    raise RuntimeError("broken")


def no(event: Any) -> object:
    return deny(event.config.get("reason", "blocked by policy"))


def amends(event: Any) -> object:
    return amend(**event.config)


def claims(event: Any) -> object:
    return claim(event.config or None)


def tells(event: Any) -> object:
    return context(told=event.payload)


def guards_the_terminal(event: Any) -> object:
    if event.tool_name != "terminal":
        return None
    command = event.tool_input["command"]
    return deny(f"Blocked: {command!r} matches a dangerous pattern.") if command.startswith("rm -rf") else None


def asks_about_rm(event: Any) -> object:
    return ask("it deletes files") if event.tool_input["command"].startswith("rm") else None


def knows_the_list(event: Any) -> object:
    return allow() if event.tool_input["command"] in event.config["allowed"] else None


def verifies(event: Any) -> object:
    return None if event.summary == "tests pass" else deny("the criteria are not met")
