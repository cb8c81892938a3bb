"""An MCP client of the real library, whose server stands behind the proxy: each call of a tool is judged first."""

from __future__ import annotations

import os
import sys

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from hooklatch.bridges.mcp import command_of

SERVER = """
import subprocess
from mcp.server import MCPServer

server = MCPServer("commands")

@server.tool()
def shell(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout

server.run()
"""


async def main() -> None:
    command, *arguments = command_of([sys.executable, "-c", SERVER], name="commands")
    parameters = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        for line in ("echo hello", "rm -rf build"):
            result = await session.call_tool("shell", {"command": line})
            print(f"{line}: {'refused' if result.is_error else 'ran'}: {result.content[0].text.strip()}")


if __name__ == "__main__":
    anyio.run(main)
