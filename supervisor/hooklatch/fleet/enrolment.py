"""The hosts of a fleet: their own keys, their way in, and those that an operator has enrolled or retired.

The link makes the key at its first start, in the state folder, and no part of it leaves the machine but the public key
in each report.  A report is signed as the bytes that are stored, a batch by its numbers, its last entry's hash and its
data, each with the fleet's and the host's name, so that neither counts under another name.

A disk that is copied has the same key.  So each process of a link has an instance of its own: two that take turns are
two machines under one name.

    enrolled(host, key)  ─▶  readers believe what that key has signed, and nothing else under that name
    retired(host)        ─▶  its log stays; that it reports again is a finding

Only operators may write events.  Until a host is enrolled in a fleet, none of its hosts is proven to be the one that
it says; from then on a name that was never enrolled is a finding.

    enroll ─▶ token ─▶ join ─▶ the engine's word, once and for an hour ─▶ password ─▶ the host's key, registered once

The password is made of the token's secret and that word, so neither alone is one.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from typing import Literal

import msgspec

from hooklatch.directories import replace_file
from hooklatch.errors import explain_error
from hooklatch.files import open_regular_file
from hooklatch.fleet.batches import BatchError, find_newest_place
from hooklatch.fleet.engine.engine import Engine, EngineRefusedError, RecordBatch, StoredReport, add_user, find_user
from hooklatch.fleet.manifests import FleetError, Name, decode_document, decode_signature
from hooklatch.fleet.reports import HostReport, encode_report, read_report
from hooklatch.fleet.signing import KeyFormatError, PrivateKey, PublicKey, Purpose, make_key, read_private, read_public

__all__ = [
    "NOBODY", "Enrolments", "EnrolmentEvent", "describe_retirement", "read_enrolments", "read_events", "HOST_KEY",
    "VANISHED", "HostIdentity", "find_report_fault", "is_batch_signed", "load_host_key", "read_host_key", "JoinToken",
    "encode_token", "find_user", "make_password", "read_token", "register", "send_invitation",
]  # fmt: skip

HOST_KEY = "host.key"  # in the state folder
MAX_KEY = 4096
SIGNED = re.compile(rb'(\{.*),"signature":"([A-Za-z0-9+/=]{1,128})"\}', re.DOTALL)


class HostIdentity:
    """The signer of one process of a link; `number` is that of its last report."""

    def __init__(self, key: PrivateKey, fleet: str, host: str) -> None:
        self.instance = secrets.token_hex(8)
        self.key = key.public.text
        self._key = key
        self._context = make_context(fleet, host)
        self.number = 0

    def sign_report(self, report: HostReport) -> bytes:
        """Return a report as it is stored: with this host's key, its instance and its number there, and a signature."""
        self.number += 1
        data = encode_report(msgspec.structs.replace(report, key=self.key, instance=self.instance, number=self.number))
        signature = self._key.sign(self._context + data, Purpose.REPORT)
        return data[:-1] + f',"signature":"{signature}"}}'.encode()

    def sign_batch(self, epoch: int, batch: RecordBatch) -> RecordBatch:
        """Return a batch with its signature."""
        text = self._context + make_batch_text(epoch, batch)
        return msgspec.structs.replace(batch, signature=self._key.sign(text, Purpose.BATCH))


def make_context(fleet: str, host: str) -> bytes:
    return f"{fleet}\n{host}\n".encode()


def make_batch_text(epoch: int, batch: RecordBatch) -> bytes:
    hash_ = find_newest_place(batch.data, batch.last).hash
    return f"{epoch} {batch.first} {batch.last} {hash_} {hashlib.sha256(batch.data).hexdigest()}".encode()


