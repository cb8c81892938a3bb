"""The configuration and the state file as frozen data, and the checks of these files.

Knows keys, values and paths; does not know sessions, and runs nothing.
"""
