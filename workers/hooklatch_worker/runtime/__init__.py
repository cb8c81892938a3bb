"""The worker-side processes: the zygote, its guardian, and the workers.

Only the loader and the child run users' code.
"""
