"""The access of commands to a fleet's engine: its address, the keys that are believed, and the exit codes of errors.

The engine and the fleet are those of the command line, or else of [fleet] in the file of hooks.  If a part of that is
missing, invalid or refused, each function raises CommandError, with what to do.

    versions = run_publisher(read_engine_access(arguments), work)
"""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from getpass import getuser
from typing import TypeVar

import msgspec
import trio

from hooklatch import paths
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.file_safety import UnsafeFileError, read_safely
from hooklatch.fleet.engine.engine import AddressError, Engine, EngineError, UnreachableError, add_user
from hooklatch.fleet.engine.opening import open_engine, open_engines, read_password
from hooklatch.fleet.logs.reading import FleetReader, ReceivedBatch
from hooklatch.fleet.manifests import NAME, FleetError, index_keys
from hooklatch.fleet.publishing.publisher import LastSeenHead, Publisher
from hooklatch.fleet.settings import FleetSettings, read_settings
from hooklatch.fleet.signing import KeyFormatError, NoLibraryError, PrivateKey, PublicKey, read_private
from hooklatch.service.config.configuration import read_config
from hooklatch.service.config.toml_document import ConfigError

__all__ = [
    "EXITS", "EngineAccess", "read_engine_access", "add_access", "add_give_up", "make_command_error", "of_config",
    "open_seen_heads", "read_own_settings", "find_publisher_name", "run_with_engine", "run_publisher",
    "work_connected", "add_hosts", "read_fleet", "PAUSES", "follow_fleet_log",
]  # fmt: skip

T = TypeVar("T")
EXITS = (Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.NOT_PERMITTED)
# By the name of an error's class, or of the nearest class that it is derived from; every other one is BAD_DATA.
CODES = {
    "BehindError": Exit.BAD_DATA, "MissingFileError": Exit.NO_INPUT, "NotInstalledError": Exit.UNAVAILABLE,
    "EngineRefusedError": Exit.NOT_PERMITTED, "DamagedArchiveError": Exit.NOT_PERMITTED,
    "EngineError": Exit.UNAVAILABLE, "ConflictError": Exit.CONFLICT,
    "LostRaceError": Exit.CONFLICT, "UnknownOutcomeError": Exit.UNAVAILABLE, "StoppedError": Exit.FINDINGS,
    "MissingFolderError": Exit.NO_INPUT, "NoVersionError": Exit.NO_INPUT, "NoLibraryError": Exit.UNAVAILABLE,
    "NoCopyError": Exit.NO_INPUT, "NoHostError": Exit.NO_INPUT, "ExportError": Exit.UNAVAILABLE,
}  # fmt: skip
TIMEOUT = 10.0  # seconds for a connection, and for each reply
MAX_KEY = 4096  # bytes of its file
SEEN = "fleet-seen"  # in the state directory: what this machine has seen of fleets


class EngineAccess(msgspec.Struct, frozen=True):
    """The address of a fleet's engine, and keys by id: those that hosts believe, and those to read past.

    One of the `anchors` has signed the fleet's first key set, if it has any.
    """

    url: str
    log_url: str | None
    fleet: str
    password: str | None
    ca: str | None
    keys: Mapping[str, PublicKey] = {}
    trusted: Mapping[str, PublicKey] = {}
    anchors: Mapping[str, PublicKey] = {}
    key: PrivateKey | None = None
    unlisted: str = ""  # why a fleet without a key set does not believe the key

    @property
    def signing_key(self) -> PrivateKey:
        """Return the key to sign with."""
        if self.key is None:
            raise CommandError(Exit.USAGE, "name your private key with --key FILE (hooklatch fleet keygen makes one)")
        return self.key


def add_access(parser: Parser, *, with_keys: bool = False) -> None:
    """Add the options that name the fleet and its engine, and `with_keys` those of the keys."""
    engine = parser.add_argument_group("the engine (else that of [fleet] in the file of hooks)")
    for name, metavar, text in (
        ("--to", "URL", "redis://HOST[:PORT][/DB], rediss://, redis+unix:///PATH, or file:///PATH of an archive"),
        ("--log-to", "URL", "that of the engine with logs and reports, if it is another"),
        ("--fleet", "NAME", "the fleet's name"),
        ("--user", "NAME", "the engine's user"),
        ("--password-file", "FILE", "with the engine's password (else HOOKLATCH_FLEET_PASSWORD)"),
        ("--ca", "FILE", "certificates that may vouch for the engine"),
    ):
        engine.add_argument(name, metavar=metavar, help=text)
    if with_keys:
        keys = parser.add_argument_group("keys (else those of [fleet] in the file of hooks)")
        keys.add_argument("--key", metavar="FILE", help="your private key")
        keys.add_argument(
            "--trust", metavar="KEY", action="append", default=[],
            help="a public key past which the history is read, such as a lost or stolen one; it is not believed",
        )  # fmt: skip


