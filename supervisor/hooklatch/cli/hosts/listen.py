"""The command `listen`: Claude Code's http hooks, on loopback, in a process of its own.

It is opt-in: its libraries are imported only when it runs.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import Any, Literal, TypedDict

from hooklatch import paths
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, make_missing_error, parse_port

__all__ = ["add_listen"]

TOKEN = "listen.token"


class ListenOutput(TypedDict):
    """`listen`: one line, when it accepts connections."""

    ready: Literal[True]
    address: str
    port: int
    token_file: str


class ListenerSettings(TypedDict):
    """`listen --settings`: the hooks of Claude Code that ask it."""

    hooks: dict[str, list[Any]]


def add_listen(parser: Parser) -> None:
    parser.runs(run_listen, example="hooklatch listen --port 7437", exits=(Exit.UNAVAILABLE,))
    parser.prints("cli.hosts.listen:ListenOutput", "cli.hosts.listen:ListenerSettings")
    parser.add_argument("--port", metavar="N", type=parse_port, default=0, help="on 127.0.0.1 (default: a free one)")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="the bearer token; made if it is not there (default: in the state directory)",
    )
    parser.add_argument(
        "--settings", action="store_true", help="print the hooks of Claude Code's settings that ask it, and exit"
    )


def run_listen(arguments: argparse.Namespace) -> int:
    try:
        import trio

        from hooklatch.entry import listener
    except ImportError as error:
        raise make_missing_error(error.name or error, "listen") from None
    if arguments.settings:
        if not arguments.port:
            raise CommandError(Exit.USAGE, "--settings needs the --port that they name")
        output.say_json(listener.make_listener_settings(arguments.port))
        return Exit.OK
    token_file = os.path.abspath(arguments.token_file or os.path.join(paths.state_dir(os.environ), TOKEN))
    options = ["--runtime-dir", os.path.abspath(arguments.runtime_dir)] if arguments.runtime_dir else []
    if arguments.daemon_uid is not None:
        options += ["--daemon-uid", str(arguments.daemon_uid)]
    try:
        token = listener.read_token(token_file)
        on_ready = partial(print_listening, arguments, token_file)
        trio.run(listener.serve_listener, arguments.port, token, options, on_ready)
    except listener.TokenError as error:
        raise CommandError(Exit.UNAVAILABLE, str(error)) from None
    except OSError as error:
        refusal = f"port {arguments.port} cannot be listened on: {error.strerror}; choose another one with --port"
        raise CommandError(Exit.UNAVAILABLE, refusal) from None
    return Exit.OK


def print_listening(arguments: argparse.Namespace, token_file: str, port: int) -> None:
    if arguments.json:
        output.say_json(ListenOutput(ready=True, address="127.0.0.1", port=port, token_file=token_file))
    else:
        output.print_line(f"listening on http://127.0.0.1:{port}/claude-code/EVENT; the token is in {token_file}")
