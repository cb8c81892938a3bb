"""The C library, for calls that Python has no name for.  It can be imported on any system."""

import ctypes
import os

__all__ = ["LIBC", "raise_errno"]

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def raise_errno(result: int, what: str) -> int:
    """Return the result of a call of LIBC, or raise an OSError that names `what`."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result
