"""The command `guards test`: fire the cases of each guard at that guard alone, by `hooklatch test`.

The others would answer too, and one of them may refuse a case that this guard lets pass.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile

from hooklatch.cli.hooks.guards_add import CASES, find_hooks_folder
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser

__all__ = ["add_test"]


def add_test(parser: Parser) -> None:
    parser.runs(
        test_guards,
        example="hooklatch guards test destructive_commands",
        exits=(Exit.FINDINGS, Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE),
    )
    parser.prints("cli.testing.coverage:TestReport")
    parser.add_argument("guards", metavar="NAME", nargs="*", help="a guard (else all that have cases)")
    parser.add_argument(
        "--in", dest="folder", metavar="DIR", help="their folder (else hooks.d beside the file of hooks)"
    )


def test_guards(arguments: argparse.Namespace) -> int:
    """Test each guard, and return the worst result."""
    folder = find_hooks_folder(arguments, arguments.folder)
    names = [name.removesuffix(".py") for name in arguments.guards] or list_tested_guards(folder)
    codes = [test_guard_in(folder, name, is_json=arguments.json) for name in names]
    return max(codes)


def list_tested_guards(folder: str) -> list[str]:
    """Return the guards of a folder that have cases.

    Raises:
        CommandError: no guard has cases.
    """
    try:
        files = sorted(os.listdir(os.path.join(folder, CASES)))
    except OSError:
        files = []
    names = [name.removesuffix(".jsonl") for name in files if name.endswith(".jsonl")]
    if not names:
        raise CommandError(Exit.NO_INPUT, f"{folder} has no guard with cases; see: hooklatch guards add --help")
    return names


def test_guard_in(folder: str, name: str, *, is_json: bool) -> int:
    from hooklatch.cli.commands import build_command_line  # it finds `test` as a person would

    source, cases = os.path.join(folder, f"{name}.py"), os.path.join(folder, CASES, f"{name}.jsonl")
    for path in (source, cases):
        if not os.path.exists(path):
            raise CommandError(Exit.NO_INPUT, f"{path} does not exist; name a guard that `hooklatch guards add` copied")
    if not is_json:
        output.print_line(f"{name}:")
    with tempfile.TemporaryDirectory(prefix="hooklatch-guard-") as scratch:
        config = os.path.join(scratch, "hooks.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"[[source]]\npath = {json.dumps(source)}\n")
        words = ["test", cases, "--config", config, *(["--json"] if is_json else [])]
        args: argparse.Namespace = build_command_line().parse_args(words)
        return int(args.run(args))
