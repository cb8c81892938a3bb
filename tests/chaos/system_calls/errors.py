"""The system calls that fail in turn, and the errors that each can give, by its manual page.

Not here are calls that fail only by a mistake of the caller's (`lseek`, `getpid`, `ioctl` of a terminal), those of the
interpreter's own memory and locks (`brk`, `futex`, `mmap` without a file), and trio's own socket pair.  Nor errors
which say of something that is there that it is gone (ENOENT, EPIPE, ECONNRESET, ESRCH, ECHILD): the kernel does not
lie, and what is gone, other tests take away.
"""

from __future__ import annotations

import errno
import os

from chaos.system_calls.tracer import SystemCall

__all__ = ["NUMBERS", "errors_of"]

# By the numbers of x86_64 (asm/unistd_64.h).
NUMBERS = {
    0: "read", 1: "write", 3: "close", 4: "stat", 5: "fstat", 6: "lstat", 7: "poll", 9: "mmap", 17: "pread64",
    18: "pwrite64", 32: "dup", 33: "dup2", 41: "socket", 42: "connect", 44: "sendto", 45: "recvfrom", 46: "sendmsg",
    47: "recvmsg", 49: "bind", 50: "listen", 51: "getsockname", 53: "socketpair", 54: "setsockopt", 55: "getsockopt",
    56: "clone", 57: "fork", 58: "vfork", 61: "wait4", 62: "kill", 72: "fcntl", 73: "flock", 74: "fsync",
    75: "fdatasync", 77: "ftruncate", 82: "rename", 83: "mkdir", 84: "rmdir", 86: "link", 87: "unlink",
    89: "readlink", 90: "chmod", 91: "fchmod", 92: "chown", 93: "fchown", 137: "statfs", 138: "fstatfs", 157: "prctl",
    217: "getdents64", 232: "epoll_wait", 233: "epoll_ctl", 247: "waitid", 254: "inotify_add_watch", 257: "openat",
    258: "mkdirat", 262: "newfstatat", 263: "unlinkat", 264: "renameat", 267: "readlinkat", 268: "fchmodat",
    271: "ppoll", 281: "epoll_pwait", 285: "fallocate", 288: "accept4", 290: "eventfd2", 291: "epoll_create1",
    293: "pipe2", 294: "inotify_init1", 302: "prlimit64", 316: "renameat2", 318: "getrandom", 319: "memfd_create",
    332: "statx", 424: "pidfd_send_signal", 434: "pidfd_open", 435: "clone3", 437: "openat2",
}  # fmt: skip
# Calls, and what each of them can fail with.
GROUPS = (
    ("openat", "EACCES EINTR EIO EMFILE ENFILE ENOMEM EPERM"),
    ("openat2", "EACCES EAGAIN EMFILE ENFILE ENOMEM ENOSYS EPERM"),
    ("read", "EINTR EIO"), ("pread64 getdents64", "EIO"), ("close", "EDQUOT EINTR EIO ENOSPC"),
    ("write pwrite64", "EDQUOT EFBIG EINTR EIO ENOSPC EPERM"), ("fsync fdatasync", "EDQUOT EINTR EIO ENOSPC EROFS"),
    ("stat lstat newfstatat statx readlink readlinkat", "EACCES EIO ELOOP ENOMEM"), ("fstat", "EIO ENOMEM"),
    ("statfs fstatfs", "EACCES EINTR EIO ENOMEM ENOSYS"),
    ("fallocate", "EDQUOT EFBIG EINTR EIO ENODEV ENOSPC ENOSYS EOPNOTSUPP EPERM"),
    ("ftruncate", "EFBIG EINTR EIO EPERM"),
    ("rename renameat renameat2", "EACCES EBUSY EDQUOT EIO ENOMEM ENOSPC EPERM EROFS EXDEV"),
    ("mkdir mkdirat link", "EACCES EDQUOT EIO EMLINK ENOMEM ENOSPC EPERM EROFS"),
    ("unlink unlinkat rmdir", "EACCES EBUSY EIO ENOMEM EPERM EROFS"),
    ("chmod fchmod fchmodat chown fchown", "EIO ENOMEM EPERM EROFS"), ("fcntl", "EACCES EAGAIN EINVAL EMFILE ENOMEM"),
    ("flock", "EAGAIN EINTR ENOLCK"), ("socket socketpair", "EACCES EMFILE ENFILE ENOBUFS ENOMEM"),
    ("epoll_create1 memfd_create eventfd2 pipe2 inotify_init1", "EMFILE ENFILE ENOMEM"),
    ("pidfd_open", "EMFILE ENFILE ENODEV ENOMEM ENOSYS EPERM"), ("bind", "EACCES EADDRINUSE ENOMEM ENOSPC EROFS"),
    ("listen", "EADDRINUSE"), ("accept4", "ECONNABORTED EINTR EMFILE ENFILE ENOBUFS ENOMEM EPERM EPROTO"),
    ("connect", "EACCES EAGAIN EINTR EPERM"), ("sendto", "EINTR ENOBUFS ENOMEM"),
    ("sendmsg", "EINTR ENOBUFS ENOMEM ETOOMANYREFS"), ("recvfrom recvmsg", "EINTR ENOMEM"), ("setsockopt", "ENOMEM"),
    ("getsockopt getsockname", "ENOBUFS"), ("poll ppoll", "EINTR ENOMEM"), ("epoll_ctl", "ENOMEM ENOSPC"),
    ("inotify_add_watch", "EACCES ENOMEM ENOSPC"), ("epoll_wait epoll_pwait getrandom wait4 waitid", "EINTR"),
    ("clone clone3 fork vfork", "EAGAIN ENOMEM ENOSPC EPERM"), ("mmap", "EACCES EAGAIN ENFILE ENODEV ENOMEM EPERM"),
    ("prctl", "EACCES EINVAL EPERM"), ("dup", "EMFILE"), ("dup2", "EBUSY EINTR EMFILE"),
    ("pidfd_send_signal kill prlimit64", "EPERM"),
)  # fmt: skip
ERRORS = {
    call: tuple(getattr(errno, error) for error in errors.split()) for calls, errors in GROUPS for call in calls.split()
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
WAKEUP = "_wakeup_socketpair.py"
NAME_MEMORY = 0x53564D41  # PR_SET_VMA, of the C library's own
EPOLL_CTL_ADD = 1
NO_FILE = 2**31  # a descriptor below 0


def errors_of(call: SystemCall) -> tuple[int, ...]:
    """Return what a call can fail with; nothing if it is not one that fails in turn."""
    name, first = NUMBERS.get(call.number, ""), call.arguments[0]
    if call.place.startswith(WAKEUP) or (name == "prctl" and first == NAME_MEMORY):
        return ()
    if name == "epoll_ctl" and call.arguments[1] != EPOLL_CTL_ADD:  # only that takes memory
        return ()
    if name == "mmap" and call.arguments[4] >= NO_FILE:
        return ()
    if name == "openat" and call.arguments[2] & WRITING:
        return (*ERRORS[name], errno.EDQUOT, errno.ENOSPC, errno.EROFS)
    return ERRORS.get(name, ())
