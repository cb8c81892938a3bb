"""A runner of installers and of scripts that inspect an interpreter: of programs that end by themselves.

A program dies with this process, and when its caller stops waiting.  Its output goes to a file in memory: a pipe that
is read too slowly would block it.
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

# The code of a process between the daemon and the program: it outlives neither of them, and kills all processes that
# the program started.
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
MAX_OUTPUT = 2**20  # bytes at the end of the output that are read
MAX_WRITTEN = 64 * 2**20  # bytes that it may write, all of them in memory: to write more is an error
END_TIMEOUT = 2.0  # seconds that the keeper has for killing the remaining processes


class CommandExit(msgspec.Struct, frozen=True):
    """The exit code of a program, None if it took too long, and its output."""

    code: int | None
    output: bytes

    def last_lines(self, count: int) -> str:
        """Return the last lines of its output that are not empty."""
        text = self.output.decode("utf-8", "replace")
        return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-count:])


class ProgramOutput:
    """The output of a program that runs."""

    def __init__(self) -> None:
        self.fd = -1

    def output(self) -> bytes:
        """Return the output so far, only its end if it is long."""
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
    output: ProgramOutput | None = None,
) -> CommandExit:
    """Run a program, named by its path, to its end; kill it after `timeout` seconds, or when cancelled.

    Raises:
        OSError: it cannot be started.
    """
    output = output or ProgramOutput()
    output.fd = os.memfd_create("output", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        # Sealed at its full size: without that, a program that prints without end takes the machine's memory.
        os.ftruncate(output.fd, MAX_WRITTEN)
        fcntl.fcntl(output.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        process = start_program([*keeper_command(), *command], environ, folder, output.fd)
        OWNED.add(process.pid)  # without a checkpoint since its start: a sweep would take it for a stray process
        try:
            code = await wait_for_program(process, timeout)
        finally:
            OWNED.discard(process.pid)
        return CommandExit(code, output.output())
    finally:
        os.close(output.fd)
        output.fd = -1


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
        # Shielded: a caller that is cancelled must not leave the program or its children running.
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
