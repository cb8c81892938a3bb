"""A batch: entries of one host's record as they leave its machine.

The data is zlib of lines of JSON.  The first line says whose they are.  Each other line is an entry with the configured
fields and always those of the chain, so that a reader of the fleet log can check that none is missing:

    {"format":1,"host":"build-7","epoch":1,"first":41,"last":42,"records":2}
    {"seq":41,"prev":"<hash of 40>","at":"…","kind":"decision", … ,"hash":"…"}

An entry from which nothing was left out is the line that the daemon wrote, byte for byte, so its hash can be checked
here too.  Of a cut entry only the place in the chain can be checked, and the rest is the host's claim.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hooklatch.fleet.manifests import FleetError, Name, Sha256, decode_document
from hooklatch.record.storage.chain import ChainLink, read_link

__all__ = [
    "MAX_DATA", "BatchError", "PackedBatch", "ShippedRecord", "find_newest_place", "find_oldest_place",
    "pack_batch", "read_batch_lines",
    "select_fields", "split_batch_lines", "unpack_batch",
]  # fmt: skip

FORMAT = 1
MAX_DATA = 8 * 2**20  # bytes of a batch, packed or not: a record has at most some 2 MiB
MAX_LINE = 4 * 2**20  # bytes of a record; of a longer one only its place in the chain is shipped
MAX_RECORDS = 1000  # in a batch
FULL = 256 * 1024  # bytes of records after which a batch takes no further record
CHAIN = ("seq", "prev", "at", "kind", "hash")
# With these a reader can tell numbers that were never used, or removed by retention, from entries that are missing.
STRUCTURE = {"segment": {"skipped"}, "retired": {"first_seq", "kept_seq", "kept_prev", "lost"}}
RAW: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
ENCODER = msgspec.json.Encoder()


class BatchError(FleetError):
    """Bytes that are not a batch, or not the expected one."""


class BatchHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a batch."""

    format: int
    host: Name
    epoch: int
    first: int
    last: int
    records: int


class ChainFields(msgspec.Struct, frozen=True):
    """An entry's place in the chain."""

    seq: Annotated[int, Meta(gt=0, lt=10**18)]
    prev: Sha256
    at: Annotated[str, Meta(max_length=40)]
    kind: Annotated[str, Meta(max_length=40)]
    hash: Sha256


class RecordFields(ChainFields, frozen=True):
    """The fields that readers rely on, where an entry has them."""

    verdict: str = ""
    reason: str | None = None
    outcomes: list[dict[str, Any]] = []
    warnings: list[str] = []
    excerpt: dict[str, Any] | None = None


RELIED_ON = tuple(name for name in RecordFields.__struct_fields__ if name not in ChainFields.__struct_fields__)


class PackedBatch(msgspec.Struct, frozen=True):
    """A batch to be appended: its numbers, the hash of its last entry, and how many lines were not entries."""

    first: int
    last: int
    hash: str
    records: int
    data: bytes
    unreadable: int = 0


class ShippedRecord(ChainFields, frozen=True):
    """An entry as it arrived.  `is_whole`: nothing was left out, and its content matches its hash."""

    document: dict[str, Any]
    is_whole: bool


def pack_batch(host: str, epoch: int, lines: Iterable[bytes], fields: Collection[str]) -> PackedBatch | None:
    """Return a batch of the next lines of a host's record, None if there are none.

    Take from `lines` until the batch is full, so that the caller may continue with the same iterator.  A line that is
    not an entry, or does not follow in number, is left out and counted: readers of the log then see that it is missing.
    """
    chosen = frozenset(fields)
    taken: list[bytes] = []
    first = last = None
    size = unreadable = 0
    for line in lines:
        link = read_link(line)
        if link is None or (last is not None and link.seq <= last.seq):
            unreadable += 1
            continue
        taken.append(select_fields(line.removesuffix(b"\n"), link, chosen))
        first, last, size = first or link, link, size + len(taken[-1]) + 1
        if size >= FULL or len(taken) == MAX_RECORDS:
            break
    if first is None or last is None:
        return None
    header = BatchHeader(FORMAT, host, epoch, first.seq, last.seq, len(taken))
    data = zlib.compress(b"\n".join([ENCODER.encode(header), *taken]))
    return PackedBatch(first.seq, last.seq, last.hash, len(taken), data, unreadable)


