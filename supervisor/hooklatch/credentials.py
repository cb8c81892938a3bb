"""Connecting to a Unix socket, and who is at its other end, as the kernel has noted it then.  Waits for nothing.

Light, since each command imports it; what an agent starts for each event is lighter still, and has its own.
"""

import posix
import struct

try:
    import _socket as sockets  # `socket` itself costs as much as starting the interpreter
except ImportError:
    import socket as sockets  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

__all__ = ["check_own", "connected", "credentials_of"]

CREDENTIALS = struct.Struct("3i")  # unix(7), SO_PEERCRED: pid, uid, gid


def credentials_of(stream: "sockets.socket") -> tuple[int, int]:
    """Return the process and the user at the other end; the pid is 0 where that is in another PID namespace.

    Raises:
        OSError: the kernel does not tell.
    """
    pid, uid, _ = CREDENTIALS.unpack(stream.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, CREDENTIALS.size))
    return int(pid), int(uid)


def check_own(stream: "sockets.socket") -> None:
    """Return if this user listens at the other end.

    Raises:
        OSError: another user does, or the kernel does not tell.
    """
    if credentials_of(stream)[1] != posix.getuid():
        raise PermissionError(1, "another user listens there")


def connected(path: str, *, is_pointed: bool = False) -> "socket.socket":
    """Return a non-blocking socket that is connected; to this user, if the place is one that the pointer alone names.

    Raises:
        BlockingIOError: the backlog is full, and a later attempt may succeed.
        OSError: nobody listens there, or another user does.
    """
    import socket  # imported here: what is light does not connect this way

    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        stream.setblocking(False)
        stream.connect(path)
        stream.getpeername()  # unix(7): EAGAIN from connect leaves a socket that only looks connected
        if is_pointed:
            check_own(stream)
    except BaseException:
        stream.close()
        raise
    return stream
