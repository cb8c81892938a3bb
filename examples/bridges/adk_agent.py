"""An app of Google's ADK with guarded tools.  A refused call never executes, and the model is told why."""

from __future__ import annotations

import asyncio
import subprocess

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

from hooklatch.bridges.google_adk import GuardPlugin
from hooklatch.bridges.guard import Guard, open_guard


def shell(command: str) -> dict[str, str]:
    """Run a command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    return {"output": done.stdout}


async def clean(guard: Guard, model: str | BaseLlm) -> str:
    agent = LlmAgent(name="cleaner", model=model, tools=[shell])
    runner = InMemoryRunner(app=App(name="cleaner", root_agent=agent, plugins=[GuardPlugin(guard)]))
    session = await runner.session_service.create_session(app_name="cleaner", user_id="me")
    prompt = types.UserContent("Clean the build folder.")
    text = ""
    async for event in runner.run_async(user_id="me", session_id=session.id, new_message=prompt):
        text = "".join(part.text or "" for part in (event.content.parts or [] if event.content else []))
    await runner.close()
    return text


async def main() -> None:
    async with open_guard(host="google-adk") as guard:
        print(await clean(guard, "gemini-2.5-pro"))


if __name__ == "__main__":
    asyncio.run(main())
