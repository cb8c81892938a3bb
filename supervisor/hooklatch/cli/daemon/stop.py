"""stop: has the daemon drain and exit, and waits for that.  Sends no signal, since the pid may have been reused."""

from __future__ import annotations

import argparse
import time

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator

__all__ = ["add_stop"]

PATIENCE = 1.0  # seconds before the user is told what is being waited for
LIMIT = 30.0  # seconds; the daemon waits up to ten for fires in flight


def add_stop(parser: Parser) -> None:
    parser.runs(run_stop, example="hooklatch stop", exits=(Exit.FINDINGS, Exit.UNAVAILABLE))


def run_stop(arguments: argparse.Namespace) -> int:
    """Stop the daemon."""
    begun = time.monotonic()
    with connect_administrator(arguments) as link, link.watch_end() as end:
        pid: int = link.ask("stop")["pid"]
        text = f"waiting for the daemon (pid {pid}) to end; fires in flight are given 10 s"
        with look.Spinner(text) as working:
            is_gone = end.wait(PATIENCE, pid)
            if not is_gone:
                if not working.is_shown:
                    output.print_error(text)
                is_gone = end.wait(LIMIT - PATIENCE, pid)
        if not is_gone:
            what = f"the daemon (pid {pid}) was told to stop but has not ended in {LIMIT:.0f} s"
            raise CommandError(Exit.FINDINGS, f"{what}; new gates are denied; to end it: kill -KILL {pid}")
    if arguments.json:
        output.say_json({"stopped": True, "pid": pid, "seconds": round(time.monotonic() - begun, 3)})
    else:
        output.print_line(f"stopped (pid {pid})")
    return Exit.OK
