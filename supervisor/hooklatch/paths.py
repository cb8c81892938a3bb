"""The locations of sockets, configuration and state.

Knows the environment, the owners of directories, and the pointer that a daemon leaves; creates nothing.  Every command
that an agent starts for an event imports this module, so it imports only `posix`, which is part of the interpreter.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ADMIN_SOCKET", "AGENT_SOCKET", "DASHBOARD", "FLEET_TOKEN", "POINTER", "list_candidate_dirs", "find_config_file",
    "read_pointed_dir", "list_runtime_dirs", "state_dir",
]  # fmt: skip

AGENT_SOCKET = "agent.sock"
ADMIN_SOCKET = "admin.sock"
DASHBOARD = "dashboard"  # beside the admin socket: the address of a dashboard, which locks the file while it runs
FLEET_TOKEN = "fleet.token"  # beside the admin socket, if this host is in a fleet
POINTER = "listening"  # in the state directory: one line, the directory in which the daemon listens

_FORMAT_MASK = 0o170000  # S_IFMT and S_IFDIR of inode(7), without importing the stat module
_DIRECTORY = 0o040000
_REGULAR = 0o100000
_MAX_POINTER = 4096  # bytes; PATH_MAX


def list_runtime_dirs(flag: str | None, environ: "Mapping[str, str]") -> list[str]:
    """Return the directories that may hold the sockets: the daemon uses the first, clients try each in turn.

    An explicitly named directory is the only candidate: falling back from it could reach another daemon, with other
    hooks.  Nothing under /tmp is ever chosen, because another user could have created it first.
    """
    named = flag or environ.get("HOOKLATCH_RUNTIME_DIR")
    if named:
        return [named]
    candidates: list[str] = []
    session_folder = environ.get("XDG_RUNTIME_DIR", "")
    if _is_private_directory(session_folder):
        candidates.append(_join_path(session_folder, "hooklatch"))
    home = _find_home(environ)
    if home:
        candidates.append(_join_path(home, ".local/state/hooklatch/run"))
    return candidates


def find_config_file(flag: str | None, environ: "Mapping[str, str]") -> str:
    """Return the path of the file that declares the hooks; it need not exist."""
    named = flag or environ.get("HOOKLATCH_CONFIG")
    return named or _join_path(_find_xdg_dir(environ, "XDG_CONFIG_HOME", ".config"), "hooklatch/hooks.toml")


def state_dir(environ: "Mapping[str, str]") -> str:
    """Return the directory for data that outlives the daemon; it need not exist."""
    return _join_path(_find_xdg_dir(environ, "XDG_STATE_HOME", ".local/state"), "hooklatch")


def read_pointed_dir(flag: str | None, environ: "Mapping[str, str]") -> str:
    """Return the directory that the daemon's pointer names; "" if another one is named, or no pointer can be trusted.

    Only this user can have written it.  It may be stale.
    """
    if flag or environ.get("HOOKLATCH_RUNTIME_DIR"):
        return ""
    path = _join_path(state_dir(environ), POINTER)
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_CLOEXEC | posix.O_NONBLOCK)
    except (OSError, ValueError):
        return ""
    try:
        status = posix.fstat(fd)
        is_own = status.st_mode & _FORMAT_MASK == _REGULAR and status.st_uid == posix.getuid()
        if not is_own or status.st_mode & 0o077 or status.st_nlink != 1:
            return ""
        line = posix.read(fd, _MAX_POINTER + 1)
    except OSError:
        return ""
    finally:
        posix.close(fd)
    is_path = line.startswith(b"/") and line.find(b"\n") == len(line) - 1 and len(line) <= _MAX_POINTER
    return line[:-1].decode("utf-8", "surrogateescape") if is_path and b"\0" not in line else ""


def list_candidate_dirs(flag: str | None, environ: "Mapping[str, str]") -> list[str]:
    """Return the directories to look for the daemon in, in turn: those of `list_runtime_dirs`, then the pointer's."""
    known, pointed = list_runtime_dirs(flag, environ), read_pointed_dir(flag, environ)
    return [*known, *([pointed] if pointed and pointed not in known else [])]


def _find_xdg_dir(environ: "Mapping[str, str]", name: str, default: str) -> str:
    # XDG base directory specification: a relative path is invalid and must be ignored.
    value = environ.get(name, "")
    return value if value.startswith("/") else _join_path(_find_home(environ), default)


def _find_home(environ: "Mapping[str, str]") -> str:
    """Return the home directory, or "" if neither the environment nor the user database has one."""
    home = environ.get("HOME", "")
    if home.startswith("/"):
        return home
    try:
        import pwd  # only needed without HOME, as in a bare service: it may load a shared library

        return pwd.getpwuid(posix.getuid()).pw_dir
    except (ImportError, KeyError):
        return ""


def _is_private_directory(path: str) -> bool:
    if not path.startswith("/"):
        return False
    try:
        status = posix.stat(path)
    except (OSError, ValueError):
        return False
    is_directory = status.st_mode & _FORMAT_MASK == _DIRECTORY
    return is_directory and status.st_uid == posix.getuid() and status.st_mode & 0o777 == 0o700


def _join_path(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
