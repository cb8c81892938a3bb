"""OpenCode, headless (`opencode run`), with the model on loopback."""

from __future__ import annotations

from collections.abc import Mapping

from real_hosts.hosts.host import HOOKS, Host, Place
from real_hosts.model.conversation import Call, opening

__all__ = ["OpenCode"]


class OpenCode(Host):
    """OpenCode.  Its hooks are functions of a plugin, so its plain hook is a plugin that starts the script."""

    name = "opencode"
    watched = frozenset({"session_start", "post_tool_use"})  # it has no event for the end of a session
    bare_alone = ("killed", "hang")
    bare_never = ("exit_2", "half", "noise", "ask")

    def settle(self, place: Place) -> None:
        config = {
            "$schema": "https://opencode.ai/config.json",
            "model": "loopback/fake",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"bash": "allow", "task": "allow", "external_directory": "allow"},
            "provider": {
                "loopback": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "loopback",
                    "options": {"baseURL": f"{place.model}/v1", "apiKey": "none"},
                    "models": {"fake": {"name": "fake", "tool_call": True}},
                }
            },
        }
        place.add(".config/opencode/opencode.json", **config)

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        environment = {
            **place.environment,
            # It asks the npm registry at each start, and without these tries again for 72 s.
            "npm_config_fetch_retries": "0",
            "npm_config_offline": "true",
            "OPENCODE_DISABLE_AUTOUPDATE": "true",
            "OPENCODE_DISABLE_MODELS_FETCH": "true",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "true",
        }
        return [*self.program.argv, "run", prompt], environment

    def add_bare_hook(self, place: Place, *, is_there: bool) -> None:
        if is_there:
            place.write(".config/opencode/plugins/plain.js", (HOOKS / "plain_plugin.js").read_text())

    def add_command(self, place: Place, command: str) -> None:
        raise NotImplementedError("its hooks are functions, not commands")

    def shell(self, command: str) -> Call:
        return Call("bash", {"command": command, "description": "do it"})

    def subagent(self, play: str) -> Call:
        return Call("task", {"prompt": opening(play), "description": "do it", "subagent_type": "general"})

    def native(self) -> Mapping[str, str]:
        return {}
