"""The [fleet] table: the fleet that this host follows, the keys that it trusts, and the fields that leave the machine.

The daemon keeps the settings in its state file, so that a broken main file takes nothing from a host that is in a
fleet.  The link reads the same table for itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from hooklatch.core.tables import InvalidTableError
from hooklatch.core.text import read_duration, suggest_name
from hooklatch.fleet.engine.engine import AddressError, read_url
from hooklatch.fleet.manifests import NAME
from hooklatch.fleet.roles import KeySet
from hooklatch.fleet.signing import KeyFormatError, decode_key
from hooklatch.service.config.settings import MainTable, TableEffect, make_absolute

__all__ = [
    "ALWAYS",
    "DEFAULT_FIELDS",
    "NEEDS_TIMER",
    "RECORD_FIELDS",
    "TABLE",
    "FleetSettings",
    "FleetTable",
    "describe_open_password",
    "read_settings",
]

MIB = 2**20
MAX_LABELS = 64
MAX_KEYS = 64
LOCAL = re.compile(r"localhost|127\.[0-9.]+|::1", re.IGNORECASE)  # this machine, as an engine's host

ALWAYS = ("seq", "at", "kind", "hash", "prev")  # of each entry, even if `fields` lacks them: they are its proof
# The fields that leave the machine by default: who decided what, when and why.  None is a part of a payload, but for
# what a hook chose to put into a reason, a message or a warning (after the record's redaction).
OF_DECISIONS = (
    "decision_id", "event", "gate", "verdict", "cause", "reason", "layer", "hook", "name", "session", "run", "call_id",
    "host", "revision", "payload_digest", "payload_bytes", "outputs", "outcomes", "outcomes_omitted", "warnings",
    "warnings_omitted", "duration_ms", "payload_kept", "payload_unkept",
)  # fmt: skip
OF_OTHER_KINDS = (
    # started, stopped
    "version", "pid", "uid", "system", "python", "boot_id", "durability", "after", "failure",
    # registry, source, quarantined, released, suspended, resumed
    "previous", "digest", "added", "removed", "changed", "kind_of_source", "sha256", "build", "why", "until",
    # segment, retired, recovered, fault, mended, acknowledged
    "format", "skipped", "first_seq", "kept_seq", "kept_prev", "lost", "segments", "segment", "bytes", "keep_bytes",
    "keep_seconds", "unshipped", "text", "faults", "fault_seq", "after_seq",
    # payloads
    "files",
    # skipped, disk, unrecorded
    "events", "stage", "free_bytes",
    # fleet
    "action", "bundle", "fleet", "head", "labels", "policy", "problem", "wanted",
)  # fmt: skip
DEFAULT_FIELDS = (*OF_DECISIONS, *OF_OTHER_KINDS)
# Of payloads and folders; `instead` is often a command that was refused, in another form.
BY_CHOICE = ("excerpt", "excerpt_cut", "patch", "instead", "claimed_session", "cwd", "location", "to")
RECORD_FIELDS = (*ALWAYS, *DEFAULT_FIELDS, *BY_CHOICE)

PATHS = ("password_file", "ca", "image")
FORM = "at most 63 letters, digits, '.', '_' and '-', the first a letter or a digit"
NAMED = {"is": f"a name: {FORM}"}
PATTERN = rf"^{NAME.pattern}\Z"
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
FilePath: TypeAlias = Annotated[str, Meta(min_length=1, extra={"is": "a path"})]
Duration: TypeAlias = Annotated[str, Meta(extra={"is": 'a duration like "500ms", "90s", "15m" or "24h"'})]
WhenUnsure: TypeAlias = Literal["serve", "deny"]

NEEDS_TIMER = (
    'hosts with when_stale = "deny" deny every gate once the newest timestamp has expired, or is older than their'
    " max_staleness: between pushes, run from a timer: hooklatch fleet timestamp --key FILE"
)


class FleetKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of [fleet] that are settings as they are written; the paths among them become absolute."""

    name: Annotated[str, Meta(pattern=PATTERN, extra=NAMED, examples=["acme"])]
    url: Annotated[str, Meta(min_length=1, examples=["rediss://engine.example:6379"])]
    keys: Annotated[tuple[Text, ...], Meta(examples=[["ed25519:…"]], extra={"is": "a list of public keys"})]
    log_url: Text | None = None
    user: Text | None = None
    password_file: FilePath | None = None
    ca: FilePath | None = None
    labels: Annotated[
        tuple[Annotated[str, Meta(pattern=PATTERN)], ...], Meta(extra={"is": f"a list of names, each {FORM}"})
    ] = ()
    when_stale: WhenUnsure = "serve"
    when_none: WhenUnsure = "deny"
    image: FilePath | None = None
    fields: tuple[Text, ...] = DEFAULT_FIELDS
    needs_tests: bool = False


