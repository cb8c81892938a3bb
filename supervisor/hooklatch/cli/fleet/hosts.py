"""The hosts that a command is about, by its option --host."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.core.text import suggest_name

if TYPE_CHECKING:
    from hooklatch.fleet.engine.engine import Engine

__all__ = ["add_hosts", "select_hosts"]


def add_hosts(parser: Parser) -> None:
    parser.add_argument("--host", metavar="NAME", action="append", default=[], help="only this host; may be repeated")


async def select_hosts(engine: Engine, names: Collection[str]) -> list[str]:
    """Return the hosts that were named, or all that have a log or a report.

    Raises:
        CommandError: one that was named has neither.
    """
    known = {host async for host, _ in engine.logs()} | {report.host async for report in engine.reports()}
    for name in names:
        if name not in known:
            raise CommandError(
                Exit.NO_INPUT, f"no host {name!r} has reported or shipped anything{suggest_name(name, known)}"
            )
    return sorted(names or known)
