"""Worker processes under trio: the zygote, workers, pools, and the supervisor that restarts them.

Knows calls and deadlines; does not know verdicts, sessions or files of hooks.
"""
