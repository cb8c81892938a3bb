"""Qwen Code, headless, with the model on loopback."""

from __future__ import annotations

from collections.abc import Mapping

from real_hosts.hosts.claude_code import claude_answers
from real_hosts.hosts.host import BARE_SECONDS, Host, Place
from real_hosts.model.conversation import Call, opening

__all__ = ["Qwen"]

SETTINGS = ".qwen/settings.json"


class Qwen(Host):
    """Qwen Code: Claude Code's names in Gemini CLI's layout, and the chat completions of OpenAI."""

    name = "qwen"
    rewrites = False
    watched = frozenset({"session_start", "post_tool_use"})  # a headless session has no session_end

    def settle(self, place: Place) -> None:
        place.add(SETTINGS, privacy={"usageStatisticsEnabled": False}, general={"enableAutoUpdate": False})

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        environment = {
            **place.environment,
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{place.model}/v1",
            "OPENAI_MODEL": "fake",
            "QWEN_CODE_NO_RELAUNCH": "true",
        }
        return [*self.program.argv, "--yolo", "--auth-type", "openai", "-p", prompt], environment

    def add_command(self, place: Place, command: str) -> None:
        handler = {"name": "plain", "type": "command", "command": command, "timeout": BARE_SECONDS * 1000}
        hooks = {"PreToolUse": [{"matcher": "run_shell_command", "hooks": [handler]}]}
        place.add(SETTINGS, hooks=hooks)

    def shell(self, command: str) -> Call:
        return Call("run_shell_command", {"command": command, "description": "do it", "is_background": False})

    def subagent(self, play: str) -> Call:
        return Call("agent", {"description": "do it", "prompt": opening(play), "subagent_type": "general-purpose"})

    def native(self) -> Mapping[str, str]:
        return claude_answers()
