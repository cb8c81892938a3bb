"""The registry: layers, sessions, what each session sees, suspensions, counts and last failures.

Held in memory and changed without a checkpoint; does not know files of hooks or sockets.
"""
