"""All programs of the suite, in the order of the table."""

from __future__ import annotations

from real_hosts.hosts.claude_code import ClaudeCode
from real_hosts.hosts.codex import Codex
from real_hosts.hosts.copilot import Copilot
from real_hosts.hosts.gemini import Gemini
from real_hosts.hosts.host import Host
from real_hosts.hosts.opencode import OpenCode
from real_hosts.hosts.qwen import Qwen

__all__ = ["HOSTS", "STRICT"]

HOSTS: dict[str, Host] = {host.name: host for host in (ClaudeCode(), Codex(), Gemini(), Qwen(), Copilot(), OpenCode())}
STRICT = ClaudeCode(is_strict=True)  # with Claude Code's own way to fail closed on its plain hooks
