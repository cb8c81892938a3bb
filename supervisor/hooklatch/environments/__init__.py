"""Environments of sources: another interpreter with packages of its own, found or made, and a zygote for each.

Knows interpreters, requirements and installers; does not know hooks.
"""
