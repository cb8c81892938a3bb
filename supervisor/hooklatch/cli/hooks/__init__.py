"""Commands about hooks: list, change, show, suspend, trust, import, and reports on them.

One module a command; each asks the daemon and decides nothing.
"""
