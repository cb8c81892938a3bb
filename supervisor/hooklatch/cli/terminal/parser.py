"""The grammar of the command line: options, help, suggestions and exit codes.

A command is a row of a table: its name, the module that declares it, and its help.  The module is imported when the
command is chosen, so that no command pays for the imports of another one.  Every command takes the same options before
its name or after it.  A misspelt word gets the nearest name as a suggestion.  A command that only has commands below it
prints its help and ends with 64: nothing was done, and a script must not take that for success.

What is missing, invalid or refused raises CommandError in the functions of every command, with what to do.
Below 64 a command did its work and the code is its result; from 64 on it failed, with the codes of sysexits(3).
"""

from __future__ import annotations

import argparse
import sys
from enum import IntEnum
from functools import partial
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any, NoReturn

    Row = tuple[str, str, str]  # a command, its module below `hooklatch.cli`, and its help

__all__ = [
    "CommandError", "Exit", "PROGRAM", "Parser", "add_log_options", "make_missing_error", "parse_duration",
    "parse_port",
]  # fmt: skip


class Exit(IntEnum):
    """An exit code, with its meaning."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "done"
    FINDINGS = 1, "something is wrong, and printed: health is red, a file or hook was rejected, a case failed"
    REFUSED = 2, "deny or halt; for hook: refused, and every usage error"
    ASKS = 3, "ask: a person must approve it"
    FAILED = 4, "refused because something failed (any cause but policy)"
    USAGE = 64, "usage error: an unknown option or event, a bad value"
    BAD_DATA = 65, "invalid data: a payload that is not a JSON object, an invalid file of hooks or of cases"
    NO_INPUT = 66, "what was named does not exist: a file, a hook, a session"
    UNAVAILABLE = (
        69,
        "no daemon, or for fleet no engine, is reachable, or it is draining; for serve and test: it cannot start here",
    )
    SOFTWARE = 70, "a bug in hooklatch"
    CANNOT_CREATE = 73, "a file exists already and was left unchanged, or cannot be created"
    IO_ERROR = 74, "standard output cannot be written"
    CONFLICT = 75, "another publisher was first, and nothing was written: look at what it did, and run it again"
    PROTOCOL = 76, "the process listening there does not speak this protocol"
    NOT_PERMITTED = 77, "the daemon, the engine, or the mode of a file or directory, does not permit it"
    INTERRUPTED = 130, "interrupted by Ctrl-C"


class CommandError(Exception):
    """An error that ends a command with an exit code; its text has the fault and the remedy."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code


PROGRAM = "hooklatch"
GENERAL = (Exit.OK, Exit.USAGE, Exit.SOFTWARE, Exit.IO_ERROR, Exit.INTERRUPTED)  # common to all commands
NAME_WIDTH = 11  # columns of a command's name in a list of them

# While arguments are added: to look up the width of the terminal, argparse imports what unpacks archives.
UNMEASURED = partial(argparse.RawDescriptionHelpFormatter, width=80)


