"""Live views: decisions as they are made, and what each hook is doing.

Knows what the daemon announces and reports; changes nothing.
"""
