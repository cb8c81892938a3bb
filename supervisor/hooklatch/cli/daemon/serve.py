"""The command `serve`: the daemon, in this process or detached from it.

    hooklatch serve --detach ──fork──▶ the daemon: setsid, chdir to /, /dev/null as 0 and 1, its log as 2
              ◀──── one report: ready, or why not ──┘
    hooklatch restart ──stop──▶ the old daemon, then the same for the next one, with the options of the old one

The daemon's own modules are imported after the fork, since some of them start threads.  Only these two processes hold
the pipe, so EOF means that the daemon ended before it reported anything.
"""

from __future__ import annotations

import argparse
import logging
import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, BinaryIO, NoReturn, TypedDict

import msgspec

from hooklatch import paths
from hooklatch.cli.daemon.stop import stop_daemon
from hooklatch.cli.hooks.status import list_warnings
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, add_log_options
from hooklatch.cli.terminal.requests import NobodyListensError, ask_administrator
from hooklatch.core.status_answers import DaemonReady, HealthFinding, StatusAnswer
from hooklatch.errors import HooklatchError, locate_error
from hooklatch_worker.systems import PLATFORM

__all__ = ["NOTICE", "add_restart", "add_serve", "make_options", "start_once"]

logger = logging.getLogger("hooklatch.serve")
NOTICE = "macOS: built and tested against its interfaces, not yet run on one; please report"  # at `doctor` too


def add_serve(parser: Parser) -> None:
    parser.runs(run_serve, example="hooklatch serve --detach", exits=(Exit.NO_INPUT, Exit.UNAVAILABLE))
    parser.prints("core.status_answers:DaemonReady")
    add_log_options(parser)
    parser.add_argument(
        "--admin-dir", metavar="DIR", help="put admin.sock there, away from those who may see agent.sock"
    )
    parser.add_argument(
        "--state-dir", metavar="DIR", help="keep trust, switches and the record there (default: below XDG_STATE_HOME)"
    )
    parser.add_argument(
        "--detach", action="store_true", help="return when it is ready, and leave it running (see: hooklatch stop)"
    )


def run_serve(arguments: argparse.Namespace, platform: str = PLATFORM) -> int:
    options = make_options(arguments)
    config = options["config"]
    if platform == "darwin":
        output.print_error(NOTICE)
    if not options["is_config_named"] and are_absent(config, os.path.join(os.path.dirname(config), "hooks.d")):
        output.print_error(f"there is no {config}, so no guard of yours is active; make one with: hooklatch setup")
    if not options["is_detached"]:
        return serve_until_ended(options, lambda ready: print_ready(arguments, ready))
    running, ready = start_once(arguments, options)
    if running is not None:
        print_running(arguments, running)
    elif ready is not None:
        print_ready(arguments, ready)
    return Exit.OK


