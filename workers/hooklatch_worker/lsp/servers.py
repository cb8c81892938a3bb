"""The language servers of one worker, and their restarts.  Knows servers; does not know hooks.

    absent ──ask──▶ running ──ended, violated the protocol, or hung──▶ backing off ──0, 1, 2, 4 … 60 s──▶ absent
                       └──idle, or least recently used──▶ absent

One server for each command and root.  A server counts as hung when it was silent for three calls and ten seconds: slow
servers are silent while they start, and an agent may edit faster than that.  An answer resets the backoff.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hooklatch_worker.lsp.client import LanguageServer, ServerGoneError, SourceDocument
from hooklatch_worker.lsp.report import LspDiagnostic
from hooklatch_worker.systems import system

__all__ = ["Key", "LanguageServers"]

Key = tuple[tuple[str, ...], str]  # a server's command, and the root of its workspace

MAX_SERVERS = 4  # each may hold hundreds of MiB
IDLE_TIMEOUT = 600.0  # seconds
MAX_SILENT_CALLS = 3
MAX_SILENCE = 10.0  # seconds
LONGEST_BACKOFF = 60.0  # seconds
GOODBYE_TIMEOUT = 0.2  # seconds for a graceful shutdown, taken from the call's own time


class LanguageServers:
    """All language servers of one worker."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._servers: dict[Key, tuple[LanguageServer, float]] = {}  # with the time of last use; oldest first
        self._failures: dict[Key, tuple[int, float]] = {}  # how many in a row, and until when not to start another
        self._unreaped: list[int] = []

    @property
    def pids(self) -> dict[Key, int]:
        return {key: server.pid for key, (server, _) in self._servers.items()}

    def ask(self, key: Key, document: SourceDocument, *, deadline: float) -> list[LspDiagnostic] | None:
        """Return the diagnostics of a file, or None if they are not available by the deadline."""
        self._reap()
        try:
            server = self._find_running(key) or self._start(key, deadline)
            diagnostics = server.ask(document, deadline=deadline) if server else None
        except ServerGoneError:
            self._back_off(key)
            return None
        if diagnostics is not None:
            self._failures.pop(key, None)
        elif server is not None and self._is_hung(server):
            self._back_off(key)
        return diagnostics

    def close_idle(self, *, deadline: float) -> None:
        """End the servers that have been idle for too long."""
        oldest = self._clock() - IDLE_TIMEOUT
        for key in [key for key, (_, asked_at) in self._servers.items() if asked_at < oldest]:
            self._close(key, deadline)

    def close(self) -> None:
        """End all servers."""
        for key in list(self._servers):
            self._close(key, time.monotonic() + GOODBYE_TIMEOUT)
        self._reap()

    def _find_running(self, key: Key) -> LanguageServer | None:
        entry = self._servers.get(key)
        if entry is None:
            return None
        server, _ = entry
        if server.has_ended:
            self._back_off(key)
            return None
        return self._note_use(key, server)

    def _start(self, key: Key, deadline: float) -> LanguageServer | None:
        _, until = self._failures.get(key, (0, 0.0))
        if self._clock() < until:
            return None
        for oldest in list(self._servers)[: max(0, len(self._servers) + 1 - MAX_SERVERS)]:
            self._close(oldest, deadline)
        command, root = key
        return self._note_use(key, LanguageServer(command, root))

    def _note_use(self, key: Key, server: LanguageServer) -> LanguageServer:
        self._servers.pop(key, None)
        self._servers[key] = server, self._clock()
        return server

    def _is_hung(self, server: LanguageServer) -> bool:
        return server.silent_calls >= MAX_SILENT_CALLS and server.silence >= MAX_SILENCE

    def _back_off(self, key: Key) -> None:
        """Kill a server if it runs, and back off before the next start: not the first time, then exponentially."""
        self._close(key, 0.0)
        count = self._failures.get(key, (0, 0.0))[0] + 1
        backoff = 2.0 ** min(count - 2, 16) if count > 1 else 0.0
        self._failures[key] = count, self._clock() + min(backoff, LONGEST_BACKOFF)

    def _close(self, key: Key, deadline: float) -> None:
        entry = self._servers.pop(key, None)
        if entry is not None:
            remaining = deadline - time.monotonic()
            self._unreaped += entry[0].close(timeout=min(remaining, GOODBYE_TIMEOUT))

    def _reap(self) -> None:
        """Reap helpers of closed servers: a worker is a subreaper, so they became its children."""
        self._unreaped = [pid for pid in self._unreaped if not system.reap_child(pid)]
