"""Runs a program where the kernel lacks something, by a filter that all below inherit: lacking.py WHAT PROGRAM ...

What: `landlock` (as in a kernel built without it) or `seccomp` (as in one that takes no filters); or `capabilities`,
which takes root's powers from the program, so that it is a user like any other.
"""

import ctypes
import errno
import os
import sys

from hooklatch_worker.sandbox import isolation, seccomp
from hooklatch_worker.sandbox.seccomp import PR_SET_SECCOMP, make_refusing_rule, refuse_values
from hooklatch_worker.systems import linux

RULES = {
    "landlock": [make_refusing_rule("landlock_create_ruleset", errno.ENOSYS)],
    "seccomp": [refuse_values("prctl", 0, [PR_SET_SECCOMP], errno.EINVAL), make_refusing_rule("seccomp", errno.EINVAL)],
}

if __name__ == "__main__":
    _, what, *command = sys.argv
    linux.forbid_new_privileges()
    if what == "capabilities":
        isolation.drop_capabilities()
    else:
        seccomp.apply_filter(RULES[what])
        assert ctypes.CDLL(None).prctl(21, 0, 0, 0, 0) == 2  # PR_GET_SECCOMP: a filter is on
    os.execv(command[0], command)