class Parser(argparse.ArgumentParser):
    """The parser of the command line, or of one command.

    It becomes one when it is first used, and `declare` then adds its own arguments: of some fifty commands one is used,
    and argparse looks for translations of its titles for each of them.
    """

    def __init__(self, *, prog: str = PROGRAM, declare: Callable[[Parser], None], **options: Any) -> None:
        # `add_subparsers` instantiates this class with keywords of its own; Python 3.14 added one (color).
        options |= {"prog": prog, "add_help": False, "allow_abbrev": False, "formatter_class": UNMEASURED}
        self._become_parser = partial(super().__init__, **options)
        self.commands: dict[str, Parser] = {}
        self._subcommands: argparse.Action | None = None
        self.shapes: tuple[str, ...] = ()
        self._declare = declare
        self._is_declared = False
        self._words: list[str] = []
        self._meant: Mapping[str, str] = {}
        self._takes_text = False
        self._example, self._codes = "", list[Exit]()
        self._tables: list[tuple[Any, list[Row]]] = []  # groups of commands, with their rows

    def declared(self) -> Parser:
        """Return this parser with its arguments."""
        if self._is_declared:
            return self
        self._is_declared = True
        self._become_parser()
        self.add_argument("-h", "--help", action="help", help="show this help message and exit")
        self._declare(self)
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
        options.add_argument(
            "--daemon-uid",
            metavar="UID",
            type=int,
            default=argparse.SUPPRESS,
            help="the number of the user whose daemon to take, where it is neither yours nor root's",
        )
        options.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON, for programs")
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        return self

    # Typed with overloads, which only differ in the class of the namespace.
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._words = sys.argv[1:] if args is None else list(args)
        parsed, unknown = super(Parser, self.declared()).parse_known_args(args, namespace)
        if unknown:
            # Each parser reports its own unknown words, since only it knows the options that may have been meant.
            words = " ".join(word or "''" for word in unknown)
            suggestion = self._suggest_quotes() if self._takes_text else ""
            self.error(f"unrecognized arguments: {words}{suggestion or self._suggest_option(unknown[0])}")
        return parsed, unknown

    def _suggest_quotes(self) -> str:
        """Return this command line with its words as one text; empty if it has an option that is meant for us."""
        import shlex

        if not self._words or self._words[0].startswith("-"):
            return ""
        words = [word for word in self._words if word not in self._option_string_actions]
        return f"; it is one text, in quotes: {self.prog} {shlex.quote(shlex.join(words))}"

    def _suggest_for_unknown(self) -> str:
        """Return a suggestion for the first unknown option that is like a known one; empty if none is."""
        known = self._option_string_actions
        words = [word for word in self._words if word.startswith("--") and word.partition("=")[0] not in known]
        return next((suggestion for word in words if (suggestion := self._suggest_option(word))), "")

    def _suggest_option(self, word: str) -> str:
        """Return a suggestion for an unknown option; empty for a word that is not an option."""
        if word.startswith("{") and "--payload" in self._option_string_actions:
            return "; did you mean --payload '{…}'?"
        if word[:-1].isdecimal() and word[-1:] in "smhd" and "--for" in self._option_string_actions:
            return f"; did you mean --for {word}?"
        name = word.partition("=")[0]
        return self._suggest(name, self._option_string_actions) if name.startswith("-") else ""

    def means(self, meant: Mapping[str, str], *, takes_text: bool = False) -> None:
        """Declare what is meant by words that other programs have, and that are none here: what to type.

        With `takes_text` the command takes one text, so several words are one whose quotes were forgotten.
        """
        self._meant, self._takes_text = meant, takes_text

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if action is self._subcommands:
            self._check_options_before(value)
            suggestion = self._suggest(value, self.commands)
            if (option := f"--{value}") in self._option_string_actions:  # `help`, `version`
                suggestion = f"; did you mean {option!r}?"
            raise argparse.ArgumentError(None, f"there is no command {value!r}{suggestion}")
        choices = [str(choice) for choice in action.choices]
        suggestion = self._suggest(str(value), choices)
        raise argparse.ArgumentError(action, f"{value!r} is none of {', '.join(choices)}{suggestion}")

    def _check_options_before(self, value: str) -> None:
        """Reject an unknown option whose value was taken for a command."""
        for word in self._words[: self._words.index(value)] if value in self._words else ():
            if word.startswith("-") and word.partition("=")[0] not in self._option_string_actions:
                raise argparse.ArgumentError(None, f"there is no option {word!r}{self._suggest_option(word)}")

    def _suggest(self, word: str, known: Iterable[str]) -> str:
        from hooklatch.core.text import suggest_name  # only a misspelt command line pays for it

        return f"; did you mean {self._meant[word]!r}?" if word in self._meant else suggest_name(word, known)

    def add_commands(self, rows: Iterable[Row], *, required: bool = False) -> None:
        """Add a table of commands: `add_NAME` of the module declares each."""
        self.add_groups({"commands": rows}, required=required)

    def add_groups(self, groups: Mapping[str, Iterable[Row]], *, required: bool = False) -> None:
        """Add tables of commands, each below its title."""
        # argparse would print one list of all commands; the groups below are shown in its place.
        actions = self.add_subparsers(
            prog=self.prog, title="commands", metavar="COMMAND", dest="command", help=argparse.SUPPRESS
        )
        self._subcommands = actions
        self.usage = f"%(prog)s [options] {'COMMAND' if required else '[COMMAND]'} ..."
        if required:
            self.set_defaults(run=self._show_help)
        for title, rows in groups.items():
            self._tables.append((self.add_argument_group(title), [*rows]))
            for name, module, text in self._tables[-1][1]:
                description = f"{text[:1].upper()}{text[1:]}."
                declare = find_declaration(module, name)
                self.commands[name] = actions.add_parser(name, help=text, description=description, declare=declare)

    def arguments(self) -> list[argparse.Action]:
        """Return the arguments of this parser itself, for scripts that complete them."""
        if self._subcommands is not None:
            self._subcommands.help = "what to do"  # no longer suppressed, or nothing below it would be described
        return self._actions

    def _show_help(self, _: argparse.Namespace) -> int:
        self.print_help(sys.stderr)
        return Exit.USAGE

    def runs(
        self,
        run: Callable[[argparse.Namespace], int],
        *,
        example: str,
        exits: Collection[Exit] = (),
        general: Collection[Exit] = GENERAL,
    ) -> None:
        """Declare the function of a command, with an example and the exit codes for its help."""
        self.explain(example=example, exits=exits, general=general)
        self.set_defaults(run=run)

    def prints(self, *shapes: str) -> None:
        """Declare the shapes of a command's `--json`, each by its module below `hooklatch` and its name there.

        The command prints one of them, once or on each line.
        """
        self.shapes = shapes

    def explain(self, *, example: str, exits: Collection[Exit] = (), general: Collection[Exit] = GENERAL) -> None:
        """Declare an example and the exit codes, also of a command that only has others below it."""
        self._example = example
        self._codes = sorted({*general, *exits, *((Exit.PROTOCOL,) if Exit.UNAVAILABLE in exits else ())})

    def format_help(self) -> str:
        """Return the help, in lines that fit 80 columns."""
        import textwrap

        for group, rows in self._tables:
            group.description = "\n".join(line for name, _, text in rows for line in format_help_row(name, text))
        if self._codes:
            parts = [format_help_row(str(code.value), code.meaning, width=len("100 ")) for code in self._codes]
            lines = [f"  {line}" for part in parts for line in part]
            self.epilog = "\n".join([f"example: {self._example}", "", "exit codes:", *lines])
        whole = self.description
        self.description = textwrap.fill(whole, 79) if whole else whole
        try:
            return super().format_help()
        finally:
            self.description = whole  # scripts for completion show its first line

    def print_help(self, file: Any = None) -> None:
        """Print the help: in lines that fit a terminal, and with its titles painted where colours are wanted."""
        from hooklatch.cli.terminal.look import colour_text, has_colour, terminal_width
        from hooklatch.cli.terminal.output import say_text

        stream = sys.stdout if file is None else file
        lines, width = self.format_help().splitlines(), terminal_width(stream)
        if width is not None:
            lines = [part for line in lines for part in narrow_help_line(line, width)]
        if has_colour(stream):
            lines = [colour_text(line, "title") if line.endswith(":") and line[0].isalpha() else line for line in lines]
        if file is None:
            say_text("\n".join(lines))
        else:
            file.write("\n".join(lines) + "\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the process, with `Exit.IO_ERROR` if the help could not be written."""
        from hooklatch.cli.terminal.output import finish_output, print_error

        fault = finish_output()
        if fault is not None:
            print_error(fault)
        super().exit(status or (Exit.OK if fault is None else Exit.IO_ERROR), message)

    def error(self, message: str) -> NoReturn:
        from hooklatch.cli.terminal.output import print_error

        # A required option that is missing may be there, misspelt; argparse reports the missing one first.
        suggestion = self._suggest_for_unknown() if "required" in message else ""
        print_error(f"{message}{suggestion}")
        example = f"for example: {self._example}\n" if self._example else ""
        self._print_message(f"{example}see: {self.prog} --help\n", sys.stderr)
        self.exit(Exit.USAGE)


def format_help_row(name: str, text: str, *, width: int = NAME_WIDTH) -> list[str]:
    """Return a name and its help in lines that fit 80 columns."""
    import textwrap

    head = f"{name:<{width}}" if len(name) < width else f"{name}  "
    return textwrap.wrap(text, 76, initial_indent=head, subsequent_indent=" " * width, break_on_hyphens=False)


def narrow_help_line(line: str, width: int) -> list[str]:
    """Return a line of help in lines that fit a terminal; an example stays in one piece, to be copied."""
    import re
    import textwrap

    if len(line) <= width or line.startswith("example: "):
        return [line]
    name_column = re.match(r" *(?:\S+ {2,})?", line)
    indent = " " * min(name_column.end() if name_column else 0, width // 2)
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def find_declaration(module: str, name: str) -> Callable[[Parser], None]:
    def declare(parser: Parser) -> None:
        getattr(import_module(f"hooklatch.cli.{module}"), f"add_{name}")(parser)

    return declare


def add_log_options(parser: Parser) -> None:
    """Add the options of a process that logs to standard error."""
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="what goes to standard error (default: info)",
    )
    parser.add_argument(
        "--log-format", choices=("human", "json"), default="human", help="lines for people, or JSON (default: human)"
    )


def make_missing_error(library: object, extra: str) -> CommandError:
    """Return the error of a command whose library is not installed; it comes with an extra of hooklatch."""
    from hooklatch.errors import format_install_command

    install = format_install_command(f"hooklatch[{extra}]")
    return CommandError(Exit.UNAVAILABLE, f"{library} is not installed; it comes with: {install}")


def parse_duration(text: str) -> float:
    """Parse a positive duration, as in a file of hooks; an argparse type that returns seconds."""
    from hooklatch.core.text import read_duration  # imported here, since few commands take one

    try:
        return read_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_port(text: str) -> int:
    """Return a port of a command line; 0 stands for a free one."""
    if not (text.isascii() and text.isdecimal() and int(text[:6]) < 2**16):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; write a number up to 65535, or 0 for a free one")
    return int(text)
