"""Commands about hooks: list, change, show, suspend, trust, import, and reports on them.

One module per command; each queries the daemon and does not decide anything.
"""
