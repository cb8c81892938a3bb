"""Hooks as data: events, definitions, matchers, names, registries and suspensions.

Knows which hooks are registered for which events; does not call them.
"""
