"""The process that forks zygotes and outlives them: its start, its socket and its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import cast

import msgspec
import trio

from hooklatch_worker.sandbox import children
from hooklatch_worker.systems import system

__all__ = ["OWNED", "STOP_TIMEOUT", "Guardian", "Interpreter"]

STOP_TIMEOUT = 5.0  # seconds that a guardian, or a zygote, may take to kill everything below it
# The children of this process that a task of it waits for: `reap_strangers` and sweeps leave them alone.
OWNED: set[int] = set()
GUARDIAN = """import gc, sys
gc.disable()  # until what all workers share is loaded and frozen
{enter}
sys.modules.setdefault("typing_extensions", None)  # msgspec takes what it needs of it from typing, and all are smaller
from hooklatch_worker.runtime import guardian
sys.modules["typing_extensions"] or sys.modules.pop("typing_extensions")
guardian.run_guardian({line}, {daemon})
"""
# `environment` is loaded by its file, before the package that it is in: it decides where that package is found.
ENTER = """import sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("hooklatch_worker.sandbox.environment", {file!r})
environment = sys.modules[spec.name] = module_from_spec(spec)
spec.loader.exec_module(environment)
environment.enter({path!r}, {prefix!r}, {ours!r}, {spares!r})
"""


class Interpreter(msgspec.Struct, frozen=True):
    """Another interpreter than the daemon's own, and the paths from which it imports.

    `prefix` is its environment's directory; `ours` and `spares` are as `environment.enter` takes them.
    """

    python: str
    version: str
    prefix: str
    path: list[str]
    ours: dict[str, str]
    spares: dict[str, str]
    is_virtual: bool = True

    @property
    def enter(self) -> str:
        """Return the code that gives it our package and the environment's paths."""
        from hooklatch_worker.sandbox import environment  # only here: the daemon's own interpreter needs none

        return ENTER.format(
            file=environment.__file__, path=self.path, prefix=self.prefix, ours=self.ours, spares=self.spares
        )


class Guardian:
    """The daemon's handle on a guardian process. Without an `interpreter` it runs the daemon's own."""

    def __init__(self, interpreter: Interpreter | None = None) -> None:
        self._socket, theirs = system.make_message_pair()
        try:
            with theirs:
                self._process, self._pidfd = start_guardian(theirs.fileno(), interpreter)
        except OSError:
            self._socket.close()
            raise
        self.pid = self._process.pid
        OWNED.add(self.pid)  # before the next checkpoint, at which a sweep could reap it

    @property
    def has_ended(self) -> bool:
        return self._pidfd < 0 or system.has_ended(self._pidfd)

    async def wait(self) -> None:
        """Wait until the guardian ends."""
        await trio.lowlevel.wait_readable(self._pidfd)

    def kill(self) -> None:
        self._process.kill()

    def fork(self, control: socket.socket) -> None:
        """Have the guardian fork a zygote with this control socket.

        Raises:
            OSError: the guardian has ended.
        """
        self._wake()
        system.send_message(self._socket, b"zygote", [control.fileno()])

    def _wake(self) -> None:
        with suppress(ProcessLookupError):
            system.signal_process(self._pidfd, self.pid, signal.SIGCONT)  # a stopped process would neither fork nor end

    async def aclose(self) -> None:
        """Stop the guardian: close its socket, then kill it if it has not exited."""
        with trio.CancelScope(shield=True):
            self._socket.close()
            self._wake()
            with trio.move_on_after(STOP_TIMEOUT):
                await self.wait()
            self.kill()
            await self.wait()
            self._process.wait()
            OWNED.discard(self.pid)
            os.close(self._pidfd)
            self._pidfd = -1


def start_guardian(socket_fd: int, interpreter: Interpreter | None) -> tuple[subprocess.Popen[bytes], int]:
    """Start a guardian without our secrets, in a session that Ctrl-C does not reach; return it with its pidfd."""
    environ = children.OWN.of(os.environ)
    if interpreter is None:
        path = [os.fspath(entry) or os.getcwd() for entry in sys.path]  # not made absolute: it may be an import hook's
        flags = cast("list[str]", subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]
        python, enter = sys.executable, f"sys.path[:] = {path}"
    else:
        # Without `site`: its packages' .pth files may contain code, which is for confined workers.
        python, flags, enter = interpreter.python, ["-S"], interpreter.enter
        environ.pop("VIRTUAL_ENV", None)
        if interpreter.is_virtual:
            environ["VIRTUAL_ENV"] = interpreter.prefix
    code = GUARDIAN.format(enter=enter, line=socket_fd, daemon=os.getpid())
    command = children.isolated_command(python, *flags, "-c", code)
    process = children.start_child(command, environ, pass_fds=[socket_fd], start_new_session=True)
    try:
        return process, system.watch_process(process.pid)
    except OSError:
        process.kill()
        process.wait()
        raise