def find_report_fault(fleet: str, report: HostReport, data: bytes, key: PublicKey | None) -> str | None:
    """Return what is wrong with the signature of a report as it was stored; None if it is good, or if there is none.

    `key` is the one that the host has enrolled with: then none is wrong too.  Else it is the one that the report names.
    """
    if key is None and not report.key:
        return None
    match = SIGNED.fullmatch(data)
    if match is None:
        return "its report is not signed by the key of this host"
    try:
        signer = key or read_public(report.key)
    except KeyFormatError as error:
        return f"its report names a key that is none: {error}"
    text = make_context(fleet, report.host) + match[1] + b"}"
    if not signer.verifies(text, decode_signature(match[2].decode()), Purpose.REPORT):
        return f"its report is not signed by the key {signer.id} of this host: another process has written it"
    return None


def is_batch_signed(fleet: str, host: str, epoch: int, batch: RecordBatch, key: PublicKey) -> bool:
    """Return whether a key has signed a batch."""
    try:
        text = make_context(fleet, host) + make_batch_text(epoch, batch)
    except BatchError:
        return False
    return key.verifies(text, decode_signature(batch.signature), Purpose.BATCH)


def load_host_key(state: str) -> PrivateKey:
    """Return this host's key, and make it if there is none; the errors are those of `read_host_key`, and OSError."""
    key = read_host_key(state)
    if key is None:
        key = make_key()
        replace_file(os.path.join(state, HOST_KEY), f"{key.text}\n".encode())
    return key


def read_host_key(state: str) -> PrivateKey | None:
    """Return this host's key; None if it has none yet.

    Raises:
        FleetError: the file cannot be read.  Another key in its place would be another host's.
        NoLibraryError: the package that signs is not installed.
    """
    path = os.path.join(state, HOST_KEY)
    try:
        with open_regular_file(path) as file:
            return read_private(file.read(MAX_KEY).decode("ascii", "replace"))
    except FileNotFoundError:
        return None
    except (OSError, KeyFormatError) as error:
        why = explain_error(error) if isinstance(error, OSError) else error
        raise FleetError(f"{path}, the key of this host, cannot be read: {why}; restore it, or enroll again") from None


NOT_YET = "it was enrolled and has not joined yet, so who reports in its name is another process"
NO_KEY = "what it has registered as its key is none, so nobody has proven who it is: enroll it again"
VANISHED = "it was enrolled, and neither a report nor a log of it is here: it has never reported, or they were removed"
NEVER = "nobody has proven that this is a host of the fleet: it was never enrolled, and others are"


class EnrolmentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The enrolment or the retirement of a host by an operator, at a time in ms by the engine's clock.

    `key` is the public key that a host was enrolled with, or that it has registered at `slot` when it joined, if it
    has.  A host that was renamed is retired, and `to` is its new name.
    """

    event: Literal["enrolled", "retired"]
    host: Name
    at: int
    by: str = ""
    reason: str = ""
    key: str = ""
    to: str = ""
    slot: str = ""


class Enrolments:
    """The newest event of each host.  Hosts may not read them."""

    def __init__(self, events: Iterable[EnrolmentEvent] = (), *, is_readable: bool = True) -> None:
        self.is_readable = is_readable
        self._events = {event.host: event for event in events}
        # With the key that was on record, so that a host whose report and log were removed is not one that never was.
        self.joined = {event.host for event in self._events.values() if event.event == "enrolled" and event.key}
        self.is_used = any(event.event == "enrolled" for event in self._events.values())

    def find_retirement(self, host: str) -> EnrolmentEvent | None:
        """Return the event of a host that is retired."""
        event = self._events.get(host)
        return event if event is not None and event.event == "retired" else None

    def find_key(self, host: str) -> PublicKey | None:
        """Return the key that a host is enrolled with; None if that is not one: see `list_strangers`."""
        event = self._events.get(host)
        if event is None or event.event != "enrolled":
            return None
        try:
            return read_public(event.key)
        except KeyFormatError:
            return None

    def list_strangers(self, host: str) -> list[str]:
        """Return a text if a host has not proven who it is, in a fleet in which others were enrolled."""
        event = self._events.get(host)
        if event is None:
            return [NEVER] if self.is_used else []
        if event.event != "enrolled" or self.find_key(host) is not None:
            return []
        return [NO_KEY if event.key else NOT_YET]

    def list_faults(self, fleet: str, report: StoredReport) -> list[str]:
        """Return what is wrong with who a host is, by its report; what else is wrong with that, others find."""
        host = report.host
        if (retired := self.find_retirement(host)) is not None:
            return [f"{describe_retirement(retired)}, and it has reported since"] if report.at > retired.at else []
        faults = self.list_strangers(host)
        try:
            fault = find_report_fault(fleet, read_report(report.data, host), report.data, self.find_key(host))
        except FleetError:
            return faults
        return faults if fault is None else [fault, *faults]


NOBODY = Enrolments()


def describe_retirement(event: EnrolmentEvent) -> str:
    to = f", and is called {event.to} now" if event.to else ""
    return f"it was retired by {event.by or 'an operator'}: {event.reason}{to}"


async def read_enrolments(engine: Engine, *, is_required: bool = False) -> Enrolments:
    """Return the enrolments of a fleet; none for a host, which may not read them.

    Who may see all hosts needs them: without them one that was enrolled, and is gone, would be missed.
    """
    try:
        return Enrolments(await read_events(engine))
    except EngineRefusedError:
        if is_required:
            raise
        return Enrolments(is_readable=False)


async def read_events(engine: Engine) -> list[EnrolmentEvent]:
    """Return the events, with the keys that hosts have registered."""
    events: list[EnrolmentEvent] = []
    for text in await engine.events():
        event = decode_document(text, EnrolmentEvent, "an event of a host's enrolment")
        if event.slot and not event.key:
            try:
                key = await engine.registered_key(event.host, event.slot)
            except EngineRefusedError:  # the host wrote it: one that is too long to read must stop nobody else's reader
                key = "unreadable"
            event = msgspec.structs.replace(event, key=key)
        events.append(event)
    return events


PREFIX = "hooklatch-join-"
SECONDS = 3600  # for which a token is good
MAX_TOKEN = 64 * 1024


class JoinToken(msgspec.Struct, frozen=True, kw_only=True):
    """All that a host needs to join.  `slot` is where it registers its key, and `ca` the text of certificates."""

    url: str
    fleet: Name
    host: Name
    labels: tuple[Name, ...] = ()
    keys: tuple[str, ...]
    ca: str = ""
    secret: str
    slot: str

    def url_as(self, user: str) -> str:
        return add_user(self.url, find_user(self.host, user))


def encode_token(token: JoinToken) -> str:
    """Return a token as one word."""
    return PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def read_token(text: str) -> JoinToken:
    """Read a token.

    Raises:
        FleetError: it is none.
    """
    text = "".join(text.split())
    try:
        if not text.startswith(PREFIX) or len(text) > MAX_TOKEN:
            raise ValueError("it does not begin as one does")
        return msgspec.json.decode(base64.urlsafe_b64decode(text.removeprefix(PREFIX)), type=JoinToken)
    except (ValueError, msgspec.MsgspecError) as error:
        raise FleetError(f"this is not a token of `hooklatch fleet enroll`, or a part of one: {error}") from None


def make_password(secret: str, word: str) -> str:
    """Return a host's password for the engine."""
    return hashlib.sha256(f"{secret} {word}".encode()).hexdigest()


async def send_invitation(engine: Engine, host: str) -> tuple[str, str]:
    """Make the host's users at the engine; return the secret of the token, and the slot of the host's key."""
    secret, word, slot = secrets.token_urlsafe(24), secrets.token_hex(16), secrets.token_hex(8)
    await engine.invite(host, secret, make_password(secret, word), word, SECONDS)
    return secret, slot


async def register(engine: Engine, token: JoinToken, key: str) -> None:
    """Register the public key of a host that joins.

    Raises:
        FleetError: another key was registered.
    """
    registered = await engine.register_key(token.host, token.slot, key)
    if registered != key:
        raise FleetError(f"another machine has joined as {token.host} with this token: enroll the host again")
