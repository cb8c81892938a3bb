"""Keeps the record on one disk: journal, recovery, syncing, retention and disk space.

Knows files and waiting tasks; the writer above decides what to record.
"""
