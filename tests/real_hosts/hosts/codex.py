"""Codex, headless (`codex exec`), with the model on loopback."""

from __future__ import annotations

from collections.abc import Mapping

from real_hosts.hosts.claude_code import claude_answers
from real_hosts.hosts.host import BARE_SECONDS, Host, Place
from real_hosts.model.conversation import Call, opening

__all__ = ["Codex"]

CONFIG = """
model = "fake"
model_provider = "loopback"
check_for_update_on_startup = false

[model_providers.loopback]
name = "loopback"
base_url = "{model}/v1"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 0

[analytics]
enabled = false
"""


class Codex(Host):
    """Codex, which skips hooks that nobody has trusted."""

    name = "codex"
    install_words = ("--trust",)

    def settle(self, place: Place) -> None:
        place.write(".codex/config.toml", CONFIG.format(model=place.model))

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        words = ["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access"]
        # A plain hook has nobody who would trust it; ours was trusted as it was installed.
        is_bare = (place.folder / "answers.json").exists()
        bypass = ["--dangerously-bypass-hook-trust"] if is_bare else []
        return [*self.program.argv, *words, *bypass, prompt], place.environment

    def add_command(self, place: Place, command: str) -> None:
        handler = {"type": "command", "command": command, "timeout": BARE_SECONDS}
        hooks = {"PreToolUse": [{"matcher": ".*", "hooks": [handler]}]}
        place.add(".codex/hooks.json", hooks=hooks)

    def shell(self, command: str) -> Call:
        return Call("exec_command", {"cmd": command})

    def subagent(self, play: str) -> Call:
        return Call("multi_agent_v1/spawn_agent", {"message": opening(play)})

    def native(self) -> Mapping[str, str]:
        return claude_answers()
