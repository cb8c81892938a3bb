"""The pure part: decides fires, and holds the rules for names, queues, restarts and limits.

No clock, no I/O, no tasks; tested by tables in tests/core.
"""
