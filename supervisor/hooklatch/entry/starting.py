"""The start of a daemon for a forwarder that found none: once, however many forwarders need it at the same moment.

    python -I starting.py --wait SECONDS [--runtime-dir DIR] [--config FILE] [--state-dir DIR]

The process that holds the lock on the state directory starts it.  The others wait for the lock, find the daemon
started, and are done.  The exit code is 0 if a daemon listens.

An agent's environment must not choose the daemon's hooks, programs or state.  So `install --start` writes these paths
into the forwarder's command, and the operator's variables beside the state (`remember_environment`): with `--state-dir`
no variable of the agent is used.  Without it, as in a command that an older version has written, those that `OWN`
allows are used, and `hooklatch doctor` reports it.
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
# Options of the command replace them, and a TMPDIR may be gone with the login that had it.
LEFT_OUT = ("HOOKLATCH_CONFIG", "HOOKLATCH_RUNTIME_DIR", "TMPDIR")
MAIN = Path(__file__).resolve().parents[1] / "__main__.py"


def main(words: list[str]) -> int:
    """Start the daemon unless one listens by now; return 0 if one does."""
    # pip can install for one user, in a place that an isolated interpreter does not look in.
    sys.path.append(str(MAIN.parents[1]))
    from hooklatch.paths import list_runtime_dirs, state_dir
    from hooklatch_worker.sandbox import children

    given_options = dict(zip(words[::2], words[1::2], strict=True))
    limit = float(given_options.pop("--wait"))
    pinned, named_dir = given_options.get("--state-dir"), given_options.get("--runtime-dir")
    environ = children.OWN.of(read_start_environment(pinned) if pinned is not None else os.environ)
    if named_dir is not None:
        environ["HOOKLATCH_RUNTIME_DIR"] = named_dir
    folder = pinned or state_dir(environ)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    wait_for_lock(folder, limit)
    if any(is_listened_to(f"{runtime_dir}/agent.sock") for runtime_dir in list_runtime_dirs(named_dir, environ)):
        return 0
    options = [word for pair in given_options.items() for word in pair]
    command = children.isolated_command(sys.executable, str(MAIN), "serve", "--detach", *options)
    # Not the agent's umask: with a loose one, other users could write the files that the daemon compiles beside hooks.
    return children.start_child(command, environ, stdin=subprocess.DEVNULL, umask=0o077).wait()


def wait_for_lock(folder: str, limit: float) -> None:
    """Lock a directory for the life of this process; end it after `limit` seconds, when the forwarder is gone too."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # The agent may have blocked it, and a mask is inherited: this process would then wait without end.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, limit)
    fcntl.flock(lock, fcntl.LOCK_EX)
    signal.setitimer(signal.ITIMER_REAL, 0)


def is_listened_to(path: str) -> bool:
    """Return whether a daemon listens that the forwarder would accept."""
    from hooklatch.credentials import connect_socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # this process holds the lock, so all others would wait with it
        try:
            connect_socket(probe, path, None)
        except BlockingIOError:
            return True  # its backlog is full
        except OSError:
            return False
    return True


def encode_start_environment(environ: Mapping[str, str]) -> bytes:
    """Return the content of ENVIRONMENT: the variables of the operator that a daemon may have."""
    from hooklatch_worker.sandbox.children import OWN

    kept_variables = {name: value for name, value in OWN.of(environ).items() if name not in LEFT_OUT}
    return json.dumps({"environ": kept_variables}, indent=1).encode() + b"\n"


def read_start_environment(folder: str) -> dict[str, str]:
    """Return the variables that a daemon is started with.

    Raises:
        OSError: they cannot be read, or another user could have written them.
        ValueError: the file is not in the form of `encode_start_environment`.
    """
    path = os.path.join(folder, ENVIRONMENT)
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(1, "others could have written it", path)
        content: object = json.load(file)
    environ = cast("dict[str, object]", content).get("environ") if isinstance(content, dict) else None
    variables = cast("dict[str, object]", environ) if isinstance(environ, dict) else {"": None}
    if not all(isinstance(value, str) for value in variables.values()):
        raise ValueError(f"{path} holds no variables")
    return {name: str(value) for name, value in variables.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
