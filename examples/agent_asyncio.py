"""A small agent under asyncio: each tool call of the model goes through the hooks, and the model gets the result.

Run it beside a daemon (hooklatch serve); without one every tool is refused.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import hooklatch

# What a model would say; each is a `tool_use` block of the Messages API.
CALLS = [
    {"id": "toolu_1", "name": "Shell", "input": {"command": "echo hello"}},
    {"id": "toolu_2", "name": "Shell", "input": {"command": "rm -rf build"}},
    {"id": "toolu_3", "name": "Shell", "input": {"command": "sudo true"}},
]


async def shell(tool_input: dict[str, Any]) -> str:
    process = await asyncio.create_subprocess_shell(tool_input["command"], stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    return output.decode()


async def permission(question: hooklatch.PermissionQuestion) -> bool | str:
    """Stand in for the agent's dialog: it is asked if no hook has allowed the call."""
    if question.reason is None:
        return True  # no hook asks, and this agent does not either
    return f"the user said no ({question.reason})"


async def main() -> None:
    async with hooklatch.session(host="example", denial_breaker=3) as session:
        for call in CALLS:
            run = await session.run_tool(
                call["name"], call["input"], shell, tool_use_id=call["id"], permission=permission
            )
            print(json.dumps(run.as_tool_result()), flush=True)
            if run.halt:
                raise SystemExit(f"halted: {run.halt_reason}")


if __name__ == "__main__":
    asyncio.run(main())
