"""Filters of system calls (seccomp(2)), written as the kernel reads them.  Knows numbers; knows no level and no hook.

A filter holds for the calling thread and all that it starts, for ever.  It sees numbers and plain arguments and
follows no pointer, so what hangs on a path or on a structure is not decided here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable

__all__ = ["CALLS", "Rule", "apply", "is_supported", "isolating", "program", "sockets"]

PR_SET_SECCOMP, MODE_FILTER = 22, 2  # linux/prctl.h, linux/seccomp.h
KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
X32_BIT = 0x40000000
# linux/filter.h: load a word, compare and jump, return
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_SET, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

AF_UNIX = 1
CONNECTED_KINDS = (1, 5)  # SOCK_STREAM and SOCK_SEQPACKET: those of a pair can be turned to nobody else
KIND_MASK = 0xF  # of a socket's type; the rest are flags
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; NEWTIME can only be had by unshare and clone3
NEW_NAMESPACES = 0x7E020000

# By architecture, x86_64 first; None where the call does not exist.
CALLS: dict[str, tuple[int | None, int | None]] = {
    # making sockets, and turning one towards somebody
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "socketpair": (53, 199),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "clone": (56, 220), "clone3": (435, 435), "chroot": (161, 51),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "open_by_handle_at": (304, 265),
    # the kernel itself
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "modify_ldt": (154, None),
    # modes, owners and attributes of files by their paths, which Landlock does not look at
    "chmod": (90, None), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "removexattrat": (466, 466),
    # probes of tests
    "landlock_create_ruleset": (444, 444), "seccomp": (317, 277), "prctl": (157, 167),
}  # fmt: skip
SOCKETS = ("socket", "connect", "bind", "io_uring_setup", "io_uring_enter", "io_uring_register")
PROBES = ("landlock_create_ruleset", "seccomp", "prctl")
BY_ARGUMENT = ("socketpair", "clone", "clone3")  # these are not refused outright

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


class Rule:
    """What happens to one system call: an error, always, or when `argument` has any bit of a mask."""

    def __init__(self, call: str, error: int = errno.EPERM, *, argument: int = 0, mask: int | None = None) -> None:
        self.call = call
        self.error = error
        self.argument = argument
        self.mask = mask

    def instructions(self, number: int) -> list[Instruction]:
        refuse = (RETURN, 0, 0, ERRNO | self.error)
        if self.mask is None:
            return [(JUMP_EQUAL, 0, 1, number), refuse]
        load = (LOAD, 0, 0, FIRST_ARGUMENT + 8 * self.argument)  # the low half, on a little-endian machine
        return [(JUMP_EQUAL, 0, 4, number), load, (JUMP_SET, 0, 1, self.mask), refuse, (RETURN, 0, 0, ALLOW)]


class PairRule(Rule):
    """A pair of sockets must be of ones that stay connected to each other: a datagram one can be sent anywhere."""

    def instructions(self, number: int) -> list[Instruction]:
        stream, sequence = CONNECTED_KINDS
        return [
            (JUMP_EQUAL, 0, 8, number),
            (LOAD, 0, 0, FIRST_ARGUMENT),
            (JUMP_EQUAL, 0, 5, AF_UNIX),
            (LOAD, 0, 0, FIRST_ARGUMENT + 8),
            (AND, 0, 0, KIND_MASK),
            (JUMP_EQUAL, 1, 0, stream),
            (JUMP_EQUAL, 0, 1, sequence),
            (RETURN, 0, 0, ALLOW),
            (RETURN, 0, 0, ERRNO | self.error),
        ]


def sockets() -> list[Rule]:
    """Refuse every socket but pairs of connected ones."""
    return [*(Rule(call) for call in SOCKETS), PairRule("socketpair")]


def isolating() -> list[Rule]:
    """Refuse sockets, and what looks into other processes, makes namespaces, or talks to the kernel's own parts."""
    outright = [call for call in CALLS if call not in (*SOCKETS, *BY_ARGUMENT, *PROBES)]
    return [
        *sockets(),
        *(Rule(call) for call in outright),
        Rule("clone", mask=NEW_NAMESPACES),
        Rule("clone3", errno.ENOSYS),  # its flags are behind a pointer; every libc then takes clone
    ]


def program(rules: Iterable[Rule], machine: str) -> bytes:
    """Write a filter for a machine.  A program of another architecture is killed: its numbers mean other calls."""
    column = list(AUDIT_ARCHITECTURES).index(machine)
    lines: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, AUDIT_ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":
        lines += [(JUMP_AT_LEAST, 0, 1, X32_BIT), (RETURN, 0, 0, ERRNO | errno.ENOSYS)]
    for rule in rules:
        number = CALLS[rule.call][column]
        if number is not None:
            lines += rule.instructions(number)
    lines.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


LIBC = ctypes.CDLL(None, use_errno=True)


class SockFprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def is_supported() -> bool:
    """Say whether this kernel takes filters, and we know its machine's numbers."""
    if os.uname().machine not in AUDIT_ARCHITECTURES or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    # No filter given: a kernel that has them looks for it, and one that has not refuses the request itself.
    LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(MODE_FILTER), None, None, None)
    return ctypes.get_errno() == errno.EFAULT


def apply(rules: Iterable[Rule]) -> None:
    """Hold this process (of one thread, with no_new_privs) to the rules.

    Raises:
        OSError: the kernel would not.
    """
    code = program(rules, os.uname().machine)
    prog = SockFprog(len(code) // 8, code)
    if LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(MODE_FILTER), ctypes.byref(prog), None, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")
