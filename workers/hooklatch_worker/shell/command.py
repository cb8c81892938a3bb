"""Runs one command below the worker and captures its output.  Knows processes and pipes; does not know events.

    start ─▶ exchange ─┬─ it ended: read what its pipes hold, reap it
                       └─ deadline: SIGTERM to its process tree, and return; a helper sends SIGKILL after GRACE

"Ended" refers to the command itself: a grandchild may keep the pipes open, so EOF is not waited for.  A terminated
command is not reaped before its helper has finished, so that its pid cannot be reused for another process group.  Only
for a worker: it is a subreaper, and all its other children are orphans.
"""

from __future__ import annotations

import errno
import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import IO

import msgspec

from hooklatch_worker.author.failures import CallFailed, FailureCause
from hooklatch_worker.sandbox import linux

__all__ = ["GRACE", "MAX_STREAM", "CallFailed", "Result", "execute", "reap"]

MAX_STREAM = 256 * 2**10  # bytes to keep of standard output and of standard error, from the start
GRACE = 0.5  # seconds from SIGTERM to SIGKILL
PIECE = 2**16  # bytes; the default capacity of a pipe (pipe(7))
NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a started command; a negative exit code is a signal, None means that it timed out."""

    exit_code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    is_stdout_truncated: bool = False
    is_stderr_truncated: bool = False
    seconds: float = 0.0

    @property
    def truncated(self) -> bool:
        """Whether any output was dropped."""
        return self.is_stdout_truncated or self.is_stderr_truncated


class CapturedStream:
    """The captured part of one output stream."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.fd = pipe.fileno()
        self.data = bytearray()
        self.is_truncated = False
        os.set_blocking(self.fd, False)

    def read(self) -> bool:
        """Read one piece; return whether there may be more at the moment."""
        try:
            piece = os.read(self.fd, PIECE)
        except BlockingIOError:
            return False
        room = MAX_STREAM - len(self.data)
        self.is_truncated = self.is_truncated or len(piece) > room
        self.data += piece[:room]
        return bool(piece)

    def drain(self) -> None:
        """Read what is available, up to the limit, since a grandchild may write as fast as we read."""
        while not self.is_truncated and self.read():
            pass


class TerminatedCommand:
    """A command that got SIGTERM, and the helper process that will send SIGKILL."""

    def __init__(self, process: subprocess.Popen[bytes], helper: int | None) -> None:
        self.process = process
        self.helper = helper


terminated: list[TerminatedCommand] = []


def execute(
    arguments: Sequence[str], data: bytes, *, cwd: str, env: Mapping[str, str], umask: int, deadline: float
) -> Result:
    """Run a command with `data` on its standard input; at `deadline` (monotonic) it is terminated.

    Raises:
        CallFailed: it could not be started.
    """
    started = time.monotonic()
    reap()
    earlier = frozenset(linux.descendants(os.getpid()))
    with start(arguments, cwd=cwd, env=env, umask=umask) as process:
        exit_code: int | None = None
        stdout, stderr = (CapturedStream(pipe) for pipe in (process.stdout, process.stderr) if pipe is not None)
        try:
            if exchange(process, data, [stdout, stderr], deadline):
                exit_code = exit_code_of(process)
        finally:
            if exit_code is None:
                terminate(process, earlier)
        stdout.drain()
        stderr.drain()
    return Result(
        exit_code=exit_code,
        stdout=bytes(stdout.data),
        stderr=bytes(stderr.data),
        is_stdout_truncated=stdout.is_truncated,
        is_stderr_truncated=stderr.is_truncated,
        seconds=time.monotonic() - started,
    )


class CommandProcess(subprocess.Popen[bytes]):
    """A process whose context manager closes its pipes without waiting."""

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            close(pipe)