def make_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a daemon by their names in `DaemonOptions`."""
    folders = [os.path.abspath(folder) for folder in paths.list_runtime_dirs(arguments.runtime_dir, os.environ)]
    if not folders:
        raise CommandError(Exit.UNAVAILABLE, "there is no directory for the sockets; name one with --runtime-dir")
    # Absolute, since a detached daemon changes its working directory.
    return {
        "config": os.path.abspath(paths.find_config_file(arguments.config, os.environ)),
        "runtime_dir": folders[0],
        "state_dir": os.path.abspath(arguments.state_dir or paths.state_dir(os.environ)),
        "admin_dir": os.path.abspath(arguments.admin_dir) if arguments.admin_dir else None,
        "is_config_named": bool(arguments.config or os.environ.get("HOOKLATCH_CONFIG")),
        "log_level": arguments.log_level,
        "log_format": arguments.log_format,
        "is_detached": arguments.detach,
    }


def start_once(
    arguments: argparse.Namespace, options: dict[str, Any]
) -> tuple[StatusAnswer | None, DaemonReady | None]:
    """Start a daemon in the background; return the status of the one that runs already, or the report of the new one.

    Another one may begin to start at the same moment, as from a second terminal.
    """
    if (running := await_running(arguments, options)) is not None:
        return running, None
    try:
        return None, start_daemon(options)
    except CommandError as error:
        running = await_running(arguments, options) if error.code is Exit.UNAVAILABLE else None
        if running is None:
            raise
        return running, None


def find_running(arguments: argparse.Namespace, options: dict[str, Any]) -> StatusAnswer | None:
    """Return the status of the daemon that runs with the same files and sockets, if one does.

    Raises:
        NobodyListensError: one holds the folder of the sockets, and does not listen there yet.
    """
    place = argparse.Namespace(**{**vars(arguments), "runtime_dir": options["admin_dir"] or options["runtime_dir"]})
    try:
        status: StatusAnswer = ask_administrator(place, "status")
    except NobodyListensError as error:
        if error.how == "silent":
            raise
        return None
    except HooklatchError:
        return None
    names = ("config", "runtime_dir", "admin_dir", "state_dir")
    start: dict[str, Any] = {**(status["start"] or {})}
    is_same = all(os.path.realpath(start.get(name) or "") == os.path.realpath(options[name] or "") for name in names)
    return status if is_same and not status["draining"] else None


def await_running(arguments: argparse.Namespace, options: dict[str, Any]) -> StatusAnswer | None:
    """Return what `find_running` does, once the daemon that holds the folder listens."""
    deadline = time.monotonic() + START_LIMIT
    while True:
        try:
            return find_running(arguments, options)
        except NobodyListensError:
            if time.monotonic() >= deadline:
                return None
        time.sleep(PAUSE)


def print_running(arguments: argparse.Namespace, status: StatusAnswer) -> None:
    places = status["places"]
    ready = DaemonReady(
        agent=places["agent"], admin=places["admin"], pid=status["pid"], revision=status["revision"],
        wrong=status["wrong"], ready=True,
    )  # fmt: skip
    line = f"runs already (pid {status['pid']}, hooklatch {status['version']}): agent {places['agent']}"
    output.say_result(ready, line, is_json=arguments.json)
    for warning in list_warnings(status):
        if warning["reason"] == "version":
            output.print_error(f"{warning['what']}; {warning['do']}")
    print_wrong(status["wrong"])


class RestartOutput(TypedDict):
    """`restart`: the process and version that ended, and those that run now."""

    stopped: int
    was: str
    pid: int
    version: str
    log: str | None


def add_restart(parser: Parser) -> None:
    parser.runs(run_restart, example="hooklatch restart", exits=(Exit.FINDINGS, Exit.NOT_PERMITTED, Exit.UNAVAILABLE))
    parser.prints("cli.daemon.serve:RestartOutput")


def run_restart(arguments: argparse.Namespace) -> int:
    """Stop the daemon, and start the one that is installed with the same options."""
    before: StatusAnswer = ask_administrator(arguments, "status")
    start = before["start"]
    if start is None:
        raise CommandError(Exit.NOT_PERMITTED, "this daemon is part of another program; restart that program")
    pid, log = stop_daemon(arguments), None
    try:
        if start["is_managed"]:
            after = await_successor(arguments, pid)
        else:
            options: dict[str, Any] = {**start, "is_detached": True}
            del options["is_managed"]
            log = start_daemon(options).get("log")
            after = ask_administrator(arguments, "status")
    except (CommandError, HooklatchError) as error:
        code = error.code if isinstance(error, CommandError) else Exit.UNAVAILABLE
        fault = f"{before['version']} was stopped (pid {pid}), and the next one does not run: {error}"
        raise CommandError(
            code, f"{fault}; until one does, every gate is denied: mend that, then: hooklatch serve --detach"
        ) from None
    now = f"hooklatch {after['version']} runs (pid {after['pid']}), "
    was = "the same version as before" if after["version"] == before["version"] else f"{before['version']} did before"
    place = "" if start["is_detached"] or log is None else f"; it runs in the background now, and its log is {log}"
    ended = RestartOutput(stopped=pid, was=before["version"], pid=after["pid"], version=after["version"], log=log)
    show = partial(print_wrong, after["wrong"])
    return output.say_result(ended, f"{now}{was}{place}", is_json=arguments.json, show=show)


def await_successor(arguments: argparse.Namespace, pid: int) -> StatusAnswer:
    """Return the status of the daemon that the service manager starts in place of one that has ended."""
    deadline = time.monotonic() + START_LIMIT
    with look.Spinner("the service manager starts the next one"):
        while True:
            try:
                status: StatusAnswer = ask_administrator(arguments, "status")
            except HooklatchError as error:
                if time.monotonic() >= deadline:
                    raise CommandError(
                        Exit.UNAVAILABLE, f"its service manager has not started one in {START_LIMIT:.0f} s ({error})"
                    ) from None
            else:
                if status["pid"] != pid:
                    return status
            time.sleep(PAUSE)


def start_daemon(options: dict[str, Any]) -> DaemonReady:
    """Start a daemon in a session of its own; return its report when it is ready."""
    log, log_fd = open_log(options["state_dir"])
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)  # else a daemon that dies would never read as EOF here
        os.close(log_fd)
        return {**await_start(pid, reader, log), "log": log}
    os.close(reader)
    detach_process(log_fd)
    stream = os.fdopen(writer, "wb")
    try:
        code = serve_until_ended(options, lambda ready: StartReport(ready).send(stream), log)
    except CommandError as error:
        if not stream.closed:  # if it is, the daemon was ready before, and the parent has exited
            StartReport(code=error.code, error=str(error)).send(stream)
        output.print_error(str(error))
        code = error.code
    raise SystemExit(code)  # past the command in whose process this daemon began


def are_absent(*candidates: str) -> bool:
    """Return whether none of these paths exists; one that cannot be looked up may exist, and then gates deny."""
    from hooklatch.path_lookup import PathAbsent, look_up_path

    return all(isinstance(look_up_path(path), PathAbsent) for path in candidates)


def print_ready(arguments: argparse.Namespace, ready: DaemonReady) -> None:
    if arguments.json:
        output.say_json(ready)
        return
    log = f"; its log is {ready['log']}" if "log" in ready else ""
    output.print_line(
        f"hooklatch is ready: agent {ready['agent']}, admin {ready['admin']} (pid {ready['pid']}, "
        f"revision {ready['revision']}){log}"
    )
    print_wrong(ready["wrong"])


def print_wrong(findings: Iterable[HealthFinding]) -> None:
    for fault in findings:
        output.print_error(f"red: {fault['what']}; {fault['do']}")


def serve_until_ended(
    options: dict[str, Any],
    report_ready: Callable[[DaemonReady], None],
    log_file: str | None = None,
) -> int:
    # As process 1 of a container, SIGTERM has no default action: handle it until the daemon does.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(Exit.OK))
    from hooklatch.processes.supervisor import PartFailedError, format_failure_cause
    from hooklatch.service.daemon import run_daemon
    from hooklatch.service.folders import ConfigMissingError, DaemonOptions, StartError
    from hooklatch.service.logs import start_log

    log = start_log(options["log_level"], options["log_format"], path=log_file)

    def on_ready(ready: DaemonReady) -> None:
        report_ready(ready)
        addresses = {"agent": ready["agent"], "admin": ready["admin"], "revision": ready["revision"]}
        logger.info("ready", extra=addresses)

    try:
        run_daemon(DaemonOptions(**options), on_ready=on_ready)
    except ConfigMissingError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    except StartError as error:
        raise CommandError(Exit.UNAVAILABLE, str(error)) from None
    except OSError as error:  # trio itself finds no descriptor
        raise CommandError(Exit.UNAVAILABLE, locate_error(error)) from None
    except BaseExceptionGroup as group:
        failed, others = group.split(PartFailedError)
        if failed is not None and others is None:
            where = f"{log_file or 'the log'} has the traceback"
            raise CommandError(Exit.SOFTWARE, f"{format_failure_cause(failed)}; {where}") from None
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        raise KeyboardInterrupt from None  # received before the daemon handled signals
    finally:
        log.close()
    return Exit.OK


START_LIMIT = 60.0  # seconds for a daemon that somebody else starts: it may wait 20 for its predecessor, and imports
PAUSE = 0.1  # seconds between two looks for one
NOTICE_AFTER_MS = 1000  # before the user is told what is being waited for


class StartReport(msgspec.Struct):
    """The daemon's report about its start: its addresses when it is ready, or the code and text of its failure."""

    ready: DaemonReady | None = None
    code: Exit = Exit.SOFTWARE
    error: str = ""

    def send(self, stream: BinaryIO) -> None:
        with stream:  # closed after one report: the parent reads until EOF
            stream.write(msgspec.json.encode(self))


