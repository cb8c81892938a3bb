"""What the engine has of a host's record, beside the record itself: where shipping goes on, and what is wrong.

Knows numbers and hashes; reads no file and no engine.  The engine's newest record of this host is the only state there
is.  If the record does not have it any more, something took back what had been written: the log in the engine stays as
it is, and the record is shipped anew into a log of the next epoch.
"""

from __future__ import annotations

import msgspec

from hooklatch.record.files.chain import ChainLink

__all__ = ["LocalRecords", "Resume", "ShippedHead", "compare_records"]


class ShippedHead(msgspec.Struct, frozen=True):
    """The newest record of a log in the engine; without a hash only its number is known."""

    epoch: int
    seq: int
    hash: str


class LocalRecords(msgspec.Struct, frozen=True):
    """What the record has around a number: the record with it, the next one, the oldest one and the newest one."""

    same: ChainLink | None
    following: ChainLink | None
    oldest: ChainLink | None
    newest: ChainLink | None


class Resume(msgspec.Struct, frozen=True):
    """Shipping goes on behind record `after`, whose hash is `hash` if that is known, into the log of `epoch`.

    `is_rewritten`: the record is not what was shipped.  `finding` is what to tell, `lost` how many records were removed
    before they were shipped.
    """

    epoch: int
    after: int = 0
    hash: str | None = None
    is_rewritten: bool = False
    finding: str | None = None
    lost: int = 0


def compare_records(shipped: ShippedHead | None, local: LocalRecords) -> Resume:
    """Return where to go on; `local` is what there is around `shipped.seq`."""
    if shipped is None:
        return Resume(1)
    if local.same is not None and local.same.hash == shipped.hash:
        return Resume(shipped.epoch, shipped.seq, shipped.hash)
    if not shipped.hash and local.newest is not None and local.newest.seq >= shipped.seq:
        finding = (
            f"the engine's log of this host, epoch {shipped.epoch}, was emptied: it had records up to {shipped.seq}"
        )
        return Resume(shipped.epoch, shipped.seq, finding=finding)
    if (what := describe_rewriting(shipped, local)) is not None:
        return Resume(
            shipped.epoch + 1,
            is_rewritten=True,
            finding=f"{what}; the engine has record {shipped.seq} in epoch {shipped.epoch}, and what the record has now"
            " goes into a new epoch",
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
    """Return how the record contradicts what was shipped; None if it does not."""
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
