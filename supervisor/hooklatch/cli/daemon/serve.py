"""The command `serve`: the daemon, in this process or detached from it.

    hooklatch serve --detach ──fork──▶ the daemon: setsid, chdir to /, /dev/null as 0 and 1, its log as 2
              ◀──── one report: ready, or why not ──┘

The daemon's own modules are imported after the fork, since some of them start threads.  Only these two processes hold
the pipe, so EOF means that the daemon ended before it reported anything.
"""

from __future__ import annotations

import argparse
import logging
import os
import select
import signal
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

import msgspec

from hooklatch import paths
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, add_log_options
from hooklatch.core.status_answers import DaemonReady
from hooklatch.errors import locate_error

__all__ = ["add_serve"]

logger = logging.getLogger("hooklatch.serve")
HOOKS_D = "hooks.d"


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


def run_serve(arguments: argparse.Namespace) -> int:
    folders = [os.path.abspath(folder) for folder in paths.list_runtime_dirs(arguments.runtime_dir, os.environ)]
    if not folders:
        raise CommandError(Exit.UNAVAILABLE, "there is no directory for the sockets; name one with --runtime-dir")
    config = os.path.abspath(paths.find_config_file(arguments.config, os.environ))
    # Absolute, since a detached daemon changes its working directory.
    options: dict[str, Any] = {
        "config": config,
        "runtime_dir": folders[0],
        "state_dir": os.path.abspath(arguments.state_dir or paths.state_dir(os.environ)),
        "admin_dir": os.path.abspath(arguments.admin_dir) if arguments.admin_dir else None,
        "is_config_named": bool(arguments.config or os.environ.get("HOOKLATCH_CONFIG")),
    }
    beside = os.path.join(os.path.dirname(config), HOOKS_D)
    if not options["is_config_named"] and are_absent(config, beside):
        output.print_error(f"there is no {config}, so no guard of yours is active; make one with: hooklatch init")
    if arguments.detach:
        return serve_detached(arguments, options)
    return serve_until_ended(arguments, options, lambda ready: print_ready(arguments, ready))


def serve_detached(arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    """Start the daemon in its own session; in this process, return when it is ready."""

    log, log_fd = open_log(options["state_dir"])
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)  # else a daemon that dies would never read as EOF here
        os.close(log_fd)
        print_ready(arguments, {**await_start(pid, reader, log), "log": log})
        return Exit.OK
    os.close(reader)
    detach_process(log_fd)
    stream = os.fdopen(writer, "wb")
    try:
        return serve_until_ended(arguments, options, lambda ready: StartReport(ready).send(stream), log)
    except CommandError as error:
        if not stream.closed:  # if it is, the daemon was ready before, and the parent has exited
            StartReport(code=error.code, error=str(error)).send(stream)
        raise


def are_absent(*candidates: str) -> bool:
    """Return whether none of these paths exists; one that cannot be looked up may exist, and then gates deny."""
    from hooklatch.service.config.path_lookup import PathAbsent, look_up_path

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
    for fault in ready["wrong"]:
        output.print_error(f"red: {fault['what']}; {fault['do']}")


def serve_until_ended(
    arguments: argparse.Namespace,
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

    log = start_log(arguments.log_level, arguments.log_format, path=log_file)

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
    from hooklatch.files import open_regular
    from hooklatch.service.config.file_safety import UnsafeFileError, make_private

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
