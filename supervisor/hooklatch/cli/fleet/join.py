"""The command `join`: makes this machine a host of a fleet, with the token that `fleet enroll` has printed."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TypedDict

import msgspec
import trio

from hooklatch import paths
from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.directories import replace_file
from hooklatch.errors import explain_error
from hooklatch.files import open_regular_file
from hooklatch.fleet.engine.engine import EngineError
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.identity import load_host_key
from hooklatch.fleet.joining import JoinToken, find_user, make_password, read_token, register
from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.signing import NoLibraryError

__all__ = ["add_join"]

PASSWORD, CA = "fleet.password", "fleet-ca.crt"  # beside the file of hooks


class JoinOutput(TypedDict):
    """`join`: the file of hooks that has [fleet] now, and this host's name and public key."""

    config: str
    fleet: str
    host: str
    key: str


def add_join(parser: Parser) -> None:
    parser.runs(run_join, example="hooklatch join - < token", exits=(*access.EXITS, Exit.CANNOT_CREATE))
    parser.prints("cli.fleet.join:JoinOutput")
    parser.add_argument("token", metavar="TOKEN", help="what `hooklatch fleet enroll` has printed; - reads it")


def run_join(arguments: argparse.Namespace) -> int:
    """Take the password, register the key, and write [fleet]."""
    config = os.path.abspath(paths.find_config_file(arguments.config, os.environ))
    if os.path.lexists(config) and access.read_fleet(config) is not None:
        raise CommandError(
            Exit.CANNOT_CREATE, f"{config} has a [fleet] table, and was left as it is; take that out first"
        )
    try:
        token = read_token(sys.stdin.read() if arguments.token == "-" else arguments.token)
        state = paths.state_dir(os.environ)
        os.makedirs(state, mode=0o700, exist_ok=True)
        key = load_host_key(state).public
        os.makedirs(os.path.dirname(config), mode=0o700, exist_ok=True)
        trio.run(join, token, os.path.dirname(config), key.text)
        write_table(config, token)
    except (EngineError, FleetError, NoLibraryError) as error:
        raise access.make_command_error(error) from None
    except OSError as error:
        raise CommandError(Exit.CANNOT_CREATE, f"{error.filename} cannot be written: {explain_error(error)}") from None
    if arguments.json:
        output.say_json(JoinOutput(config=config, fleet=token.fleet, host=token.host, key=key.text))
        return Exit.OK
    output.print_line(f"this machine is {token.host} of the fleet {token.fleet}, and signs with the key {key.id}")
    output.print_line(
        f"{config} has the table [fleet]; next: hooklatch reload, or hooklatch serve --detach, then hooklatch link"
    )
    return Exit.OK


async def join(token: JoinToken, folder: str, key: str) -> None:
    """Exchange the token for the host's password, which is written before it is used: the engine gives it once."""
    ca = os.path.join(folder, CA) if token.ca else None
    if ca is not None:
        replace_file(ca, token.ca.encode())
    url = token.url_as("join")
    async with open_engine(url, token.fleet, password=token.secret, ca=ca, timeout=access.TIMEOUT) as engine:
        word = await engine.redeem(token.host)
    if word is None:
        raise FleetError("the token was used already, or is older than an hour: have another one made (fleet enroll)")
    password = make_password(token.secret, word)
    replace_file(os.path.join(folder, PASSWORD), f"{password}\n".encode())
    url = token.url_as("host")
    async with open_engine(url, token.fleet, password=password, ca=ca, timeout=access.TIMEOUT) as engine:
        await register(engine, token, key)


def write_table(config: str, token: JoinToken) -> None:
    """Append [fleet] to the file of hooks, whole or not at all."""
    values: dict[str, object] = {
        "name": token.fleet, "url": token.url, "user": find_user(token.host), "password_file": PASSWORD,
        **({"ca": CA} if token.ca else {}), "host": token.host, "labels": token.labels, "keys": token.keys,
    }  # fmt: skip
    before, mode = b"", 0o600
    if os.path.lexists(config):
        config = os.path.realpath(config)  # a link to a folder of such files stays one
        with open_regular_file(config) as file:
            before, mode = file.read().rstrip() + b"\n\n", os.fstat(file.fileno()).st_mode & 0o777
    # Strings and lists of strings are the same in JSON and TOML.
    lines = [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in values.items()]
    replace_file(config, before + "\n".join(["[fleet]", *lines, ""]).encode())
    os.chmod(config, mode)
