"""The command `stop`: let the daemon drain and exit, and wait for that.

It sends no signal, since the pid may have been reused.
"""

from __future__ import annotations

import argparse
import time

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator

__all__ = ["add_stop"]

NOTICE_AFTER = 1.0  # seconds before the user is told what is being waited for
TIMEOUT = 30.0  # seconds; the daemon waits up to ten for fires in flight


def add_stop(parser: Parser) -> None:
    parser.runs(run_stop, example="hooklatch stop", exits=(Exit.FINDINGS, Exit.UNAVAILABLE))
    parser.prints("cli.schema:StopOutput")


def run_stop(arguments: argparse.Namespace) -> int:
    """Stop the daemon, and wait until it has ended."""
    begun = time.monotonic()
    # Watched before the request, since a pidfd can only be opened while the process is there.
    with connect_administrator(arguments) as link, link.watch_end() as end:
        pid: int = link.ask("stop")["pid"]
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
    if arguments.json:
        output.say_json({"stopped": True, "pid": pid, "seconds": round(time.monotonic() - begun, 3)})
    else:
        output.print_line(f"stopped (pid {pid})")
    return Exit.OK
