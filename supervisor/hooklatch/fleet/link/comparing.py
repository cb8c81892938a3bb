"""The comparison of a host's record with its log in the engine: where shipping continues, and what is wrong.

Pure.  The engine's newest entry of this host is the only state.  If the record does not have that entry any more, the
record was changed: the log in the engine stays as it is, and the record is shipped anew into a log of the next epoch.
"""

from __future__ import annotations

import msgspec

from hooklatch.record.storage.chain import ChainLink

__all__ = ["LocalRecords", "Resume", "ShippedHead", "compare_records"]


class ShippedHead(msgspec.Struct, frozen=True):
    """The newest entry of a log in the engine; without a hash only its number is known."""

    epoch: int
    seq: int
    hash: str


class LocalRecords(msgspec.Struct, frozen=True):
    """The entries around a number: the entry with it, the next one, the oldest one and the newest one."""

    same: ChainLink | None
    following: ChainLink | None
    oldest: ChainLink | None
    newest: ChainLink | None


class Resume(msgspec.Struct, frozen=True):
    """The place where shipping continues: after entry `after`, with `hash` if that is known, in the log of `epoch`.

    `is_rewritten`: the record differs from what was shipped.  `finding` is a text for the report, `lost` how many
    entries were removed before they were shipped.
    """

    epoch: int
    after: int = 0
    hash: str | None = None
    is_rewritten: bool = False
    finding: str | None = None
    lost: int = 0


def compare_records(shipped: ShippedHead | None, local: LocalRecords) -> Resume:
    """Return where shipping continues; `local` are the entries around `shipped.seq`."""
    if shipped is None:
        return Resume(1)
    if local.same is not None and local.same.hash == shipped.hash:
        return Resume(shipped.epoch, shipped.seq, shipped.hash)
    if not shipped.hash and local.newest is not None and local.newest.seq >= shipped.seq:
        finding = (
            f"the engine's log of this host, epoch {shipped.epoch}, was emptied: it had records up to {shipped.seq}"
        )
        return Resume(shipped.epoch, shipped.seq, finding=finding)
    if (contradiction := describe_rewriting(shipped, local)) is not None:
        return Resume(
            shipped.epoch + 1,
            is_rewritten=True,
            finding=f"{contradiction}; the engine has record {shipped.seq} in epoch {shipped.epoch}, and what the"
            " record has now goes into a new epoch",
        )
    assert local.following is not None
    if local.following.prev == shipped.hash:
        return Resume(shipped.epoch, shipped.seq, shipped.hash)
    lost = local.following.seq - shipped.seq - 1
    return Resume(
        shipped.epoch,
        shipped.seq,
        finding=f"records {shipped.seq + 1} to {local.following.seq - 1} were removed before they were shipped",
        lost=lost,
    )


def describe_rewriting(shipped: ShippedHead, local: LocalRecords) -> str | None:
    """Return how the record contradicts the shipped entry; None if it does not."""
    if local.newest is None:
        return "the record is empty"
    if local.newest.seq < shipped.seq:
        return f"the record was truncated: it ends with {local.newest.seq}"
    if local.same is not None:
        return f"the record was rewritten: record {shipped.seq} has another hash"
    if local.following is None or local.oldest is None:
        return f"record {shipped.seq} is damaged, and no later one can be read"
    begins_later = local.oldest.seq > shipped.seq
    if not begins_later and local.following.prev != shipped.hash:
        return f"record {shipped.seq} is gone from the middle of the record"
    return None
