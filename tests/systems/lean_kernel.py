"""Takes from this process, and from all that it starts, what a system without Linux's own calls has not.

A filter refuses the calls, as a kernel that does not know them, and /proc and /sys are empty.  Both last.  A filter
sees no address: sockets with abstract names are refused by an audit hook, in Python.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

from hooklatch_worker.systems.libc import LIBC, raise_errno
from hooklatch_worker.systems.linux import forbid_new_privileges

__all__ = ["CALLS", "PAIRS", "hide_folders", "refuse_abstract_names", "refuse_calls"]

# By machine; None where it does not have the call.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
CALLS: dict[str, tuple[int | None, int | None]] = {
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "memfd_create": (319, 279), "prctl": (157, 167),
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    "inotify_rm_watch": (255, 28), "signalfd": (282, None), "signalfd4": (289, 74), "accept4": (288, 242),
    "openat2": (437, 437), "renameat2": (316, 276), "close_range": (436, 436),
    "fallocate": (285, 47),
}  # fmt: skip
PAIRS: dict[str, tuple[int, int]] = {"socket": (41, 198), "socketpair": (53, 199)}  # refused for SOCK_SEQPACKET
SEQPACKET, KINDS = 5, 0xF
LOAD, AND, EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06  # linux/bpf_common.h
NUMBER, MACHINE, SECOND = 0, 4, 24  # of struct seccomp_data
REFUSE, ALLOW = 0x00050000, 0x7FFF0000
PR_SET_SECCOMP, FILTER = 22, 2
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_REC_PRIVATE, MS_REC_BIND = 0x4000 | 0x40000, 0x4000 | 0x1000


class Program(ctypes.Structure):
    """The struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_calls() -> None:
    """Have each of `CALLS` fail with ENOSYS from now on, and sockets that keep packets apart with EPROTONOSUPPORT.

    Nothing is left to do in a process below one that did.
    """
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return
    architecture, column = MACHINES[platform.machine()]
    lines = [(LOAD, 0, 0, MACHINE), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, NUMBER)]
    for numbers in CALLS.values():
        if (number := numbers[column]) is not None:
            lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]
    for pair in PAIRS.values():
        lines += [
            (EQUAL, 0, 5, pair[column]), (LOAD, 0, 0, SECOND), (AND, 0, 0, KINDS), (EQUAL, 0, 1, SEQPACKET),
            (RETURN, 0, 0, REFUSE | errno.EPROTONOSUPPORT), (RETURN, 0, 0, ALLOW),
        ]  # fmt: skip
    code = b"".join(struct.pack("=HBBI", *line) for line in [*lines, (RETURN, 0, 0, ALLOW)])
    forbid_new_privileges()
    program = Program(len(code) // 8, code)
    raise_errno(LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(FILTER), ctypes.byref(program), None, None), "seccomp")


def refuse_abstract_names() -> None:
    """Have sockets of this process neither take nor find a name that no file has (unix(7)), with ENOENT."""
    sys.addaudithook(refuse_abstract_name)


def refuse_abstract_name(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        if isinstance(address, (str, bytes)) and os.fsencode(address)[:1] == b"\0":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), address)


def hide_folders(kept: str | None = None) -> None:
    """Have /proc and /sys be empty in a mount namespace of this process; with a folder, they stay in its `proc`.

    Then /dev/fd lists the descriptors of who asks, as on systems that have no other place for them.

    Raises:
        OSError: this user may make none.
    """
    user, group = os.geteuid(), os.getegid()
    raise_errno(LIBC.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user else 0)), "unshare")
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    mount("none", "/", flags=MS_REC_PRIVATE)
    if kept is not None:
        for name in ("proc", "dev"):
            os.makedirs(f"{kept}/{name}", exist_ok=True)
            mount(f"/{name}", f"{kept}/{name}", flags=MS_REC_BIND)
        mount("tmpfs", "/dev", "tmpfs", options="mode=755")
        fds = {"fd": "proc/self/fd", "stdin": "proc/self/fd/0", "stdout": "proc/self/fd/1", "stderr": "proc/self/fd/2"}
        for name in os.listdir(f"{kept}/dev"):
            if name == "shm":  # tests may have their folders there, and a link on their way is another case
                os.mkdir("/dev/shm")
                mount(f"{kept}/dev/shm", "/dev/shm", flags=MS_REC_BIND)
            else:
                os.symlink(f"{kept}/{fds.get(name, f'dev/{name}')}", f"/dev/{name}")
    for folder in ("/proc", "/sys"):
        mount("tmpfs", folder, "tmpfs", options="size=0,mode=555")


def mount(source: str, place: str, kind: str | None = None, *, flags: int = 0, options: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, place, kind, options)]
    raise_errno(LIBC.mount(*words[:3], ctypes.c_ulong(flags), words[3]), place)
