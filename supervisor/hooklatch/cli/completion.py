"""The command `completion`: a script by which bash, zsh or fish completes the command line.

`shtab` makes it from the parsers.  For hooks, events, sessions and asks that wait, the script calls
`hooklatch completion --words`, which asks the daemon.  Shells expand those words again, and an agent chooses the names
of its hooks: a name with a character that a shell could take for a command is left out.
"""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias, TypedDict

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import PROGRAM, Parser
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.client.admin import AdminConnection
from hooklatch.errors import HooklatchError

__all__ = ["add_completion", "make_completion_script"]

SHELLS = ("bash", "zsh", "fish")
KINDS = ("asks", "events", "hooks", "sessions")
SAFE = re.compile(r"[\w./:@%+=,-]+", re.ASCII)  # bash(1), compgen -W: "each resultant word is expanded"
COLONS = """
# A colon is part of a hook's id, and bash would complete what follows it as a word of its own.
COMP_WORDBREAKS=${COMP_WORDBREAKS//:}
"""
# What an argument stands for, by its name in the help or, where that says too little, in the code.
FILES, FOLDERS = ("FILE", "PATH"), ("DIR",)
WORDS = {
    "EVENT": "events", "event": "events", "id": "hooks", "hook": "hooks", "session": "sessions", "ask": "asks",
}  # fmt: skip


class CompletionOutput(TypedDict):
    """`completion`."""

    shell: Literal["bash", "zsh", "fish"]
    script: str


Words: TypeAlias = list[str]
InstallLines: TypeAlias = dict[str, str]
INSTALL: InstallLines = {
    "bash": """echo 'eval "$(hooklatch completion bash)"' >> ~/.bashrc""",
    "zsh": """echo 'eval "$(hooklatch completion zsh)"' >> ~/.zshrc   # after compinit""",
    "fish": "hooklatch completion fish > ~/.config/fish/completions/hooklatch.fish",
}


def add_completion(parser: Parser) -> None:
    parser.runs(run_completion, example='eval "$(hooklatch completion bash)"')
    parser.prints("cli.completion:CompletionOutput", "cli.completion:Words", "cli.completion:InstallLines")
    request = parser.add_mutually_exclusive_group()
    text = f"one of {', '.join(SHELLS)}; without one: the line that installs each"
    request.add_argument("shell", metavar="SHELL", nargs="?", choices=SHELLS, help=text)
    request.add_argument("--words", choices=KINDS, help="print the names that the scripts offer, one a line")


def run_completion(arguments: argparse.Namespace) -> int:
    if arguments.words is not None:
        words = sorted({word for word in list_completion_words(arguments) if SAFE.fullmatch(word)})
        return output.say_result(words, is_json=arguments.json, show=lambda: output.say_text("\n".join(words)))
    if arguments.shell is None:
        show = functools.partial(output.say_lines, *INSTALL.items(), width=6)
        return output.say_result(INSTALL, is_json=arguments.json, show=show)
    made = CompletionOutput(shell=arguments.shell, script=make_completion_script(arguments.shell))
    return output.say_result(made, is_json=arguments.json, show=lambda: output.say_text(made["script"]))


def make_completion_script(shell: str) -> str:
    """Return the script for a shell."""
    import shtab

    from hooklatch.cli.commands import build_command_line

    parser = build_command_line().declared()
    prepare_completion(parser, shtab)
    return shtab.complete(parser, shell, preamble=COLONS if shell == "bash" else "")


def prepare_completion(parser: Parser, shtab: Any) -> None:
    """Give `shtab` the words of each argument, of this parser and those below it."""
    known = list_known_words()
    for action in parser.declared().arguments():
        if action.choices is not None:
            continue
        kind = WORDS.get(str(action.metavar)) or WORDS.get(action.dest)
        if action.metavar in FILES or action.metavar in FOLDERS:
            action.complete = shtab.FILE if action.metavar in FILES else shtab.DIRECTORY  # type: ignore[attr-defined]
        elif kind is not None:
            action.complete = make_name_completers(kind, shtab)  # type: ignore[attr-defined]
        elif (action.metavar, action.dest) in known:
            action.choices = known[str(action.metavar), action.dest]  # for the script; this parser parses nothing
    for command in parser.commands.values():
        prepare_completion(command, shtab)


def make_name_completers(kind: str, shtab: Any) -> dict[str, Any]:
    """Return the code by which each shell asks for names of a kind.

    shtab's own code for zsh would ask when the script is loaded, at the start of each shell, and end names at a colon.
    """
    command = f"{PROGRAM} completion --words {kind} 2>/dev/null"
    completers: dict[str, Any] = shtab.cmd(command)
    function = f"_{PROGRAM}_{kind}"
    body = f'local -a names; names=(${{(f)"$({command})"}}); compadd "$@" -a names'
    preamble = {**completers["preamble"], "zsh": f"{function}() {{ {body} }}"}
    return {**completers, "zsh": function, "preamble": preamble}


@functools.cache
def list_known_words() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the words of arguments whose words never change, by their names in the help and in the code."""
    from hooklatch.cli.hosts.layouts import LAYOUTS
    from hooklatch.cli.terminal.records import CHOICES, list_choices
    from hooklatch.dialects.find import list_dialects
    from hooklatch.guards.catalogue import list_gallery

    guards = tuple(entry.name for entry in list_gallery())
    return {
        ("NAME", "guard"): guards,
        ("NAME", "guards"): guards,
        ("HOST", "host"): tuple(LAYOUTS),
        ("NAME", "dialect"): list_dialects(),
        **{(metavar, name): list_choices(name) for name, metavar, _ in CHOICES},
    }


def list_completion_words(arguments: argparse.Namespace) -> Iterable[str]:
    """Return names of a kind; none if there is no daemon, except for the standard events."""
    try:
        with connect_administrator(arguments) as link:
            return [*request_names(link, arguments.words)]
    except HooklatchError:
        if arguments.words != "events":
            return []
        from hooklatch.core.hooks.catalogue import Catalogue

        return [spec.name for spec in Catalogue.standard().values()]


def request_names(link: AdminConnection, kind: str) -> Iterator[str]:
    match kind:
        case "asks":
            yield from (ask["id"] for ask in link.ask("asks")["asks"])
        case "events":
            yield from (event["name"] for event in link.ask("events")["events"])
        case "sessions":
            yield from (session["id"] for session in link.ask("sessions")["sessions"])
        case _:
            hooks = link.ask("hooks")["hooks"]
            ids = [hook["id"] for hook in hooks]
            yield from (hook["id"] if ids.count(hook["id"]) == 1 else hook["name"] for hook in hooks)
