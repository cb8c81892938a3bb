"""The command `import`: other systems' hooks, converted to a file for hooks.d."""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import suppress
from typing import TypedDict

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.inputs import read_input
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.core.text import format_count
from hooklatch.file_safety import UnsafeFileError, check_folders
from hooklatch.importing import ImportResult, UnreadableFileError, read_hooks
from hooklatch.importing.writing import write_toml

__all__ = ["add_import"]

MAX_FILE = 4 * 2**20  # bytes; the daemon's limit for a file of hooks
FOLDER = "hooks.d"


class ImportedHookOutput(TypedDict):
    """A hook of another system; `problem` is the reason if it was written as a comment."""

    place: str
    problem: str | None
    event: str | list[str]


class ImportNoteOutput(TypedDict):
    """A difference between the other system and this one; `loss` if something was lost."""

    place: str
    text: str
    loss: bool


class ImportOutput(TypedDict):
    """`import`: the path of the file if it was written, and its text."""

    kind: str
    written: str | None
    hooks: list[ImportedHookOutput]
    notes: list[ImportNoteOutput]
    toml: str


def add_import(parser: Parser) -> None:
    example = "hooklatch import ~/.claude/settings.json --to ~/.config/hooklatch/hooks.d/claude.toml"
    exits = (Exit.FINDINGS, Exit.BAD_DATA, Exit.NO_INPUT, Exit.CANNOT_CREATE)
    parser.runs(import_file, example=example, exits=exits)
    parser.prints("cli.hooks.import_hooks:ImportOutput")
    parser.add_argument("file", metavar="FILE", help="settings.json, hooks.toml, or - for standard input")
    parser.add_argument("--to", metavar="FILE", default="-", help="the file to write (default: -, standard output)")
    parser.add_argument("--force", action="store_true", help="replace an existing file")


def import_file(arguments: argparse.Namespace) -> int:
    """Convert a file, and report what could not be kept; return `Exit.FINDINGS` if anything was lost."""
    origin: str = arguments.file
    target: str | None = None if arguments.to == "-" else os.path.abspath(arguments.to)
    if target is not None:
        check_import_target(target, is_forced=arguments.force)
    try:
        imported = read_hooks(origin, read_import_file(origin))
    except UnreadableFileError as error:
        raise CommandError(Exit.BAD_DATA, str(error)) from None
    stem = imported.kind if target is None else os.path.basename(target).removesuffix(".toml")
    text = write_toml(imported, origin="standard input" if origin == "-" else os.path.abspath(origin), stem=stem)
    for note in list_notes(imported):
        output.print_error(note)
    if not imported.hooks:
        raise CommandError(Exit.BAD_DATA, f"{origin} holds no hook that can run here; nothing was written")
    if target is not None:
        write_import(target, text, is_forced=arguments.force)
    if arguments.json:
        output.say_json(describe_import(imported, target, text))
    elif target is None:
        output.say_text(text.removesuffix("\n"))
    else:
        output.print_line(format_import_summary(imported, target))
    return Exit.FINDINGS if imported.has_losses else Exit.OK


def list_notes(imported: ImportResult) -> list[str]:
    inactive = [f"{hook.place}: written as a comment: {hook.problem}" for hook in imported.hooks if hook.problem]
    return [*(str(note) for note in imported.notes), *inactive]


def read_import_file(name: str) -> bytes:
    data = read_input(name, limit=MAX_FILE)
    if len(data) > MAX_FILE:
        raise CommandError(Exit.BAD_DATA, f"{name} is over the limit of {MAX_FILE // 2**20} MiB for a file of hooks")
    return data


def check_import_target(target: str, *, is_forced: bool) -> None:
    name = os.path.basename(target)
    if not name.endswith(".toml") or name.startswith("."):
        raise CommandError(Exit.USAGE, f"--to cannot be {name!r}: in hooks.d the daemon only reads NAME.toml")
    if os.path.lexists(target) and not is_forced:
        raise make_exists_error(target)


def make_exists_error(target: str) -> CommandError:
    return CommandError(
        Exit.CANNOT_CREATE, f"{target} exists already and was left unchanged; give --force to replace it"
    )


def write_import(target: str, text: str, *, is_forced: bool) -> None:
    """Write the file atomically, since a daemon may be watching the directory."""
    target = os.path.realpath(target)  # a link stays one, and the file that it names is replaced
    folder = os.path.dirname(target)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        fd, draft = tempfile.mkstemp(prefix=".import-", dir=folder)  # mode 0600
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
            if is_forced:
                os.replace(draft, target)
            else:
                os.link(draft, target)  # fails if the file exists, unlike a rename
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
    except FileExistsError:
        raise make_exists_error(target) from None
    except OSError as error:
        raise CommandError(Exit.CANNOT_CREATE, f"{target} cannot be created: {error.strerror}") from None
    try:
        check_folders(folder)
    except UnsafeFileError as error:
        output.print_error(f"the daemon will refuse it: {error}")


def describe_import(imported: ImportResult, target: str | None, text: str) -> ImportOutput:
    return {
        "kind": imported.kind,
        "written": target,
        "hooks": [
            {"place": hook.place, "problem": hook.problem, "event": hook.settings["event"]} for hook in imported.hooks
        ],
        "notes": [{"place": note.place, "text": note.shown, "loss": note.is_loss} for note in imported.notes],
        "toml": text,
    }


def format_import_summary(imported: ImportResult, target: str) -> str:
    inactive = sum(hook.problem is not None for hook in imported.hooks)
    dropped = sum(note.is_loss for note in imported.notes)
    counts = [format_count(len(imported.hooks) - inactive, "hook")]
    counts += [f"{format_count(inactive, 'hook')} as a comment, to be fixed"] * bool(inactive) + [
        f"{dropped} lost"
    ] * bool(dropped)
    where = "" if os.path.basename(os.path.dirname(target)) == FOLDER else "; put it into hooks.d beside hooks.toml"
    return f"wrote {target}: {', '.join(counts)}{where}; then see: hooklatch hooks"
