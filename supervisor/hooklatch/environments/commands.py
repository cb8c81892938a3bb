"""Runs an installer, or a look at an interpreter: a program that ends by itself.  Knows processes, not what they do.

It dies with this process, and when it is no longer waited for; what it says goes to a file in memory, so that it is
never kept waiting.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
import trio

from hooklatch.processes.guardian import OWNED
from hooklatch_worker.sandbox import children

__all__ = ["CommandExit", "ProgramOutput", "run_program"]

# Between us and the program: outlives neither, and leaves nothing that the program started.
KEEPER = """import os, select, signal, sys, time
sys.path[:] = {path}
from hooklatch_worker.sandbox import children, linux
daemon, code = os.pidfd_open({daemon}), 1
if os.getppid() != {daemon}:
    os._exit(1)
linux.become_subreaper()
linux.wake_when_orphaned()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
try:
    program = children.start_child(sys.argv[1:], os.environ)
    poll = select.poll()
    for fd in daemon, os.pidfd_open(program.pid):
        poll.register(fd, select.POLLIN)
    poll.poll()
    code = program.poll()
    code = 1 if code is None else code if code >= 0 else 128 - code
finally:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while linux.kill_children():
        time.sleep(0.001)
    os._exit(code)
"""
MAX_OUTPUT = 2**20  # bytes of it that are read
MAX_SAID = 64 * 2**20  # bytes that it may say, all of them in memory: to write more is an error
END_TIMEOUT = 2.0  # seconds that the keeper has for killing what is left


class CommandExit(msgspec.Struct, frozen=True):
    """How a program ended, None if it took too long, and what it said."""

    code: int | None
    output: bytes

    def last(self, lines: int) -> str:
        """Return the last lines of what it said."""
        text = self.output.decode("utf-8", "replace")
        return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-lines:])


class ProgramOutput:
    """The output of a program that runs."""

    def __init__(self) -> None:
        self.fd = -1

    def output(self) -> bytes:
        """Return what it has said so far, of a long one the end."""
        if self.fd < 0:
            return b""
        size = os.lseek(self.fd, 0, os.SEEK_CUR)  # the program writes by the same open file
        start = max(0, size - MAX_OUTPUT)
        return os.pread(self.fd, size - start, start)


async def run_program(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    folder: str,
    timeout: float,
    seen: ProgramOutput | None = None,
) -> CommandExit:
    """Run a program, named by its path, to its end; kill it after `timeout` seconds, or when cancelled.

    Raises:
        OSError: it cannot be started.
    """
    seen = seen or ProgramOutput()
    seen.fd = os.memfd_create("output", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(seen.fd, MAX_SAID)
        fcntl.fcntl(seen.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        process = start_program(
            [*keeper_command(), *command], environ, folder, seen.fd
        )  # at once: then it is owned before any sweep
        OWNED.add(process.pid)
        try:
            code = await wait_for_program(process, timeout)
        finally:
            OWNED.discard(process.pid)
        return CommandExit(code, seen.output())
    finally:
        os.close(seen.fd)
        seen.fd = -1


def keeper_command() -> list[str]:
    path = [os.fspath(entry) or os.getcwd() for entry in sys.path]
    return children.isolated_command(sys.executable, "-S", "-c", KEEPER.format(path=path, daemon=os.getpid()))


def start_program(command: list[str], environ: Mapping[str, str], folder: str, output: int) -> subprocess.Popen[bytes]:
    return children.start_child(
        command, environ, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        start_new_session=True, umask=0o077,
    )  # fmt: skip


async def wait_for_program(process: subprocess.Popen[bytes], timeout: float) -> int | None:
    pidfd = os.pidfd_open(process.pid)
    has_ended = False
    try:
        with trio.move_on_after(timeout):
            await trio.lowlevel.wait_readable(pidfd)
            has_ended = True
    finally:
        with trio.CancelScope(shield=True):
            if not has_ended:
                process.terminate()
                with trio.move_on_after(END_TIMEOUT):
                    await trio.lowlevel.wait_readable(pidfd)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the group lives until it is reaped
            await trio.lowlevel.wait_readable(pidfd)
        os.close(pidfd)
        process.wait()
    return process.returncode if has_ended else None
