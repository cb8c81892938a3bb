"""The protocol as a client sees it: bytes in, typed answers, announcements and decisions out.

Knows no task, no thread and no clock: now comes in.
"""
