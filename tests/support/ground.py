"""Projects with a guard each, and whom their guards refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.daemons import Client, Daemon

GUARD = """
from hooklatch_worker import deny, hook

@hook("pre_tool_use", match={tool!r})
def guard(event):
    return deny({tool!r})
"""


class Ground:
    """Two trusted projects, one of them with another one inside, and folders that are none."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon = daemon
        self.folder = folder

    def path(self, name: str) -> str:
        return name.replace("$", f"{self.folder}/") if name.startswith("$") else name

    async def trust(self, name: str, tool: str) -> None:
        """Make a project whose guard refuses one tool, and trust it."""
        path = self.folder / name
        (path / "sub").mkdir(parents=True, exist_ok=True)
        hooks = path / ".hooklatch" / "hooks.d"
        hooks.mkdir(parents=True)
        (hooks / f"{tool}.py").write_text(GUARD.format(tool=tool))
        async with self.daemon.administrator() as admin:
            await admin.call("trust", folder=str(path))

    async def one_shot(self, **envelope: Any) -> str:
        """Return the tools that are refused to a one-shot, or the cause if none is let through."""
        envelope = {key: self.path(value) if isinstance(value, str) else value for key, value in envelope.items()}
        refused = ""
        for tool in ("A", "B", "I"):
            client = self.daemon.connect()
            payload = {"tool_name": tool, "tool_input": {}}
            decision = await client.call("fire", event="pre_tool_use", payload=payload, envelope=envelope)
            await client.aclose()
            refused += tool if decision["verdict"] == "deny" else ""
            if decision["cause"] not in (None, "policy"):
                return str(decision["cause"])
        return refused


async def refused(client: Client, **envelope: Any) -> str:
    found = ""
    for tool in ("A", "B", "I"):
        payload = {"tool_name": tool, "tool_input": {}}
        decision = await client.call("fire", event="pre_tool_use", payload=payload, envelope=envelope)
        if decision["cause"] not in (None, "policy"):
            return str(decision["cause"])
        found += tool if decision["verdict"] == "deny" else ""
    return found
