"""The daemon as one process: the composition root, signals, logs, metrics, and what a service manager is told.

May import every other part of the service; no other part may import this one.
"""
