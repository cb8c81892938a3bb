"""The command `mcp`: start an MCP server behind a proxy that has each call of its tools judged.

Standard output belongs to the client, so nothing else is printed there.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
from typing import Final

import trio

from hooklatch.bridges.guard import open_guard
from hooklatch.bridges.mcp import run_proxy
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser

__all__ = ["add_mcp"]

CHUNK: Final = 2**16
NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")


def add_mcp(parser: Parser) -> None:
    parser.runs(run_mcp, example="hooklatch mcp --name files -- npx -y @modelcontextprotocol/server-filesystem /data",
                exits=(Exit.NO_INPUT,))  # fmt: skip
    parser.add_argument(
        "--name",
        type=parse_server_name,
        help="what hooks call the server: its tools are mcp__NAME__TOOL then (else: TOOL)",
    )
    parser.add_argument("server", nargs="+", metavar="SERVER", help="its command and arguments, after --")


def parse_server_name(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r}: a name is letters, digits, and any of _.-")
    return text


def run_mcp(arguments: argparse.Namespace) -> int:
    """Run the proxy between the client on standard input and output and the server; return the server's exit code."""
    code = trio.run(proxy_server, arguments)
    return code if code >= 0 else 128 - code  # the code of a shell for a program that a signal has ended


async def proxy_server(arguments: argparse.Namespace) -> int:
    code, problem = 0, None
    # Copies, since trio closes its own.
    async with (
        trio.lowlevel.FdStream(os.dup(0)) as incoming,
        trio.lowlevel.FdStream(os.dup(1)) as outgoing,
        open_guard(
            host="mcp", name="hooklatch-mcp", runtime_dir=arguments.runtime_dir, daemon_uid=arguments.daemon_uid
        ) as guard,
        trio.open_nursery() as nursery,
    ):
        # Before the server is started, so that a signal leaves none behind.
        await nursery.start(cancel_on_signal, nursery.cancel_scope)
        try:
            code = await run_proxy(
                guard, arguments.server, lambda: incoming.receive_some(CHUNK), outgoing.send_all, name=arguments.name
            )
        except OSError as error:
            problem = error
        nursery.cancel_scope.cancel()
    if problem is not None:
        refusal = f"the server {arguments.server[0]!r} cannot be started: {problem.strerror or problem}"
        raise CommandError(Exit.NO_INPUT, refusal)
    return code


async def cancel_on_signal(
    scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
