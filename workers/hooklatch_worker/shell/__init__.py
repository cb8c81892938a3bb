"""Shell hooks: one command run below the worker, what it reads, and what its answer means.

`runner.run` is the target of every shell hook.
"""
