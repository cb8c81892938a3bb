"""trio over processes: the zygote, workers, pools, and the supervisor that restarts them.

Knows calls and deadlines; knows no verdict, no session and no file of hooks.
"""
