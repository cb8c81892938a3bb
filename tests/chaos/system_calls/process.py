"""`hooklatch serve` as a process that a tracer runs: its start, its words and its end.  Judges nothing."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import traceback
import uuid
from pathlib import Path

import msgspec

from chaos.system_calls.errors import errors_of
from chaos.system_calls.places import SharedPage
from chaos.system_calls.tracer import Fault, SystemCall, trace
from hooklatch.cli import main
from hooklatch_worker.systems import linux
from support.survivors import COOKIE, wait_until_gone

__all__ = ["PATIENCE", "PHASES", "TraceReport", "TracedDaemon"]

PHASES = ("start", "register", "fire", "reload", "rotation", "stop")
PATIENCE = 25.0  # seconds for what takes a moment, and longer than each time-out of the daemon
NOT_YET = len(PHASES)  # the phase of a process that is not yet the daemon


class TraceReport(msgspec.Struct):
    """The end of a daemon: its exit code, the calls that can fail with their errors, and whether the fault came."""

    code: int
    calls: list[tuple[SystemCall, tuple[int, ...]]]
    is_reached: bool
    survivors: int = 0


class TracedDaemon:
    """One daemon in a folder, and the process that traces it.  Its places are noted if `has_places`."""

    def __init__(self, folder: Path, fault: Fault | None, *, has_places: bool) -> None:
        self.page = SharedPage()
        self.page.phase = NOT_YET
        self._folder = folder
        self._fault = fault
        self._has_places = has_places
        self._word = uuid.uuid4().hex
        self._output, output = os.pipe()
        self._report, report = os.pipe()
        self._tracer = os.fork()
        if not self._tracer:
            try:
                os.write(report, msgspec.json.encode(self._trace(output)))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(output)
        os.close(report)

    def wait_ready(self) -> str:
        """Wait until it accepts clients, and return its word for that; "" if it has ended, "lost" for none.

        Raises:
            TimeoutError: it does neither.
        """
        for _ in range(int(PATIENCE)):
            is_listening = self.is_listening()
            if select.select([self._output], [], [], 1.0)[0]:
                return os.read(self._output, 1).decode()
            if is_listening:
                return "lost"
        raise TimeoutError

    def is_listening(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self._folder / "run" / "agent.sock")) == 0

    def terminate(self) -> None:
        for pid in linux.list_children(self._tracer):
            os.kill(pid, signal.SIGTERM)

    def wait(self) -> TraceReport:
        """Wait for its end, and kill what survives it.

        Raises:
            TimeoutError: it does not end.
        """
        data = b""
        while chunk := self._read(self._report, 2**20):
            data += chunk
        report = msgspec.json.decode(data, type=TraceReport)
        report.survivors = len(self.close())
        return report

    def close(self) -> list[int]:
        """End it if it still runs, and return what survived it."""
        if self._tracer:
            os.kill(self._tracer, signal.SIGKILL)
            os.waitpid(self._tracer, 0)
            os.close(self._output)
            os.close(self._report)
            self._tracer = 0
        left = wait_until_gone(self._word)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return left

    def _read(self, fd: int, size: int) -> bytes:
        if not select.select([fd], [], [], PATIENCE)[0]:
            raise TimeoutError
        return os.read(fd, size)

    def _trace(self, output: int) -> TraceReport:
        calls, fault = dict[tuple[int, int, str], tuple[SystemCall, tuple[int, ...]]](), self._fault
        report = TraceReport(255, [], is_reached=False)

        def decide(call: SystemCall) -> int | None:
            key = call.phase, call.number, call.place
            if fault is None:
                if key not in calls and call.phase != NOT_YET:
                    calls[key] = call, errors_of(call)
            elif key == fault[:3]:
                report.is_reached = True
                return fault.error
            return None

        report.code = trace(lambda: self._serve(output), self.page, decide)
        report.calls = [found for found in calls.values() if found[1]]
        return report

    def _serve(self, output: int) -> int:
        """Be `hooklatch serve`: in a process of its own, with its streams and its environment."""
        log = os.open(self._folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number, fd in enumerate((os.open(os.devnull, os.O_RDONLY), output, log)):
            os.dup2(fd, number)
        os.closerange(3, 200)
        # The streams of this process know what they were opened for.
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        os.chdir(self._folder)
        os.environ.clear()
        os.environ.update({
            "PATH": os.defpath, "HOME": str(self._folder), "XDG_STATE_HOME": str(self._folder / "home"),
            "HOOKLATCH_CONFIG": str(self._folder / "config" / "hooks.toml"),
            "HOOKLATCH_RUNTIME_DIR": str(self._folder / "run"), COOKIE: self._word,
        })  # fmt: skip
        sys.argv[:] = ["hooklatch", "serve", "--json"]
        self.page.phase = PHASES.index("start")
        if self._has_places:
            self.page.note_places()
        code = main()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return code