def add_give_up(parser: Parser) -> None:
    parser.add_argument(
        "--give-up", metavar="VERSION", type=parse_version,
        help="have all hosts go on without the lost versions up to this one, which no machine can put back",
    )  # fmt: skip


def parse_version(text: str) -> int:
    """Return a version's number; an argparse type."""
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a version; see: hooklatch fleet history")
    return int(text)


def read_engine_access(arguments: argparse.Namespace) -> EngineAccess:
    """Return the access to the fleet that the options and [fleet] give."""
    named = bool(arguments.to and arguments.fleet)
    settings = None if named else read_own_settings(arguments)
    url: str | None = arguments.to or (settings.url if settings is not None else None)
    fleet: str | None = arguments.fleet or (settings.name if settings is not None else None)
    if not url or not fleet:
        raise CommandError(
            Exit.USAGE, "say which fleet with --to URL --fleet NAME, or in [fleet] of the file of hooks (--config)"
        )
    if NAME.fullmatch(fleet) is None:
        raise CommandError(
            Exit.USAGE, f"{fleet!r} cannot be a fleet's name: letters, digits, '.', '_', '-', at most 63"
        )
    if arguments.log_to and not arguments.to:
        raise CommandError(Exit.USAGE, "--log-to goes with --to: name both engines, or none")
    # A password belongs to the engine that it is for: with another --to, those of [fleet] are not sent there.
    own = settings if settings is not None and not arguments.to else None
    log_url = arguments.log_to or (own.log_url if own is not None else None)
    user = arguments.user or (own.user if own is not None else None)
    try:
        url, log_url = add_user(url, user), add_user(log_url, user) if log_url else None
        password = read_password(arguments.password_file or (own.password_file if own is not None else None))
        for address in (url, log_url or url):
            open_engine(address, fleet)  # not entered: an invalid address is reported before anything takes time
    except AddressError as error:
        raise CommandError(Exit.USAGE if arguments.to else Exit.BAD_DATA, str(error)) from None
    except EngineError as error:
        raise make_command_error(error) from None
    key = read_private_key(arguments.key) if getattr(arguments, "key", None) else None
    try:
        listed = index_keys(settings.keys if settings is not None else ())
        trusted = index_keys(getattr(arguments, "trust", []))
    except (FleetError, NoLibraryError) as error:
        raise make_command_error(error) from None
    own_key, unlisted = ({key.public.id: key.public} if key is not None else {}), ""
    if key is not None and settings is not None and key.public.id not in listed:
        own_key = {}
        unlisted = (
            f"your key {key.public.id} is not among [fleet] keys, so hosts like this one would refuse what it signs;"
            f" sign with a key that they list, or have such a key say for all hosts that {key.public.text} may sign:"
            " hooklatch fleet keys init"
        )
    return EngineAccess(
        url, log_url, fleet, password, arguments.ca or (own.ca if own is not None else None), keys=listed | own_key,
        trusted=trusted, anchors=listed or own_key | trusted, key=key, unlisted=unlisted,
    )  # fmt: skip


def read_own_settings(arguments: argparse.Namespace) -> FleetSettings | None:
    """Return the [fleet] table of this machine's file of hooks; None if it has none."""
    config = os.path.abspath(paths.find_config_file(arguments.config, os.environ))
    try:
        os.lstat(config)
    except FileNotFoundError:
        return None
    except OSError:
        pass  # reading it says what is wrong
    return read_fleet(config)


def read_private_key(name: str) -> PrivateKey:
    """Read the key to sign with, from a file that no other user can read."""
    path = os.path.abspath(os.path.expanduser(name))
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(MAX_KEY).decode("ascii", "replace")
    except OSError as error:
        code = Exit.NO_INPUT if isinstance(error, FileNotFoundError) else Exit.NOT_PERMITTED
        raise CommandError(code, f"the private key {path} cannot be read: {error.strerror}") from None
    if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid not in (0, os.geteuid()):
        raise CommandError(
            Exit.NOT_PERMITTED,
            f"the private key {path} is not yours alone; if no other user has read it, run: chmod 600 {path}",
        )
    try:
        return read_private(text)
    except KeyFormatError as error:
        raise CommandError(Exit.BAD_DATA, f"{path} is not a private key: {error}") from None
    except NoLibraryError as error:
        raise CommandError(Exit.UNAVAILABLE, str(error)) from None


def find_publisher_name() -> str:
    """Return the publisher's name for people: the user and the machine."""
    try:
        user = getuser()
    except (KeyError, OSError):  # no entry for this uid, as in a container
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}".encode("utf-8", "replace").decode()


