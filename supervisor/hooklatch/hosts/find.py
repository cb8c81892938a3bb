"""The index of all hosts, by their names and by other names that people use."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from hooklatch.core.text import suggest_name
from hooklatch.hosts.claude_code import ClaudeCode
from hooklatch.hosts.codex import Codex
from hooklatch.hosts.copilot import Copilot
from hooklatch.hosts.cursor import CursorHost
from hooklatch.hosts.gemini import Gemini
from hooklatch.hosts.generic import GenericHost
from hooklatch.hosts.host import Host
from hooklatch.hosts.opencode import OpenCode
from hooklatch.hosts.qwen import Qwen

__all__ = ["UnknownHostError", "find_host", "list_hosts"]

ALL: Final = (ClaudeCode(), Codex(), Gemini(), Copilot(), CursorHost(), OpenCode(), Qwen(), GenericHost())
HOSTS: Final = MappingProxyType({host.name: host for host in ALL})
ALIASES: Final = MappingProxyType({alias: host.name for host in HOSTS.values() for alias in host.aliases})


class UnknownHostError(LookupError):
    """There is no host of that name; the text lists the hosts."""


def find_host(name: str) -> Host:
    """Return a host by its name or an alias, in any case.

    Raises:
        UnknownHostError: there is none.
    """
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    host = HOSTS.get(ALIASES.get(plain, plain))
    if host is None:
        near = suggest_name(plain, [*HOSTS, *ALIASES])
        raise UnknownHostError(f"unknown host {name[:100]!r}; there are {', '.join(HOSTS)}{near}")
    return host


def list_hosts() -> tuple[str, ...]:
    """Return the names of all hosts, in the order in which they are listed to people."""
    return tuple(HOSTS)