def exit_code_of(process: CommandProcess) -> int:
    # Not Popen.wait, which returns 0 if the status was lost: on a gate that would pass.
    _, status = os.waitpid(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def close(pipe: IO[bytes] | None) -> None:
    if pipe is not None and not pipe.closed:
        pipe.close()


def start(arguments: Sequence[str], *, cwd: str, env: Mapping[str, str], umask: int) -> CommandProcess:
    if not os.path.isdir(cwd):
        raise CallFailed("crash", f"the command could not be started: there is no folder {cwd!r}")
    pipe = subprocess.PIPE
    try:
        # In a new session: without a terminal, and in a process group that a signal reaches.  Without preexec_fn, which
        # would need a fork of the whole worker instead of vfork(2), taking a millisecond more.
        return CommandProcess(
            arguments, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env, umask=umask,
            start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        number = error.errno if isinstance(error, OSError) else None
        cause: FailureCause = "overload" if number in NO_ROOM else "crash"
        raise CallFailed(cause, f"the command could not be started: {error}") from None


def exchange(process: CommandProcess, data: bytes, outputs: Iterable[CapturedStream], deadline: float) -> bool:
    """Write the input and read the output until the process ends; return False at the deadline."""
    pipe = process.stdin
    assert pipe is not None
    os.set_blocking(pipe.fileno(), False)
    by_fd = {output.fd: output for output in outputs}
    left = memoryview(data)
    ended = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        for fd in (ended, *by_fd):
            poll.register(fd, select.POLLIN)
        poll.register(pipe, select.POLLOUT)
        while (seconds := deadline - time.monotonic()) > 0:
            for fd, _ in poll.poll(math.ceil(seconds * 1000)):
                if fd == ended:
                    return True
                if fd not in by_fd:
                    left = feed(fd, left)
                    if not left:
                        poll.unregister(fd)
                        pipe.close()
                elif not by_fd[fd].read():
                    poll.unregister(fd)
        return False
    finally:
        os.close(ended)


def feed(fd: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(fd, left[:PIECE]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]  # the command does not read all of its input, which is no error


def terminate(process: CommandProcess, earlier: frozenset[int]) -> None:
    """Send SIGTERM to a command and everything it started, and have a helper send SIGKILL; do not wait.

    Descendants of the worker in `earlier` belong to previous commands, which ended and may leave processes running.
    """
    worker, leader = os.getpid(), process.pid
    strays = open_all(pid for pid in linux.descendants(worker) if pid not in earlier and group_of(pid) != leader)
    try:
        send(leader, strays, signal.SIGTERM)
        helper = fork_helper(worker, leader, strays)
    finally:
        for pidfd in strays:
            os.close(pidfd)
    terminated.append(TerminatedCommand(process, helper))


def open_all(pids: Iterable[int]) -> list[int]:
    opened: list[int] = []
    for pid in pids:
        with suppress(OSError):  # it is gone, or descriptors have run out: then it survives, as our descendant
            opened.append(os.pidfd_open(pid))
    return opened


def find_strays(worker: int, leader: int) -> set[int]:
    """Return what the command has started since then outside its process group, which a signal to the group misses.

    Orphans have been reparented to the worker, and are recognised by their session.
    """
    orphans = {pid for pid in linux.descendants(worker) if session_of(pid) == leader}
    return {pid for pid in orphans | set(linux.descendants(leader)) if group_of(pid) != leader}


def session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def send(leader: int, strays: Iterable[int], number: signal.Signals) -> None:
    with suppress(OSError):
        os.killpg(leader, number)
    for pidfd in strays:
        with suppress(OSError):
            signal.pidfd_send_signal(pidfd, number)


def fork_helper(worker: int, leader: int, strays: list[int]) -> int | None:
    """Fork the process that sends SIGKILL after the grace period; if that fails, send it at once."""
    try:
        helper = os.fork()
    except OSError:
        send(leader, strays, signal.SIGKILL)
        return None
    if helper:
        return helper
    try:
        close_all_but(strays)  # above all our socket, which must read as EOF in the daemon when the worker dies
        time.sleep(GRACE)
        late = open_all(find_strays(worker, leader))
        send(leader, [*strays, *late], signal.SIGKILL)
    finally:
        os._exit(0)


def close_all_but(kept: Iterable[int]) -> None:
    low = 0
    for fd in sorted(kept):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 2**20)


def reap() -> None:
    """Reap every child that has ended, except commands whose helper has not finished."""
    for one in list(terminated):
        if one.helper is not None and has_been_reaped(one.helper):
            one.helper = None
        if one.helper is None and one.process.poll() is not None:
            terminated.remove(one)
    kept = {pid for one in terminated for pid in (one.helper, one.process.pid)}
    for pid in linux.children():
        if pid not in kept:
            has_been_reaped(pid)


def has_been_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
