"""The daemon as one process: the composition root, signals, logs, metrics, and notifications to the service manager.

May import every other part of the service; no other part may import this one.
"""
