"""Commands about hooks: list, change, show, suspend, trust, import; and the reports on events, sessions and status.

One module per command; each queries the daemon and does not decide anything.
"""
