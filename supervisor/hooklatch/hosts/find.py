"""The index of all hosts, by their names and by other names that people use.

The module of a host is imported when it is used first.  One that cannot be imported fails its events: the forwarder
refuses what the daemon answers with an error.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hooklatch.core.text import suggest_name

if TYPE_CHECKING:
    from hooklatch.hosts.host import Host

__all__ = ["HOSTS", "UnknownHostError", "find_host", "list_hosts", "load_host"]

# The name of a host: its class in the module of that name or in another one, and its other names.
HOSTS: Final = MappingProxyType({
    "claude-code": ("ClaudeCode", "claude", "cc"),
    "codex": ("Codex", "codex-cli", "openai-codex"),
    "gemini": ("Gemini", "gemini-cli", "google-gemini"),
    "copilot": ("Copilot", "copilot-cli", "github-copilot", "github-copilot-cli"),
    "cursor": ("CursorHost", "cursor-agent", "cursor-cli"),
    "opencode": ("OpenCode", "open-code"),
    "qwen": ("speakers:Qwen", "qwen-code", "qwencode"),
    "kimi": ("speakers:Kimi", "kimi-code", "kimi-cli"),
    "grok": ("speakers:Grok", "grok-build", "grok-cli"),
    "letta": ("speakers:Letta", "letta-code"),
    "cline": ("speakers:Cline", "cline-cli"),
    "auggie": ("speakers:Auggie", "augment", "augment-code"),
    "droid": ("speakers:Droid", "factory", "factory-droid"),
    "goose": ("speakers:Goose", "goose-cli", "block-goose"),
    "generic": ("GenericHost", "own", "other", "json"),
})  # fmt: skip
NAMES: Final = {alias: name for name, (_, *aliases) in HOSTS.items() for alias in (name, *aliases)}


class UnknownHostError(LookupError):
    """There is no host of that name; the text lists the hosts."""


def find_host(name: str) -> Host:
    """Return a host by its name or an alias, in any case.

    Raises:
        UnknownHostError: there is none.
    """
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    if plain not in NAMES:
        raise UnknownHostError(
            f"unknown host {name[:100]!r}; there are {', '.join(HOSTS)}{suggest_name(plain, [*NAMES])}"
        )
    return load_host(NAMES[plain])


@cache
def load_host(name: str) -> Host:
    module, _, class_name = HOSTS[name][0].rpartition(":")
    host: Host = getattr(import_module(f"hooklatch.hosts.{module or name.replace('-', '_')}"), class_name)()
    return host


def list_hosts() -> tuple[str, ...]:
    """Return the names of all hosts, in the order in which they are listed to people."""
    return tuple(HOSTS)
