"""Claude Code, headless, with the model on loopback."""

from __future__ import annotations

import json
from collections.abc import Mapping

from real_hosts.hosts.host import BARE_SECONDS, Host, Place
from real_hosts.model.conversation import Call, opening

__all__ = ["ClaudeCode", "claude_answers"]

SETTINGS = ".claude/settings.json"


class ClaudeCode(Host):
    """Claude Code; as `strict`, with `onFailure: "block"` on its bare hooks."""

    name = "claude-code"

    def __init__(self, *, is_strict: bool = False) -> None:
        self._extra = {"onFailure": "block"} if is_strict else {}

    def settle(self, place: Place) -> None:
        place.add(SETTINGS, permissions={"allow": ["Bash", "Agent"]})

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        words = ["-p", prompt, "--output-format", "json"]
        environment = {
            **place.environment,
            "ANTHROPIC_BASE_URL": place.model,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        return [*self.program.argv, *words], environment

    def add_command(self, place: Place, command: str) -> None:
        handler = {"type": "command", "command": command, "timeout": BARE_SECONDS, **self._extra}
        hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [handler]}]}
        place.add(SETTINGS, hooks=hooks)

    def shell(self, command: str) -> Call:
        return Call("Bash", {"command": command, "description": "do it"})

    def subagent(self, play: str) -> Call:
        return Call("Agent", {"prompt": opening(play), "description": "do it", "subagent_type": "general-purpose"})

    def native(self) -> Mapping[str, str]:
        return claude_answers()


def claude_answers() -> Mapping[str, str]:
    """Return the answers of a PreToolUse hook in the form that several programs have taken from Claude Code."""

    def form(**specific: object) -> str:
        return json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **specific}})

    return {
        "deny": form(permissionDecision="deny", permissionDecisionReason="WHY"),
        "ask": form(permissionDecision="ask", permissionDecisionReason="WHY"),
        "rewrite": form(permissionDecision="allow", updatedInput="INPUT").replace('"INPUT"', "INPUT"),
    }
