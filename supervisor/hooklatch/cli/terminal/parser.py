"""The grammar of the command line.  Knows options and help; does not run commands.

A command is a row of a table: its name, the module that declares it, and its help.  The module is imported when the
command is chosen, so that no command pays for what another one needs.  Every command takes the same three options,
before its name or after it.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from importlib import import_module

from hooklatch.cli.terminal.exits import Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any, NoReturn

__all__ = ["PROGRAM", "Parser"]

PROGRAM = "hooklatch"
GENERAL = (Exit.OK, Exit.USAGE, Exit.SOFTWARE, Exit.IO_ERROR, Exit.INTERRUPTED)  # common to all commands

# While arguments are added: to look up the width of the terminal, argparse imports what unpacks archives.
UNMEASURED = partial(argparse.RawDescriptionHelpFormatter, width=80)


class Parser(argparse.ArgumentParser):
    """The parser of the command line, or of one command; `declare` adds its own arguments when it is first used."""

    def __init__(self, *, prog: str = PROGRAM, declare: Callable[[Parser], None], **given: Any) -> None:
        # `add_subparsers` instantiates this class with keywords of its own; Python 3.14 added one (color).
        super().__init__(prog=prog, add_help=False, allow_abbrev=False, formatter_class=UNMEASURED, **given)
        self.commands: dict[str, Parser] = {}
        self._declare = declare
        self._is_declared = False

    def declared(self) -> Parser:
        """Return this parser with its arguments."""
        if self._is_declared:
            return self
        self._is_declared = True
        self.add_argument("-h", "--help", action="help", help="show this help message and exit")
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
        self._declare(self)
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        return self

    # Typed with overloads, which only differ in the class of the namespace.
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super(Parser, self.declared()).parse_known_args(args, namespace)

    def add_commands(self, rows: Iterable[tuple[str, str, str]], *, required: bool = False) -> None:
        """Add a table of commands: `add_NAME` of the module declares each."""
        actions = self.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=required)
        for name, module, text in rows:
            description = f"{text[:1].upper()}{text[1:]}."
            declare = declaration(module, name)
            self.commands[name] = actions.add_parser(name, help=text, description=description, declare=declare)

    def runs(
        self,
        run: Callable[[argparse.Namespace], int],
        *,
        example: str,
        exits: Collection[Exit] = (),
        general: Collection[Exit] = GENERAL,
    ) -> None:
        """Declare what a command does, with an example and the exit codes for its help."""
        self.explain(example=example, exits=exits, general=general)
        self.set_defaults(run=run)

    def explain(self, *, example: str, exits: Collection[Exit] = (), general: Collection[Exit] = GENERAL) -> None:
        """Declare an example and the exit codes, also of what does nothing by itself."""
        codes = sorted({*general, *exits, *((Exit.PROTOCOL,) if Exit.UNAVAILABLE in exits else ())})
        lines = [f"  {code.value:<4}{code.meaning}" for code in codes]
        self.epilog = "\n".join([f"example: {example}", "", "exit codes:", *lines])

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(Exit.USAGE, f"hooklatch: {message}; see: {self.prog} --help\n")


def declaration(module: str, name: str) -> Callable[[Parser], None]:
    def declare(parser: Parser) -> None:
        getattr(import_module(f"hooklatch.cli.{module}"), f"add_{name}")(parser)

    return declare
