"""The processes themselves: the zygote, its guardian, and a worker from fork to end.

The loader and the child are the only places where code of a user runs.
"""
