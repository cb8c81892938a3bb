"""The commands `fleet enroll`, `join` and `fleet retire`: who is a host of the fleet, by an operator's word."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import Literal, TypedDict

import msgspec
import trio

from hooklatch import paths
from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.directories import replace_file
from hooklatch.errors import explain_error
from hooklatch.files import open_regular_file
from hooklatch.fleet.engine.engine import Engine, EngineError, EngineRefusedError, read_url
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.enrolment import (
    EnrolmentEvent,
    JoinToken,
    encode_token,
    find_user,
    load_host_key,
    make_password,
    read_enrolments,
    read_token,
    register,
    send_invitation,
)
from hooklatch.fleet.manifests import NAME, FleetError
from hooklatch.fleet.signing import KeyFormatError, NoLibraryError, read_public

__all__ = ["add_enroll", "add_join", "add_retire"]

PASSWORD, CA = "fleet.password", "fleet-ca.crt"  # beside the file of hooks


class EnrolOutput(EnrolmentEvent, frozen=True, kw_only=True):
    """`fleet enroll`: the event, and the token for the host, empty where its key was given."""

    token: str = ""


def add_enroll(parser: Parser) -> None:
    example = "hooklatch fleet enroll build-7 --label ci --publisher ed25519:…"
    parser.runs(run_enroll, example=example, exits=access.EXITS)
    parser.prints("cli.fleet.enrolment:EnrolOutput")
    parser.add_argument("host", metavar="HOST", type=parse_host, help="the host's name")
    parser.add_argument(
        "--label", metavar="NAME", action="append", type=parse_host, default=[], help="a label of it; may be repeated"
    )
    parser.add_argument(
        "--host-key", metavar="KEY", help="its public key, which its link logs, instead of a token to join with"
    )
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for people")
    parser.add_argument(
        "--publisher", metavar="KEY", action="append", default=[],
        help="a public key whose versions it is to believe; may be repeated (default: those of [fleet] here)",
    )  # fmt: skip
    access.add_access(parser)


def add_retire(parser: Parser) -> None:
    example = 'hooklatch fleet retire build-7 --reason "sold"'
    parser.runs(run_retire, example=example, exits=access.EXITS)
    parser.prints("fleet.enrolment:EnrolmentEvent")
    parser.add_argument("host", metavar="HOST", type=parse_host, help="the host that is no more; its log stays")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it is kept, and fleet verify shows it")
    parser.add_argument("--renamed-to", metavar="HOST", type=parse_host, help="the name that it has now")
    access.add_access(parser)


def parse_host(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} cannot be a host's name: letters, digits, '.', '_', '-', at most 63"
        )
    return text


def run_enroll(arguments: argparse.Namespace) -> int:
    """Put on record that a host is one of the fleet, with its key, or with a token by which it registers one."""
    fleet_access = access.read_engine_access(arguments)
    (key,) = read_keys([arguments.host_key], "--host-key") if arguments.host_key is not None else ("",)
    settings = None if arguments.publisher else access.read_own_settings(arguments)
    listed = settings.keys if settings is not None else ()
    publishers = read_keys(arguments.publisher or listed, "--publisher")
    if not key and not publishers:
        raise CommandError(Exit.USAGE, "say whose versions the host is to believe: --publisher KEY")
    ca = read_certificates(fleet_access.ca) if fleet_access.ca is not None else ""

    async def work(engine: Engine) -> EnrolOutput:
        secret, slot = await send_invitation(engine, arguments.host) if not key else ("", "")
        event = await add_event(engine, arguments, "enrolled", key=key, slot=slot)
        url = str(msgspec.structs.replace(read_url(fleet_access.url), user=None))
        token = JoinToken(
            url=url, fleet=fleet_access.fleet, host=event.host, labels=tuple(arguments.label), ca=ca, secret=secret,
            slot=slot, keys=publishers,
        )  # fmt: skip
        return EnrolOutput(**msgspec.structs.asdict(event), token=encode_token(token) if slot else "")

    made = access.run_with_engine(fleet_access, work)
    if made.token and not arguments.json:
        output.print_error(f"{made.host} is enrolled; on that machine, once and within an hour: hooklatch join TOKEN")
    enrolled = f"{made.host} is enrolled with {made.key}: what another key signs there is a finding"
    output.say_result(made, made.token or enrolled, is_json=arguments.json)
    return Exit.OK


def read_keys(texts: Iterable[str], option: str) -> tuple[str, ...]:
    """Return public keys as keygen writes them."""
    try:
        return tuple(read_public(text).text for text in texts)
    except (KeyFormatError, NoLibraryError) as error:
        raise CommandError(Exit.BAD_DATA, f"{option}: {error}") from None


def read_certificates(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"--ca: {path} cannot be read: {explain_error(error)}") from None
    except UnicodeDecodeError:
        raise CommandError(Exit.BAD_DATA, f"--ca: {path} holds no certificates: it is not text in UTF-8") from None


def run_retire(arguments: argparse.Namespace) -> int:
    """Take a host's users away, and put on record that it is no more."""
    fleet_access = access.read_engine_access(arguments)

    async def work(engine: Engine) -> tuple[EnrolmentEvent, str]:
        try:
            await engine.dismiss(arguments.host)
            problem = ""
        except EngineRefusedError as error:
            problem = str(error)
        return await add_event(engine, arguments, "retired", to=arguments.renamed_to or ""), problem

    event, problem = access.run_with_engine(fleet_access, work)
    if problem:
        what = (
            f"its user at the engine is still there, or will be after its next start ({problem}); its administrator can"
        )
        output.print_error(f"{what} remove it: ACL DELUSER {find_user(event.host)}, and ACL SAVE")
    retired = f"{event.host} is retired: its log stays, fleet status counts it no more, and a report is a finding"
    output.say_result(event, retired, is_json=arguments.json)
    return Exit.OK


async def add_event(
    engine: Engine, arguments: argparse.Namespace, kind: Literal["enrolled", "retired"], *,
    key: str = "", to: str = "", slot: str = "",
) -> EnrolmentEvent:  # fmt: skip
    """Append an event of a host, and return it."""
    await read_enrolments(engine, is_required=True)  # one that cannot be read must not be built upon
    event = EnrolmentEvent(
        event=kind, host=arguments.host, at=int((await engine.facts())["clock"]), by=access.find_publisher_name(),
        reason=arguments.reason, key=key, to=to, slot=slot,
    )  # fmt: skip
    await engine.add_event(msgspec.json.encode(event))
    return event


class JoinOutput(TypedDict):
    """`join`: the file of hooks that has [fleet] now, and this host's name and public key."""

    config: str
    fleet: str
    host: str
    key: str


def add_join(parser: Parser) -> None:
    parser.runs(run_join, example="hooklatch join - < token", exits=(*access.EXITS, Exit.CANNOT_CREATE))
    parser.prints("cli.fleet.enrolment:JoinOutput")
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
    output.say_result(
        JoinOutput(config=config, fleet=token.fleet, host=token.host, key=key.text),
        f"this machine is {token.host} of the fleet {token.fleet}, and signs with the key {key.id}",
        f"{config} has the table [fleet]; next: hooklatch reload, or hooklatch serve --detach, then hooklatch link",
        is_json=arguments.json,
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
