"""GitHub Copilot CLI, headless, with the model on loopback."""

from __future__ import annotations

import json
from collections.abc import Mapping

from real_hosts.hosts.host import BARE_SECONDS, Host, Place
from real_hosts.model.conversation import Call, opening

__all__ = ["Copilot"]


class Copilot(Host):
    """GitHub Copilot CLI with a model of one's own; hooks of its own dialect, the one in camelCase."""

    name = "copilot"

    def settle(self, place: Place) -> None:
        return

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        environment = {
            **place.environment,
            "COPILOT_PROVIDER_BASE_URL": f"{place.model}/v1",
            "COPILOT_MODEL": "fake",
            "COPILOT_OFFLINE": "true",
        }
        words = ["--allow-all-tools", "--allow-all-paths", "--no-color", "-p", prompt]
        return [*self.program.argv, *words], environment

    def add_command(self, place: Place, command: str) -> None:
        handler = {"type": "command", "bash": command, "timeoutSec": BARE_SECONDS}
        place.add(".copilot/hooks/plain.json", version=1, hooks={"preToolUse": [handler]})

    def shell(self, command: str) -> Call:
        return Call("bash", {"command": command, "description": "do it"})

    def subagent(self, play: str) -> Call:
        return Call(
            "task", {"prompt": opening(play), "description": "do it", "agent_type": "general-purpose", "name": "helper"}
        )

    def native(self) -> Mapping[str, str]:
        def form(decision: str, **rest: str) -> str:
            return json.dumps({"permissionDecision": decision, **rest})

        return {
            "deny": form("deny", permissionDecisionReason="WHY"),
            "ask": form("ask", permissionDecisionReason="WHY"),
            "rewrite": form("allow", modifiedArgs="INPUT").replace('"INPUT"', "INPUT"),
        }
