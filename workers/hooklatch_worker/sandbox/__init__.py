"""Restrictions on a worker: Landlock, seccomp, temporary folders, and the Linux calls for these.

Knows the kernel; does not know hooks or verdicts.
"""
