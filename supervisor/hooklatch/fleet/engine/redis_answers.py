"""The answers of Redis as values of ours, of version 3 of its protocol as coredis reads it, and texts of its errors.

An answer of a shape that no Redis sends is an EngineRefusedError: the server may be another program.  The text of an
error names the command, the key and the user, and says what to do.  It holds no value that was sent, and so no secret.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from coredis import exceptions as redis
from coredis.parser import Parser

from hooklatch.fleet.engine.engine import Address, EngineError, EngineRefusedError, RecordBatch, UnreachableError
from hooklatch.fleet.manifests import MAX_BUNDLE

__all__ = [
    "Entry", "StreamInfo", "bound_answer", "convert_answer", "read_batches", "read_entries", "is_written",
    "read_stream_info", "format_redis_word", "OLDEST", "explain_failed_connect", "is_of_the_server",
    "explain_not_redis", "explain_reply_error",
]  # fmt: skip

MAX_SIGNATURE = 200
WRITTEN = re.compile(rb"[0-9]{1,18}")
Entry = tuple[tuple[int, int], dict[bytes, bytes]]  # of a stream: its id, and its fields
StoredEntry = tuple[bytes, list[bytes]]
SHAPES: dict[str, Any] = {
    "ACL DELUSER": int,
    "ACL SAVE": bytes,
    "ACL SETUSER": bytes,
    "CONFIG GET": dict[bytes, bytes],
    "GET": bytes | None,
    "GETDEL": bytes | None,
    "HELLO": dict[bytes, Any],
    "HGETALL": dict[bytes, bytes],
    "HSET": int,
    "INFO": bytes,
    "SADD": int,
    "SCAN": tuple[bytes, list[bytes]],
    "SET": bytes,
    "SETNX": int,
    "SMEMBERS": set[bytes],
    "TIME": tuple[bytes, bytes],
    "XADD": bytes | None,
    "XINFO STREAM": dict[bytes, Any],
    "XLEN": int,
    "XRANGE": list[StoredEntry],
    "XREAD": dict[bytes, list[StoredEntry]] | None,
    "XREVRANGE": list[StoredEntry],
    "XTRIM": int,
}


KIB, MIB = 2**10, 2**20
SMALL = 64 * KIB
# An entry of a log, which a host may write as large as it likes: the example's server takes commands of 32 MiB.  By a
# lower bound one host could end the readers of all.
LARGE = 33 * MIB
# Bytes of the answers to a command, by what it may bring; the others are small.
BOUNDS = {
    "GET": MAX_BUNDLE + SMALL, "HGETALL": LARGE, "SCAN": LARGE, "SMEMBERS": LARGE, "XINFO STREAM": 2 * LARGE,
    "XREAD": 2 * LARGE,
}  # fmt: skip
COUNTED = {"XRANGE": LARGE, "XREVRANGE": LARGE}  # for each entry


class StreamInfo(msgspec.Struct, frozen=True):
    """The facts of a stream: how many entries it has and was ever given, the newest id ever, and the newest now."""

    count: int
    added: int
    newest_ever: tuple[int, int]
    newest: tuple[int, int] | None

    @property
    def is_whole(self) -> bool:
        """Return whether its entries are numbered from 1 to their count, and none was ever removed."""
        return self.newest_ever == self.newest == (self.count, 0)


def convert_answer(command: str, answer: object) -> Any:
    """Return an answer if Redis gives such an answer to the command.

    Raises:
        msgspec.ValidationError: it does not.
    """
    return msgspec.convert(answer, SHAPES[command], builtin_types=(bytes,))


def bound_answer(command: str, arguments: Sequence[bytes | str | int]) -> int:
    """Return how many bytes an answer to a command may have: what is longer is not taken into memory."""
    count = int(arguments[arguments.index("COUNT") + 1]) if command in COUNTED and "COUNT" in arguments else 1
    return count * COUNTED[command] if command in COUNTED else BOUNDS.get(command, SMALL)


def read_entries(entries: Sequence[StoredEntry]) -> list[Entry]:
    """Return the entries of a stream."""
    try:
        return [
            (parse_stream_id(stream_id), dict(zip(fields[::2], fields[1::2], strict=True)))
            for stream_id, fields in entries
        ]
    except ValueError as error:
        raise EngineRefusedError(
            f"the engine's answer is not an entry of a stream: {error}; check that its URL leads to a Redis"
        ) from None


def parse_stream_id(stream_id: bytes) -> tuple[int, int]:
    first, _, second = stream_id.decode().partition("-")
    return int(first), int(second)


def read_stream_info(facts: Mapping[bytes, Any]) -> StreamInfo:
    """Return the facts of an answer of XINFO STREAM."""
    try:
        last = facts[b"last-entry"]
        newest = None if last is None else parse_stream_id(last[0])
        return StreamInfo(
            int(facts[b"length"]), int(facts[b"entries-added"]), parse_stream_id(facts[b"last-generated-id"]), newest
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EngineRefusedError(
            f"the engine's answer to XINFO STREAM cannot be read: {error!r}; check that its URL leads to a Redis"
        ) from None


def format_redis_word(value: object) -> str:
    """Return a word of an answer as text for people."""
    return value.decode(errors="replace") if isinstance(value, bytes) else repr(value)


def is_written(text: bytes) -> bool:
    """Return whether a text is a number that we may have written: a host may write any, and of thousands of digits."""
    return WRITTEN.fullmatch(text) is not None


def read_batches(entries: Sequence[StoredEntry]) -> list[RecordBatch]:
    """Return batches; an entry that no link writes becomes a batch of its own number, with any data that it has."""
    batches: list[RecordBatch] = []
    for (last, _), fields in read_entries(entries):
        first, at = (fields.get(name, b"") for name in (b"f", b"a"))
        first_seq, taken = int(first) if is_written(first) else last, int(at) if is_written(at) else 0
        signature = fields.get(b"s", b"")[:MAX_SIGNATURE].decode("ascii", "replace")
        batches.append(RecordBatch(first_seq, last, fields.get(b"d", b""), taken, signature))
    return batches


OLDEST = (7, 0)  # the first whose ACL distinguishes reading a key from writing it
EXAMPLE = "examples/fleet/users.acl has the rights that each role needs"
# By the first word of the server's answer: whether another try may help without an operator's doing, and the text.
REPLIES: dict[str, tuple[type[EngineError], str]] = {
    "BUSY": (UnreachableError, "is busy with a script; wait, or stop it there with SCRIPT KILL"),
    "CLUSTERDOWN": (EngineRefusedError, "is a node of a cluster; name a single server, with replicas if need be"),
    "DENIED": (EngineRefusedError, "is in protected mode; give it users and passwords (examples/fleet/README.md)"),
    "LOADING": (UnreachableError, "is still loading its data; it answers when it has"),
    "MASTERDOWN": (EngineRefusedError, "is a replica without its primary; name the primary"),
    "MISCONF": (
        EngineRefusedError,
        "takes no writes, since it cannot save to its disk; see its log, and free space there",
    ),
    "NOREPLICAS": (
        EngineRefusedError,
        "takes no writes without its replicas; start them, or set min-replicas-to-write 0",
    ),
    "OOM": (
        EngineRefusedError,
        "takes no writes: its memory is full; raise maxmemory there, or trim old logs of hosts",
    ),
    "READONLY": (EngineRefusedError, "is a replica, which takes no writes; name the primary"),
    "UNBLOCKED": (UnreachableError, "has ended the wait, since it becomes a replica, or an operator unblocked it"),
}
CLASSES: tuple[tuple[type[redis.RedisError], str], ...] = (  # coredis has taken the word off for these
    (redis.BusyLoadingError, "LOADING"),
    (redis.ReadOnlyError, "READONLY"),
    (redis.AskError, "CLUSTERDOWN"),  # MOVED is one
    (redis.ClusterDownError, "CLUSTERDOWN"),
    (redis.ClusterCrossSlotError, "CLUSTERDOWN"),
    (redis.TryAgainError, "CLUSTERDOWN"),
    (redis.UnblockedError, "UNBLOCKED"),
)

CLOSED = {  # by the scheme, a likely cause of a connection that the server accepts and closes
    "redis": "; if it wants TLS, write rediss://",
    "rediss": "; if it wants a certificate of ours too, set tls-auth-clients no there",
}


def is_of_the_server(error: redis.RedisError) -> bool:
    """Return whether an error is an answer of the server, not coredis's own about a connection or unreadable bytes."""
    return isinstance(
        error, redis.ResponseError | redis.RedisClusterError | redis.BusyLoadingError | redis.ProtocolError
    ) or "max number of clients" in str(error)


