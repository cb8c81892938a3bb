"""The dispatch of fires: it calls the hooks that a decision needs, serves their requests, and records the decision.

Knows calls and time; which verdict follows is decided in the core.
"""
