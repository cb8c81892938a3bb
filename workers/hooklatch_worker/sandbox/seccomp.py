"""System call filters (seccomp(2)) as BPF programs.  Knows system call numbers, but no levels.

A filter applies permanently to the calling thread and its children.  It sees numbers and integer arguments but cannot
dereference pointers, so it cannot decide by path or by struct.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from hooklatch_worker.systems.libc import LIBC, raise_errno

__all__ = [
    "CALLS", "SyscallRule", "apply_filter", "is_supported", "list_outward_rules", "assemble_filter",
    "list_socket_rules", "list_strict_rules",
]  # fmt: skip

PR_SET_SECCOMP, MODE_FILTER = 22, 2  # linux/prctl.h, linux/seccomp.h
KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
X32_BIT = 0x40000000
# linux/filter.h: load a word, compare and jump, return
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_SET, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

AF_UNIX = 1
CONNECTED_KINDS = (1, 5)  # SOCK_STREAM and SOCK_SEQPACKET: a pair of these cannot be reconnected elsewhere
KIND_MASK = 0xF  # of a socket's type; the other bits are flags
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; NEWTIME only exists for unshare and clone3
NEW_NAMESPACES = 0x7E020000
SET_ID_BITS = 0o6000  # S_ISUID, S_ISGID
PRIO_PROCESS, IOPRIO_WHO_PROCESS = 0, 1  # linux/resource.h, linux/ioprio.h
LEASES = (1024, 1040)  # F_SETLEASE, F_SETDELEG from linux/fcntl.h: others block on opening the file, for up to 45 s
INODE_FLAGS = (0x40086602, 0x401C5820)  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR of linux/fs.h

# By architecture, x86_64 first; None if the call does not exist.  docs/reference/isolation.md gives a verdict on
# each call, also on those that are not here.
Numbers: TypeAlias = dict[str, tuple[int | None, int | None]]
SOCKETS: Numbers = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
}  # fmt: skip
# Limits, priorities and CPU affinity of other processes, addressed by pid only.
ONLY_OWN: Numbers = {
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274),
}  # fmt: skip
# Objects shared without a path: System V and POSIX IPC, and the user's keyrings.
WITHOUT_A_PATH: Numbers = {
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
}  # fmt: skip
# Times, modes, owners and attributes of files, which Landlock does not cover.
TIMES_BY_PATH: Numbers = {"utime": (132, None), "utimes": (235, None), "futimesat": (261, None)}
ATTRIBUTES: Numbers = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}  # fmt: skip
MODE_ARGUMENTS = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
DANGEROUS: Numbers = {
    # inspecting other processes: Landlock denies it too, so this is a second barrier
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "open_by_handle_at": (304, 265),
    # the kernel itself
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "sethostname": (170, 161), "setdomainname": (171, 162),
    "syslog": (103, 116), "sync": (162, 81), "syncfs": (306, 267), "modify_ldt": (154, None),
}  # fmt: skip
BY_ARGUMENTS: Numbers = {  # refused with some arguments only
    "socketpair": (53, 199), "setpriority": (141, 140), "ioprio_set": (251, 30), "utimensat": (280, 88),
    "fcntl": (72, 25), "ioctl": (16, 29), "clone": (56, 220), "clone3": (435, 435),
}  # fmt: skip
PROBES: Numbers = {  # used by tests to probe the filters
    "landlock_create_ruleset": (444, 444), "seccomp": (317, 277), "prctl": (157, 167),
}  # fmt: skip
CALLS = {
    **SOCKETS, **ONLY_OWN, **WITHOUT_A_PATH, **TIMES_BY_PATH, **ATTRIBUTES, **DANGEROUS, **BY_ARGUMENTS, **PROBES
}  # fmt: skip

Instruction: TypeAlias = tuple[int, int, int, int]  # code, jump if true, jump if false, constant
ALLOWED: Instruction = (RETURN, 0, 0, ALLOW)


def low_half_offset(argument: int) -> int:
    """Return the offset of an argument's low half on a little-endian machine: all that the kernel reads of an int."""
    return FIRST_ARGUMENT + 8 * argument


def high_half_offset(argument: int) -> int:
    return low_half_offset(argument) + 4


class SyscallRule(NamedTuple):
    """The instructions for one system call, where every path ends in a return."""

    call: str
    body: list[Instruction]


def make_refusal_instruction(error: int = errno.EPERM) -> Instruction:
    return (RETURN, 0, 0, ERRNO | error)


def make_refusing_rule(call: str, error: int = errno.EPERM) -> SyscallRule:
    """Make a call always fail."""
    return SyscallRule(call, [make_refusal_instruction(error)])


