"""Puts in force what is declared: reads it, builds it and commits it as one revision, again at each change.

Knows reloads, and what is active; does not know sockets or fires.
"""
