"""The builder of the sources of a plan, and of the hooks of each layer from their definitions.

Knows plans, builds and definitions; reads no file of hooks, and activates nothing.
"""
