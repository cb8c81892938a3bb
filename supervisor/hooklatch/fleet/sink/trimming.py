"""What an operator removed from the engine's logs, and what may be removed next.  Pure.

A note is written before anything is removed: through which record, the hash of that record, how many batches, when, by
whom and why.  So a log that was trimmed is told from one that has a hole.  The newest batch of the newest epoch always
stays: the link goes on from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from hooklatch.fleet.engine.engine import Batch
from hooklatch.fleet.policy.manifests import FleetError, Sha256

__all__ = ["Cut", "Trimmed", "cut_of", "read_trimmed"]


class Trimmed(msgspec.Struct, frozen=True, kw_only=True):
    """A note on one epoch of a host's log: everything through `seq` was removed, `batches` of them in all."""

    epoch: int
    seq: Annotated[int, Meta(ge=1)]
    hash: Sha256
    batches: Annotated[int, Meta(ge=0)]
    at: int  # ms since the epoch, by the engine's clock
    by: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"epoch {self.epoch} was trimmed through record {self.seq} by {self.by or 'an operator'}{why}"


class Cut(msgspec.Struct, frozen=True):
    """What is to be removed from one epoch: the `count` oldest batches, the last of which is `batch`."""

    batch: Batch
    count: int


def cut_of(batches: Sequence[Batch], older_than: int, *, is_newest_epoch: bool) -> Cut | None:
    """Choose what arrived before a moment, in ms by the engine's clock, from the beginning on without a hole.

    `batches` are all of an epoch, or its oldest; the last of them stays where `is_newest_epoch`.
    """
    found = None
    candidates = batches[:-1] if is_newest_epoch else batches
    for count, batch in enumerate(candidates, 1):
        if batch.at >= older_than:
            break
        found = Cut(batch, count)
    return found


def read_trimmed(notes: Mapping[int, bytes]) -> dict[int, Trimmed]:
    """Read the notes on a host's log, by epoch.

    Raises:
        FleetError: one cannot be read; only operators can write them.
    """
    found: dict[int, Trimmed] = {}
    for epoch, data in notes.items():
        try:
            found[epoch] = msgspec.json.decode(data, type=Trimmed)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise FleetError(f"the note on what was trimmed from epoch {epoch} cannot be read: {error}") from None
        if found[epoch].epoch != epoch:
            raise FleetError(f"the note on what was trimmed from epoch {epoch} is of epoch {found[epoch].epoch}")
    return found
