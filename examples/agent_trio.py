"""A small agent under trio: two tools at once, a guard of its own, and a line for each change of the hooks.

Run it beside a daemon (hooklatch serve); without one every tool is refused.
"""

from __future__ import annotations

import json
from typing import Any

import trio

import hooklatch
from hooklatch import Announcement, PermissionQuestion, deny

CALLS = [
    {"id": "toolu_1", "name": "Read", "input": {"path": __file__}},
    {"id": "toolu_2", "name": "Read", "input": {"path": "/home/me/.ssh/id_ed25519"}},
]


async def read(tool_input: dict[str, Any]) -> str:
    return await trio.Path(tool_input["path"]).read_text()


async def no_keys(event: hooklatch.Event) -> hooklatch.Verdict[Any] | None:
    """Guard this session, in this process, with access to its memory, which a hook in a file does not have."""
    return deny("keys are not read here") if ".ssh" in event.tool_input["path"] else None


def permission(question: PermissionQuestion) -> bool:
    """Stand in for the agent's dialog; this one trusts what no hook asks about."""
    return question.reason is None


def note_reload(announcement: Announcement) -> None:
    print(f"# the hooks are now at revision {announcement.current}", flush=True)


async def main() -> None:
    hooks = [("pre_tool_use", no_keys, {"match": "Read"})]
    async with hooklatch.session(host="example", hooks=hooks) as session, trio.open_nursery() as nursery:
        session.on_reload(note_reload)

        async def run(call: dict[str, Any]) -> None:
            done = await session.run_tool(
                call["name"], call["input"], read, tool_use_id=call["id"], permission=permission
            )
            print(json.dumps(done.as_tool_result()), flush=True)

        for call in CALLS:
            nursery.start_soon(run, call)


if __name__ == "__main__":
    trio.run(main)
