"""Keeps the record on one disk: journal, recovery, syncing, retention and space.

Knows files and waiters; what is recorded when is decided by the writer above.
"""
