"""The API for hook authors: the decorator, events, verdicts, state and combinators.

Needs msgspec only; does not know sockets or processes.
"""
