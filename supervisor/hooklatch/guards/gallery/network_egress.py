"""Let an agent reach only the hosts that are listed.

This file is yours: change the list.  A program of one's own can reach others: a sandbox without a network stops that.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from hooklatch import ask, deny, hook
from hooklatch.guards import UnreadableCommandError, commands, hostname_of, hosts_reached

ALLOWED = (
    "localhost", "127.0.0.1", "github.com", "*.github.com", "*.githubusercontent.com", "gitlab.com", "pypi.org",
    "files.pythonhosted.org", "registry.npmjs.org", "crates.io", "*.crates.io", "proxy.golang.org", "docs.python.org",
)  # fmt: skip


@hook("pre_tool_use", match=["shell", "fetch"], timeout=2.0, description="only listed hosts are reached")
def network_egress(event: Any) -> Any:
    told = event.tool_args or event.tool_input
    hosts: list[str | None] = []
    if event.tool_kind == "shell" or "command" in told:
        if not isinstance(told.get("command"), str):
            return deny("the shell tool was called without a command, so nobody knows what it would do")
        try:
            hosts = [host for one in commands(told["command"]) for host in hosts_reached(one)]
        except UnreadableCommandError as error:
            return deny(f"the command cannot be judged: {error}")
    elif isinstance(url := told.get("url"), str):
        hosts = [hostname_of(url if "://" in url else f"//{url}")]
    elif not isinstance(told.get("query"), str):  # a search names no host: its service does
        return deny("the tool that fetches was called without a URL, so nobody knows what it would reach")
    for host in hosts:
        if host is not None and not any(fnmatchcase(host, pattern) for pattern in ALLOWED):
            return deny(f"{host} is not among the hosts that may be reached; a person adds it to ALLOWED in this guard")
    return ask("which host is reached is decided only when it runs") if None in hosts else None
