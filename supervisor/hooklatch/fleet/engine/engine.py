"""The interface of an engine: an ordered log of versions, bundles by digest, and a log and a report for each host.

Knows bytes and numbers, not policy.  A second engine is a second module with a class of this shape, and a scheme in
`open_engine`.  Its URL never has a password in it, since URLs are shown: `redis://[user@]host[:port][/db]`, `rediss://`
the same through TLS, `redis+unix://[user@]/path/of/socket`; `file:///path` of an archive.

Nothing depends on a message that could be missed: a reader asks for what follows the number that it has.  A lost reply
is harmless: every entry carries its own number, and the engine refuses a number that it has already.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import NoReturn
from urllib.parse import quote, unquote, urlsplit

import msgspec

__all__ = [
    "FORMS", "KEYS", "POLICY", "TIMESTAMP", "Address", "add_user", "read_url", "redact_url", "AddressError",
    "RecordBatch", "BehindError", "ConflictError", "Engine", "EngineError", "LogFacts", "LostError", "MissingFileError",
    "NotInstalledError", "EngineRefusedError", "StoredReport", "UnreachableError", "find_user", "list_rights",
]  # fmt: skip

POLICY, TIMESTAMP, KEYS = "policy", "timestamp", "keys"  # the streams of versions, of timestamps, of key sets
FORMS = "redis://[USER@]HOST[:PORT][/DB], rediss:// for TLS, redis+unix:///PATH, or file:///PATH of an archive"
WITHOUT_PASSWORD = "put it into a file and name that as password_file, or into the variable HOOKLATCH_FLEET_PASSWORD"


class EngineError(Exception):
    """A request to the engine failed.  The text says what happened, where (without secrets), and what to do."""


class UnreachableError(EngineError):
    """The engine has no connection for us, or did not answer in time: try again later."""


class EngineRefusedError(EngineError):
    """The engine refuses: wrong credentials, no right, a full disk, too old a server.  A retry may not help."""


class AddressError(EngineRefusedError):
    """A text is not the URL of an engine."""


class MissingFileError(EngineRefusedError):
    """A file that the settings name does not exist: a password's, or one of certificates."""


class NotInstalledError(EngineRefusedError):
    """The package that connects to such an engine is not installed."""


class ConflictError(EngineError):
    """Another process wrote that number first."""


class LostError(EngineError):
    """A log is gone that was there before."""


class BehindError(EngineRefusedError):
    """The engine has lost versions that were read from it, or that it must have, so it cannot be a source of policy."""


class RecordBatch(msgspec.Struct, frozen=True):
    """Entries of one host: all from `first` to `last` that were to be shipped, as the bytes that were given.

    `at` is when the engine took it, in ms since the epoch by its clock.  `signature` is the host's, if it signs.
    """

    first: int
    last: int
    data: bytes
    at: int = 0
    signature: str = ""


class LogFacts(msgspec.Struct, frozen=True):
    """Numbers of one epoch of a host's log: the newest seq that it ever took, its batches, and how many it ever got.

    Batches that are missing between those two were removed: by an operator, whose note says so, or by a process with
    the host's credentials.
    """

    last: int
    batches: int
    added: int


class StoredReport(msgspec.Struct, frozen=True):
    """A host's last report, and when the engine got it, in ms since the epoch by the engine's clock."""

    host: str
    data: bytes
    at: int


