"""A plain agent loop without any SDK: the model asks for tools, hooks decide, and the model gets every answer.

A refused call never executes, and its error goes back to the model as the call's result, as the Messages API wants it.
Run it beside a daemon (hooklatch serve); without one every tool is refused.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import hooklatch

Message = dict[str, Any]
Model = Callable[[list[Message]], Awaitable[list[Message]]]


async def shell(tool_input: dict[str, Any]) -> str:
    process = await asyncio.create_subprocess_shell(tool_input["command"], stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    return output.decode()


TOOLS = {"Shell": shell}


async def loop(session: hooklatch.Session, model: Model, prompt: str) -> list[Message]:
    """Return the whole conversation."""
    decision = await session.fire("user_prompt_submit", prompt=prompt)
    decision.raise_for_refusal()
    messages: list[Message] = [{"role": "user", "content": prompt}]
    while True:
        answer = await model(messages)
        messages.append({"role": "assistant", "content": answer})
        calls = [block for block in answer if block["type"] == "tool_use"]
        if not calls:
            await session.fire("stop", wait=False)
            return messages
        runs = await asyncio.gather(*(run(session, call) for call in calls))
        # One result for each call, whatever became of it: without it the API takes no further message.
        messages.append({"role": "user", "content": [one.as_tool_result() for one in runs]})
        messages += [message for one in runs for message in one.inject]
        if halted := next((one for one in runs if one.halt), None):
            raise SystemExit(f"halted: {halted.halt_reason}")


async def run(session: hooklatch.Session, call: Message) -> hooklatch.ToolRun:
    tool = TOOLS.get(call["name"], unknown)
    return await session.run_tool(call["name"], call["input"], tool, tool_use_id=call["id"], permission=permission)


async def unknown(tool_input: dict[str, Any]) -> str:
    raise LookupError(f"there is no such tool; there are {', '.join(TOOLS)}")


async def permission(question: hooklatch.PermissionQuestion) -> bool | str:
    """Stand in for the agent's dialog: it is asked if no hook has allowed the call."""
    return True if question.reason is None else f"the user said no ({question.reason})"


async def scripted(messages: list[Message]) -> list[Message]:
    """Stand in for the model: it calls three tools at once, and then says what it was told."""
    results = messages[-1]["content"]
    if isinstance(results, str):
        commands = ["echo hello", "rm -rf build", "sudo true"]
        return [
            {"type": "tool_use", "id": f"toolu_{number}", "name": "Shell", "input": {"command": command}}
            for number, command in enumerate(commands, 1)
        ]
    return [{"type": "text", "text": json.dumps(results)}]


async def main() -> None:
    async with hooklatch.session(host="example", denial_breaker=5) as session:
        for message in await loop(session, scripted, "clean up"):
            print(json.dumps(message), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
