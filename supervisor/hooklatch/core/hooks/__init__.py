"""Hooks as data: events, definitions, matchers, names, registries and suspensions.

Knows who is registered for what; calls nothing.
"""
