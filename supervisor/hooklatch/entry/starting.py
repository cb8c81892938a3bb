"""Starts the daemon for an entry that found none: once, however many entries ask at the same moment.

    python -I -S starting.py [RUNTIME_DIR]

Whoever holds the lock on the state directory starts it; the others wait for the lock, find it started, and are done.
Ends with 0 if a daemon listens.  Standard library only.
"""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

__all__ = ["main"]


def main(words: list[str]) -> int:
    """Start the daemon unless it listens by now; return 0 if it does."""
    # Found by hand: under -I -S the package cannot be imported by name.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from hooklatch.paths import runtime_dirs, state_dir

    named = words[0] if words else None
    folder = state_dir(os.environ)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if any(is_listened_to(f"{one}/agent.sock") for one in runtime_dirs(named, os.environ)):
        return 0
    # -P: an agent's working directory must not provide a module.
    command = [sys.executable, "-P", "-m", "hooklatch", "serve", "--detach"]
    chosen = [] if named is None else ["--runtime-dir", named]
    return subprocess.run([*command, *chosen], stdin=subprocess.DEVNULL, check=False).returncode


def is_listened_to(path: str) -> bool:
    """Return whether a daemon listens that the entry would take."""
    from hooklatch.credentials import connect

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            connect(probe, path, None)
        except OSError:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
