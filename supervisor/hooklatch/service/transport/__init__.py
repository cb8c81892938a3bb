"""Sockets and connections: who may connect, lines in and out, and how long a silent or slow peer is tolerated.

Knows bytes and deadlines; does not know hooks.
"""
