"""What a worker is kept from: Landlock, seccomp, temporary folders, and the Linux calls that these need.

Knows the kernel; knows no hook and no verdict.
"""
