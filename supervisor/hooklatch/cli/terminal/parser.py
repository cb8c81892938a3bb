"""The grammar of the command line.  Knows options and help; does not run commands.

Every command takes the same three options, before its name or after it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from hooklatch.cli.terminal.exits import MEANINGS, Exit

__all__ = ["Commands", "Parser"]

PROGRAM = "hooklatch"
GENERAL = (Exit.OK, Exit.USAGE, Exit.SOFTWARE, Exit.IO_ERROR, Exit.INTERRUPTED)  # common to all commands
Run = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """An argument parser whose usage errors exit with 64; argparse uses 2, which here means deny."""

    def __init__(self, *, prog: str = PROGRAM, **given: Any) -> None:
        # `add_subparsers` instantiates this class with keywords of its own; Python 3.14 added one (color).
        super().__init__(prog=prog, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **given)
        options = self.add_argument_group("options of every command")
        options.add_argument(
            "--config",
            metavar="FILE",
            default=argparse.SUPPRESS,
            help="the file of hooks (else HOOKLATCH_CONFIG, else ~/.config/hooklatch/hooks.toml)",
        )
        options.add_argument(
            "--runtime-dir",
            metavar="DIR",
            default=argparse.SUPPRESS,
            help="where the sockets are (else HOOKLATCH_RUNTIME_DIR, else $XDG_RUNTIME_DIR/hooklatch, "
            "else ~/.local/state/hooklatch/run)",
        )
        options.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON, for programs")

    def error(self, message: str) -> NoReturn:
        # A host takes every code but 2 for "go on", so a command line meant for a host must fail with 2.
        is_for_a_host = self.prog == PROGRAM and "hook" in sys.argv[1:]
        self.print_usage(sys.stderr)
        self.exit(Exit.REFUSED if is_for_a_host else Exit.USAGE, f"hooklatch: {message}; see: {self.prog} --help\n")


class ShowVersion(argparse.Action):
    """Looks up the version only when needed, since that reads the metadata of the installed package."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from hooklatch.version import VERSION

        print(f"{PROGRAM} {VERSION}")
        parser.exit()


class Commands:
    """Named commands, below `hooklatch` or below one of its commands."""

    def __init__(self, parser: Parser | None = None) -> None:
        self.parser = parser or Parser(
            description="Runs an agent's lifecycle hooks in supervised workers, and fails closed.",
            epilog="example: hooklatch init && hooklatch serve --detach\n\n"
            "`hooklatch COMMAND --help` shows each one's own example and exit codes.",
        )
        if parser is None:
            self.parser.add_argument("--version", action=ShowVersion, nargs=0, help="print the version, and exit")
            self.parser.set_defaults(config=None, runtime_dir=None, json=False)
        self._actions = self.parser.add_subparsers(
            title="commands", metavar="COMMAND", dest="command", required=parser is None
        )

    @property
    def names(self) -> list[str]:
        return list(self._actions.choices)

    def add(
        self,
        name: str,
        run: Run,
        *,
        help: str,  # noqa: A002  (as argparse calls it)
        example: str,
        exits: Collection[Exit] = (),
        general: Collection[Exit] = GENERAL,
    ) -> Parser:
        """Add a command; return its parser, for further options."""
        codes = sorted({*general, *exits, *((Exit.PROTOCOL,) if Exit.UNAVAILABLE in exits else ())})
        lines = [f"  {code.value:<4}{MEANINGS[code]}" for code in codes]
        epilog = "\n".join([f"example: {example}", "", "exit codes:", *lines])
        parser = self._actions.add_parser(name, help=help, description=sentence(help), epilog=epilog)
        parser.set_defaults(run=run)
        return parser

    def __getitem__(self, name: str) -> Parser:
        return self._actions.choices[name]

    def parse(self, words: list[str]) -> argparse.Namespace:
        """Parse a command line; exit on usage errors and on --help."""
        return self.parser.parse_args(words)


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
