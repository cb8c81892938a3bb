"""System call filters (seccomp(2)) as BPF programs.  Knows system call numbers; does not know levels or hooks.

A filter applies permanently to the calling thread and its children.  It sees numbers and integer arguments but cannot
dereference pointers, so it cannot decide by path or by struct.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Mapping

__all__ = ["CALLS", "Rule", "apply", "is_supported", "outward", "program", "sockets", "strict"]

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

# By architecture, x86_64 first; None if the call does not exist.  docs/isolation.md gives a verdict on each call, also
# on those that are not here.
CALLS: dict[str, tuple[int | None, int | None]] = {
    # creating sockets, and connecting one
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "socketpair": (53, 199),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # limits, priorities and CPU affinity of other processes, addressed by pid only
    "prlimit64": (302, 261), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    # objects shared without a path: System V and POSIX IPC, and the user's keyrings
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # times, modes, owners and attributes of files, which Landlock does not cover
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
    "file_setattr": (469, 469), "fcntl": (72, 25), "ioctl": (16, 29),
    # inspecting other processes: Landlock denies it too, so this is a second barrier
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "clone": (56, 220), "clone3": (435, 435), "chroot": (161, 51),
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
    # used by tests to probe the filters
    "landlock_create_ruleset": (444, 444), "seccomp": (317, 277), "prctl": (157, 167),
}  # fmt: skip
SOCKETS = ("socket", "connect", "bind", "io_uring_setup", "io_uring_enter", "io_uring_register")
ONLY_OWN = ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
WITHOUT_A_PATH = (
    *("shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semtimedop", "semctl"),
    *("mq_open", "mq_unlink", "add_key", "request_key", "keyctl"),
)
TIMES_BY_PATH = ("utime", "utimes", "futimesat")
MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}  # with the index of the mode argument
ATTRIBUTES = (
    *(*MODES, "chown", "lchown", "fchown", "fchownat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr"),
)
DANGEROUS = (
    *(
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "pidfd_getfd",
        "unshare",
        "setns",
        "chroot",
        "mount",
        "umount2",
    ),
    *("pivot_root", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
    *("open_tree_attr", "open_by_handle_at", "bpf", "perf_event_open", "userfaultfd", "fanotify_init", "init_module"),
    *("finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct"),
    *("quotactl", "quotactl_fd", "settimeofday", "clock_settime", "sethostname", "setdomainname", "syslog", "sync"),
    *("syncfs", "modify_ldt"),
)

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant
ALLOWED: Instruction = (RETURN, 0, 0, ALLOW)


def low(argument: int) -> int:
    """Return the offset of an argument's low half on a little-endian machine: all that the kernel reads of an int."""
    return FIRST_ARGUMENT + 8 * argument


def high(argument: int) -> int:
    return low(argument) + 4


class Rule:
    """Makes one system call always fail with an error."""

    def __init__(self, call: str, error: int = errno.EPERM) -> None:
        self.call = call
        self.error = error

    def instructions(self, number: int) -> list[Instruction]:
        body = self.body()
        return [(JUMP_EQUAL, 0, len(body), number), *body]

    def body(self) -> list[Instruction]:
        """Return the instructions for this call; every path through them ends in a return."""
        return [self.refuse]

    @property
    def refuse(self) -> Instruction:
        return (RETURN, 0, 0, ERRNO | self.error)


class MaskRule(Rule):
    """Makes a call fail if an argument has any bit of a mask."""

    def __init__(self, call: str, argument: int, mask: int) -> None:
        super().__init__(call)
        self.argument = argument
        self.mask = mask

    def body(self) -> list[Instruction]:
        return [(LOAD, 0, 0, low(self.argument)), (JUMP_SET, 0, 1, self.mask), self.refuse, ALLOWED]


