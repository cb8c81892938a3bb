"""The command that stands between an agent and a server: `mcp`."""
