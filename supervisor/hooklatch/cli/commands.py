"""The table of all commands, and what runs one: errors become messages and exit codes.

code = run(["hooks", "list", "--json"])
"""

from __future__ import annotations

import argparse

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import PROGRAM, CommandError, Exit, Parser
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError, UnreadableAnswerError
from hooklatch.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["COMMANDS", "MEANT", "build_command_line", "run"]

# Under the title that `hooklatch --help` shows: a command's name, its module below `hooklatch.cli`, and its help.
COMMANDS = {
    "set up": (
        ("setup", "daemon.setup", "guards, agents and a daemon in a minute; shows what it writes first"),
        ("init", "daemon.init", "write a first hooks.toml and a first guard; overwrites nothing"),
        (
            "install", "hosts.install",
            "have an agent ask hooklatch, such as claude-code or gemini",
        ),
        ("uninstall", "hosts.install", "take hooklatch out of an agent's settings, and nothing else"),
        ("import", "hooks.import_hooks", "convert hooks of Claude Code, Reasonix or Radium for hooks.d"),
        ("trust", "hooks.suspend", "let the hooks of a project run, exactly as they are now"),
        ("doctor", "daemon.doctor", "say what is wrong and how to fix it"),
    ),
    "the daemon": (
        ("serve", "daemon.serve", "run the daemon until Ctrl-C, or in the background: --detach"),
        ("restart", "daemon.serve", "stop it, and start the one that is installed, with the same options"),
        ("stop", "daemon.stop", "let it answer what is in flight, and wait until it is gone"),
        ("reload", "hooks.suspend", "have it load its files now, and build its sources afresh"),
        ("service", "daemon.service", "have systemd start it at each login, and when it ends"),
        ("state", "daemon.stop", "accept a state file that was lost or is not the one written last"),
        ("status", "hooks.status", "say whether all is well, and what to do if it is not"),
        ("health", "daemon.stop", "say in a word whether it is ready, over the agents' socket"),
    ),
    "hooks": (
        ("hooks", "hooks.hooks", "list hooks in firing order, show one, or change them"),
        ("events", "hooks.hooks", "list the events that can be fired, or show one with its fields"),
        ("guards", "hooks.guards", "a gallery of guards: list, show, add to yours, test"),
        ("sources", "hooks.sources", "list what [[source]] tables name by git, or update their copies"),
        ("suspend", "hooks.suspend", "break-glass: leave a hook out of every fire for a limited time"),
        ("resume", "hooks.suspend", "end a suspension early"),
    ),
    "what happens": (
        ("ui", "daemon.top", "decisions and hooks on the whole screen, to look into and act on; needs hooklatch[ui]"),
        ("watch", "daemon.watch", "show decisions, changes and suspensions as they happen"),
        ("top", "daemon.top", "show what each hook does, live: calls, times, failures, workers"),
        ("asks", "hooks.asks", "list asks of hooks that wait for a person, and answer them"),
        ("sessions", "hooks.status", "list the agents that are connected"),
        ("log", "daemon.log", "show the decision record, or verify that nobody changed it"),
        ("why", "daemon.why", "say what a cause of a decision means, and what to do"),
        ("stats", "daemon.stats", "count what each guard decided, and what was refused to whom"),
        ("report", "daemon.report", "write what was decided as one HTML file; needs hooklatch[dashboard]"),
        ("dashboard", "daemon.dashboard", "show it all as pages in a browser; needs hooklatch[dashboard]"),
    ),
    "write and try": (
        ("new", "hooks.new", "write a guard of your own to begin with, and its cases"),
        ("try", "testing.fire", "say what your guards think of a command, a path or a URL; nothing is run"),
        ("fire", "testing.fire", "fire one event and print the decision; the exit code says it"),
        ("dev", "testing.dev", "run the hooks of a file against payloads, again on each save"),
        ("check", "testing.check", "load configurations and sources, and say what is wrong with them"),
        ("test", "testing.policy_tests", "fire recorded payloads at the hooks, and compare the decisions"),
        ("replay", "testing.replay", "fire what was kept at other hooks, and show what would change"),
        ("record", "testing.replay", "turn decisions on record into cases for `hooklatch test`"),
        ("suggest", "daemon.suggest", "propose rules from a week of the record, with what each would have changed"),
    ),
    "beside the daemon": (
        ("mcp", "hosts.mcp", "start an MCP server whose every tool call is judged first"),
        ("listen", "hosts.listen", "answer Claude Code's http hooks; needs hooklatch[listen]"),
        ("join", "fleet.enrolment", "make this machine a host of a fleet, with the token of `fleet enroll`"),
        ("link", "fleet.link", "connect this daemon to its fleet; needs hooklatch[fleet]"),
        ("fleet", "fleet.fleet", "one policy on many machines; needs hooklatch[fleet]"),
    ),
    "for other programs": (
        ("completion", "completion", "print a script by which bash, zsh or fish completes commands"),
        ("schema", "schema", "print the JSON Schema of hooks.toml, or of a command's --json"),
    ),
}  # fmt: skip
# What other programs call what we have, and commands that are below another one: an unknown word is looked up here.
MEANT = {
    "start": "serve --detach", "run": "serve --detach", "up": "serve --detach", "daemon": "serve --detach",
    "down": "stop", "kill": "stop", "quit": "stop", "upgrade": "restart", "update": "guards update",
    "list": "hooks", "ls": "hooks", "rules": "hooks", "show": "hooks show", "explain": "hooks explain",
    "remove": "hooks remove", "enable": "hooks enable", "disable": "hooks disable", "add": "guards add",
    "off": "suspend", "pause": "suspend", "skip": "suspend", "on": "resume",
    "tail": "watch", "follow": "watch", "history": "log", "audit": "log", "verify": "log verify",
    "answer": "asks answer", "approve": "asks answer", "allow": "asks answer", "deny": "asks answer",
    "lint": "check", "validate": "check", "config": "check", "debug": "doctor", "diagnose": "doctor",
    "web": "dashboard", "tui": "ui", "unsuspend": "resume", "uninit": "uninstall",
    "rollback": "fleet rollback", "enroll": "fleet enroll", "-v": "--version", "-V": "--version",
}  # fmt: skip
CODES = {
    "load_failed": Exit.BAD_DATA,
    "not_found": Exit.NO_INPUT,
    "not_permitted": Exit.NOT_PERMITTED,
    "not_admin": Exit.NOT_PERMITTED,
    "invalid_params": Exit.USAGE,
    "unknown_event": Exit.USAGE,
    "draining": Exit.UNAVAILABLE,
    "overload": Exit.UNAVAILABLE,
    "internal_error": Exit.SOFTWARE,
}


