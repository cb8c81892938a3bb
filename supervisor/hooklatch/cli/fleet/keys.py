"""The commands of keys: `fleet keygen` makes a pair, `fleet keys` says which may sign what, `fleet timestamp` signs.

Each change of `fleet keys` makes the next key set from the newest one, signs it, and appends it once enough of root's
keys have signed.  Until then it lies in a file, which their holders sign one after the other.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypedDict, TypeVar

import msgspec

from hooklatch.cli.fleet import access
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, parse_duration
from hooklatch.directories import replace_file
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.publishing.publisher import Publisher
from hooklatch.fleet.roles import (
    LONGEST,
    OTHERS,
    KeySet,
    RoleKeys,
    SignedDocument,
    Timestamp,
    format_moment,
    read_signed,
    sign_document,
)
from hooklatch.fleet.signing import NoLibraryError, PrivateKey, Purpose, make_key, read_public
from hooklatch_worker.systems.disks import sync_all

__all__ = ["add_init", "add_keygen", "add_keys", "add_rotate", "add_show", "add_sign", "add_timestamp"]

T = TypeVar("T")
DEFAULT = "fleet.key"
DAY = 24 * 3600.0
YEAR = 365 * DAY
BELOW = (
    ("show", "fleet.keys", "which keys may sign what, and until when"),
    ("init", "fleet.keys", "make the first key set; without options your key has all roles"),
    ("rotate", "fleet.keys", "make the next key set: options replace the keys of a role"),
    ("sign", "fleet.keys", "sign a key set that waits in a file for more signatures"),
)
EXITS = (*access.EXITS, Exit.CANNOT_CREATE, Exit.CONFLICT)


def add_keys(parser: Parser) -> None:
    parser.explain(example="hooklatch fleet keys show")
    parser.add_commands(BELOW, required=True)


def add_show(parser: Parser) -> None:
    parser.runs(run_show, example="hooklatch fleet keys show", exits=EXITS)
    parser.prints("fleet.roles:KeySet")
    access.add_access(parser, with_keys=True)


def add_init(parser: Parser) -> None:
    add_change(parser, "hooklatch fleet keys init --key fleet.key")


def add_rotate(parser: Parser) -> None:
    add_change(parser, "hooklatch fleet keys rotate --timestamp ed25519:… --key fleet.key")


def add_change(parser: Parser, example: str) -> None:
    parser.runs(run_change, example=example, exits=EXITS)
    parser.prints("fleet.roles:KeySet")
    for name, metavar, text in (
        ("--root", "KEY", "a public key that may sign key sets; may be repeated"),
        ("--timestamp", "KEY", "a public key that may sign timestamps; may be repeated"),
        ("--policy", "NAME=KEY", "a public key that may sign a policy ('*': all others); NAME= takes the policy away"),
    ):
        parser.add_argument(name, metavar=metavar, action="append", default=[], help=text)
    parser.add_argument("--threshold", metavar="N", type=int, help="how many of root's keys must sign a key set")
    parser.add_argument(
        "--expires", metavar="TIME", type=parse_duration, default=YEAR, help="when to sign the next one at last (365d)"
    )
    parser.add_argument("--out", metavar="FILE", help="where it waits for more signatures")
    access.add_access(parser, with_keys=True)


def add_sign(parser: Parser) -> None:
    parser.runs(run_sign, example="hooklatch fleet keys sign keys.json --key root2.key", exits=EXITS)
    parser.prints("fleet.roles:KeySet")
    parser.add_argument("file", metavar="FILE", help="a key set, as `init` or `rotate` has written it with --out")
    access.add_access(parser, with_keys=True)


def run_show(arguments: argparse.Namespace) -> int:
    """Print the newest key set."""

    async def work(publisher: Publisher) -> KeySet | None:
        return publisher.key_set

    key_set = run_with_key_sets(access.read_engine_access(arguments), work)
    if key_set is None:
        raise CommandError(
            Exit.NO_INPUT,
            "the fleet has no key set: each key that hosts list may sign all; see: hooklatch fleet keys init",
        )
    print_key_set(arguments, key_set)
    return Exit.OK


def run_change(arguments: argparse.Namespace) -> int:
    """Make the first key set, or the next one."""
    fleet_access = access.read_engine_access(arguments)
    is_first = arguments.command == "init"

    async def work(publisher: Publisher) -> tuple[KeySet, bool]:
        before = publisher.key_set
        if is_first is not (before is None):
            raise FleetError(
                "the fleet has a key set already; change it with: hooklatch fleet keys rotate"
                if is_first
                else "the fleet has no key set yet; make one with: hooklatch fleet keys init"
            )
        key = fleet_access.signing_key
        key_set = make_key_set(arguments, before, publisher.fleet, key)
        return key_set, await put_or_keep(publisher, sign_document(key_set, Purpose.KEYS, key), arguments.out)

    print_change(arguments, *run_with_key_sets(fleet_access, work), arguments.out)
    return Exit.OK


def run_sign(arguments: argparse.Namespace) -> int:
    """Add a signature to a key set in a file, and append the key set once there are enough."""
    fleet_access = access.read_engine_access(arguments)
    key, path = fleet_access.signing_key, os.path.abspath(arguments.file)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"{path} cannot be read: {error.strerror}") from None

    async def work(publisher: Publisher) -> tuple[KeySet, bool]:
        key_set, envelope = read_signed(data, KeySet, publisher.fleet, path)
        signature = key.sign(envelope.payload.encode(), Purpose.KEYS)
        signed = SignedDocument(envelope.payload, {**envelope.signatures, key.public.id: signature})
        return key_set, await put_or_keep(publisher, msgspec.json.encode(signed), path)

    print_change(arguments, *run_with_key_sets(fleet_access, work), path)
    return Exit.OK


def run_with_key_sets(fleet_access: access.EngineAccess, work: Callable[[Publisher], Awaitable[T]]) -> T:
    """Open the engine, verify the key sets, and do the work: the versions are not needed, nor the keys of all."""

    async def run_verified(engine: Engine) -> T:
        memory = access.open_seen_heads(fleet_access)
        publisher = Publisher(engine, fleet_access.fleet, fleet_access.keys, memory, anchors=fleet_access.anchors)
        await publisher.read_key_sets()
        return await work(publisher)

    return access.run_with_engine(fleet_access, run_verified)


def make_key_set(arguments: argparse.Namespace, before: KeySet | None, fleet: str, key: PrivateKey) -> KeySet:
    own = RoleKeys((key.public.text,))
    root, timestamp, policies = own, own, {OTHERS: own}
    if before is not None:
        root, timestamp, policies = before.root, before.timestamp, dict(before.policies)
    if arguments.root:
        root = RoleKeys(read_keys(arguments.root), min(root.threshold, len(arguments.root)))
    if arguments.threshold is not None:
        root = RoleKeys(root.keys, arguments.threshold)
    if arguments.timestamp:
        timestamp = RoleKeys(read_keys(arguments.timestamp))
    key_set = KeySet(
        fleet=fleet,
        version=before.version + 1 if before is not None else 1,
        previous=before.digest if before is not None else "",
        expires=datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=arguments.expires),
        root=root,
        timestamp=timestamp,
        policies=change_policies(policies, arguments.policy),
    )
    key_set.check()
    return key_set


def change_policies(policies: Mapping[str, RoleKeys], words: list[str]) -> dict[str, RoleKeys]:
    """Return the keys of each policy, with those of the named ones replaced."""
    named: dict[str, list[str]] = {}
    for word in words:
        name, equals, key = word.partition("=")
        if not equals:
            raise CommandError(Exit.USAGE, f"--policy {word!r}: write NAME=KEY, with the public key")
        named.setdefault(name, []).extend([key] if key else [])
    changed = {name: RoleKeys(read_keys(keys)) for name, keys in named.items() if keys}
    kept = {name: role for name, role in policies.items() if name not in named}
    return dict(sorted((kept | changed).items()))


def read_keys(texts: list[str]) -> tuple[str, ...]:
    """Return the texts of public keys as keygen writes them."""
    try:
        return tuple(read_public(text).text for text in texts)
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"a public key: {error}") from None


async def put_or_keep(publisher: Publisher, data: bytes, path: str | None) -> bool:
    """Append a key set, and return True; or write it to a file if more of root's keys must sign it."""
    try:
        await publisher.put_key_set(data)
    except FleetError as error:
        if "must" not in str(error) or path is None:
            raise
        try:
            replace_file(path, data)
        except OSError as fault:
            raise CommandError(Exit.CANNOT_CREATE, f"{path} cannot be written: {fault.strerror}") from None
        output.print_error(str(error))
        return False
    return True


