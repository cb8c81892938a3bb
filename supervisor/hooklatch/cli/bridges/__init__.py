"""Commands that stand between an agent and something else: mcp.

One module per command.
"""
