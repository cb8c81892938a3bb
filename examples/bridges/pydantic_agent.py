"""A Pydantic AI agent with a guarded tool.  A refused call never executes, and the model is told why."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models import Model

from hooklatch.bridges.guard import Guard, open_guard
from hooklatch.bridges.pydantic_ai import guard_hooks


def shell(command: str) -> str:
    """Run a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


async def clean(guard: Guard, model: str | Model) -> str:
    agent: Agent[Any, str] = Agent(model, tools=[shell], capabilities=[guard_hooks(guard)])
    return (await agent.run("Clean the build folder.")).output


async def main() -> None:
    async with open_guard(host="pydantic-ai") as guard:
        print(await clean(guard, "anthropic:claude-sonnet-4-5"))


if __name__ == "__main__":
    asyncio.run(main())
