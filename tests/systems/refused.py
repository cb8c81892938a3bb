"""Tries each call that `refuse_calls` refuses, and prints how each has failed; and whether /proc and /sys are empty."""

import ctypes
import errno
import json
import os
import platform
import socket
import sys

if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from systems.lean_kernel import CALLS, MACHINES, PAIRS, SEQPACKET, hide_folders, refuse_abstract_names, refuse_calls

    libc, column = ctypes.CDLL(None, use_errno=True), MACHINES[platform.machine()][1]

    def try_calls() -> dict[str, str]:
        """Return the error of each, without one that its arguments would be to blame for."""
        found: dict[str, str] = {}
        arguments = [ctypes.c_long(-1)] * 6
        for name, numbers in CALLS.items():
            if (number := numbers[column]) is not None:
                failed = libc.syscall(ctypes.c_long(number), *arguments) < 0
                found[name] = errno.errorcode.get(ctypes.get_errno(), "?") if failed else ""
        for name, pair in PAIRS.items():
            for kind in (SEQPACKET, SEQPACKET | socket.SOCK_CLOEXEC, socket.SOCK_STREAM):
                room = (ctypes.c_int * 2)()
                words = [ctypes.c_long(word) for word in (pair[column], socket.AF_UNIX, kind, 0)]
                failed = libc.syscall(*words, room) < 0
                found[f"{name} {kind}"] = errno.errorcode[ctypes.get_errno()] if failed else ""
        with socket.socket(socket.AF_UNIX) as named:
            try:
                named.bind(f"\0hooklatch-{os.getpid()}")
                found["abstract name"] = ""
            except OSError as error:
                found["abstract name"] = errno.errorcode[error.errno or 0]
        return found

    before = try_calls()
    if "hide" in sys.argv:
        hide_folders()
    refuse_calls()
    refuse_abstract_names()
    sys.stdout.write(json.dumps([before, try_calls(), os.listdir("/proc"), os.listdir("/sys")]))
