"""Landlock (landlock(7)) through ctypes, which restricts access to files and other processes.  Knows no levels.

A ruleset lists kinds of access that are denied from now on, and paths where some of them remain allowed.  It applies
permanently to the calling thread and its children, even for root.  The kernel's features depend on its ABI version;
unknown kinds of access are dropped, so callers must check the version first.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable, Mapping

from hooklatch_worker.systems.libc import LIBC, raise_errno

__all__ = ["DEVICE_IO", "READ", "WRITE", "read_abi", "restrict_files"]

# linux/landlock.h; these system calls have the same numbers on all architectures
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG = 1
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_AND_MAKE = 0x1FF << 4  # REMOVE_DIR to MAKE_SYM
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the others apply to folders only
KNOWN_BY_ABI = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
NETWORK_ABI = 4
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1 << 0, 1 << 1
SCOPE_ABI = 6

READ = EXECUTE | READ_FILE | READ_DIR
WRITE = WRITE_FILE | REMOVE_AND_MAKE | REFER | TRUNCATE
DEVICE_IO = IOCTL_DEV
LIST = READ_DIR


def read_abi() -> int:
    """Return the kernel's Landlock ABI version; 0 if there is none or it is disabled."""
    try:
        return call_syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION_FLAG))
    except OSError:
        return 0


def restrict_files(
    refused: int, places: Mapping[str, int], *, refuses_tcp: bool, offered: int, listed: Iterable[str] = ()
) -> None:
    """Permanently deny the kinds of access in `refused`, except below `places` (files, or folders with their content).

    Folders in `listed` can be listed, but not read.  Signals to and abstract sockets of other processes are denied too
    if `offered` (the ABI version) supports it.  A path that cannot be opened gets no exception, so it stays denied.

    Raises:
        OSError: the kernel refused.
    """
    known = refused & KNOWN_BY_ABI[min(offered, max(KNOWN_BY_ABI))]
    network = BIND_TCP | CONNECT_TCP if refuses_tcp and offered >= NETWORK_ABI else 0
    scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if offered >= SCOPE_ABI else 0
    attributes = struct.pack("=QQQ", known, network, scoped)  # older kernels accept a longer struct if the rest is zero
    ruleset = call_syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        for path, access in places.items():
            allow_path(ruleset, path, access & known)
        for path in listed:
            allow_path(ruleset, path, LIST & known)
        call_syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def allow_path(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= OF_A_FILE
        if access:
            rule = struct.pack("=Qi", access, fd)
            call_syscall(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint32(0))
    finally:
        os.close(fd)


def call_syscall(number: int, *arguments: object) -> int:
    return raise_errno(LIBC.syscall(ctypes.c_long(number), *arguments), "landlock")
