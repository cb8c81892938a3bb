"""fleet: one policy on many machines.  The table of its commands; each is a module beside this one."""

from __future__ import annotations

from hooklatch.cli.terminal.parser import Parser

__all__ = ["add_fleet"]

BELOW = (("keygen", "fleet.keygen", "make a pair of keys: a publisher signs with one, hosts believe the other"),)


def add_fleet(parser: Parser) -> None:
    parser.explain(example="hooklatch fleet keygen --out fleet.key")
    parser.add_commands(BELOW, required=True)