def select_fields(line: bytes, link: ChainLink, fields: Collection[str]) -> bytes:
    """Return an entry as it may leave the machine: unchanged if all of its fields may."""
    kept_fields = {*CHAIN, *STRUCTURE.get(link.kind, ()), *(fields if len(line) <= MAX_LINE else ())}
    record = RAW.decode(line)
    if all(name in kept_fields for name in record):
        return line
    return ENCODER.encode({name: value for name, value in record.items() if name in kept_fields})


def unpack_batch(data: bytes, *, host: str, epoch: int, first: int, last: int) -> list[ShippedRecord]:
    """Return the entries of a batch, in order: all of them, or none.

    Raises:
        BatchError: these bytes are not the batch with these numbers.
    """
    return read_batch_lines(split_batch_lines(data), host=host, epoch=epoch, first=first, last=last)


def read_batch_lines(batch_lines: list[bytes], *, host: str, epoch: int, first: int, last: int) -> list[ShippedRecord]:
    """Return the entries of a batch that was split; the rest is as for `unpack_batch`."""
    header_line, *lines = batch_lines
    header = decode_document(header_line, BatchHeader, "its first line", BatchError)
    if header.format != FORMAT:
        raise BatchError(f"it has format {header.format}, and this version reads {FORMAT}: update hooklatch here")
    expected = BatchHeader(FORMAT, host, epoch, first, last, len(lines))
    if header != expected:
        raise BatchError(f"it says that it is {describe_batch(header)}, where {describe_batch(expected)} should be")
    records = [decode_shipped_record(line) for line in lines]
    numbers = [record.seq for record in records]
    if numbers != sorted(set(numbers)) or not numbers or (numbers[0], numbers[-1]) != (first, last):
        raise BatchError(f"its records are not in order from {first} to {last}")
    return records


def find_newest_place(data: bytes, last: int) -> ChainFields:
    """Return the place of a batch's last entry, whose number is `last`, without reading its other entries and fields.

    So a host that has shipped entries that only a newer version understands still finds its own place again.

    Raises:
        BatchError: it does not end with that entry.
    """
    fields = decode_document(split_batch_lines(data)[-1], ChainFields, "its last record", BatchError)
    if fields.seq != last:
        raise BatchError(f"it ends with record {fields.seq}, where a batch that ends with {last} should be")
    return fields


def find_oldest_place(data: bytes) -> ChainFields:
    """Return the place of a batch's first entry; the errors are those of `find_newest_place`."""
    return decode_document(split_batch_lines(data)[:2][-1], ChainFields, "its first record", BatchError)


def split_batch_lines(data: bytes) -> list[bytes]:
    """Return the lines of a batch, of which the first is its header."""
    if len(data) > MAX_DATA:
        raise BatchError(f"it has {len(data)} bytes; the most is {MAX_DATA}")
    unpacker = zlib.decompressobj()
    try:  # with a limit: a host could send a few bytes that unpack to gigabytes
        text = unpacker.decompress(data, MAX_DATA + 1)
    except zlib.error as error:
        raise BatchError(f"it cannot be unpacked: {error}") from None
    if len(text) > MAX_DATA:
        raise BatchError(f"it has more than {MAX_DATA} bytes unpacked")
    if not unpacker.eof or unpacker.unused_data:
        raise BatchError("it is cut off, or something follows it")
    return text.split(b"\n")


def decode_shipped_record(line: bytes) -> ShippedRecord:
    document = decode_document(line, dict[str, Any], "a record", BatchError)
    # A newer version may write null where this one writes nothing: one such entry must not hide those beside it.
    for name in RELIED_ON:
        if name in document and document[name] is None:
            del document[name]
    try:
        fields = msgspec.convert(document, RecordFields)
    except msgspec.ValidationError as error:
        raise BatchError(f"a record is not of the shape of records: {error}") from None
    link = read_link(line)
    chain_fields = (fields.seq, fields.prev, fields.at, fields.kind, fields.hash)
    is_whole = link is not None and msgspec.structs.astuple(link) == chain_fields
    return ShippedRecord(*chain_fields, document, is_whole)


def describe_batch(header: BatchHeader) -> str:
    return f"{header.records} records of {header.host} (epoch {header.epoch}), {header.first} to {header.last}"
