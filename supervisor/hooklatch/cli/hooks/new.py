"""The command `new`: a guard to begin with, and its cases, in hooks.d.  It overwrites nothing."""

from __future__ import annotations

import argparse
import json
from keyword import iskeyword

from hooklatch.cli.hooks.guard_files import find_hooks_folder, format_options, say_written, write_new
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.git_sources import guard_paths

__all__ = ["add_guard", "add_new"]

BELOW = (("guard", "hooks.new", "write a guard to begin with, and its cases, into hooks.d"),)
TEXT = '''\
"""{name}: say here what it refuses, and why."""

from hooklatch import deny, hook
from hooklatch.guards import commands


@hook("pre_tool_use", match="shell")
def {name}(event):
    # It is called before each command of an agent.  Return deny("why"), ask("why"), allow() or None, which passes.
    # event.path and event.url are those of other tools: match=["write", "edit"] and match="fetch".
    for command in commands(event.command):  # also in bash -c "..." and $(...), and behind sudo
        if command.program == "shutdown":
            return deny("this machine stays on; end what you have started instead")
    return None
'''
EXAMPLES = (("sudo shutdown now", "deny"), ("git status", "pass"))


def add_new(parser: Parser) -> None:
    parser.explain(example="hooklatch new guard stay_on", exits=(Exit.CANNOT_CREATE, Exit.NOT_PERMITTED))
    parser.add_commands(BELOW, required=True)


def add_guard(parser: Parser) -> None:
    parser.runs(write_guard, example="hooklatch new guard stay_on", exits=(Exit.CANNOT_CREATE, Exit.NOT_PERMITTED))
    parser.prints("cli.hooks.guard_files:CreatedFiles")
    parser.add_argument("name", metavar="NAME", help="the name of the file and of its function, such as stay_on")
    parser.add_argument("--to", metavar="DIR", help="the folder to write to (else hooks.d beside the file of hooks)")


def write_guard(arguments: argparse.Namespace) -> int:
    name = arguments.name.removesuffix(".py").replace("-", "_")
    if not (name.isascii() and name.isidentifier()) or iskeyword(name) or name in ("commands", "deny", "hook"):
        raise CommandError(Exit.USAGE, f"{arguments.name!r} cannot be the name of a function; write one like stay_on")
    folder = find_hooks_folder(arguments, arguments.to)
    cases = [
        {
            "name": f"{expected}: {command}",
            "event": "pre_tool_use",
            "payload": {"tool_name": "Bash", "tool_input": {"command": command}},
            "expect": expected,
        }
        for command, expected in EXAMPLES
    ]
    paths = guard_paths(folder, name)
    files = {
        paths.cases: "".join(f"{json.dumps(case)}\n" for case in cases),
        paths.guard: TEXT.format(name=name),
    }
    write_new(files)
    options = format_options(arguments)
    steps = [f"hooklatch guards test {name}{options}", f"hooklatch try '{EXAMPLES[0][0]}'   # with a daemon: deny"]
    heading = "it is yours to edit, and in force as soon as it is saved; next:"
    return say_written(files, heading, steps, is_json=arguments.json)
