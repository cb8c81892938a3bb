"""Commands about payloads that were kept: firing them at other hooks, and making cases of them.

Knows the record's files; does not ask the daemon.
"""
