"""The report about this host in its fleet: for `status`, `health`, the metrics and the link."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from hooklatch.core.health import ActiveFaults
from hooklatch.fleet.host.contact import FleetContact
from hooklatch.fleet.host.fleet_layer import FleetLayer
from hooklatch.service.transport.bus import Bus

if TYPE_CHECKING:
    from hooklatch.core.status_answers import FleetStatus, FleetVersions

__all__ = ["FleetReport"]


class FleetReport(msgspec.Struct, frozen=True):
    """The report; `faults` are those of the layer and the token, `counts` are of each action in the fleet's notes."""

    layer: FleetLayer
    contact: FleetContact
    faults: ActiveFaults
    counts: Counter[str]
    bus: Bus

    @property
    def problems(self) -> list[str]:
        """Return what is wrong, and what to do."""
        stale = self.contact.denial or self.contact.problem
        return [*self.faults, *([stale] if stale is not None else [])]

    @property
    def links(self) -> int:
        """Return how many links are connected."""
        return sum(connection.role == "link" for connection in self.bus.connections.values())

    def describe_versions(self) -> FleetVersions:
        """Return which versions this host has read, should have and has, and the seconds since its last contact."""
        layer, head, age = self.layer, self.layer.head, self.contact.age
        return {
            "head": {"version": head.version, "digest": head.digest},
            "wanted": layer.wanted.describe() if layer.wanted is not None else None,
            "applied": layer.active.describe() if layer.active is not None else None,
            "stale_s": round(age, 1) if age is not None else None,
        }

    def status(self) -> FleetStatus | None:
        """Return the whole report; None if there is no [fleet], and no policy that an earlier one left."""
        settings, contact = self.layer.settings, self.contact
        if settings is None and self.layer.applied is None:
            return None
        return {
            "name": settings.name if settings is not None else None,
            "host": settings.host if settings is not None else None,
            "labels": settings.labels if settings is not None else (),
            **self.describe_versions(),
            "contact_at": contact.at,
            "is_stale": contact.is_stale,
            "max_staleness_s": settings.max_staleness if settings is not None else None,
            "when_stale": settings.when_stale if settings is not None else None,
            "denies": self.layer.denies,
            "links": self.links,
            "counts": dict(self.counts),
            "problems": self.problems,
        }
