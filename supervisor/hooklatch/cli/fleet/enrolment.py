"""The commands `fleet enroll` and `fleet retire`: who is a host of the fleet, on record by an operator's word."""

from __future__ import annotations

import argparse
from typing import Literal

import msgspec

from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.errors import explain_error
from hooklatch.fleet.engine.engine import Engine, EngineRefusedError, read_url
from hooklatch.fleet.enrolment import EnrolmentEvent, encode_event, read_enrolments
from hooklatch.fleet.joining import JoinToken, encode_token, find_user, send_invitation
from hooklatch.fleet.manifests import NAME
from hooklatch.fleet.signing import KeyFormatError, NoLibraryError, read_public

__all__ = ["add_enroll", "add_retire"]


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
    key = ""
    if arguments.host_key is not None:
        try:
            key = read_public(arguments.host_key).text
        except (KeyFormatError, NoLibraryError) as error:
            raise CommandError(Exit.BAD_DATA, f"--host-key: {error}") from None
    publishers = list_publishers(arguments)
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
    if arguments.json:
        output.say_json(made)
    elif made.token:
        output.print_error(f"{made.host} is enrolled; on that machine, once and within an hour: hooklatch join TOKEN")
        output.print_line(made.token)
    else:
        output.print_line(f"{made.host} is enrolled with {made.key}: what another key signs there is a finding")
    return Exit.OK


def list_publishers(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the public keys that a host is to believe."""
    settings = None if arguments.publisher else access.read_own_settings(arguments)
    keys = arguments.publisher or (settings.keys if settings is not None else ())
    try:
        return tuple(read_public(key).text for key in keys)
    except (KeyFormatError, NoLibraryError) as error:
        raise CommandError(Exit.BAD_DATA, f"--publisher: {error}") from None


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
        what = f"its user at the engine is still there, as you may not remove it ({problem}); its administrator can"
        output.print_error(f"{what}: ACL DELUSER {find_user(event.host)}")
    if arguments.json:
        output.say_json(event)
        return Exit.OK
    output.print_line(
        f"{event.host} is retired: its log stays, fleet status counts it no more, and a report is a finding"
    )
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
    await engine.add_event(encode_event(event))
    return event
