"""serve, and the door to `hook` for those who write options before it.  Starts parts; knows none of their work."""

from __future__ import annotations

import argparse
import logging
import os
import sys

from hooklatch import paths
from hooklatch.cli import terminal
from hooklatch.cli.exits import CommandError, Exit
from hooklatch.cli.parser import Commands
from hooklatch.cli.requests import directories

__all__ = ["add_commands"]

logger = logging.getLogger("hooklatch.serve")
FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def add_commands(commands: Commands) -> None:
    serve_parser = commands.add(
        "serve",
        serve,
        help="run the daemon until SIGTERM or Ctrl-C; SIGHUP reloads",
        example="hooklatch serve --log-level warning",
        exits=(Exit.UNAVAILABLE,),
    )
    serve_parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="what goes to standard error (default: info)",
    )
    hook_parser = commands.add(
        "hook",
        hook,
        help="answer one hook event of an agent (see: hooklatch hook --help)",
        example="hooklatch hook claude-code --settings > .claude/settings.local.json",
        exits=(Exit.REFUSED,),
        general=(Exit.OK,),
    )
    hook_parser.add_argument("words", nargs=argparse.REMAINDER, metavar="HOST ...", help="the host, and its options")


def hook(arguments: argparse.Namespace) -> int:
    from hooklatch.hosts import shim

    chosen = ["--runtime-dir", arguments.runtime_dir] if arguments.runtime_dir else []
    return shim.main([*arguments.words, *chosen])


def serve(arguments: argparse.Namespace) -> int:
    """Run the daemon; prints one line when it can answer."""
    from hooklatch.service.daemon import Options, Ready, StartError, run_daemon

    folders = directories(arguments)
    if not folders:
        raise CommandError(Exit.UNAVAILABLE, "there is no folder for the sockets; name one with --runtime-dir")
    options = Options(
        config=os.path.abspath(paths.config_file(arguments.config, os.environ)),
        runtime_dir=folders[0],
        state_dir=paths.state_dir(os.environ),
    )
    start_log(arguments.log_level)

    def announce(ready: Ready) -> None:
        if arguments.json:
            terminal.say_json(ready)
        else:
            terminal.say(
                f"hooklatch is ready: agent {ready.agent}, admin {ready.admin} (pid {ready.pid}, "
                f"revision {ready.revision})"
            )
        logger.info("ready agent=%s admin=%s revision=%d", ready.agent, ready.admin, ready.revision)

    try:
        run_daemon(options, on_ready=announce)
    except StartError as error:
        raise CommandError(Exit.UNAVAILABLE, str(error)) from None
    except BaseExceptionGroup as group:
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        raise KeyboardInterrupt from None  # before the daemon listened for signals
    return Exit.OK


def start_log(level: str) -> None:
    logging.basicConfig(stream=sys.stderr, format=FORMAT, level=level.upper())
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it reports each change of each file it sees