class Engine:
    """An open connection to one fleet's part of an engine.

    Every method may raise EngineError.  What an engine does not override it refuses.
    """

    def _refuse(self) -> NoReturn:
        raise EngineRefusedError("this engine cannot do that")

    # -- policy: publishers write, hosts read --------------------------------------------------------------------------

    async def wait(self, heads: Mapping[str, int], seconds: float) -> Collection[str]:
        """Return which of some streams have an entry after these numbers, as soon as one has; none after `seconds`.

        That nothing came says nothing of what was there before: read it.
        """
        self._refuse()

    async def versions(self, after: int, *, limit: int = 100) -> Sequence[tuple[int, bytes]]:
        """Return versions after a number, in order and without a gap; fewer than `limit` are all that there are.

        Raises:
            BehindError: the engine has fewer than `after` versions, or some between are gone.
        """
        self._refuse()

    async def newest_version(self) -> int:
        """Return the number of the newest version, 0 if there is none.

        Raises:
            BehindError: some before it are gone.
        """
        self._refuse()

    async def commit(self, version: int, manifest: bytes) -> None:
        """Append a version.

        Raises:
            ConflictError: it is not the one after the newest.
            BehindError: some before it are gone.
            UnreachableError: it may be there or not: read back what is there.
        """
        self._refuse()

    async def bundle(self, digest: str) -> bytes | None:
        """Return a bundle's bytes, None if there is no such bundle."""
        self._refuse()

    async def put_bundle(self, digest: str, data: bytes) -> None:
        """Store a bundle; a bundle that is there already is kept.

        Raises:
            EngineRefusedError: other bytes are there under its name.
        """
        self._refuse()

    async def timestamp(self) -> tuple[int, bytes] | None:
        """Return the newest timestamp, and the number after which to `wait` for the next; None if there is none."""
        self._refuse()

    async def put_timestamp(self, data: bytes) -> None:
        """Store a timestamp in place of the one before."""
        self._refuse()

    async def key_sets(self, after: int) -> Sequence[bytes]:
        """Return the key sets after a number, in order.

        Raises:
            BehindError: the engine does not have that number.
        """
        self._refuse()

    async def put_key_set(self, version: int, data: bytes) -> None:
        """Append a key set.

        Raises:
            ConflictError: there is one of this number, or a later one.
        """
        self._refuse()

    # -- decisions: each host appends to its own log -------------------------------------------------------------------

    async def append(self, host: str, epoch: int, batch: RecordBatch) -> None:
        """Append records to a host's log.

        Raises:
            ConflictError: the log holds `batch.last` or later records already.
            LostError: nothing was appended: the log, whose end was read or written before, is gone.
            UnreachableError: it may be there or not: sent again, it is refused if it is.  Also if the connection was
                lost since the log's end was read or written: the server that answers now may have less than was
                acknowledged, so ask for `last_batch` first.
        """
        self._refuse()

    async def last_batch(self, host: str) -> tuple[int, RecordBatch] | None:
        """Return the newest epoch of a host's log that has batches, and its newest batch; None if there is none.

        Its data is empty if the engine took it and does not hold it any more.
        """
        self._refuse()

    async def batches(self, host: str, epoch: int, after: int, *, limit: int = 100) -> Sequence[RecordBatch]:
        """Return batches of a host's log whose `last` is after a number, in order."""
        self._refuse()

    async def epochs(self, host: str) -> Sequence[int]:
        """Return the epochs of a host's log, in order: more than one if its record began anew."""
        self._refuse()

    async def batches_before(self, host: str, epoch: int, before: int, *, limit: int = 100) -> Sequence[RecordBatch]:
        """Return batches of a host's log whose `last` is before a number, newest first."""
        self._refuse()

    def logs(self) -> AsyncIterator[tuple[str, int]]:
        """Return the logs that exist, by host and epoch, in no order; `epochs` is a host's own list of its logs."""
        self._refuse()

    async def log_facts(self, host: str, epoch: int) -> LogFacts | None:
        """Return the numbers of a log, None if there is no such log."""
        self._refuse()

    async def trim(self, host: str, epoch: int, through: int, note: bytes) -> int:
        """Store a note on a host's epoch in place of the one before, then remove its batches through a number.

        Return how many were removed.  Hosts have no right to do this.
        """
        self._refuse()

    async def notes(self, host: str) -> Mapping[int, bytes]:
        """Return the notes on the batches that were trimmed from a host's log, by epoch."""
        self._refuse()

    # -- hosts: each reports on itself ---------------------------------------------------------------------------------

    async def report(self, host: str, data: bytes) -> None:
        """Replace a host's report."""
        self._refuse()

    def reports(self) -> AsyncIterator[StoredReport]:
        """Return every host's last report, in no order."""
        self._refuse()

    async def fullness(self) -> float | None:
        """Return which share of the engine's memory is taken; None if it has no limit, or we may not know."""
        self._refuse()

    async def events(self) -> Sequence[bytes]:
        """Return the events of hosts' enrolment, in order."""
        self._refuse()

    async def add_event(self, data: bytes) -> None:
        """Append an event of a host's enrolment.  Hosts have no right to do this."""
        self._refuse()

    async def invite(self, host: str, secret: str, password: str, word: str, seconds: int) -> None:
        """Make a host's user with its password, and one that may take a word once, within so many seconds.

        Only an administrator of users has the right to this, and to the next.
        """
        self._refuse()

    async def dismiss(self, host: str) -> None:
        """Remove a host's users, and end their connections."""
        self._refuse()

    async def redeem(self, host: str) -> str | None:
        """Take the word that a host was invited with; None if it was taken, or its time is over."""
        self._refuse()

    async def register_key(self, host: str, slot: str, key: str) -> str:
        """Register a host's public key, unless one is; return the one that is."""
        self._refuse()

    async def registered_key(self, host: str, slot: str) -> str:
        """Return a host's public key as it was registered, empty if none was."""
        self._refuse()

    async def newest_report(self, host: str) -> StoredReport | None:
        """Return one host's last report; None if there is none.  A host may read its own."""
        self._refuse()

    async def facts(self) -> dict[str, str]:
        """Return facts to show: the engine's name, its version, its clock, whether it syncs what it acknowledges."""
        self._refuse()


