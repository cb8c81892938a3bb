"""The system calls that fail in turn, and the errors that each can give, by its manual page.

Not here are calls that fail only by a mistake of the caller's (`lseek`, `getpid`, `ioctl` of a terminal), those of the
interpreter's own memory and locks (`brk`, `futex`, `mmap` without a file), and ENOENT, which would say that something
is absent that is there.
"""

from __future__ import annotations

import errno
import os

from chaos.system_calls.tracer import SystemCall

__all__ = ["ERRORS", "NUMBERS", "errors_of"]

# By the numbers of x86_64 (asm/unistd_64.h).
NUMBERS = {
    0: "read", 1: "write", 3: "close", 4: "stat", 5: "fstat", 6: "lstat", 7: "poll", 9: "mmap", 17: "pread64",
    18: "pwrite64", 19: "readv", 20: "writev", 22: "pipe", 32: "dup", 33: "dup2", 40: "sendfile", 41: "socket",
    42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg", 48: "shutdown", 49: "bind",
    50: "listen", 51: "getsockname", 53: "socketpair", 54: "setsockopt", 55: "getsockopt", 56: "clone", 57: "fork",
    58: "vfork", 61: "wait4", 62: "kill", 72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 77: "ftruncate",
    80: "chdir", 82: "rename", 83: "mkdir", 84: "rmdir", 86: "link", 87: "unlink", 88: "symlink", 89: "readlink",
    90: "chmod", 91: "fchmod", 92: "chown", 93: "fchown", 137: "statfs", 138: "fstatfs", 157: "prctl", 203: "sched_setaffinity",
    213: "epoll_create", 217: "getdents64", 232: "epoll_wait", 233: "epoll_ctl", 234: "tgkill", 247: "waitid",
    254: "inotify_add_watch", 257: "openat", 258: "mkdirat", 262: "newfstatat", 263: "unlinkat", 264: "renameat",
    265: "linkat", 267: "readlinkat", 268: "fchmodat", 271: "ppoll", 280: "utimensat", 281: "epoll_pwait", 284: "eventfd",
    285: "fallocate", 288: "accept4", 290: "eventfd2", 291: "epoll_create1", 292: "dup3", 293: "pipe2",
    294: "inotify_init1", 302: "prlimit64", 316: "renameat2", 318: "getrandom", 319: "memfd_create", 332: "statx",
    424: "pidfd_send_signal", 434: "pidfd_open", 435: "clone3", 437: "openat2",
}  # fmt: skip
DISK = (errno.EIO, errno.ENOSPC)
LOOK = (errno.EACCES, errno.EIO, errno.ENOMEM)
DESCRIPTORS = (errno.EMFILE, errno.ENOMEM)
NAMES = (errno.EACCES, errno.EIO, errno.ENOSPC)
ERRORS: dict[str, tuple[int, ...]] = {
    "openat": (errno.EACCES, errno.EIO, errno.EMFILE), "openat2": (errno.EACCES, errno.EAGAIN, errno.EMFILE),
    "read": (errno.EIO, errno.EINTR), "pread64": (errno.EIO,), "readv": (errno.EIO,), "getdents64": (errno.EIO,),
    "write": DISK, "pwrite64": DISK, "writev": DISK, "close": (errno.EIO,),
    "stat": LOOK, "fstat": LOOK[1:], "lstat": LOOK, "newfstatat": LOOK, "statx": LOOK, "statfs": LOOK, "fstatfs": LOOK[1:],
    "readlink": LOOK, "readlinkat": LOOK,
    "fsync": DISK, "fdatasync": DISK, "fallocate": (errno.EIO, errno.ENOSPC, errno.EOPNOTSUPP),
    "ftruncate": (errno.EIO, errno.EPERM),
    "rename": NAMES, "renameat": NAMES, "renameat2": NAMES, "mkdir": NAMES, "mkdirat": NAMES, "link": NAMES, "linkat": NAMES,
    "symlink": NAMES, "unlink": NAMES[:2], "unlinkat": NAMES[:2], "rmdir": NAMES[:2],
    "chmod": (errno.EPERM, errno.EIO), "fchmod": (errno.EPERM, errno.EIO), "fchmodat": (errno.EPERM, errno.EIO),
    "chown": (errno.EPERM,), "fchown": (errno.EPERM,), "utimensat": (errno.EPERM, errno.EIO),
    "fcntl": (errno.EINVAL, errno.ENOMEM), "flock": (errno.EINTR, errno.ENOLCK),
    "socket": DESCRIPTORS, "socketpair": DESCRIPTORS, "bind": (errno.EADDRINUSE, errno.EACCES, errno.ENOSPC),
    "listen": (errno.EADDRINUSE,), "accept": (errno.EMFILE, errno.ECONNABORTED, errno.ENOMEM),
    "accept4": (errno.EMFILE, errno.ECONNABORTED, errno.ENOMEM), "connect": (errno.ECONNREFUSED, errno.EACCES),
    "sendto": (errno.EPIPE, errno.ENOBUFS), "sendmsg": (errno.EPIPE, errno.ENOBUFS, errno.ETOOMANYREFS),
    "recvfrom": (errno.ECONNRESET, errno.ENOMEM), "recvmsg": (errno.ECONNRESET, errno.ENOMEM),
    "getsockopt": (errno.ENOBUFS,), "setsockopt": (errno.ENOMEM,), "getsockname": (errno.ENOBUFS,),
    "shutdown": (errno.ENOTCONN,),
    "poll": (errno.EINTR, errno.ENOMEM), "ppoll": (errno.EINTR, errno.ENOMEM),
    "epoll_create": DESCRIPTORS, "epoll_create1": DESCRIPTORS, "epoll_ctl": (errno.ENOMEM, errno.ENOSPC),
    "epoll_wait": (errno.EINTR,), "epoll_pwait": (errno.EINTR,),
    "pidfd_open": (errno.EMFILE, errno.ENOMEM, errno.ESRCH), "pidfd_send_signal": (errno.EPERM, errno.ESRCH),
    "clone": (errno.EAGAIN, errno.ENOMEM), "clone3": (errno.EAGAIN, errno.ENOMEM), "fork": (errno.EAGAIN, errno.ENOMEM),
    "vfork": (errno.EAGAIN, errno.ENOMEM), "wait4": (errno.ECHILD,), "waitid": (errno.ECHILD,),
    "kill": (errno.EPERM, errno.ESRCH), "tgkill": (errno.EAGAIN,),
    "memfd_create": DESCRIPTORS, "mmap": (errno.ENOMEM, errno.EAGAIN), "eventfd": DESCRIPTORS, "eventfd2": DESCRIPTORS,
    "pipe": DESCRIPTORS, "pipe2": DESCRIPTORS, "dup": DESCRIPTORS[:1], "dup2": DESCRIPTORS[:1], "dup3": DESCRIPTORS[:1],
    "prctl": (errno.EINVAL, errno.EPERM), "prlimit64": (errno.EPERM,), "inotify_init1": DESCRIPTORS,
    "inotify_add_watch": (errno.ENOSPC, errno.ENOMEM), "getrandom": (errno.EINTR,), "sendfile": (errno.EIO,),
}  # fmt: skip
NAME_MEMORY = 0x53564D41  # PR_SET_VMA, of the C library's own
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def errors_of(call: SystemCall) -> tuple[int, ...]:
    """Return what a call can fail with; nothing if it is not one that fails in turn."""
    name = NUMBERS.get(call.number, "")
    if name == "mmap" and call.arguments[4] >= 2**31:  # without a file: the interpreter's own memory
        return ()
    if name == "prctl" and call.arguments[0] == NAME_MEMORY:
        return ()
    if name == "openat" and call.arguments[2] & WRITING:
        return (*ERRORS[name], errno.ENOSPC, errno.EROFS)
    return ERRORS.get(name, ())
