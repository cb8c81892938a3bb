"""The command line: finds the command, runs it, and turns errors into messages and exit codes."""

from __future__ import annotations

import argparse

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import PROGRAM, Parser
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError, UnreadableAnswerError
from hooklatch.version import VERSION

__all__ = ["COMMANDS", "command_line", "run"]

COMMANDS = (
    (
        "serve", "daemon.serve",
        "run the daemon until SIGTERM or Ctrl-C, or with --detach in the background; SIGHUP reloads",
    ),
    ("listen", "hosts.listen", "answer Claude Code's http hooks on loopback until Ctrl-C; needs hooklatch[listen]"),
    ("stop", "daemon.stop", "let the daemon answer the fires in flight and exit, and wait until it is gone"),
    ("fire", "testing.fire", "fire one event and print the decision"),
    ("hooks", "hooks.hooks", "list hooks in firing order, or change them"),
    ("events", "hooks.events", "list the events that can be fired; without a daemon, the standard ones"),
    (
        "reload", "hooks.reload",
        "have the daemon load every change of its files now, including files that are gone or empty",
    ),
    ("sessions", "hooks.sessions", "list the agents that are connected"),
    ("status", "hooks.status", "say whether all is well, and what to do if it is not"),
    ("health", "daemon.health", "say in a word whether the daemon is ready, over the agents' socket"),
    ("watch", "daemon.watch", "show decisions and changes of the hooks as they happen, until Ctrl-C"),
    ("log", "daemon.log", "show the decision record, or verify that it is as it was written"),
    ("doctor", "daemon.doctor", "say what is wrong and how to fix it"),
    (
        "init", "daemon.init",
        "write a first hooks.toml and a first guard, readable by you alone; overwrites nothing",
    ),
    (
        "install", "hosts.install",
        "have an agent ask hooklatch: Claude Code, Codex, Gemini, Copilot, Cursor, OpenCode or Qwen Code",
    ),
    ("uninstall", "hosts.install", "take hooklatch out of an agent's settings, and nothing else"),
    ("trust", "hooks.trust", "let the hooks in a project's .hooklatch folder run, exactly as they are now"),
    (
        "suspend", "hooks.suspend",
        "leave a hook out of every fire for a limited time: break-glass, recorded and shown in the status",
    ),
    ("resume", "hooks.suspend", "end a suspension early"),
    (
        "import", "hooks.import_hooks",
        "convert hooks of Claude Code, Reasonix or Radium to a file for hooks.d; without --to, print it",
    ),
    ("mcp", "bridges.mcp", "start an MCP server behind a proxy that has each call of its tools judged"),
    (
        "test", "testing.policy_tests",
        "fire recorded payloads at the configured hooks and compare the decisions; needs no daemon",
    ),
    (
        "link", "daemon.link",
        "connect this machine's daemon to its fleet until SIGTERM or Ctrl-C; needs hooklatch[fleet]",
    ),
    ("fleet", "fleet.fleet", "one policy on many machines: push, roll out, roll back; needs hooklatch[fleet]"),
)  # fmt: skip
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


def command_line() -> Parser:
    """Return the parser of the whole command line."""
    return Parser(
        declare=declare_all,
        description="Runs an agent's lifecycle hooks in supervised workers, and fails closed.",
        epilog="example: hooklatch init && hooklatch serve --detach\n\n"
        "`hooklatch COMMAND --help` shows each one's own example and exit codes.",
    )


def declare_all(parser: Parser) -> None:
    version = f"{PROGRAM} {VERSION}"
    parser.add_argument("--version", action="version", version=version, help="print the version, and exit")
    parser.set_defaults(config=None, runtime_dir=None, json=False)
    parser.add_commands(COMMANDS, required=True)


def run(words: list[str]) -> int:
    """Run a command and return its exit code."""
    output.prepare()
    arguments: argparse.Namespace = command_line().parse_args(words)
    try:
        code = int(arguments.run(arguments))
    except CommandError as error:
        output.complain(str(error))
        return error.code
    except HooklatchError as error:
        output.complain(text_of(error))
        return code_of(error)
    except Exception:
        import traceback

        traceback.print_exc()
        output.complain("this is a bug in hooklatch; please report it with the lines above")
        return Exit.SOFTWARE
    fault = output.finish()
    if fault is not None:
        output.complain(fault)
        return code or Exit.IO_ERROR
    return code


def text_of(error: HooklatchError) -> str:
    return error.message if isinstance(error, RequestFailedError) else str(error)


def code_of(error: HooklatchError) -> Exit:
    match error:
        case DaemonUnreachableError():
            return Exit.UNAVAILABLE
        case RequestFailedError(name=name):
            return CODES.get(name, Exit.PROTOCOL)
        case UnreadableAnswerError():
            return Exit.PROTOCOL
        case _:
            return Exit.USAGE
