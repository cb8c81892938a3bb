"""The parts of a session that trio, asyncio and threads share: its state, its hooks, its fires and tool calls.

Pure, like the protocol below it.
"""
