"""serve, and the door to `hook` for those who write options before it.  Starts parts; knows none of their work."""

from __future__ import annotations

import argparse
import logging
import os
import signal

from hooklatch import paths
from hooklatch.cli import terminal
from hooklatch.cli.exits import CommandError, Exit
from hooklatch.cli.parser import Commands
from hooklatch.cli.requests import directories

__all__ = ["add_commands"]

logger = logging.getLogger("hooklatch.serve")


def add_commands(commands: Commands) -> None:
    serve_parser = commands.add(
        "serve",
        serve,
        help="run the daemon until SIGTERM or Ctrl-C; SIGHUP reloads",
        example="hooklatch serve --log-level warning",
        exits=(Exit.NO_INPUT, Exit.UNAVAILABLE),
    )
    serve_parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="what goes to standard error (default: info)",
    )
    serve_parser.add_argument(
        "--log-format", choices=("human", "json"), default="human", help="lines for people, or JSON (default: human)"
    )
    serve_parser.add_argument(
        "--admin-dir", metavar="DIR", help="put admin.sock there, away from those who may see agent.sock"
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
    # Process 1 of a container has no default action for SIGTERM: until the daemon listens for it, this is one.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(Exit.OK))
    from hooklatch.service.daemon import ConfigMissingError, Options, Ready, StartError, run_daemon
    from hooklatch.service.logs import start_log

    folders = directories(arguments)
    if not folders:
        raise CommandError(Exit.UNAVAILABLE, "there is no folder for the sockets; name one with --runtime-dir")
    options = Options(
        config=os.path.abspath(paths.config_file(arguments.config, os.environ)),
        runtime_dir=folders[0],
        state_dir=paths.state_dir(os.environ),
        admin_dir=os.path.abspath(arguments.admin_dir) if arguments.admin_dir else None,
        is_config_named=bool(arguments.config or os.environ.get("HOOKLATCH_CONFIG")),
    )
    log = start_log(arguments.log_level, arguments.log_format)

    def announce(ready: Ready) -> None:
        if arguments.json:
            terminal.say_json(ready)
        else:
            terminal.say(
                f"hooklatch is ready: agent {ready.agent}, admin {ready.admin} (pid {ready.pid}, "
                f"revision {ready.revision})"
            )
        where = {"agent": ready.agent, "admin": ready.admin, "revision": ready.revision}
        logger.info("ready", extra=where)

    try:
        run_daemon(options, on_ready=announce)
    except ConfigMissingError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    except StartError as error:
        raise CommandError(Exit.UNAVAILABLE, str(error)) from None
    except BaseExceptionGroup as group:
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        raise KeyboardInterrupt from None  # before the daemon listened for signals
    finally:
        log.close()
    return Exit.OK
