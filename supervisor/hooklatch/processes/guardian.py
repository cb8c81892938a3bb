"""The process that forks zygotes, and outlives them.  Knows one process and a socket to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

import trio

from hooklatch_worker.sandbox import linux

__all__ = ["STOP_TIMEOUT", "Guardian"]

# The environment that workers start with: what programs need to run, and no secret of the daemon's own.
NAMES = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV"})
PREFIXES = ("LC_", "XDG_", "HOOKLATCH_")
SECRETS = frozenset({"HOOKLATCH_PARENT", "HOOKLATCH_FLEET_PASSWORD"})  # an agent's or a link's, if that starts us
STOP_TIMEOUT = 5.0  # seconds that it, or a zygote, may take to kill everything below it
GUARDIAN = """import gc, sys
gc.disable()  # until what all workers share is loaded and frozen
sys.path[:] = {path}
from hooklatch_worker.runtime import guardian
guardian.live({line}, {daemon})
"""


class Guardian:
    """The process that forks zygotes, and outlives them."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = start_guardian(theirs.fileno())
            self.pid = self._process.pid
            self._pidfd = os.pidfd_open(self.pid)
        except OSError:
            self._line.close()
            raise

    @property
    def has_ended(self) -> bool:
        return self._pidfd < 0 or linux.has_ended(self._pidfd)

    async def wait(self) -> None:
        """Wait until it ends."""
        await trio.lowlevel.wait_readable(self._pidfd)

    def kill(self) -> None:
        self._process.kill()

    def fork(self, control: socket.socket) -> None:
        """Have it fork a zygote with this control socket.

        Raises:
            OSError: it has ended.
        """
        self._wake()
        socket.send_fds(self._line, [b"zygote"], [control.fileno()])

    def _wake(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)  # it may have been stopped

    async def aclose(self) -> None:
        """End it, which it does by itself when its line ends; one that is stuck is killed."""
        with trio.CancelScope(shield=True):
            self._line.close()
            self._wake()
            with trio.move_on_after(STOP_TIMEOUT):
                await self.wait()
            self.kill()
            await self.wait()
            self._process.wait()
            os.close(self._pidfd)
            self._pidfd = -1


def start_guardian(line: int) -> subprocess.Popen[bytes]:
    """Start an interpreter like this one, with an environment that has none of this one's secrets, as the guardian.

    It is in a session of its own: Ctrl-C in the daemon's terminal must only reach the daemon.
    """
    path = [os.fspath(entry) or os.getcwd() for entry in sys.path]  # not made absolute: it may be one of an import hook
    code = GUARDIAN.format(path=path, line=line, daemon=os.getpid())
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing takes them
    command: list[str] = [sys.executable, *flags, "-c", code]
    return subprocess.Popen(command, env=allowed(os.environ), pass_fds=[line], start_new_session=True)


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that workers may have."""
    return {
        name: value
        for name, value in environ.items()
        if name in NAMES or (name.startswith(PREFIXES) and name not in SECRETS)
    }
