"""The files of guards in hooks.d: new ones are written whole, all of them or none, and their cases are fired."""

from __future__ import annotations

import argparse
import errno
import fcntl
import json
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import TypedDict

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.file_safety import UnsafeFileError, check_folders
from hooklatch.files import create_anew
from hooklatch.git_sources import guard_paths
from hooklatch.paths import find_config_file
from hooklatch_worker.systems.disks import sync_all

__all__ = [
    "find_hooks_folder", "fire_cases", "format_options", "print_written", "say_written", "split_lines",
    "temporary_path", "write_new",
]  # fmt: skip


def find_hooks_folder(arguments: argparse.Namespace, named: str | None) -> str:
    """Return the folder of guards: the one that is named, or hooks.d beside the file of hooks."""
    if named is not None:
        return os.path.abspath(named)
    return os.path.join(os.path.dirname(os.path.abspath(find_config_file(arguments.config, os.environ))), "hooks.d")


def format_options(arguments: argparse.Namespace) -> str:
    folder = f" --in {shlex.quote(os.path.abspath(arguments.to))}" if arguments.to is not None else ""
    return folder + (f" --config {shlex.quote(os.path.abspath(arguments.config))}" if arguments.config else "")


def write_new(files: dict[str, str]) -> None:
    """Write files that other users cannot read, in folders that they cannot write to."""
    for path in files:
        if os.path.lexists(path):
            raise CommandError(
                Exit.CANNOT_CREATE,
                f"{path} is there already and was left as it is; move it away, or name another folder",
            )
    current = ""  # the path that an error is about
    previous_umask = os.umask(0o077)  # for the folders above too: one that others can write to is refused later
    # The second removes all of it should anything fail: half a guard guards nothing.
    with ExitStack() as locked, ExitStack() as undo:
        try:
            for current in sorted({os.path.dirname(path) for path in files}):
                if not os.path.isdir(current):
                    undo.callback(remove_quietly, os.rmdir, current)
                os.makedirs(current, mode=0o700, exist_ok=True)
                check_folders(os.path.realpath(current))
                folder = os.open(current, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                locked.callback(os.close, folder)
                # So a draft that is there is one that a crash left, and no other process's.
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path, text in files.items():
                current = temporary_path(path)
                write_whole(current, text, undo)
            for current in files:  # all are on the disk: from here on they are live
                publish_file(temporary_path(current), current)
                undo.callback(remove_quietly, os.unlink, current)
        except BlockingIOError:
            text = f"another process writes files in {current} just now, and nothing was written; run it again"
            raise CommandError(Exit.CANNOT_CREATE, text) from None
        except UnsafeFileError as error:
            raise CommandError(Exit.NOT_PERMITTED, f"hooks in this folder would be refused: {error}") from None
        except OSError as error:
            refusal = f"{current} cannot be created: {error.strerror}; nothing was written"
            raise CommandError(Exit.CANNOT_CREATE, f"{refusal}: repair that, or name another folder") from None
        finally:
            os.umask(previous_umask)
        undo.pop_all()
        for path in files:
            remove_quietly(os.unlink, temporary_path(path))


class CreatedFiles(TypedDict):
    """The files that were written, and commands to go on with."""

    created: list[str]
    next: list[str]


def say_written(files: Iterable[str], heading: str, steps: list[str], *, is_json: bool) -> int:
    """Print the files that were written, and the commands to go on with, as JSON or for people."""
    written = CreatedFiles(created=list(files), next=steps)
    return output.say_result(written, is_json=is_json, show=lambda: print_written(files, heading, steps))


def print_written(files: Iterable[str], heading: str, steps: Iterable[str]) -> None:
    """Print the files that were written, and below the heading the commands to go on with."""
    for path in files:
        output.print_line(f"wrote {look.shorten_path(path)}")
    output.print_line(heading)
    for step in steps:
        output.print_line(f"  {step}")


def split_lines(text: str) -> list[str]:
    """Return the lines of a text as Python reads them: other characters that end one elsewhere stay."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def temporary_path(path: str) -> str:
    """Return the path at which a file is written first: its name is not one of hooks, so no daemon loads half of it."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.new")


def write_whole(path: str, text: str, undo: ExitStack) -> None:
    fd = create_anew(path)
    undo.callback(remove_quietly, os.unlink, path)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        sync_all(file.fileno())


def publish_file(draft: str, path: str) -> None:
    """Give a file its name, unless another file has that name already."""
    try:
        os.link(draft, path)  # fails if the name exists, unlike a rename
    except FileExistsError:
        raise
    except OSError as error:  # a filesystem without links
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from error
        os.rename(draft, path)


def remove_quietly(remove: Callable[[str], None], path: str) -> None:
    with suppress(OSError):
        remove(path)


def fire_cases(folder: str, name: str, options: list[str], *, settings: str = "", keys: str = "") -> int:
    """Fire the cases of a guard at it alone, under these further settings of a file of hooks, and keys of its table."""
    from hooklatch.cli.commands import build_command_line  # it finds `test` as a person would

    cases, source = guard_paths(folder, name)
    for path in (source, cases):
        if not os.path.exists(path):
            raise CommandError(Exit.NO_INPUT, f"{path} does not exist; name a guard that `hooklatch guards add` copied")
    with tempfile.TemporaryDirectory(prefix="hooklatch-guard-") as scratch:
        config = os.path.join(scratch, "hooks.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"{settings}[[source]]\npath = {json.dumps(source)}\n{keys}")
        words = ["test", cases, "--config", config, *options]
        args: argparse.Namespace = build_command_line().parse_args(words)
        args.warns = False
        return int(args.run(args))
