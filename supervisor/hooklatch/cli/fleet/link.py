"""The command `link`: the process between this machine's daemon and the engine of its fleet.

start ─▶ one link a machine (a lock) ─▶ ready ─▶ works until SIGTERM or Ctrl-C
                                          └─ [fleet] changed: the link starts again with the new settings
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
from typing import Literal, TypedDict

from hooklatch import paths
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, add_log_options

__all__ = ["add_link"]

logger = logging.getLogger("hooklatch.link")
LOCK = "link.lock"
RECORD = "record"
EXITS = (Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.NOT_PERMITTED)


class LinkOutput(TypedDict):
    """`link`: one line, when it begins."""

    ready: Literal[True]
    pid: int
    host: str
    fleet: str


def add_link(parser: Parser) -> None:
    parser.runs(run_link, example="hooklatch link", exits=EXITS)
    parser.prints("cli.fleet.link:LinkOutput")
    add_log_options(parser)
    parser.add_argument("--admin-dir", metavar="DIR", help="where admin.sock is, if the daemon was told the same")


def run_link(arguments: argparse.Namespace) -> int:
    # As process 1 of a container, SIGTERM has no default action: handle it until the link does.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(Exit.OK))
    import trio

    from hooklatch.cli.fleet.access import read_fleet
    from hooklatch.cli.fleet.link_process import LinkPaths, LinkProcess, check_link_settings
    from hooklatch.service.logs import start_log

    config = os.path.abspath(paths.find_config_file(arguments.config, os.environ))
    state = paths.state_dir(os.environ)
    settings = read_fleet(config)
    if settings is None:
        raise CommandError(
            Exit.NO_INPUT, f"{config} has no [fleet] table to follow; its keys: hooklatch schema hooks.toml"
        )
    check_link_settings(settings)
    fd = lock_link(state)  # two links of one host would both ship the record
    log = start_log(arguments.log_level, arguments.log_format)
    try:
        link_paths = LinkPaths(
            config, os.path.join(state, RECORD), lambda: list_socket_folders(arguments), arguments.daemon_uid
        )

        def on_ready(host: str, fleet: str) -> None:
            ready = LinkOutput(ready=True, pid=os.getpid(), host=host, fleet=fleet)
            line = f"the link of {host} to the fleet {fleet} runs (pid {os.getpid()})"
            output.say_result(ready, line, is_json=arguments.json)

        trio.run(LinkProcess(link_paths, settings, on_ready).run)
    finally:
        log.close()
        os.close(fd)
    return Exit.OK


def list_socket_folders(arguments: argparse.Namespace) -> list[str]:
    """Return the folders that may hold the admin socket now."""
    named = [arguments.admin_dir] if arguments.admin_dir else None
    return [os.path.abspath(folder) for folder in named or paths.list_candidate_dirs(arguments.runtime_dir, os.environ)]


def lock_link(state: str) -> int:
    """Take the lock of the one link of this user on this machine, and return its descriptor."""
    from hooklatch.directories import LockedError, lock_directory

    try:
        os.makedirs(state, mode=0o700, exist_ok=True)
        return lock_directory(state, LOCK)
    except LockedError as error:
        refusal = f"another link (pid {error.holder}) already runs for {state}; stop it before you start this one"
        raise CommandError(Exit.UNAVAILABLE, refusal) from None
    except OSError as error:
        raise CommandError(Exit.UNAVAILABLE, f"{state} cannot be locked: {error.strerror or error}") from None
