"""The sockets that a service manager has bound and passes on to the daemon (sd_listen_fds(3)).

They start at descriptor 3.  LISTEN_PID names the process that they are for, LISTEN_FDS their number, LISTEN_FDNAMES
their names.  They remain the manager's: we neither bind them again nor remove their files when we end, so clients that
connect while no daemon runs wait for the next one.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import MutableMapping

import msgspec

from hooklatch import paths

__all__ = ["ActivationError", "InheritedSockets", "take_sockets"]

FIRST = 3  # sd_listen_fds(3): SD_LISTEN_FDS_START
FILES = {"agent": paths.AGENT_SOCKET, "admin": paths.ADMIN_SOCKET}
VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")


class ActivationError(Exception):
    """A socket that was passed on cannot be used. The text names its descriptor and the remedy."""


class InheritedSockets(msgspec.Struct, frozen=True):
    """The two listening sockets, and their paths."""

    agent: socket.socket
    admin: socket.socket
    agent_path: str
    admin_path: str


def take_sockets(environ: MutableMapping[str, str], pid: int) -> InheritedSockets | None:
    """Return the sockets that were passed to this process, or None, and remove the variables.

    Raises:
        ActivationError: these are not exactly our two sockets, or other users could connect to one.
    """
    listen_pid, count, names, _ = (environ.pop(name, "") for name in VARIABLES)
    if not count or listen_pid != str(pid):
        return None  # they were meant for an ancestor of this process
    if not count.isdecimal() or not 0 < int(count) < 1000:
        raise ActivationError(f"LISTEN_FDS is {count!r}, which is not a number of sockets")
    socket_names = names.split(":") if names else []
    if sorted(socket_names) != sorted(FILES) or int(count) != len(FILES):
        raise ActivationError(
            f"{count} sockets were passed, named {names!r}; pass two, with FileDescriptorName=agent and =admin"
        )
    by_name = {name: FIRST + place for place, name in enumerate(socket_names)}
    bound = {name: find_bound_path(name, fd) for name, fd in by_name.items()}
    agent, admin = (open_inherited_socket(by_name[name]) for name in FILES)
    return InheritedSockets(agent, admin, bound["agent"], bound["admin"])


def find_bound_path(name: str, fd: int) -> str:
    """Return the path of a socket, after a check of its kind and its permissions."""
    what = f"descriptor {fd}, passed as {name!r},"
    try:
        is_socket = stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError as error:
        raise ActivationError(f"{what} is not open: {error.strerror}") from None
    if not is_socket:
        raise ActivationError(f"{what} is not a socket")
    with socket.socket(fileno=os.dup(fd)) as look:
        if look.family != socket.AF_UNIX or look.type != socket.SOCK_STREAM:
            raise ActivationError(f"{what} is not a Unix stream socket; use ListenStream= with a path")
        if not look.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise ActivationError(f"{what} does not listen; use Accept=no")
        path: object = look.getsockname()
    if not isinstance(path, str) or os.path.basename(path) != FILES[name] or not os.path.isabs(path):
        raise ActivationError(f"{what} is bound to {path!r}; clients look for FOLDER/{FILES[name]}")
    check_permissions(what, path)
    return path


def check_permissions(what: str, path: str) -> None:
    folder = os.path.dirname(path)
    try:
        file, above = os.lstat(path), os.stat(folder)
    except OSError as error:
        raise ActivationError(f"{what} is bound to {path}, which cannot be accessed: {error.strerror}") from None
    if not stat.S_ISSOCK(file.st_mode):
        raise ActivationError(f"{what} is bound to {path}, where something else is now; restart its socket unit")
    for status, place, setting in ((file, path, "SocketMode=0600"), (above, folder, "DirectoryMode=0700")):
        if status.st_uid != os.geteuid():
            raise ActivationError(f"{what}: {place} is of user {status.st_uid}, not of this one; listen elsewhere")
        if status.st_mode & 0o077:
            raise ActivationError(f"{what}: {place} is open to others; set {setting} and restart the socket unit")


def open_inherited_socket(fd: int) -> socket.socket:
    os.set_inheritable(fd, False)
    listener = socket.socket(fileno=fd)
    listener.setblocking(False)
    return listener
