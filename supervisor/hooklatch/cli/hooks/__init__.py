"""The commands about hooks, asks, events, sessions and status.

One module per command.  Each sends requests to the daemon, which decides whether they are permitted.
"""