def explain_reply_error(
    address: Address, command: str, key: str, error: redis.RedisError, *, has_password: bool = True
) -> EngineError:
    """Return the error that explains a server's error answer to a command.

    `has_password`: a password was given to the server.
    """
    doing = f"{command} {key}".strip()
    for kind, word in CLASSES:
        if isinstance(error, kind):
            return explain_known_error(address, doing, word)
    text = str(error)
    word = text.partition(" ")[0].removeprefix("-")
    if word in REPLIES:
        return explain_known_error(address, doing, word)
    if isinstance(error, redis.AuthorizationError):
        return EngineRefusedError(f"{address} does not let its user {find_user(address)} do {doing}; {EXAMPLE}")
    is_unknown = isinstance(error, redis.AuthenticationFailureError)
    if isinstance(error, redis.AuthenticationRequiredError) or (is_unknown and not has_password):
        return EngineRefusedError(
            f"{address} wants a password for its user {find_user(address)}; name its file: password_file"
            " (--password-file of commands)"
        )
    if is_unknown:
        return EngineRefusedError(
            f"{address} does not know the user {find_user(address)} with this password, or has disabled it:"
            " mend [fleet] user and the password file, or the users' file of the server"
        )
    if isinstance(error, redis.WrongTypeError):
        return EngineRefusedError(f"{address}: {key} is not what this program keeps there; see who else writes to it")
    if isinstance(error, redis.UnknownCommandError | redis.ProtocolError):
        return EngineRefusedError(f"{address} does not know {command}; it must be Redis 7.0 or later, or Valkey")
    if isinstance(error, redis.ConnectionError) and "max number of clients" in text:
        return UnreachableError(f"{address} has as many clients as it takes; raise maxclients there")
    return EngineRefusedError(f"{address} refuses {doing}: {text}")


