"""Configuration and state files as frozen data, and the checks on the files themselves.

Knows keys, values and paths; knows no session and runs nothing.
"""