def print_change(arguments: argparse.Namespace, key_set: KeySet, is_out: bool, path: str | None) -> None:
    if not is_out:
        output.print_error(
            f"the key set {key_set.version} waits in {path} for more signatures: hooklatch fleet keys sign {path} --key"
            " FILE"
        )
    print_key_set(arguments, key_set)


def print_key_set(arguments: argparse.Namespace, key_set: KeySet) -> None:
    lines = [f"key set {key_set.version}, until {format_moment(key_set.ends)}"]
    for name, role in (("root", key_set.root), ("timestamp", key_set.timestamp), *key_set.policies.items()):
        threshold = f" ({role.threshold} must sign)" if role.threshold > 1 else ""
        lines.append(f"{name}{threshold}: {', '.join(role.keys)}")
    output.say_result(key_set, *lines, is_json=arguments.json)


class KeyPair(TypedDict):
    """`fleet keygen`: the file of the private key, and the public one with its id."""

    private: str
    public: str
    id: str


def add_keygen(parser: Parser) -> None:
    exits = (Exit.UNAVAILABLE, Exit.CANNOT_CREATE)
    parser.runs(run_keygen, example="hooklatch fleet keygen --out ~/.config/hooklatch/fleet.key", exits=exits)
    parser.prints("cli.fleet.keys:KeyPair")
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
    output.say_result(
        KeyPair(private=path, public=public.text, id=public.id),
        f"wrote the private key to {path}: keep it where only publishers can read it, and keep a copy",
        "the public key, for each host's hooks.toml:", "", "[fleet]", f'keys = ["{public.text}"]',
        is_json=arguments.json,
    )  # fmt: skip
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


