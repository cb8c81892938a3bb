"""The payloads that are kept whole: their lines, their files, and the check that they are there.  Writes no file.

    payloads/0000000000004711.jsonl     payloads of records from number 4711 on, until the next file's

A line holds the event and the payload that hooks received, without secrets.  The entry of the decision has the sha256
of the line, without its newline, so the line itself needs no chain: a changed line counts as a missing one.  Each start
begins a new file, so a line that a crash has cut is the last of its file.

A payload is missing if no line has the digest that its entry names, and no later `payloads` entry says that files of
that time were removed.  A line that no entry names proves nothing and is not a finding: a crash leaves one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple, cast

import msgspec

from hooklatch.core.call import EventEnvelope
from hooklatch.core.fire_params import EnvelopeParams, FireParams
from hooklatch.core.payload import Payload
from hooklatch.core.text import find_omission_mark
from hooklatch.files import open_regular_file
from hooklatch.record.redaction import UNREADABLE, Redactor, hide_keys, replace_secrets
from hooklatch.record.storage.chain import ChainLink
from hooklatch.record.storage.lines import read_entries_of_kind
from hooklatch.record.storage.reading import NoRecordError, list_record_segments

__all__ = [
    "PayloadSpan", "PayloadFile", "payload_folder", "list_files", "find_payload_places", "read_payload_line",
    "select_excess_files", "MAX_KEPT", "KeptPayload", "digest_payload_line", "encode_payload_line",
    "list_redacted_places", "PayloadCheck",
]  # fmt: skip

MAX_KEPT = 2**20  # bytes of a payload; searching a larger one for secrets would hold up all other fires
DEEP = 100  # levels; no hook is given more
MAX_NAMED = 20  # places that were redacted
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode
NEEDLE = b'"payload_kept":"'
DOCUMENTS: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
NAME = re.compile(r"([0-9]{16})\.jsonl")


class PayloadFile(NamedTuple):
    """A file, and the lowest number that a record of its payloads has."""

    path: str
    first: int

    @classmethod
    def of(cls, folder: str, first: int) -> PayloadFile:
        return cls(os.path.join(folder, f"{first:016d}.jsonl"), first)


class PayloadSpan(NamedTuple):
    """The place of a line."""

    path: str
    start: int
    length: int


def payload_folder(record: str) -> str:
    """Return the folder of payloads in a record's."""
    return os.path.join(record, "payloads")


