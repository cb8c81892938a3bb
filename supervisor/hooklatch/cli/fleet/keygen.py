"""The command `fleet keygen`: a pair of keys, the private one in a new file that its user alone can read."""

from __future__ import annotations

import argparse
import os
from typing import TypedDict

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.fleet.signing import NoLibraryError, make_key
from hooklatch_worker.systems.disks import sync_all

__all__ = ["add_keygen"]

DEFAULT = "fleet.key"


class KeyPair(TypedDict):
    """`fleet keygen`: the file of the private key, and the public one with its id."""

    private: str
    public: str
    id: str


def add_keygen(parser: Parser) -> None:
    exits = (Exit.UNAVAILABLE, Exit.CANNOT_CREATE)
    parser.runs(run_keygen, example="hooklatch fleet keygen --out ~/.config/hooklatch/fleet.key", exits=exits)
    parser.prints("cli.fleet.keygen:KeyPair")
    parser.add_argument("--out", metavar="FILE", default=DEFAULT, help=f"the private key (default: {DEFAULT})")


def run_keygen(arguments: argparse.Namespace) -> int:
    """Write the private key, and print the public one."""
    path = os.path.abspath(os.path.expanduser(arguments.out))
    try:
        key = make_key()
    except NoLibraryError as error:
        raise CommandError(Exit.UNAVAILABLE, str(error)) from None
    write_key(path, key.text)
    public = key.public
    if arguments.json:
        output.say_json(KeyPair(private=path, public=public.text, id=public.id))
        return Exit.OK
    output.print_line(f"wrote the private key to {path}: keep it where only publishers can read it, and keep a copy")
    output.print_line("the public key, for each host's hooks.toml:")
    output.print_line()
    output.print_line("[fleet]")
    output.print_line(f'keys = ["{public.text}"]')
    return Exit.OK


def write_key(path: str, text: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise CommandError(
            Exit.CANNOT_CREATE, f"{path} is there already and was left as it is; give another --out"
        ) from None
    except OSError as error:
        raise CommandError(Exit.CANNOT_CREATE, f"{path} cannot be created: {error.strerror}") from None
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            os.fchmod(fd, 0o600)  # also where an odd umask took rights from the owner
            file.write(text + "\n")
            file.flush()
            sync_all(fd)
    except OSError as error:
        os.unlink(path)
        raise CommandError(Exit.CANNOT_CREATE, f"{path} cannot be written: {error.strerror}") from None
