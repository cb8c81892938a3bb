"""Let an agent reach only the hosts that are listed.

This file is yours: change the list.  It sees only hosts that a command names.  A program that the agent writes can
reach others, which only a sandbox without a network stops.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from hooklatch import ask, deny, hook
from hooklatch.guards import UnreadableCommandError, call_of, commands, hostname_of, hosts_reached
from hooklatch.guards.hosts import REACHING_HOSTS
from hooklatch.guards.unseen import may_be

# Globs of tools that this guard passes, such as "mcp__notes__*".  Hosts' own tools that touch nothing are known.
HARMLESS_TOOLS: tuple[str, ...] = ()
ALLOWED = (
    "localhost", "127.0.0.1", "github.com", "*.github.com", "*.githubusercontent.com", "gitlab.com", "pypi.org",
    "files.pythonhosted.org", "registry.npmjs.org", "crates.io", "*.crates.io", "proxy.golang.org", "docs.python.org",
)  # fmt: skip


@hook(
    "pre_tool_use", match=["shell", "fetch", "mcp", "other"], timeout=2.0, description="only listed hosts are reached"
)
def network_egress(event: Any) -> Any:
    call = call_of(event, HARMLESS_TOOLS)
    if call.fault is not None:
        return deny(call.fault)
    hosts = [hostname_of(url if "://" in url else f"//{url}") for url in call.addresses]
    for line in call.lines:
        try:
            found = commands(line.text)
            hosts += [host for command in found for host in hosts_reached(command)]
            hosts += [None for command in found if may_be(command, line.text, REACHING_HOSTS)]
        except UnreadableCommandError as error:
            return (deny if line.is_sure else ask)(f"the command cannot be judged: {error}")
    for host in hosts:
        if host is not None and not any(fnmatchcase(host, pattern) for pattern in ALLOWED):
            return deny(f"{host} is not among the hosts that may be reached; a person adds it to ALLOWED in this guard")
    return ask("the host that this reaches is decided only when it runs") if None in hosts else None
