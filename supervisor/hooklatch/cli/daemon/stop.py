"""The commands that ask a running daemon for one thing: `stop`, `health`, `state accept` and `fleet reset`.

`stop` lets it drain and exit, and waits for that.  It sends no signal, since the pid may have been reused.
"""

from __future__ import annotations

import argparse
import os
import select
import time

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, parse_duration
from hooklatch.cli.terminal.requests import ask_administrator, connect_administrator, connect_agent_once
from hooklatch.credentials import read_credentials
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError
from hooklatch_worker.systems import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as sockets

    from hooklatch.cli.schema import StopOutput
    from hooklatch.core.status_answers import AcceptedState, FleetReportAnswer, HealthAnswer, StopAnswer

__all__ = ["add_stop", "stop_daemon", "add_health", "add_accept", "add_state", "add_reset"]

NOTICE_AFTER = 1.0  # seconds before the user is told what is being waited for
DEAD_CHECK = 0.5  # seconds between two checks of a process that does not end
TIMEOUT = 30.0  # seconds; the daemon waits up to ten for fires in flight


def add_stop(parser: Parser) -> None:
    parser.runs(run_stop, example="hooklatch stop", exits=(Exit.FINDINGS, Exit.UNAVAILABLE))
    parser.prints("cli.schema:StopOutput")


def run_stop(arguments: argparse.Namespace) -> int:
    begun = time.monotonic()
    pid = stop_daemon(arguments)
    ended: StopOutput = {"stopped": True, "pid": pid, "seconds": round(time.monotonic() - begun, 3)}
    return output.say_result(ended, f"stopped (pid {pid})", is_json=arguments.json)


def stop_daemon(arguments: argparse.Namespace) -> int:
    """Have the daemon drain, and wait until it is gone; return its pid."""
    # Watched before the request, since a pidfd can only be opened while the process is there.
    with connect_administrator(arguments) as link, DaemonExit(link.stream) as end:
        answer: StopAnswer = link.ask("stop")
        pid = answer["pid"]
        text = f"waiting for the daemon (pid {pid}) to end; fires in flight are given 10 s"
        with look.Spinner(text) as spinner:
            is_gone = end.wait(NOTICE_AFTER, pid)
            if not is_gone:
                if not spinner.is_shown:
                    output.print_error(text)
                is_gone = end.wait(TIMEOUT - NOTICE_AFTER, pid)
        if not is_gone:
            fault = f"the daemon (pid {pid}) was told to stop but has not ended in {TIMEOUT:.0f} s"
            raise CommandError(Exit.FINDINGS, f"{fault}; new gates are denied; to end it: kill -KILL {pid}")
    return pid