def refuse_bits(call: str, argument: int, mask: int) -> SyscallRule:
    """Make a call fail if an argument has any bit of a mask."""
    return SyscallRule(
        call, [(LOAD, 0, 0, low_half_offset(argument)), (JUMP_SET, 0, 1, mask), make_refusal_instruction(), ALLOWED]
    )


def refuse_values(call: str, argument: int, values: Sequence[int], error: int = errno.EPERM) -> SyscallRule:
    """Make a call fail if an argument has one of these values."""
    jumps = [(JUMP_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return SyscallRule(
        call, [(LOAD, 0, 0, low_half_offset(argument)), *jumps, ALLOWED, make_refusal_instruction(error)]
    )


def refuse_unless(call: str, halves: Mapping[int, int]) -> SyscallRule:
    """Make a call fail unless parts of arguments have given values, such as pid 0 for the caller itself."""
    lines: list[Instruction] = []
    for place, value in halves.items():
        lines += [(LOAD, 0, 0, place), (JUMP_EQUAL, 1, 0, value), make_refusal_instruction()]
    return SyscallRule(call, [*lines, ALLOWED])


def restrict_socketpair() -> SyscallRule:
    """Restrict socketpair to types that stay connected to each other: a datagram socket can send anywhere."""
    stream, sequence = CONNECTED_KINDS
    lines: list[Instruction] = [
        (LOAD, 0, 0, low_half_offset(0)),
        (JUMP_EQUAL, 0, 5, AF_UNIX),
        (LOAD, 0, 0, low_half_offset(1)),
        (AND, 0, 0, KIND_MASK),
        (JUMP_EQUAL, 1, 0, stream),
        (JUMP_EQUAL, 0, 1, sequence),
        ALLOWED,
        make_refusal_instruction(),
    ]
    return SyscallRule("socketpair", lines)


def list_outward_rules() -> list[SyscallRule]:
    """Return rules against affecting other processes, or files in ways that Landlock does not cover."""
    return [
        *(refuse_unless(call, {low_half_offset(0): 0}) for call in ONLY_OWN),
        refuse_unless("setpriority", {low_half_offset(0): PRIO_PROCESS, low_half_offset(1): 0}),
        refuse_unless("ioprio_set", {low_half_offset(0): IOPRIO_WHO_PROCESS, low_half_offset(1): 0}),
        *(make_refusing_rule(call) for call in WITHOUT_A_PATH),
        *(make_refusing_rule(call) for call in TIMES_BY_PATH),
        refuse_unless(
            "utimensat", {low_half_offset(1): 0, high_half_offset(1): 0}
        ),  # allowed without a path: an open file, as in touch(1)
        refuse_values("fcntl", 1, LEASES),
        *(refuse_bits(call, argument, SET_ID_BITS) for call, argument in MODE_ARGUMENTS.items()),
    ]


def list_socket_rules() -> list[SyscallRule]:
    """Return rules against all sockets except connected pairs."""
    return [*(make_refusing_rule(call) for call in SOCKETS), restrict_socketpair()]


def list_strict_rules() -> list[SyscallRule]:
    """Return all of these rules, and those against changing attributes, namespaces and kernel interfaces."""
    return [
        *(
            make_refusing_rule(call) for call in (*ATTRIBUTES, *DANGEROUS)
        ),  # first, since the first rule for a call applies
        refuse_values("ioctl", 1, INODE_FLAGS),
        refuse_bits("clone", 0, NEW_NAMESPACES),
        make_refusing_rule(
            "clone3", errno.ENOSYS
        ),  # its flags are behind a pointer; every libc then falls back to clone
        *list_socket_rules(),
        *list_outward_rules(),
    ]


def assemble_filter(rules: Iterable[SyscallRule], machine: str) -> bytes:
    """Assemble a filter for a machine; it kills processes of other architectures, where numbers mean other calls."""
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
            lines += [(JUMP_EQUAL, 0, len(rule.body), number), *rule.body]
    lines.append(ALLOWED)
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


class SockFprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def is_supported() -> bool:
    """Return whether the kernel supports filters, and this machine's system call numbers are known."""
    if os.uname().machine not in AUDIT_ARCHITECTURES or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    # Without a filter, a kernel that supports this fails to read it (EFAULT); others reject the request itself.
    LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(MODE_FILTER), None, None, None)
    return ctypes.get_errno() == errno.EFAULT


def apply_filter(rules: Iterable[SyscallRule]) -> None:
    """Apply the rules to this process, which must be single-threaded and have no_new_privs.

    Raises:
        OSError: the kernel refused.
    """
    code = assemble_filter(rules, os.uname().machine)
    prog = SockFprog(len(code) // 8, code)
    raise_errno(LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(MODE_FILTER), ctypes.byref(prog), None, None), "seccomp")
