"""Timestamps: a publisher's signed word of which version was the newest at a moment.

The role of that name in The Update Framework: without it an engine that stands still looks like one where nothing
happens.  Comments name the sections of the framework's specification.  Pure; times are seconds since the epoch.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from hooklatch.fleet.manifests import FleetError, Moment, Name, PolicyHead, Sha256
from hooklatch.fleet.roles import BIG, Role, read_signed, sign_document
from hooklatch.fleet.signing import PrivateKey, Purpose

__all__ = ["LONGEST", "SKEW", "Timestamp", "format_moment", "read_timestamp", "sign_timestamp"]

LONGEST = 8 * 24 * 3600.0  # seconds that a timestamp may last: who stole its key must go on signing
SKEW = 300.0  # seconds by which a signer's clock may be ahead of a host's


class Timestamp(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="timestamp"
):
    """At `issued`, `version` was the newest one, with this digest of its envelope; it may not be relied upon after
    `expires`.
    """

    fleet: Name
    version: Annotated[int, Meta(ge=1, lt=BIG)]
    digest: Sha256
    issued: Moment
    expires: Moment

    @property
    def head(self) -> PolicyHead:
        return PolicyHead(self.version, self.digest)

    @property
    def at(self) -> float:
        return self.issued.timestamp()

    @property
    def lasts(self) -> float:
        """Return for how many seconds it may be relied upon."""
        return self.expires.timestamp() - self.at


def sign_timestamp(fleet: str, head: PolicyHead, key: PrivateKey, *, at: float, lasts: float) -> bytes:
    """Return a timestamp as it is stored."""
    issued = datetime.fromtimestamp(at, UTC)
    stamp = Timestamp(
        fleet=fleet, version=head.version, digest=head.digest, issued=issued, expires=issued + timedelta(seconds=lasts)
    )
    return sign_document(stamp, Purpose.TIMESTAMP, key)


def read_timestamp(data: bytes, fleet: str, role: Role, seen: Timestamp | None, now: float) -> Timestamp:
    """Return a timestamp that may follow the newest one that was seen, which may be the same one again.

    One that has expired is taken, and does not count as contact: see `lasts`.

    Raises:
        FleetError: it is not one of this role, not after `seen`, or not of a time that can be.
    """
    stamp, envelope = read_signed(data, Timestamp, fleet, "the engine's timestamp")
    role.check(envelope, Purpose.TIMESTAMP, "the engine's timestamp")
    when = format_moment(stamp.at)
    if not 0 < stamp.lasts <= LONGEST:
        raise FleetError(
            f"the timestamp of {when} lasts until {format_moment(stamp.expires.timestamp())}: 8 days at most"
        )
    if stamp.at > now + SKEW:
        raise FleetError(f"the timestamp of {when} is of a time that is yet to come here: check both clocks")
    if seen is not None and stamp.at < seen.at:  # 5.4.3.1: rollback; `issued` is its version
        raise FleetError(f"the timestamp of {when} is older than that of {format_moment(seen.at)}, which was seen here")
    if seen is not None and stamp.at == seen.at and stamp != seen:
        raise FleetError(f"there are two different timestamps of {when}")
    return stamp


def format_moment(at: float) -> str:
    """Return a moment for people."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
