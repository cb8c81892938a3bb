"""The record's files as bytes: chain, segments, slots, and how to read them.

Knows formats; does not know policies or decisions.
"""
