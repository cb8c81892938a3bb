"""The process and the user at the other end of a Unix socket, on macOS.  Builtin modules only."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as sockets

__all__ = ["read_darwin_credentials"]

# sys/un.h: SOL_LOCAL, LOCAL_PEERCRED and LOCAL_PEERPID
LEVEL, PEERCRED, PEERPID = 0, 1, 2
# struct xucred of sys/ucred.h: its size, its version, and where the user's number is; all numbers have four bytes
XUCRED_BYTES, XUCRED_VERSION, USER = 76, 0, 4
PID_BYTES = 4
GONE = -1  # no process has this pid, and 0 would be one of another namespace, of which macOS has none


def read_darwin_credentials(stream: "sockets.socket") -> "tuple[int, int]":
    """Return the process and the user at the other end; the pid is `GONE` where only the user is known.

    Raises:
        OSError: the kernel does not tell.
    """
    user = stream.getsockopt(LEVEL, PEERCRED, XUCRED_BYTES)
    if len(user) != XUCRED_BYTES or read_number(user, 0) != XUCRED_VERSION:
        raise OSError(0, "the kernel does not tell who is at the other end")
    try:
        pid = read_number(stream.getsockopt(LEVEL, PEERPID, PID_BYTES), 0)
    except OSError:  # ENOTCONN: it has closed its end
        pid = GONE
    return pid or GONE, read_number(user, USER)


def read_number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], sys.byteorder)
