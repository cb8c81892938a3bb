"""What a session knows and does, whatever runs it: its state, its hooks, its fires and tool calls.

Pure, like the protocol below it.
"""
