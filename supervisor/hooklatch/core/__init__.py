"""The pure part: decides fires, and keeps the rules of names, queues, restarts and limits.

No clock, no I/O, no task; decided by tables in tests/core.
"""