def build_command_line() -> Parser:
    """Return the parser of the whole command line."""
    return Parser(
        declare=declare_all,
        description="Runs an agent's lifecycle hooks in supervised workers, and fails closed.",
        epilog="example: hooklatch setup\n\n`hooklatch COMMAND --help` shows each one's own example and exit codes.",
    )


def declare_all(parser: Parser) -> None:
    version = f"{PROGRAM} {VERSION}"
    parser.add_argument("--version", action="version", version=version, help="print the version, and exit")
    parser.set_defaults(config=None, runtime_dir=None, daemon_uid=None, json=False)
    parser.add_groups(COMMANDS)
    parser.means(MEANT)
    parser.set_defaults(run=show_overview)


def show_overview(arguments: argparse.Namespace) -> int:
    from importlib import import_module  # as a row of the table is imported: where it is chosen

    return int(import_module("hooklatch.cli.daemon.overview").run_overview(arguments))


def run(words: list[str]) -> int:
    """Run a command and return its exit code."""
    output.prepare_streams()
    try:
        if words and not words[0].startswith("-") and (run_words := find_added_command(words[0])) is not None:
            code = run_words(words[1:])
        else:
            arguments: argparse.Namespace = build_command_line().parse_args(words)
            code = int(arguments.run(arguments))
    except CommandError as error:
        output.print_error(str(error))
        return error.code
    except HooklatchError as error:
        output.print_error(format_error(error))
        return find_exit_code(error)
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 wraps one from within a class that is made
            raise KeyboardInterrupt from None
        import traceback

        traceback.print_exc()
        output.print_error("this is a bug in hooklatch; please report it with the lines above")
        return Exit.SOFTWARE
    fault = output.finish_output()
    if fault is not None:
        output.print_error(fault)
        return code or Exit.IO_ERROR
    return code


def find_added_command(word: str) -> Callable[[list[str]], int] | None:
    """Return the command that a package adds under a word; None for our own commands and for an unknown word."""
    if any(word == name for rows in COMMANDS.values() for name, _, _ in rows):
        return None
    from typing import cast  # few commands import it

    from hooklatch.products import COMMANDS as ADDED
    from hooklatch.products import ProductError, list_products, load_product

    try:
        command = load_product(ADDED, word, object) if word in list_products(ADDED) else None
    except ProductError as error:
        raise CommandError(Exit.SOFTWARE, str(error)) from None
    if command is None:
        return None
    if not callable(command):
        raise CommandError(Exit.SOFTWARE, f"the entry point of the command {word!r} is not a function")
    return cast("Callable[[list[str]], int]", command)


def format_error(error: HooklatchError) -> str:
    # Without the name of the condition, which is for programs and with which the whole text begins.
    return error.message if isinstance(error, RequestFailedError) else str(error)


def find_exit_code(error: HooklatchError) -> Exit:
    match error:
        case DaemonUnreachableError():
            return Exit.UNAVAILABLE
        case RequestFailedError(name=name):
            return CODES.get(name, Exit.PROTOCOL)
        case UnreadableAnswerError():
            return Exit.PROTOCOL
        case _:
            return Exit.USAGE