class Address(msgspec.Struct, frozen=True):
    """The address of an engine: `host` and `port`, or the `path` of a Unix socket; `number` is that of the database."""

    scheme: str
    user: str | None = None
    host: str = ""
    port: int | None = None
    path: str = ""
    number: int = 0

    def __str__(self) -> str:
        user = f"{quote(self.user)}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        number = f"/{self.number}" if self.number else ""
        return f"{self.scheme}://{user}{host}{port}{quote(self.path)}{number}"


def read_url(url: str) -> Address:
    """Read an engine's URL of any scheme; `open_engine` knows the schemes that there are.

    Raises:
        AddressError: it is not a URL of an engine, or a password is in it.
    """
    try:
        parts = urlsplit(url)
        host, port, password = parts.hostname or "", parts.port, parts.password
    except ValueError:  # its own text is not shown, since it quotes what may be a password
        raise AddressError(
            f"{redact_url(url)!r} is not a URL of an engine: its host or its port is wrong; write {FORMS}"
        ) from None
    if password is not None or parts.netloc.count("@") > 1:
        raise AddressError(f"the URL {redact_url(url)!r} has a password in it: take it out, and {WITHOUT_PASSWORD}")
    if not url.isprintable() or " " in url or parts.query or parts.fragment:
        raise AddressError(f"{redact_url(url)!r} is not a URL of an engine: it has a space, '?' or '#'; write {FORMS}")
    if not parts.scheme or "://" not in url:
        raise AddressError(f"{redact_url(url)!r} is not a URL of an engine: it has no scheme; write {FORMS}")
    user = unquote(parts.username) if parts.username else None
    if parts.scheme == "file" or parts.scheme.endswith("+unix"):
        if host or port is not None or len(parts.path) < 2:
            raise AddressError(f"{redact_url(url)!r} names no path: write {parts.scheme}:///PATH, with three slashes")
        return Address(parts.scheme, user, path=unquote(parts.path))
    if not host:
        raise AddressError(f"{redact_url(url)!r} names no host: write {FORMS}")
    number = parts.path.removeprefix("/")
    if not (number.isascii() and number.isdecimal() and len(number) < 6) and number:
        raise AddressError(f"{redact_url(url)!r}: {number!r} is not the number of a database; write {FORMS}")
    return Address(parts.scheme, user, host, port, number=int(number or 0))


def add_user(url: str, user: str | None) -> str:
    """Return a URL with a user in it, unless it names one itself.

    Raises:
        AddressError: it is not a URL of an engine.
    """
    address = read_url(url)
    return url if user is None or address.user is not None else str(msgspec.structs.replace(address, user=user))


def redact_url(url: str) -> str:
    """Return a URL as it may be shown: without the part before its last '@', which may hold a password."""
    before, at, after = url.rpartition("@")
    scheme, slashes, _ = before.partition("://")
    return f"{scheme}{slashes}…@{after}" if at and slashes else f"…@{after}" if at else url


OF_USERS = {
    "host": (
        "-@all +time +get +xread +xlen +xrange +xrevrange +xinfo|stream +xadd +sadd +smembers +hgetall +setnx"
        " +info|memory resetchannels resetkeys %R~hooklatch:FLEET:policy %R~hooklatch:FLEET:timestamp"
        " %R~hooklatch:FLEET:keys %R~hooklatch:FLEET:bundle:* %R~hooklatch:FLEET:trimmed:HOST"
        " %RW~hooklatch:FLEET:log:HOST:* %RW~hooklatch:FLEET:host:HOST %RW~hooklatch:FLEET:key:HOST:*"
    ),
    "join": "-@all +time +getdel resetchannels resetkeys %RW~hooklatch:FLEET:token:HOST",
}


def find_user(host: str, kind: str = "host") -> str:
    """Return the engine's user of a host: the one with which its link connects, or that of the kind `join`."""
    return f"{kind}-{host}"


def list_rights(fleet: str, host: str, kind: str, password: str) -> list[str]:
    """Return the rules of a host's user; that of the kind `join` may take what a token is exchanged for, once."""
    digest = hashlib.sha256(password.encode()).hexdigest()
    return ["reset", "on", f"#{digest}", *OF_USERS[kind].replace("FLEET", fleet).replace("HOST", host).split()]