class DaemonExit:
    """The end of a daemon: of its connection, and of its process if that is certainly the one that listens.

    Enter it before the daemon is asked to end.
    """

    def __init__(self, stream: sockets.socket) -> None:
        self._stream = stream
        self._process: tuple[int, int] | None = None

    def __enter__(self) -> DaemonExit:
        self._process = process_behind(self._stream)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            os.close(self._process[1])

    def wait(self, seconds: float, pid: int) -> bool:
        """Wait for at most `seconds`; return whether the daemon has ended.  `pid` is the one that it reported."""
        deadline = time.monotonic() + seconds
        while select.select([self._stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                is_over = not self._stream.recv(2**16)
            except OSError:
                is_over = True
            if is_over:
                break
        else:
            return False
        # SO_PEERCRED names the process that called listen(2): a service manager, for sockets that it made.  A daemon
        # in a container has another pid there than here.
        if self._process is None or self._process[0] != pid:
            return True
        while not select.select([self._process[1]], [], [], max(0.0, min(DEAD_CHECK, deadline - time.monotonic())))[0]:
            if is_dead(pid):
                return True
            if time.monotonic() >= deadline:
                return False
        return True


def is_dead(pid: int) -> bool:
    """Return whether a process is a zombie: it has ended but for a thread that waits for a disk (proc(5))."""
    return system.read_process_state(pid) == b"Z"  # if it has ended, its descriptor says so


def process_behind(stream: sockets.socket) -> tuple[int, int] | None:
    """Return pid and pidfd of the process that listens; None where that cannot be known."""
    try:
        pid, _ = read_credentials(stream)
        return (pid, system.watch_process(pid)) if pid > 0 else None
    except (OSError, AttributeError):  # it has ended, or cannot be watched here
        return None


PAUSE = 0.1  # seconds between two requests
CODES = {"ready": Exit.OK, "red": Exit.FINDINGS, "draining": Exit.UNAVAILABLE}


def add_health(parser: Parser) -> None:
    parser.runs(run_health, example="hooklatch health --wait 10", exits=(Exit.FINDINGS, Exit.UNAVAILABLE))
    parser.prints("core.status_answers:HealthAnswer")
    parser.add_argument(
        "--wait", metavar="TIME", type=parse_duration, default=0.0, help="keep asking for this long until it is"
    )


def run_health(arguments: argparse.Namespace) -> int:
    """Print the health of the daemon; return the matching exit code."""
    deadline = time.monotonic() + arguments.wait
    while True:
        try:
            with connect_agent_once(arguments) as link:
                report: HealthAnswer = link.ask("health")
            code = CODES.get(report["health"], Exit.PROTOCOL)
        except (DaemonUnreachableError, RequestFailedError, UnreadableAnswerError):
            if time.monotonic() >= deadline:
                raise
        else:
            if code is Exit.OK or time.monotonic() >= deadline:
                return output.say_result(report, format_health(report), is_json=arguments.json, code=code)
        time.sleep(min(PAUSE, max(0.0, deadline - time.monotonic())))


def format_health(report: HealthAnswer) -> list[str]:
    reasons = f": {', '.join(report['reasons'])} (see: hooklatch status)" if report["reasons"] else ""
    installed = report.get("installed")
    if installed is not None and installed != report["version"]:
        reasons += f"; {report['version']} runs, and {installed} is installed: hooklatch restart"
    return [look.paint_text(report["health"], "good" if report["health"] == "ready" else "bad"), reasons]


BELOW = (("accept", "daemon.stop", "believe what is there; this is recorded, and what it replaces is moved aside"),)


def add_state(parser: Parser) -> None:
    parser.explain(example="hooklatch state accept")
    parser.add_commands(BELOW, required=True)


def add_accept(parser: Parser) -> None:
    parser.runs(run_state_accept, example="hooklatch state accept", exits=(Exit.UNAVAILABLE,))
    parser.prints("core.status_answers:AcceptedState")


def run_state_accept(arguments: argparse.Namespace) -> int:
    with connect_administrator(arguments) as link, look.Spinner("the daemon loads what is there"):
        result: AcceptedState = link.ask("accept_state")
    line = "the state is the one that was written last; there is nothing to accept"
    if result["fault"] is not None:
        copy = f"; a copy is in {result['moved_to']}" if result["moved_to"] is not None else ""
        line = f"the state is accepted as it is{copy} (revision {look.shorten_revision(result['revision'])})"
    return output.say_change(result, line, is_json=arguments.json)


def add_reset(parser: Parser) -> None:
    example = 'hooklatch fleet reset --reason "the disk lost the policy on Monday"'
    parser.runs(run_fleet_reset, example=example, exits=(Exit.UNAVAILABLE, Exit.NOT_PERMITTED))
    parser.prints("core.status_answers:FleetReportAnswer")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it stays in the record")


def run_fleet_reset(arguments: argparse.Namespace) -> int:
    """Have the daemon forget which versions it has read; the active one stays."""
    result: FleetReportAnswer = ask_administrator(arguments, "fleet_reset", reason=arguments.reason)
    applied = result["applied"]
    active = f"version {applied['version']} stays active" if applied is not None else "no version is active"
    line = f"this host follows from version 1 again; {active} until the link brings the one that is wanted"
    output.say_result(result, line, is_json=arguments.json)
    if result["problem"] is not None and not arguments.json:
        output.print_error(result["problem"])
    return Exit.OK
