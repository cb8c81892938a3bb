"""One language server: its process, its pipes and its timeouts.

Single-threaded: the pipes are non-blocking, and everything ends at the given deadline.  Nothing is read between calls,
so a server with much output blocks on its full pipe until the next one.  The server dies with this process by a signal
(prctl(2), PR_SET_PDEATHSIG), and leads its own process group, so that its helpers can be killed with it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from hooklatch_worker.lsp.files import Stamp, read_file_stamp
from hooklatch_worker.lsp.report import LspDiagnostic
from hooklatch_worker.lsp.session import LspSession
from hooklatch_worker.lsp.wire import LspProtocolError
from hooklatch_worker.sandbox import children
from hooklatch_worker.systems import system

__all__ = ["SourceDocument", "LanguageServer", "ServerGoneError"]

CHUNK = 2**16  # bytes; the default capacity of a pipe (pipe(7))
SETTLE_TIMEOUT = 0.15  # seconds; servers that publish often send syntax errors first and semantic ones shortly after
REAP_TIMEOUT = 1.0  # seconds; a killed process in uninterruptible sleep must not block the worker


class ServerGoneError(Exception):
    """The server could not be started, has ended, or violated the protocol, and cannot be used any more."""


class SourceDocument(Struct, frozen=True):
    """A file to show to a server."""

    path: str
    language: str
    text: str
    stamp: Stamp


class LanguageServer:
    """A running language server, which its creator must close.

    Raises:
        ServerGoneError: it could not be started.
    """

    def __init__(self, command: Sequence[str], root: str) -> None:
        parent = os.getpid()
        try:
            self._process = children.start_child(
                command,
                children.OWN.of(os.environ),
                cwd=root,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,
                preexec_fn=lambda: system.die_with_parent(parent),  # safe here, since a worker is single-threaded
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ServerGoneError(f"{command[0]} did not start: {getattr(error, 'strerror', None) or error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        for pipe in (self._stdin, self._stdout):
            os.set_blocking(pipe.fileno(), False)
        self._session = LspSession(root, process_id=parent)
        self._stamps: dict[str, Stamp] = {}
        self._heard_at = time.monotonic()
        self.silent_calls = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        # WNOWAIT: until `close` its pid, which is also the id of its group, must not be reused.
        if not hasattr(os, "waitid"):
            return system.read_process_state(self.pid) in (b"Z", b"X")
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    @property
    def silence(self) -> float:
        """Return the seconds since its start or its last output."""
        return time.monotonic() - self._heard_at

    def ask(self, document: SourceDocument, *, deadline: float) -> list[LspDiagnostic] | None:
        """Return the diagnostics of a file, or None if they did not arrive by the deadline.

        Raises:
            ServerGoneError: the server must be closed and replaced.
        """
        started_at = time.monotonic()
        try:
            return self._ask(document, deadline)
        except LspProtocolError as error:
            raise ServerGoneError(str(error)) from error
        finally:
            self.silent_calls = 0 if self._heard_at > started_at else self.silent_calls + 1

    def close(self, *, timeout: float = 0.0) -> list[int]:
        """End the server, gracefully within `timeout` seconds; return the pids of helpers that may need reaping."""
        helpers = [(pid, pidfd) for pid in system.list_descendants(self.pid) if (pidfd := open_pidfd(pid)) is not None]
        if timeout > 0:
            self._say_goodbye(timeout)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for pid, pidfd in helpers:  # helpers outside the group, or left over after the shutdown
            kill_server(pidfd, pid)
        for pipe in (self._stdin, self._stdout):
            pipe.close()
        unreaped = [pid for pid, _ in helpers]
        try:
            self._process.wait(REAP_TIMEOUT)
        except subprocess.TimeoutExpired:
            unreaped.append(self.pid)
        return unreaped

    def _ask(self, document: SourceDocument, deadline: float) -> list[LspDiagnostic] | None:
        session, path = self._session, document.path
        self._read_pending(deadline)
        if not self._exchange_until(deadline, until=lambda: session.is_ready):
            return None
        self._close_changed_files(path)
        session.show(path, language=document.language, text=document.text)
        self._stamps[path] = document.stamp
        if session.has_answer(path):
            return session.diagnostics(path)  # the text is unchanged since then
        if not self._exchange_until(deadline, until=lambda: session.has_answer(path)):
            if self.silent_calls:
                session.probe()
            return None
        if not session.pulls:
            self._settle(deadline)
        return session.diagnostics(path)

    def _close_changed_files(self, path: str) -> None:
        """Close files that other programs have changed, since the server does not look at the disk for open files."""
        for other in self._session.open_paths:
            if other != path and read_file_stamp(other) != self._stamps.get(other):
                self._session.close(other)
        self._stamps = {name: stamp for name in self._session.open_paths if (stamp := self._stamps.get(name))}

    def _read_pending(self, deadline: float) -> None:
        while time.monotonic() < deadline and self._exchange_once(0.0):
            continue

    def _settle(self, deadline: float) -> None:
        try:
            self._exchange_until(min(deadline, time.monotonic() + SETTLE_TIMEOUT), until=lambda: False)
        except (ServerGoneError, LspProtocolError):
            return  # keep what it sent; the next call will notice that it is gone

    def _exchange_until(self, deadline: float, *, until: Callable[[], bool]) -> bool:
        while not until():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            self._exchange_once(remaining)
        return True

    def _exchange_once(self, timeout: float) -> bool:
        """Wait for the pipes, then write and read once; return whether anything was read."""
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        if self._session.outgoing:
            poll.register(self._stdin, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(timeout * 1000)}
        if self._stdin.fileno() in ready:
            self._write()
        return self._stdout.fileno() in ready and self._read()

    def _write(self) -> None:
        outgoing = self._session.outgoing
        try:
            del outgoing[: os.write(self._stdin.fileno(), outgoing[:CHUNK])]
        except BlockingIOError:
            return
        except OSError as error:
            raise ServerGoneError(f"the server reads no more: {error.strerror}") from error

    def _read(self) -> bool:
        try:
            data = os.read(self._stdout.fileno(), CHUNK)
        except BlockingIOError:
            return False
        if not data:
            raise ServerGoneError("the server has ended")
        self._heard_at = time.monotonic()
        self._session.feed(data)
        return True

    def _say_goodbye(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        try:
            self._session.say_goodbye()
            self._exchange_until(deadline, until=lambda: not self._session.outgoing)
            self._stdin.close()
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except (ServerGoneError, LspProtocolError, OSError, subprocess.TimeoutExpired):
            return  # it is killed instead


def open_pidfd(pid: int) -> int | None:
    try:
        return system.watch_process(pid)
    except OSError:
        return None


def kill_server(pidfd: int, pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        system.signal_process(pidfd, pid, signal.SIGKILL)
    os.close(pidfd)
