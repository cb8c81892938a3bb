"""The command `init`: a first configuration that works, a guard of the gallery, and a schema for editors.

It overwrites nothing.
"""

from __future__ import annotations

import argparse
import os
import shlex

from hooklatch.cli.hooks.guard_files import say_written, write_new
from hooklatch.cli.hooks.guards import guard_files
from hooklatch.cli.hosts.layouts import LAYOUTS
from hooklatch.cli.terminal.parser import Exit, Parser
from hooklatch.paths import find_config_file

__all__ = ["FIRST", "add_init", "make_config_files"]

FIRST = "destructive_commands"  # the guard of the gallery that every new configuration gets
OTHERS = [name for name in LAYOUTS if name != "claude-code"]
FIRST_EVENT = """echo '{"tool_name": "Bash", "tool_input": {"command": "/bin/rm -rf ~"}}'"""
SCHEMA = "hooks.schema.json"  # beside the file, so that an editor finds it without a network; never read by the daemon
CONFIG_TEXT = """\
#:schema ./hooks.schema.json
# The hooks of every agent on this machine. hooklatch takes a change as soon as this file is saved.
# Try a change out:  hooklatch hooks explain pre_tool_use --payload FILE
# See what is wrong: hooklatch status

# Each file in hooks.d is loaded too: a first guard is there.  More of them: hooklatch guards list

# [[source]]              # each function in it that is marked with @hook
# path = "guards.py"      # relative to this file
# workers = 2             # largest number of processes for this source

# [[hook]]                # a function that is declared here instead of being marked
# id = "protect-env"
# event = "pre_tool_use"  # see: hooklatch events
# match = ["Edit", "Write"]
# run = "guards.py:protect_env"
# priority = 200          # 0 to 1000; higher ones are asked first
# timeout = 2.0           # seconds
# observe = true          # run it and record what it would have said; enforce nothing

# [[event]]               # an event of your own
# name = "deploy_requested"
# model = "gate"
# verdicts = ["deny", "ask"]
# match = "target"
"""


def add_init(parser: Parser) -> None:
    parser.runs(run_init, example="hooklatch init", exits=(Exit.CANNOT_CREATE, Exit.NOT_PERMITTED))
    parser.prints("cli.hooks.guard_files:CreatedFiles")


def run_init(arguments: argparse.Namespace) -> int:
    config = os.path.abspath(find_config_file(arguments.config, os.environ))
    folder = os.path.dirname(config)
    files = {**guard_files(os.path.join(folder, "hooks.d"), FIRST), **make_config_files(config)}
    write_new(files)
    return say_written(files, "next:", list_next_steps(arguments), is_json=arguments.json)


def make_config_files(config: str) -> dict[str, str]:
    """Return the texts of a first hooks.toml and of its schema, by which editors complete it, unless there is one."""
    from hooklatch.cli.schema import CONFIG, find_schema, format_schema

    path = os.path.join(os.path.dirname(config), SCHEMA)
    schema = {} if os.path.lexists(path) else {path: format_schema(find_schema(CONFIG) or {}) + "\n"}
    return {**schema, config: CONFIG_TEXT}


def list_next_steps(arguments: argparse.Namespace) -> list[str]:
    config = f" --config {shlex.quote(os.path.abspath(arguments.config))}" if arguments.config else ""
    runtime = f" --runtime-dir {shlex.quote(os.path.abspath(arguments.runtime_dir))}" if arguments.runtime_dir else ""
    return [
        f"hooklatch setup{config}{runtime}   # the rest of it at once; or step by step:",
        f"hooklatch serve --detach{config}{runtime}",
        f"{FIRST_EVENT} | hooklatch fire pre_tool_use --payload -{runtime}   # deny, exit code 2",
        f"hooklatch install claude-code --dry-run{runtime}   # what it would write; also {', '.join(OTHERS)}",
        f"hooklatch install claude-code{runtime}   # from then on each of its tool calls is asked about",
        f"hooklatch doctor{runtime}   # sends a call that has to be refused through its settings",
    ]
