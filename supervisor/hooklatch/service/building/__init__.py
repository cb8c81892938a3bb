"""Builds the sources that a plan wants, and makes hooks of definitions, layer by layer.

Knows plans, builds and definitions; reads no file of hooks, and puts nothing in force.
"""