def open_log(folder: str) -> tuple[str, int]:
    """Open the log file of a detached daemon; return its path and descriptor."""
    from hooklatch.file_safety import UnsafeFileError, make_private
    from hooklatch.files import open_regular

    path = os.path.join(folder, "daemon.log")
    try:
        make_private(folder)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        return path, open_regular(path, flags)
    except UnsafeFileError as error:
        raise CommandError(Exit.UNAVAILABLE, f"{error}; or give this daemon another XDG_STATE_HOME") from None
    except OSError as error:
        raise CommandError(Exit.UNAVAILABLE, f"the log {path} cannot be written: {error.strerror}") from None


def detach_process(log_fd: int) -> None:
    """Detach from the terminal, the working directory and the standard streams of the caller."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd, source in ((0, null), (1, null), (2, log_fd)):
        os.dup2(source, fd)
    os.close(null)
    os.close(log_fd)


def await_start(pid: int, reader: int, log: str) -> DaemonReady:
    """Wait until the daemon is ready; return its report."""
    data = b""
    text = f"the daemon is starting; its log is {log}"
    try:
        with look.Spinner(text) as spinner:
            if not select.select([reader], [], [], NOTICE_AFTER_MS / 1000)[0] and not spinner.is_shown:
                output.print_error(text)
            while chunk := os.read(reader, 2**16):
                data += chunk
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)  # our child, not reaped yet, so the pid cannot have been reused
        raise
    try:
        report = msgspec.json.decode(data, type=StartReport)
    except msgspec.DecodeError:
        raise_without_report(pid, log)
    if report.ready is None:
        os.waitpid(pid, 0)  # it is about to end: only return when its locks and sockets are free again
        raise CommandError(report.code, report.error)
    return report.ready


def raise_without_report(pid: int, log: str) -> NoReturn:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    raise CommandError(Exit.SOFTWARE, f"the daemon {how} before it was ready; see its log: {log}")
