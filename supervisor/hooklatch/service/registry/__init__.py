"""Who is registered: layers, sessions, what each session sees, suspensions, counts and last failures.

Held in memory and changed without a checkpoint; knows no file of hooks and no socket.
"""
