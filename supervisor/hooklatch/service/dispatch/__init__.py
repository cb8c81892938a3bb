"""Fires: calls the hooks that a decision needs, records the decision, and serves what hooks request meanwhile.

Knows calls and time; which verdict follows is decided in the core.
"""
