"""Claude Code under the Claude Agent SDK, with every tool, prompt and permission guarded."""

from __future__ import annotations

import anyio
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from hooklatch.bridges.claude_agent_sdk import can_use_tool, guarded
from hooklatch.bridges.guard import Guard, open_guard


def options(guard: Guard) -> ClaudeAgentOptions:
    """Return the options: what hooks allow needs no person, and nobody else is there to be asked."""
    return guarded(guard, ClaudeAgentOptions(can_use_tool=can_use_tool(guard)))


async def main() -> None:
    async with open_guard(host="claude-agent-sdk") as guard, ClaudeSDKClient(options(guard)) as client:
        await client.query("Clean the build folder.")
        async for message in client.receive_response():
            print(message)


if __name__ == "__main__":
    anyio.run(main)