class FleetSettings(FleetKeys, frozen=True, kw_only=True):
    """The settings of this host as part of a fleet.  `max_staleness` and `reconnect` are seconds, paths are absolute.

    `fields` are the fields of an entry that leave the machine, besides those that always do.
    """

    host: str
    max_staleness: float = 24 * 3600.0
    keep_unshipped_bytes: int = 1024 * MIB
    reconnect: float = 0.5
    key_set: KeySet | None = None  # of the fleet, which then says what may be signed; `keys` are those of policies


class FleetTable(FleetKeys, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[fleet]: the fleet that this host is in."""

    host: Annotated[str, Meta(pattern=PATTERN, extra=NAMED)] | None = None
    max_staleness: Duration = "24h"
    keep_unshipped_mib: Annotated[float, Meta(gt=0, lt=2**40)] = 1024
    reconnect: Duration = "500ms"

    def __post_init__(self) -> None:
        checks: dict[str, Callable[[str], object]] = {
            "url": read_url, "log_url": read_url, "max_staleness": read_duration, "reconnect": read_duration,
        }  # fmt: skip
        for key, read in checks.items():
            try:
                if (value := getattr(self, key)) is not None:
                    read(value)
            except (AddressError, ValueError) as error:
                raise InvalidTableError(f"{key}: {error}", (key,)) from None
        check_keys(self.keys)
        if len(self.labels) > MAX_LABELS:
            raise InvalidTableError(f"labels has {len(self.labels)} labels; the most is {MAX_LABELS}", ("labels",))
        for field in self.fields:
            if field not in RECORD_FIELDS:
                suggestion = suggest_name(field, RECORD_FIELDS) or f"; there are {', '.join(RECORD_FIELDS)}"
                raise InvalidTableError(f"fields: a record has no field {field!r}{suggestion}", ("fields",))

    def settings(self, machine: str, absolute: Callable[[str], str]) -> FleetSettings:
        """Return the settings; `machine` is this machine's own name, `absolute` resolves a path of the file.

        Raises:
            InvalidTableError: the table names no host, and the machine's name cannot be a host's.
        """
        if self.host is None and NAME.fullmatch(machine) is None:
            reason = f'the machine is called {machine!r}, which cannot be a host\'s name: add host = "…" ({FORM})'
            raise InvalidTableError(reason, ("host",))
        read: dict[str, Any] = {name: getattr(self, name) for name in FleetKeys.__struct_fields__}
        read |= {name: absolute(read[name]) for name in PATHS if read[name] is not None}
        read |= {"keys": tuple(key.strip() for key in self.keys), "labels": tuple(dict.fromkeys(self.labels))}
        return FleetSettings(
            **read,
            host=self.host or machine,
            max_staleness=read_duration(self.max_staleness),
            keep_unshipped_bytes=int(self.keep_unshipped_mib * MIB),
            reconnect=read_duration(self.reconnect),
        )


def read_fleet_table(table: FleetTable, folder: str) -> TableEffect:
    settings = table.settings(os.uname().nodename, lambda path: make_absolute(path, folder))
    # In JSON's terms, so that what the state file gives back at a start is equal to it.
    return TableEffect(fleet=msgspec.json.decode(msgspec.json.encode(settings)))


TABLE = MainTable(FleetTable, read_fleet_table)


def read_settings(kept: dict[str, Any] | None) -> FleetSettings | None:
    """Return the settings that the daemon keeps; None without [fleet].

    Raises:
        msgspec.ValidationError: they are not this version's.
    """
    return msgspec.convert(kept, FleetSettings) if kept is not None else None


def describe_open_password(settings: FleetSettings) -> str | None:
    """Return what is wrong with a password that leaves this machine unencrypted; None if none does."""
    for url in (settings.url, settings.log_url):
        address = read_url(url) if url is not None and settings.password_file is not None else None
        if address is not None and address.scheme == "redis" and not LOCAL.fullmatch(address.host):
            what = f"[fleet]: the password for the engine goes to {address.host} unencrypted, and so do the records"
            return f"{what}: a process on the way reads them"
    return None


def check_keys(keys: tuple[str, ...]) -> None:
    if not 0 < len(keys) <= MAX_KEYS:
        raise InvalidTableError(
            f"keys has {len(keys)} keys; list from 1 to {MAX_KEYS} public keys whose signatures this host trusts;"
            " make a pair with: hooklatch fleet keygen",
            ("keys",),
        )
    for number, key in enumerate(keys, 1):
        try:
            decode_key(key)
        except KeyFormatError as error:
            raise InvalidTableError(f"keys: number {number} is not a public key: {error}", ("keys",)) from None