class ValueRule(Rule):
    """Makes a call fail if an argument has one of these values."""

    def __init__(self, call: str, argument: int, values: Iterable[int], error: int = errno.EPERM) -> None:
        super().__init__(call, error)
        self.argument = argument
        self.values = list(values)

    def body(self) -> list[Instruction]:
        after = [(JUMP_EQUAL, len(self.values) - at, 0, value) for at, value in enumerate(self.values)]
        return [(LOAD, 0, 0, low(self.argument)), *after, ALLOWED, self.refuse]


class UnlessRule(Rule):
    """Makes a call fail unless parts of arguments have given values, such as pid 0 for the caller itself."""

    def __init__(self, call: str, halves: Mapping[int, int]) -> None:
        super().__init__(call)
        self.halves = dict(halves)

    def body(self) -> list[Instruction]:
        lines: list[Instruction] = []
        for place, value in self.halves.items():
            lines += [(LOAD, 0, 0, place), (JUMP_EQUAL, 1, 0, value), self.refuse]
        return [*lines, ALLOWED]


class PairRule(Rule):
    """Restricts socketpair to types that stay connected to each other: a datagram socket can send anywhere."""

    def body(self) -> list[Instruction]:
        stream, sequence = CONNECTED_KINDS
        return [
            (LOAD, 0, 0, low(0)),
            (JUMP_EQUAL, 0, 5, AF_UNIX),
            (LOAD, 0, 0, low(1)),
            (AND, 0, 0, KIND_MASK),
            (JUMP_EQUAL, 1, 0, stream),
            (JUMP_EQUAL, 0, 1, sequence),
            ALLOWED,
            self.refuse,
        ]


def outward() -> list[Rule]:
    """Return rules against affecting other processes, or files in ways that Landlock does not cover."""
    return [
        *(UnlessRule(call, {low(0): 0}) for call in ONLY_OWN),
        UnlessRule("setpriority", {low(0): PRIO_PROCESS, low(1): 0}),
        UnlessRule("ioprio_set", {low(0): IOPRIO_WHO_PROCESS, low(1): 0}),
        *(Rule(call) for call in WITHOUT_A_PATH),
        *(Rule(call) for call in TIMES_BY_PATH),
        UnlessRule("utimensat", {low(1): 0, high(1): 0}),  # allowed without a path: an open file, as in touch(1)
        ValueRule("fcntl", 1, LEASES),
        *(MaskRule(call, argument, SET_ID_BITS) for call, argument in MODES.items()),
    ]


def sockets() -> list[Rule]:
    """Return rules against all sockets except connected pairs."""
    return [*(Rule(call) for call in SOCKETS), PairRule("socketpair")]


def strict() -> list[Rule]:
    """Return all of these rules, and those against changing attributes, namespaces and kernel interfaces."""
    return [
        *(Rule(call) for call in (*ATTRIBUTES, *DANGEROUS)),  # first, since the first rule for a call applies
        ValueRule("ioctl", 1, INODE_FLAGS),
        MaskRule("clone", 0, NEW_NAMESPACES),
        Rule("clone3", errno.ENOSYS),  # its flags are behind a pointer; every libc then falls back to clone
        *sockets(),
        *outward(),
    ]


def program(rules: Iterable[Rule], machine: str) -> bytes:
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
            lines += rule.instructions(number)
    lines.append(ALLOWED)
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


LIBC = ctypes.CDLL(None, use_errno=True)


class SockFprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def is_supported() -> bool:
    """Return whether the kernel supports filters, and this machine's system call numbers are known."""
    if os.uname().machine not in AUDIT_ARCHITECTURES or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    # Without a filter, a kernel that supports this fails to read it (EFAULT); others reject the request itself.
    LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(MODE_FILTER), None, None, None)
    return ctypes.get_errno() == errno.EFAULT


def apply(rules: Iterable[Rule]) -> None:
    """Apply the rules to this process, which must be single-threaded and have no_new_privs.

    Raises:
        OSError: the kernel refused.
    """
    code = program(rules, os.uname().machine)
    prog = SockFprog(len(code) // 8, code)
    if LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(MODE_FILTER), ctypes.byref(prog), None, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")
