"""Runs one command below the worker and takes what it prints.  Knows processes and pipes; knows no event, no verdict.

    start ─▶ exchange ─┬─ it ended: take what its pipes hold by now, reap it
                       └─ its time is over: SIGTERM to its tree, then on; a helper follows with SIGKILL after GRACE

Ended means the command itself: a grandchild may hold the pipes for as long as it likes, nobody waits for their end.
A command that was told to stop is not reaped before its helper is done, so that its id cannot come to name another
process group in the meantime.  Only for a worker: it alone is a subreaper whose every other child is an orphan.
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

MAX_STREAM = 256 * 2**10  # bytes of standard output, and of standard error, that are kept: the first ones
GRACE = 0.5  # seconds from SIGTERM to SIGKILL
PIECE = 2**16  # bytes; what a pipe holds unless someone made it bigger (pipe(7))
NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a command that was started; a signal's number is a negative exit code, None is out of time."""

    exit_code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    is_stdout_truncated: bool = False
    is_stderr_truncated: bool = False
    seconds: float = 0.0

    @property
    def truncated(self) -> bool:
        """Some of its output was dropped."""
        return self.is_stdout_truncated or self.is_stderr_truncated


class Output:
    """One output stream of a command, as far as it is kept."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.fd = pipe.fileno()
        self.data = bytearray()
        self.is_truncated = False
        os.set_blocking(self.fd, False)

    def read(self) -> bool:
        """Take one piece of what is there; say whether there can be more now."""
        try:
            piece = os.read(self.fd, PIECE)
        except BlockingIOError:
            return False
        room = MAX_STREAM - len(self.data)
        self.is_truncated = self.is_truncated or len(piece) > room
        self.data += piece[:room]
        return bool(piece)

    def drain(self) -> None:
        """Take what is there; no more than is kept, for a grandchild may write as fast as we read."""
        while not self.is_truncated and self.read():
            pass


class Condemned:
    """A command that was told to stop, and the process that will make it."""

    def __init__(self, process: subprocess.Popen[bytes], helper: int | None) -> None:
        self.process = process
        self.helper = helper


condemned: list[Condemned] = []


def execute(
    arguments: Sequence[str], data: bytes, *, cwd: str, env: Mapping[str, str], umask: int, deadline: float
) -> Result:
    """Run a command with `data` on its standard input; by `deadline` (monotonic) it is over, or was told to stop.

    Raises:
        CallFailed: it could not be started.
    """
    started = time.monotonic()
    reap()
    earlier = frozenset(linux.descendants(os.getpid()))
    with start(arguments, cwd=cwd, env=env, umask=umask) as process:
        exit_code: int | None = None
        stdout, stderr = (Output(pipe) for pipe in (process.stdout, process.stderr) if pipe is not None)
        try:
            if exchange(process, data, [stdout, stderr], deadline):
                exit_code = exit_code_of(process)
        finally:
            if exit_code is None:
                condemn(process, earlier)
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


class Started(subprocess.Popen[bytes]):
    """A process whose `with` closes its pipes and waits for nothing."""

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            close(pipe)


def exit_code_of(process: Started) -> int:
    # Not Popen.wait, which says 0 where the status was lost: on a gate that would be a pass.
    _, status = os.waitpid(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def close(pipe: IO[bytes] | None) -> None:
    if pipe is not None and not pipe.closed:
        pipe.close()


def start(arguments: Sequence[str], *, cwd: str, env: Mapping[str, str], umask: int) -> Started:
    if not os.path.isdir(cwd):
        raise CallFailed("crash", f"the command could not be started: there is no folder {cwd!r}")
    pipe = subprocess.PIPE
    try:
        # Its own session: no terminal, and one process group that a signal reaches.  No preexec_fn, which would
        # cost a fork of the whole worker in place of vfork(2), a millisecond more.
        return Started(
            arguments, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env, umask=umask,
            start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        number = error.errno if isinstance(error, OSError) else None
        cause: FailureCause = "overload" if number in NO_ROOM else "crash"
        raise CallFailed(cause, f"the command could not be started: {error}") from None


def exchange(process: Started, data: bytes, outputs: Iterable[Output], deadline: float) -> bool:
    """Feed it and take what it prints until it ends; False when its time is over first."""
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
        return left[:0]  # it does not want to read its input, which is its right


def condemn(process: Started, earlier: frozenset[int]) -> None:
    """Tell a command and all that it started to stop, and see to it that they do; waits for neither.

    What was below the worker `earlier` is another command's, which ended well and may leave something running.
    """
    worker, leader = os.getpid(), process.pid
    strays = open_all(pid for pid in linux.descendants(worker) if pid not in earlier and group_of(pid) != leader)
    try:
        tell(leader, strays, signal.SIGTERM)
        helper = fork_helper(worker, leader, strays)
    finally:
        for pidfd in strays:
            os.close(pidfd)
    condemned.append(Condemned(process, helper))


def open_all(pids: Iterable[int]) -> list[int]:
    opened: list[int] = []
    for pid in pids:
        with suppress(OSError):  # it is gone, or there is no descriptor left: then it lives on, below us
            opened.append(os.pidfd_open(pid))
    return opened


def find_strays(worker: int, leader: int) -> set[int]:
    """Find what the command has started since, beside the next command, which its group's signal misses.

    What lost its parent has come to the worker by now, and is known by the session it is in.
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


def tell(leader: int, strays: Iterable[int], number: signal.Signals) -> None:
    with suppress(OSError):
        os.killpg(leader, number)
    for pidfd in strays:
        with suppress(OSError):
            signal.pidfd_send_signal(pidfd, number)


def fork_helper(worker: int, leader: int, strays: list[int]) -> int | None:
    """Fork the process that sends SIGKILL when the grace is over; send it at once where there can be none."""
    try:
        helper = os.fork()
    except OSError:
        tell(leader, strays, signal.SIGKILL)
        return None
    if helper:
        return helper
    try:
        close_all_but(strays)  # above all our socket, whose end the daemon must hear of when the worker dies
        time.sleep(GRACE)
        late = open_all(find_strays(worker, leader))
        tell(leader, [*strays, *late], signal.SIGKILL)
    finally:
        os._exit(0)


def close_all_but(kept: Iterable[int]) -> None:
    low = 0
    for fd in sorted(kept):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 2**20)


def reap() -> None:
    """Reap every child that has ended, but no command whose helper has not yet done its work."""
    for one in list(condemned):
        if one.helper is not None and has_been_reaped(one.helper):
            one.helper = None
        if one.helper is None and one.process.poll() is not None:
            condemned.remove(one)
    kept = {pid for one in condemned for pid in (one.helper, one.process.pid)}
    for pid in linux.children():
        if pid not in kept:
            has_been_reaped(pid)


def has_been_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
