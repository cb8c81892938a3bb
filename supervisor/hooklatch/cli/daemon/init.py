"""init: a first configuration that works.  Writes two files; overwrites none."""

from __future__ import annotations

import argparse
import os
import shlex

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.install.layouts import LAYOUTS
from hooklatch.paths import config_file
from hooklatch.service.config.file_safety import UnsafeFileError, check_folders

__all__ = ["add_init"]

GUARDS = "guards.py"
OTHERS = [name for name in LAYOUTS if name != "claude-code"]
FIRST_EVENT = """echo '{"tool_name": "Bash", "tool_input": {"command": "rm -rf /"}}'"""
CONFIG_TEXT = """\
# The hooks of every agent on this machine. hooklatch takes a change as soon as this file is saved.
# Try a change out:  hooklatch hooks explain pre_tool_use --payload FILE
# See what is wrong: hooklatch status

[[source]]                # each function in it that is marked with @hook
path = "guards.py"        # relative to this file
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
GUARDS_TEXT = '''\
"""A first guard: it refuses shell commands that cannot be taken back.

A seat belt and no jail: a command can be written in ways that this does not see.
"""

import os
import shlex

from hooklatch import deny, hook

PUNCTUATION = set("();<>|&")
PRECIOUS = {"/", "/*", "~", "~/", "~/*", "$HOME", "$HOME/", "$HOME/*", "${HOME}", "${HOME}/", "${HOME}/*"}


@hook("pre_tool_use", match="Bash", timeout=2.0, description="no rm -rf / and no forced push")
def no_way_back(event):
    for words in simple_commands(str(event.tool_input.get("command", ""))):
        if removes_everything(words):
            return deny(f"{shlex.join(words)!r} would delete what cannot be restored; name a folder of the project")
        if forces_a_push(words):
            return deny("a forced push overwrites what others pushed; use --force-with-lease, or ask a person")
    return None  # no opinion: the agent's own rules decide


def simple_commands(line):
    """Yield the words of each command in a shell line."""
    line = line.replace("\\n", " ; ")
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # an open quotation mark, as in a here-document
        words = line.split()
    command = []
    for word in [*words, ";"]:
        if not PUNCTUATION.issuperset(word):
            command.append(word)
            continue
        while command and (command[0] in {"sudo", "env", "command", "nohup", "time"} or "=" in command[0]):
            del command[0]
        if command:
            yield command
        command = []


def removes_everything(words):
    if os.path.basename(words[0]) != "rm":
        return False
    flags = [word for word in words[1:] if word.startswith("-")]
    is_recursive = any(flag == "--recursive" or (flag[1:2] != "-" and "r" in flag.lower()) for flag in flags)
    return is_recursive and not PRECIOUS.isdisjoint(words[1:])


def forces_a_push(words):
    if os.path.basename(words[0]) != "git" or "push" not in words:
        return False
    rest = words[words.index("push") + 1 :]
    return any(word in {"--force", "-f"} or word.startswith("+") for word in rest)
'''


def add_init(parser: Parser) -> None:
    parser.runs(init, example="hooklatch init", exits=(Exit.CANNOT_CREATE, Exit.NOT_PERMITTED))


def init(arguments: argparse.Namespace) -> int:
    """Write both files, or none."""
    config = os.path.abspath(config_file(arguments.config, os.environ))
    folder = os.path.dirname(config)
    guards = os.path.join(folder, GUARDS)
    for path in (config, guards):
        if os.path.lexists(path):
            raise CommandError(
                Exit.CANNOT_CREATE,
                f"{path} is there already and was left as it is; remove it, or give another --config",
            )
    os.umask(0o077)  # for the folders above it too: one that others can write to is refused later
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        check_folders(os.path.realpath(folder))
        write(guards, GUARDS_TEXT)
        write(config, CONFIG_TEXT)
    except UnsafeFileError as error:
        raise CommandError(Exit.NOT_PERMITTED, f"hooks in this folder would be refused: {error}") from None
    except OSError as error:
        raise CommandError(Exit.CANNOT_CREATE, f"{error.filename} cannot be created: {error.strerror}") from None
    steps = next_steps(arguments)
    if arguments.json:
        output.say_json({"created": [config, guards], "next": steps})
        return Exit.OK
    output.say(f"wrote {config} and {guards}; next:")
    for step in steps:
        output.say(f"  {step}")
    return Exit.OK


def write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)


def next_steps(arguments: argparse.Namespace) -> list[str]:
    config = f" --config {shlex.quote(os.path.abspath(arguments.config))}" if arguments.config else ""
    runtime = f" --runtime-dir {shlex.quote(os.path.abspath(arguments.runtime_dir))}" if arguments.runtime_dir else ""
    return [
        f"hooklatch serve --detach{config}{runtime}",
        f"{FIRST_EVENT} | hooklatch fire pre_tool_use --payload -{runtime}   # deny, exit code 2",
        f"hooklatch install claude-code --dry-run{runtime}   # what it would write; also {', '.join(OTHERS)}",
        f"hooklatch install claude-code{runtime}   # from then on each of its tool calls is asked about",
        f"hooklatch doctor{runtime}   # sends a call that has to be refused through its settings",
    ]
