"""Who is at the other end of a Unix socket, as the kernel has noted it at the connect.  Knows one option of a socket.

Light, since each command imports it; what an agent starts for each event is lighter still, and has its own.
"""

import posix
import struct

try:
    import _socket as sockets  # `socket` itself costs as much as starting the interpreter
except ImportError:
    import socket as sockets  # type: ignore[no-redef]

__all__ = ["check_own", "credentials_of"]

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
