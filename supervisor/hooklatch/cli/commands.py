"""The command line: finds the command, runs it, and turns errors into messages and exit codes.

Each module holds one group of commands, and declares their names and arguments in `add_commands`.
"""

from __future__ import annotations

import traceback

from hooklatch.cli.daemon import doctor, health, init, log, serve, stop, watch
from hooklatch.cli.hooks import hooks, import_hooks, reports, suspend, trust
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Commands
from hooklatch.cli.testing import fire, policy_tests
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError, UnreadableAnswerError

__all__ = ["all_commands", "run"]

GROUPS = (
    serve,
    stop,
    fire,
    hooks,
    reports,
    health,
    watch,
    log,
    doctor,
    init,
    trust,
    suspend,
    import_hooks,
    policy_tests,
)
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


def all_commands() -> Commands:
    """Return the parser of the whole command line."""
    commands = Commands()
    for group in GROUPS:
        group.add_commands(commands)
    return commands


def run(words: list[str]) -> int:
    """Run a command and return its exit code."""
    output.prepare()
    arguments = all_commands().parse(words)
    try:
        code = int(arguments.run(arguments))
    except CommandError as error:
        output.complain(str(error))
        return error.code
    except HooklatchError as error:
        output.complain(text_of(error))
        return code_of(error)
    except Exception:
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
