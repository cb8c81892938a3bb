"""An agent of the OpenAI Agents SDK with a guarded tool.  A refused call never executes, and the model is told why."""

from __future__ import annotations

import asyncio
import subprocess

from agents import Agent, Model, Runner, function_tool

from hooklatch.bridges.guard import Guard, open_guard
from hooklatch.bridges.openai_agents import TellingHooks, guarded


@function_tool
def shell(command: str) -> str:
    """Run a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


async def clean(guard: Guard, model: str | Model) -> str:
    agent = Agent(name="cleaner", model=model, tools=[shell])
    result = await Runner.run(guarded(guard, agent), "Clean the build folder.", hooks=TellingHooks(guard))
    return str(result.final_output)


async def main() -> None:
    async with open_guard(host="openai-agents") as guard:
        print(await clean(guard, "gpt-5"))


if __name__ == "__main__":
    asyncio.run(main())
