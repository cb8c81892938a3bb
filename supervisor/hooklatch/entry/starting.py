"""Starts the daemon for an entry that found none: once, however many entries ask at the same moment.

    python -I starting.py --wait SECONDS [--runtime-dir DIR] [--config FILE] [--state-dir DIR]

Whoever holds the lock on the state directory starts it; the others wait for the lock, find it started, and are done.
Ends with 0 if a daemon listens.

An agent's environment must not choose the daemon's hooks, programs or state.  So `install --start` writes these places
into the entry's command, and the variables of the operator beside the state (`remember`): with `--state-dir` nothing
of the environment at hand is asked.  Without it, as in an entry that an older version has written, what `OWN` allows of
it is; `hooklatch doctor` says so.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

__all__ = ["ENVIRONMENT", "encode_start_environment", "main", "read_start_environment"]

ENVIRONMENT = "start.json"  # in the state directory: the variables that a daemon is started with
# Said by options of the command; a TMPDIR may be gone with the login that had it.
LEFT_OUT = ("HOOKLATCH_CONFIG", "HOOKLATCH_RUNTIME_DIR", "TMPDIR")
MAIN = Path(__file__).resolve().parents[1] / "__main__.py"


def main(words: list[str]) -> int:
    """Start the daemon unless it listens by now; return 0 if it does."""
    # pip can install for one user, in a place that an isolated interpreter does not look in.
    sys.path.append(str(MAIN.parents[1]))
    from hooklatch.paths import list_runtime_dirs, state_dir
    from hooklatch_worker.sandbox import children

    given = dict(zip(words[::2], words[1::2], strict=True))
    limit = float(given.pop("--wait"))
    pinned, named = given.get("--state-dir"), given.get("--runtime-dir")
    environ = children.OWN.of(read_start_environment(pinned) if pinned is not None else os.environ)
    if named is not None:
        environ["HOOKLATCH_RUNTIME_DIR"] = named
    folder = pinned or state_dir(environ)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    wait_for_lock(folder, limit)
    if any(is_listened_to(f"{runtime_dir}/agent.sock") for runtime_dir in list_runtime_dirs(named, environ)):
        return 0
    options = [word for pair in given.items() for word in pair]
    command = children.isolated_command(sys.executable, str(MAIN), "serve", "--detach", *options)
    # Not the agent's umask: with that, what the daemon compiles beside hooks could be anybody's to write.
    return children.start_child(command, environ, stdin=subprocess.DEVNULL, umask=0o077).wait()


def wait_for_lock(folder: str, limit: float) -> None:
    """Lock a directory for the life of this process; end it after `limit` seconds, since whoever asked is gone then."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, limit)
    fcntl.flock(lock, fcntl.LOCK_EX)
    signal.setitimer(signal.ITIMER_REAL, 0)


def is_listened_to(path: str) -> bool:
    """Return whether a daemon listens that the entry would take."""
    from hooklatch.credentials import connect_socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # whoever waits here holds the lock
        try:
            connect_socket(probe, path, None)
        except BlockingIOError:
            return True  # its backlog is full
        except OSError:
            return False
    return True


def encode_start_environment(environ: Mapping[str, str]) -> bytes:
    """Return the content of ENVIRONMENT: what a daemon may have of the operator's environment."""
    from hooklatch_worker.sandbox.children import OWN

    kept = {name: value for name, value in OWN.of(environ).items() if name not in LEFT_OUT}
    return json.dumps({"environ": kept}, indent=1).encode() + b"\n"


def read_start_environment(folder: str) -> dict[str, str]:
    """Return the variables that a daemon is started with.

    Raises:
        OSError: they cannot be read, or somebody else could have written them.
        ValueError: the file is not what `encode_start_environment` returns.
    """
    path = os.path.join(folder, ENVIRONMENT)
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(1, "others could have written it", path)
        read: object = json.load(file)
    environ = cast("dict[str, object]", read).get("environ") if isinstance(read, dict) else None
    found = cast("dict[str, object]", environ) if isinstance(environ, dict) else {"": None}
    if not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"{path} holds no variables")
    return {name: str(value) for name, value in found.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
