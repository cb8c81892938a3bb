"""Gemini CLI, headless, with the model on loopback."""

from __future__ import annotations

import json
from collections.abc import Mapping

from real_hosts.hosts.host import BARE_SECONDS, Host, Place
from real_hosts.model.conversation import Call, opening

__all__ = ["Gemini"]

SETTINGS = ".gemini/settings.json"


class Gemini(Host):
    """Gemini CLI.  A person's settings hold both how it signs in and its hooks."""

    name = "gemini"

    def settle(self, place: Place) -> None:
        place.add(
            SETTINGS,
            security={"auth": {"selectedType": "gemini-api-key"}},
            privacy={"usageStatisticsEnabled": False},
            general={"enableAutoUpdate": False},
        )

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        environment = {
            **place.environment,
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": place.model,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        }
        return [*self.program.argv, "--yolo", "-m", "gemini-2.5-flash", "-p", prompt], environment

    def add_command(self, place: Place, command: str) -> None:
        handler = {"name": "plain", "type": "command", "command": command, "timeout": BARE_SECONDS * 1000}
        hooks = {"BeforeTool": [{"matcher": "run_shell_command", "hooks": [handler]}]}
        place.add(SETTINGS, hooks=hooks)

    def shell(self, command: str) -> Call:
        return Call("run_shell_command", {"command": command, "description": "do it"})

    def subagent(self, play: str) -> Call:
        return Call("invoke_agent", {"agent_name": "generalist", "prompt": opening(play)})

    def native(self) -> Mapping[str, str]:
        rewrite = {"decision": "allow", "hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": "INPUT"}}
        return {
            "deny": json.dumps({"decision": "deny", "reason": "WHY"}),
            "ask": json.dumps({"decision": "ask", "reason": "WHY"}),
            "rewrite": json.dumps(rewrite).replace('"INPUT"', "INPUT"),
        }
