"""Shell hooks: running one command below the worker, its input, and the meaning of its answer.

`runner.run` is the target of every shell hook.
"""