def explain_known_error(address: Address, doing: str, word: str) -> EngineError:
    kind, text = REPLIES[word]
    return kind(f"{address} {text} ({doing}: {word})")


def find_user(address: Address) -> str:
    return repr(address.user or "default")


def explain_not_redis(address: Address, reason: str) -> EngineRefusedError:
    """Return the error for an answer that no Redis gives."""
    return EngineRefusedError(f"the server at {address} is not a Redis: {reason}; check the host and the port")


def explain_failed_connect(
    address: Address, error: BaseException, data: bytes, *, has_password: bool = True
) -> EngineError:
    """Return the error that explains a failed connection, by its causes and by the server's first bytes.

    A certificate that was refused comes first, then other failures of TLS, then the server's own answer: each says more
    than the lost connection that follows from it.
    """
    errors = list(list_causes(error))
    for cause in errors:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return EngineRefusedError(
                f"the certificate of {address} is not believed: {cause.verify_message}; {explain_tls_error(cause)}"
            )
    for cause in errors:
        if isinstance(cause, ssl.SSLError):
            return EngineRefusedError(f"no TLS with {address}: {cause.reason or cause}; {explain_tls_error(cause)}")
    if data:
        return explain_bad_greeting(address, errors, data, has_password=has_password)
    for cause in errors:
        if isinstance(cause, socket.gaierror):
            return UnreachableError(f"the host of {address} is not found: {cause.strerror or cause}; check its name")
        if isinstance(cause, PermissionError | FileNotFoundError) and address.path:
            return UnreachableError(
                f"{address} cannot be reached: {cause.strerror}; check that the server runs, and as which user"
            )
        if isinstance(cause, ConnectionRefusedError):
            return UnreachableError(
                f"no server listens at {address}; check that it runs, and that it listens on this address"
            )
    for cause in errors:
        if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, ConnectionError):
            return UnreachableError(f"{address} cannot be reached: {cause.strerror}")
    return UnreachableError(f"{address} closed the connection before it was open{CLOSED.get(address.scheme, '')}")


def explain_bad_greeting(
    address: Address, errors: Sequence[BaseException], data: bytes, *, has_password: bool
) -> EngineError:
    """Return the error for a greeting that made no connection.

    Its end may be missing, and coredis may know only that, so its first line is parsed again here.
    """
    line, line_end, _ = data.partition(b"\r\n")
    if data.startswith(b"-") and line_end:
        try:
            return explain_reply_error(
                address, "HELLO", "", Parser().parse_error(line[1:].decode()), has_password=has_password
            )
        except ValueError:
            pass  # an error of the parser's own, or the line is not text
    reply_error = next(
        (error for error in errors if isinstance(error, redis.RedisError) and is_of_the_server(error)), None
    )
    if reply_error is not None:
        return explain_reply_error(address, "HELLO", "", reply_error, has_password=has_password)
    is_lost = any(isinstance(error, OSError) or "onnection lost" in str(error) for error in errors)
    if data.startswith(b"%") and is_lost:
        return UnreachableError(f"{address} closed the connection while it greeted; see its log")
    return explain_not_redis(address, f"it sends {line[:40]!r}")


def explain_tls_error(error: ssl.SSLError) -> str:
    code = getattr(error, "verify_code", None)
    text = f"{error.reason} {error}".lower()
    if code == 10:  # X509_V_ERR_CERT_HAS_EXPIRED
        return "renew it, or set this machine's clock"
    if code == 9:  # X509_V_ERR_CERT_NOT_YET_VALID
        return "set this machine's clock"
    if code in (62, 64):  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
        return "name the server as its certificate does, or give it one for this name"
    if code is not None:
        return "name the file of the authority that has signed it: [fleet] ca, or --ca"
    if "wrong version" in text or "record layer" in text or "unknown protocol" in text:
        return "it does not seem to use TLS: write redis://, or its TLS port"
    if "certificate required" in text or "certificate_required" in text:
        return "it wants a certificate of ours: set tls-auth-clients no there, and users with passwords"
    return "look at the server's log"


def list_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all errors that led to it, in no order that matters."""
    pending, seen_ids = [error], set[int]()
    while pending:
        cause = pending.pop(0)
        if id(cause) in seen_ids:
            continue
        seen_ids.add(id(cause))
        yield cause
        pending += [earlier for earlier in (cause.__cause__, cause.__context__) if earlier is not None]
        if isinstance(cause, BaseExceptionGroup):
            pending += cast("BaseExceptionGroup[BaseException]", cause).exceptions
