"""Connecting to a Unix socket, and who is at its other end, as the kernel has noted it then.  Waits for nothing itself.

The one place in Python that connects to a daemon: each connect asks who listens, and there is no way around that.
Light, since the entry imports it, for which an agent waits with each event: builtin modules only.
"""

import posix
import sys

try:
    import _socket as sockets  # `socket` itself costs as much as starting the interpreter
except ImportError:
    import socket as sockets  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

__all__ = ["connect_socket", "open_connection", "read_credentials"]

SIZE = 12  # bytes of struct ucred (unix(7), SO_PEERCRED): pid, uid and gid, an int each
ROOT = 0


def read_credentials(stream: "sockets.socket") -> tuple[int, int]:
    """Return the process and the user at the other end; the pid is 0 where that is in another PID namespace.

    Raises:
        OSError: the kernel does not tell.
    """
    try:
        data = stream.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, SIZE)
    except AttributeError:  # no Linux
        from hooklatch.darwin_credentials import read_darwin_credentials

        return read_darwin_credentials(stream)
    if len(data) != SIZE:
        raise OSError(0, "the kernel does not tell who is at the other end")
    return int.from_bytes(data[:4], sys.byteorder), int.from_bytes(data[4:8], sys.byteorder)


def connect_socket(stream: "sockets.socket", path: "str | bytes", daemon_uid: "int | None") -> None:
    """Connect a socket to where this user, root or the user `daemon_uid` listens.

    Raises:
        BlockingIOError: the backlog is full, and a later attempt may succeed.
        PermissionError: another user listens there; nothing was sent.  Or the path is closed to this user.
        OSError: no process listens there, or the kernel does not report its user.
    """
    stream.connect(path)
    uid = read_credentials(stream)[1]
    if uid not in (ROOT, posix.geteuid(), daemon_uid):
        raise PermissionError(1, f"another user listens there: {format_user(uid)}")


def open_connection(path: str, daemon_uid: "int | None") -> "socket.socket":
    """Return a non-blocking socket that is connected.  Raises what `connect_socket` does."""
    import socket  # imported here: what is light does not connect this way

    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        stream.setblocking(False)
        connect_socket(stream, path, daemon_uid)
        stream.getpeername()  # unix(7): EAGAIN from connect leaves a socket that only looks connected
    except BaseException:
        stream.close()
        raise
    return stream


def format_user(uid: int) -> str:
    """Return a user as people know it: its name, where there is one, and its number."""
    try:
        import pwd  # needed only here, and it may load a shared library

        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except (ImportError, KeyError):
        return str(uid)