def of_config(arguments: argparse.Namespace, config: str | None) -> argparse.Namespace:
    """Return arguments by which all of the access is that of [fleet] in a file of hooks."""
    named = dict.fromkeys(("to", "log_to", "fleet", "user", "password_file", "ca"))
    return argparse.Namespace(**{**vars(arguments), **named, "config": config})


async def work_connected(access: EngineAccess, work: Callable[[Engine], Awaitable[T]]) -> T:
    """Open the engine, do the work there, and return its result; the errors are those of the engine and the work."""
    async with open_engines(
        access.url, access.log_url, access.fleet, password=access.password, ca=access.ca, timeout=TIMEOUT
    ) as engine:
        return await work(engine)


def run_with_engine(access: EngineAccess, work: Callable[[Engine], Awaitable[T]]) -> T:
    """Open the engine, do the work there, and return its result."""
    try:
        return trio.run(work_connected, access, work)
    except (EngineError, FleetError, NoLibraryError) as error:
        raise make_command_error(error) from None
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:
            raise KeyboardInterrupt from None
        raise


def open_seen_heads(access: EngineAccess) -> LastSeenHead:
    """Return the memory of this machine of the newest version that it has seen in a fleet."""
    return LastSeenHead(os.path.join(paths.state_dir(os.environ), SEEN), access.fleet, access.url)


def run_publisher(
    access: EngineAccess,
    work: Callable[[Publisher], Awaitable[T]],
    *,
    compares: bool = True,
    heeds_hosts: bool = True,
    gives_up: int | None = None,
) -> T:
    """Open the engine, read and verify all versions, and do the work.  The errors are those of `run_with_engine`.

    With `compares` the versions are compared with those that this machine and the hosts have seen before.
    """
    if not access.keys and not access.trusted:
        raise CommandError(
            Exit.USAGE,
            "no key is known by which the versions could be checked; name the file of your key with --key, or the"
            " publisher's public key with --trust to read alone; on a host, [fleet] keys has them",
        )
    memory = open_seen_heads(access) if compares else None

    async def run_verified(engine: Engine) -> T:
        publisher = Publisher(
            engine, access.fleet, access.keys, memory, heeds_hosts=compares and heeds_hosts, trusted=access.trusted,
            gives_up=gives_up, anchors=access.anchors,
        )  # fmt: skip
        await publisher.read()
        if access.unlisted and publisher.key_set is None:
            raise CommandError(Exit.BAD_DATA, access.unlisted)
        notes = publisher.notes
        try:
            return await work(publisher)
        finally:
            for note in dict.fromkeys((*notes, *publisher.notes)):
                output.print_error(note)

    return run_with_engine(access, run_verified)


def make_command_error(error: Exception) -> CommandError:
    """Return the error with which a command ends for one of the engine or of a fleet's versions."""
    codes = (CODES.get(kind.__name__) for kind in type(error).__mro__)
    return CommandError(next(filter(None, codes), Exit.BAD_DATA), str(error))


def add_hosts(parser: Parser) -> None:
    parser.add_argument("--host", metavar="NAME", action="append", default=[], help="only this host; may be repeated")


def read_fleet(config: str) -> FleetSettings | None:
    """Return the [fleet] table; None if there is none.

    Its `fields`, `url` and `keys` decide what leaves the machine, where to, and whose signatures count: so a file that
    another user could have written is refused.
    """
    try:
        data = read_safely(config)
    except UnsafeFileError as error:
        raise CommandError(Exit.NOT_PERMITTED, str(error)) from None
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"{config} cannot be read: {error.strerror}; name it with --config") from None
    try:
        return read_settings(read_config(config, data).settings.fleet)
    except ConfigError as error:
        raise CommandError(Exit.BAD_DATA, str(error)) from None


POLL = 0.5  # seconds between two requests for new records
PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before an engine or a receiver that is away is tried again


async def follow_fleet_log(reader: FleetReader) -> AsyncGenerator[ReceivedBatch]:
    """Yield batches from the reader's position on, as they arrive.

    Raises:
        EngineError: the engine refuses; one that is away is reported and waited for.
    """
    attempts = 0
    while output.has_reader():
        began = trio.current_time()
        try:
            async with aclosing(reader.new()) as arrivals:
                async for arrival in arrivals:
                    yield arrival
        except UnreachableError as error:
            if not attempts:
                output.print_error(f"{error}; it is tried again until it is there")
            await trio.sleep(PAUSES[min(attempts, len(PAUSES) - 1)])
            attempts += 1
            continue
        attempts = 0
        # As long as the reading took: with many hosts the engine has half of the time for others.
        await trio.sleep(max(POLL, trio.current_time() - began))
