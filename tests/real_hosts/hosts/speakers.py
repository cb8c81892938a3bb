"""The programs that speak Claude Code's dialect, headless, with the model on loopback: chat completions for all."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from real_hosts.hosts.host import Host, Place
from real_hosts.model.conversation import Call

__all__ = ["SPEAKERS", "Auggie", "Cline", "Droid", "Goose", "Grok", "Kimi", "Letta", "Speaker"]

KIMI = """default_model = "fake"
telemetry = false

[providers.loopback]
type = "openai"
base_url = "{model}/v1"
api_key = "none"

[models.fake]
provider = "loopback"
model = "fake"
max_context_size = 100000
"""
GROK = """[models]
default = "fake"

[model.fake]
model = "fake"
base_url = "{model}/v1"
api_key = "none"
api_backend = "chat_completions"
context_window = 100000
"""
GOOSE = """extensions:
  developer:
    enabled: true
    type: builtin
    name: developer
"""


class Speaker(Host):
    """A program that is played with hooklatch alone: what its plain hooks do was read in its package."""

    settings = ""  # the file that hooklatch changes, below the home
    writes_settings = False  # the program itself changes that file too
    tool = "Bash"

    def add_command(self, place: Place, command: str) -> None:
        raise NotImplementedError("its plain hooks are not played")

    def subagent(self, play: str) -> Call:
        raise NotImplementedError("its sub-agents are not played")

    def native(self) -> Mapping[str, str]:
        return {}

    def shell(self, command: str) -> Call:
        return Call(self.tool, {"command": command})


class Kimi(Speaker):
    name = "kimi"
    settings = ".kimi-code/config.toml"

    def settle(self, place: Place) -> None:
        place.write(self.settings, KIMI.format(model=place.model))

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        return [*self.program.argv, "-p", prompt], {**place.environment, "KIMI_CODE_NO_AUTO_UPDATE": "1"}


class Grok(Speaker):
    name = "grok"
    settings = ".grok/hooks/hooklatch.json"
    tool = "run_terminal_command"

    def settle(self, place: Place) -> None:
        place.write(".grok/config.toml", GROK.format(model=place.model))

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        return [*self.program.argv, "-p", prompt, "-m", "fake", "--always-approve"], place.environment

    def shell(self, command: str) -> Call:
        return Call(self.tool, {"command": command, "description": "do it"})


class Cline(Speaker):
    """Cline, which starts a server of its own that outlives the session; a refusal ends the session."""

    name = "cline"
    settings = ".cline/hooks/PreToolUse.bash"

    def settle(self, place: Place) -> None:
        return

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        program = shlex.join(self.program.argv)
        provider = f"-P openai-compatible -m fake {shlex.quote(prompt)}"
        sign_in = f"auth -p openai-compatible -k none -m fake -b {place.model}/v1"
        return ["/bin/sh", "-c", f"{program} {sign_in} && exec {program} {provider}"], place.environment

    def shell(self, command: str) -> Call:
        return Call("run_commands", {"commands": [command]})


class Droid(Speaker):
    """Droid without an account, as it runs where there is no network, with a model of one's own."""

    name = "droid"
    settings = ".factory/settings.json"

    def settle(self, place: Place) -> None:
        model = {
            "model": "fake", "displayName": "fake", "baseUrl": f"{place.model}/v1", "apiKey": "none",
            "provider": "generic-chat-completion-api", "maxOutputTokens": 8000,
        }  # fmt: skip
        place.add(self.settings, customModels=[model])

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        environment = {
            **place.environment, "FACTORY_AIRGAP_ENABLED": "true", "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false",
        }  # fmt: skip
        return [*self.program.argv, "exec", "--skip-permissions-unsafe", "-m", "custom:fake-0", prompt], environment

    def shell(self, command: str) -> Call:
        return Call("Execute", {"command": command, "riskLevelReason": "a test", "riskLevel": "low"})


class Goose(Speaker):
    name = "goose"
    settings = ".agents/plugins/hooklatch/hooks/hooks.json"
    tool = "shell"

    def settle(self, place: Place) -> None:
        place.write(".config/goose/config.yaml", GOOSE)

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        environment = {
            **place.environment, "GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "fake", "OPENAI_API_KEY": "none",
            "OPENAI_HOST": place.model, "GOOSE_DISABLE_KEYRING": "1", "GOOSE_MODE": "auto",
        }  # fmt: skip
        return [*self.program.argv, "run", "--no-session", "-t", prompt], environment


class Letta(Speaker):
    """Letta Code with an agent that is kept on this machine, without an account."""

    name = "letta"
    settings = ".letta/settings.json"
    writes_settings = True

    def settle(self, place: Place) -> None:
        place.add(self.settings)

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        program = shlex.join(self.program.argv)
        sign_in = f"connect openai-compatible --base-url {place.model}/v1 --api-key none"
        run = f"-m openai-compatible/fake -p {shlex.quote(prompt)}"
        line = f"{program} backend local && {program} {sign_in} && exec {program} {run}"
        return ["/bin/sh", "-c", line], {**place.environment, "LETTA_CODE_TELEM": "0", "DISABLE_AUTOUPDATER": "1"}

    def shell(self, command: str) -> Call:
        return Call(self.tool, {"command": command, "description": "do it"})


class Auggie(Speaker):
    """Auggie, whose service a variable names: the model on loopback answers in its place."""

    name = "auggie"
    settings = ".augment/settings.json"

    def settle(self, place: Place) -> None:
        place.add(self.settings)

    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        session = {"accessToken": "none", "tenantURL": f"{place.model}/", "scopes": ["read", "write"]}
        environment = {**place.environment, "AUGMENT_SESSION_AUTH": json.dumps(session)}
        return [*self.program.argv, "--print", prompt], environment

    def shell(self, command: str) -> Call:
        return Call("launch-process", {"command": command, "wait": True, "max_wait_seconds": 30, "cwd": "/"})


SPEAKERS: dict[str, Speaker] = {
    host.name: host for host in (Kimi(), Grok(), Letta(), Cline(), Auggie(), Droid(), Goose())
}
