"""Read the configuration and state files into frozen data, and check the files themselves.

Knows keys, values and paths; does not know sessions, and runs nothing.
"""
