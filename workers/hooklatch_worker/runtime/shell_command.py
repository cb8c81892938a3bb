"""A runner of one command below the worker, which captures its output.  Knows processes and pipes, but no events.

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

from hooklatch_worker.author.call_context import CapturedOutput
from hooklatch_worker.author.failures import CallFailed, FailureCause
from hooklatch_worker.sandbox import children
from hooklatch_worker.systems import system

__all__ = ["GRACE", "MAX_STREAM", "CallFailed", "CommandResult", "execute_command", "reap_children"]

MAX_STREAM = 256 * 2**10  # bytes to keep of standard output and of standard error, from the start
GRACE = 0.5  # seconds from SIGTERM to SIGKILL
PIECE = 2**16  # bytes; the default capacity of a pipe (pipe(7))
NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class CommandResult(CapturedOutput, frozen=True, kw_only=True):
    """The result of a started command; a negative exit code is a signal, None means that it timed out."""

    is_stdout_truncated: bool
    seconds: float


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


# Commands that got SIGTERM, with the helper process that will send SIGKILL.
terminated: dict[subprocess.Popen[bytes], int | None] = {}


def execute_command(
    arguments: Sequence[str], data: bytes, *, cwd: str, env: Mapping[str, str], umask: int, deadline: float
) -> CommandResult:
    """Run a command with `data` on its standard input; at `deadline` (monotonic) it is terminated.

    Raises:
        CallFailed: it could not be started.
    """
    started = time.monotonic()
    reap_children()
    earlier = frozenset(system.list_descendants(os.getpid()))
    process = start_command(arguments, cwd=cwd, env=env, umask=umask)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdin, process.stdout, process.stderr:  # not `with process`, which would wait for its end
        exit_code: int | None = None
        stdout, stderr = CapturedStream(process.stdout), CapturedStream(process.stderr)
        try:
            if exchange_data(process.pid, process.stdin, data, [stdout, stderr], deadline):
                exit_code = read_exit_code(process)
        finally:
            if exit_code is None:
                terminate_command(process, earlier)
        stdout.drain()
        stderr.drain()
    return CommandResult(
        exit_code=exit_code,
        stdout=bytes(stdout.data),
        stderr=bytes(stderr.data),
        truncated=stdout.is_truncated or stderr.is_truncated,
        is_stdout_truncated=stdout.is_truncated,
        seconds=time.monotonic() - started,
    )


def read_exit_code(process: subprocess.Popen[bytes]) -> int:
    # Not Popen.wait, which returns 0 if the status was lost: on a gate that would pass.
    _, status = os.waitpid(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def start_command(arguments: Sequence[str], *, cwd: str, env: Mapping[str, str], umask: int) -> subprocess.Popen[bytes]:
    if not os.path.isdir(cwd):
        raise CallFailed("crash", f"the command could not be started: there is no folder {cwd!r}")
    pipe = subprocess.PIPE
    try:
        # In a new session: without a terminal, and in a process group that a signal reaches.  Where orphans are found
        # by their session it stays in the worker's, which has no terminal either.  Without preexec_fn, which would
        # need a fork of the whole worker instead of vfork(2), taking a millisecond more.
        return children.start_child(
            arguments, env, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, umask=umask,
            start_new_session=system.ADOPTS_ORPHANS, process_group=None if system.ADOPTS_ORPHANS else 0,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        number = error.errno if isinstance(error, OSError) else None
        cause: FailureCause = "overload" if number in NO_ROOM else "crash"
        raise CallFailed(
            cause, f"the command could not be started: {getattr(error, 'strerror', None) or error}"
        ) from None


def exchange_data(pid: int, pipe: IO[bytes], data: bytes, outputs: Iterable[CapturedStream], deadline: float) -> bool:
    """Write the input and read the output until the process ends; return False at the deadline."""
    os.set_blocking(pipe.fileno(), False)
    by_fd = {output.fd: output for output in outputs}
    unsent = memoryview(data)
    ended = system.watch_process(pid)
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
                    unsent = feed_input(fd, unsent)
                    if not unsent:
                        poll.unregister(fd)
                        pipe.close()
                elif not by_fd[fd].read():
                    poll.unregister(fd)
        return False
    finally:
        os.close(ended)


def feed_input(fd: int, unsent: memoryview) -> memoryview:
    try:
        return unsent[os.write(fd, unsent[:PIECE]) :]
    except BlockingIOError:
        return unsent
    except BrokenPipeError:
        return unsent[:0]  # the command does not read all of its input, which is not an error


def terminate_command(process: subprocess.Popen[bytes], earlier: frozenset[int]) -> None:
    """Send SIGTERM to a command and everything it started, and have a helper send SIGKILL; do not wait.

    Descendants of the worker in `earlier` belong to previous commands, which ended and may leave processes running.
    """
    worker, leader = os.getpid(), process.pid
    below = (pid for pid in system.list_descendants(worker) if pid not in earlier)
    strays = open_all(pid for pid in below if find_group(pid) != leader)
    try:
        send_signal(leader, strays, signal.SIGTERM)
        helper = fork_helper(worker, leader, strays)
    finally:
        for handle, _ in strays:
            os.close(handle)
    terminated[process] = helper


def open_all(pids: Iterable[int]) -> list[tuple[int, int]]:
    """Return a handle of each process, and its pid."""
    opened: list[tuple[int, int]] = []
    for pid in pids:
        with suppress(OSError):  # it is gone, or descriptors have run out: then it survives, as our descendant
            opened.append((system.watch_process(pid), pid))
    return opened


def find_strays(worker: int, leader: int) -> set[int]:
    """Return the processes that the command has started outside its process group, which a signal to the group misses.

    Orphans have been reparented to the worker, and are recognised by their session.
    """
    orphans = {pid for pid in system.list_descendants(worker) if find_session(pid) == leader}
    return {pid for pid in orphans | set(system.list_descendants(leader)) if find_group(pid) != leader}


def find_session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def find_group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def send_signal(leader: int, strays: Iterable[tuple[int, int]], number: signal.Signals) -> None:
    with suppress(OSError):
        os.killpg(leader, number)
    for handle, pid in strays:
        with suppress(OSError):
            system.signal_process(handle, pid, number)


def fork_helper(worker: int, leader: int, strays: list[tuple[int, int]]) -> int | None:
    """Fork the process that sends SIGKILL after the grace period; if that fails, send it at once."""
    try:
        helper = os.fork()
    except OSError:
        send_signal(leader, strays, signal.SIGKILL)
        return None
    if helper:
        return helper
    try:
        if not system.SHARES_HANDLES:
            strays = open_all(pid for _, pid in strays)
        # Above all our socket, which must read as EOF in the daemon when the worker dies.
        close_all_but(handle for handle, _ in strays)
        time.sleep(GRACE)
        late = open_all(find_strays(worker, leader))
        send_signal(leader, [*strays, *late], signal.SIGKILL)
    finally:
        os._exit(0)


def close_all_but(kept_fds: Iterable[int]) -> None:
    low = 0
    for fd in sorted(kept_fds):
        os.closerange(low, fd)
        low = fd + 1
    system.close_from(low)


def reap_children() -> None:
    """Reap every child that has ended, except commands whose helper has not finished."""
    for process, helper in list(terminated.items()):
        if helper is not None and system.reap_child(helper):
            helper = terminated[process] = None
        if helper is None and process.poll() is not None:
            del terminated[process]
    kept_pids = {pid for process, helper in terminated.items() for pid in (helper, process.pid)}
    for pid in system.list_children():
        if pid not in kept_pids:
            system.reap_child(pid)