def add_timestamp(parser: Parser) -> None:
    example = "hooklatch fleet timestamp --key timestamp.key --expires 1d"
    parser.runs(run_fleet_timestamp, example=example, exits=access.EXITS)
    parser.prints("fleet.roles:Timestamp")
    parser.add_argument(
        "--expires", metavar="TIME", type=parse_life, default=DAY, help="for how long it holds: 1d, at most 8d (1d)"
    )
    access.add_access(parser, with_keys=True)


def parse_life(text: str) -> float:
    seconds = parse_duration(text)
    if not 0 < seconds <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of 8 days at most, after which hosts take none")
    return seconds


def run_fleet_timestamp(arguments: argparse.Namespace) -> int:
    """Sign which version is the newest, as of now."""
    fleet_access = access.read_engine_access(arguments)
    key = fleet_access.signing_key

    async def work(publisher: Publisher) -> Timestamp:
        return await publisher.stamp(key, arguments.expires)

    # What one host claims of the history must not stop the timer of all.
    stamp = access.run_publisher(fleet_access, work, heeds_hosts=False)
    until = format_moment(stamp.expires.timestamp())
    what = f"version {stamp.version} is the newest at {format_moment(stamp.at)}; this holds until {until}"
    output.say_result(stamp, what, is_json=arguments.json)
    return Exit.OK
