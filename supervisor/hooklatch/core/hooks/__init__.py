"""Hooks as data: events, definitions, matchers, names, registries and suspensions.

Nothing here calls a hook.
"""
