"""Calls of tools as the guards of the gallery and conditions of hooks are given them, and what each makes of one."""

from __future__ import annotations

from typing import Any

import msgspec

from hooklatch.core.hooks.conditions import PayloadFacts, compile_where
from hooklatch.core.payload import Payload
from hooklatch.guards.gallery import (
    destructive_commands,
    git_rules,
    network_egress,
    only_guarded_agents,
    package_installs,
    protected_paths,
)
from support.plays import CATALOGUE

__all__ = ["GUARDS", "Event", "may_call_hook", "verdict"]

GUARDS = [
    destructive_commands.destructive_commands,
    git_rules.git_rules,
    network_egress.network_egress,
    only_guarded_agents.only_guarded_agents,
    package_installs.package_installs,
    protected_paths.protected_paths,
]


class Event:
    """A call of the shell tool, as a guard is given it."""

    tool_kind = "shell"
    tool_name = "Bash"
    cwd = "/srv/app/web"

    def __init__(self, text: object) -> None:
        self.tool_input = self.tool_args = {"command": text}


def verdict(guard: Any, text: object) -> str:
    """Return what a guard says of a text of the shell tool; "pass" if it says nothing."""
    answer = guard(Event(text))
    return "pass" if answer is None else str(answer.verdict)


def may_call_hook(program: str, text: str) -> bool:
    """Return whether a hook whose condition names this program is called for a text of the shell tool."""
    where = compile_where({"command": program})
    payload = {"tool_name": "Bash", "tool_input": {"command": text}}

    assert where is not None
    return where.may_hold(PayloadFacts(CATALOGUE["pre_tool_use"], Payload(msgspec.json.encode(payload)), Event.cwd))
