"""What a hook's author writes with: the decorator, events, verdicts, state and small combinators.

Needs msgspec alone; knows no socket and no process.
"""