def list_files(folder: str) -> list[PayloadFile]:
    """Return the files of a folder of payloads, oldest first; none if there is no such folder.

    Raises:
        OSError: it cannot be read.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    firsts = sorted(int(match[1]) for match in map(NAME.fullmatch, names) if match is not None)
    return [PayloadFile.of(folder, first) for first in firsts]


def find_payload_places(folder: str, digests: Collection[str], *, since: int = 0) -> dict[str, PayloadSpan]:
    """Find lines by their digests; `since` is the lowest number of an entry whose line may be among them.

    Raises:
        OSError: a file cannot be read.
    """
    places: dict[str, PayloadSpan] = {}
    files = list_files(folder)
    for number, file in enumerate(files):
        if number + 1 < len(files) and files[number + 1].first <= since:
            continue
        for start, line in read_payload_lines(file.path):
            if (digest := digest_payload_line(line)) in digests:
                places[digest] = PayloadSpan(file.path, start, len(line))
    return places


def read_payload_lines(path: str) -> Iterator[tuple[int, bytes]]:
    start = 0
    with suppress(FileNotFoundError), open_regular_file(path) as file:  # retention may have removed it meanwhile
        for line in file:
            if line.endswith(b"\n"):
                yield start, line
            start += len(line)


def read_payload_line(place: PayloadSpan) -> bytes:
    """Return a line, with its newline.

    Raises:
        OSError: it cannot be read.
    """
    with open_regular_file(place.path) as file:
        file.seek(place.start)
        return file.read(place.length)


def select_excess_files(
    files: Sequence[PayloadFile], keep_bytes: int, keep_age: float, now: float, *, is_written: bool
) -> tuple[list[PayloadFile], int]:
    """Return the oldest files that exceed a limit, not the newest if it `is_written`, and the bytes that they take.

    Raises:
        OSError: one cannot be looked at.
    """
    known = [(file, os.stat(file.path)) for file in files]
    total, chosen, size = sum(status.st_size for _, status in known), list[PayloadFile](), 0
    for file, status in known[:-1] if is_written else known:
        if total - size <= keep_bytes and now - status.st_mtime <= keep_age:
            break
        chosen.append(file)
        size += status.st_size
    return chosen, size


class KeptPayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """A kept fire: enough to fire it again."""

    decision_id: str
    event: str
    payload: msgspec.Raw
    envelope: EnvelopeParams = EnvelopeParams()
    call_id: str | int | None = None
    context: dict[str, Any] | None = None

    @property
    def params(self) -> FireParams:
        return FireParams(self.event, msgspec.Raw(self.payload), self.context, self.call_id, envelope=self.envelope)


def encode_payload_line(decision_id: str, envelope: EventEnvelope, payload: Payload, redactor: Redactor) -> bytes | str:
    """Return the line to keep, with its newline; or the reason why there is none."""
    if len(payload.data) > MAX_KEPT:
        return f"it has over {MAX_KEPT // 2**20} MiB"
    given = EnvelopeParams(
        session_id=envelope.session_id, cwd=envelope.cwd, agent_id=envelope.agent_id, agent_type=envelope.agent_type,
        parent_session_id=envelope.parent_session_id, host=envelope.host, turn=envelope.turn,
        metadata=envelope.metadata,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "decision_id": decision_id,
        "event": envelope.event,
        "envelope": {key: value for key, value in msgspec.to_builtins(given).items() if value is not None},
        "call_id": envelope.call_id,
    }
    try:
        if envelope.context:
            fields["context"] = envelope.context
        plain = fields["payload"] = decode(payload.data)
        if type(plain) is not dict:
            return "it is not an object"
        line = encode(fields)
        if not redactor.is_plain(fields, line, DEEP):
            shown = replace_secrets(hide_keys(fields, redactor.hides, DEEP), redactor, window=None)
            if shown != fields:
                return encode(shown) + b"\n"
        if b"\n" not in payload.data:
            line = encode({**fields, "payload": msgspec.Raw(payload.data)})  # as it was, to the byte
        return line + b"\n"
    except UNREADABLE as error:
        return f"it cannot be read: {type(error).__name__}"


def digest_payload_line(line: bytes) -> str:
    """Return the digest of a line, as its entry has it."""
    return sha256(line.removesuffix(b"\n")).hexdigest()


def list_redacted_places(value: object, path: str = "") -> Iterator[str]:
    """Yield the places of a payload in which something was replaced, the first of them."""
    if isinstance(value, str):
        if find_omission_mark(value):
            yield path
    elif isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            yield from list_redacted_places(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for number, inner in enumerate(cast("list[object]", value)):
            yield from list_redacted_places(inner, f"{path}[{number}]")


class PayloadCheck:
    """The check of one record: it collects the digests in entries, and compares them with the files."""

    def __init__(self, record: str) -> None:
        self._record = record
        self._wanted: dict[str, list[int]] = {}  # the numbers of records, by the digest that they name
        self._kept_seq = 0  # before this number, files were removed
        self._last = 0

    def take(self, link: ChainLink, line: bytes) -> None:
        """Take the next record, as its line."""
        self._last = link.seq
        if link.kind == "decision" and NEEDLE in line:
            digest = DOCUMENTS.decode(line).get("payload_kept")
            if isinstance(digest, str):  # an excerpt may have a key of this name
                self._wanted.setdefault(digest, []).append(link.seq)
        elif link.kind == "payloads":
            self._removed(DOCUMENTS.decode(line))

    def _removed(self, record: dict[str, Any]) -> None:
        kept_seq = record.get("kept_seq")
        if isinstance(kept_seq, int):
            self._kept_seq = max(self._kept_seq, kept_seq)

    def end(self) -> tuple[int, list[int]]:
        """Return how many payloads were found, and the numbers of the records whose payload is missing or changed.

        Raises:
            OSError: a file cannot be read.
        """
        if not self._wanted:
            return 0, []
        found = find_payload_places(payload_folder(self._record), self._wanted)
        with suppress(NoRecordError, OSError):  # files may have been removed while we were reading
            for record in read_entries_of_kind(list_record_segments(self._record), "payloads", since=self._last):
                self._removed(record)
        return len(found), sorted(self._missing(found))

    def _missing(self, found: dict[str, Any]) -> Iterator[int]:
        for digest, numbers in self._wanted.items():
            if digest not in found:
                yield from (seq for seq in numbers if seq >= self._kept_seq)
