"""A service manager for tests: it binds the sockets, starts daemons on them, and hears what they tell it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from support.commands import CONFIG, GUARDS, PATIENCE, PROGRAM, Place, Started
from support.survivors import nobody_survives

# As systemd does it: descriptors from 3 on, and the pid of the program itself, which is this process after the exec.
EXEC = """
import fcntl, os, sys
fds = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 50) for fd in sys.argv[1].split(",") if fd]
for place, fd in enumerate(fds):
    os.dup2(fd, 3 + place)
os.environ["LISTEN_PID"] = os.environ["WATCHDOG_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


class Manager:
    """Holds the listening sockets, over the life of any one daemon."""

    def __init__(self, place: Place) -> None:
        self.place = place
        place.runtime.mkdir(mode=0o700)
        self.sockets = {name: bound(place.runtime / f"{name}.sock") for name in ("agent", "admin")}
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.address = str(place.folder / "notify")
        self.told.bind(self.address)
        self.told.settimeout(PATIENCE)
        self.begun: list[Started] = []

    def start(self, *words: str, environment: Mapping[str, str] | None = None, fds: list[int] | None = None) -> Started:
        """Start a daemon on the sockets; it may take its time."""
        passed = [one.fileno() for one in self.sockets.values()] if fds is None else fds
        given = {
            "LISTEN_FDS": str(len(passed)), "LISTEN_FDNAMES": ":".join(self.sockets), "NOTIFY_SOCKET": self.address,
            **(environment or {}),
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", EXEC, ",".join(map(str, passed)), *PROGRAM, "serve", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=passed,
            cwd=self.place.folder, env=self.place.environment | given,
        )  # fmt: skip
        self.place.begun.append(process)
        self.begun.append(Started(process))
        return self.begun[-1]

    def hear(self) -> dict[str, str]:
        """Return the next message that a daemon sent."""
        return dict(line.split("=", 1) for line in self.told.recv(4096).decode().splitlines())

    def hear_of(self, word: str) -> dict[str, str]:
        """Return the next message that has this word."""
        while word not in (message := self.hear()):
            continue
        return message

    def close(self) -> None:
        for one in (*self.sockets.values(), self.told):
            one.close()


def bound(path: Path, mode: int = 0o600, kind: int = socket.SOCK_STREAM) -> socket.socket:
    one = socket.socket(socket.AF_UNIX, kind)
    one.bind(str(path))
    path.chmod(mode)
    if kind == socket.SOCK_STREAM:
        one.listen(1024)
    return one


@contextmanager
def managing(files: Mapping[str, str] | None = None) -> Generator[Manager]:
    """Play a manager; of its daemons nothing is left afterwards, and it still has its sockets."""
    with nobody_survives() as word, tempfile.TemporaryDirectory(prefix="hl-") as folder:
        place = Place(Path(folder))
        place.environment["HOOKLATCH_TEST_COOKIE"] = word
        place.write(files if files is not None else {"hooks.toml": CONFIG, "guards.py": GUARDS})
        manager = Manager(place)
        try:
            yield manager
            for name in manager.sockets:
                assert (place.runtime / f"{name}.sock").exists(), "a daemon removed a socket that is not its own"
        finally:
            place.clear()
            manager.close()


def leave(daemon: Started) -> str:
    """Have a daemon end as `systemctl stop` does; give its log."""
    import signal

    daemon.signal(signal.SIGTERM)
    code, _, err = daemon.end()
    assert code == 0, err
    assert "Traceback" not in err, err
    return err


def open_sockets(pid: int) -> set[str]:
    """Return what a process has open that are sockets: nothing, if it has ended."""
    found, names = set[str](), list[str]()
    with suppress(FileNotFoundError):
        names = os.listdir(f"/proc/{pid}/fd")
    for name in names:
        with suppress(FileNotFoundError):  # the one with which we look, where it is ourselves
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return {target for target in found if target.startswith("socket:")}
