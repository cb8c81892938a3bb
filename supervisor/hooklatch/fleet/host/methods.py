"""The methods of the fleet's link, fleet_follow and fleet_apply; and fleet_reset, which is for administrators alone.

The report about this host in its fleet, which they return, is also that of `status`, `health` and the metrics.
"""

from __future__ import annotations

import base64
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from hooklatch.core.health import ActiveFaults
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.fleet.host.contact import FleetContact
from hooklatch.fleet.host.fleet_layer import FleetLayer
from hooklatch.processes.supervisor import Supervisor
from hooklatch.service.api.contributions import PolicyRejectedError
from hooklatch.service.api.methods import ApiMethod, MethodTable
from hooklatch.service.api.status_report import StatusReport
from hooklatch.service.dispatch.fires import FireGenerations
from hooklatch.service.loading.reloader import Reloader
from hooklatch.service.loading.sources import Sources
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import Connection

if TYPE_CHECKING:
    from hooklatch.core.status_answers import AppliedAnswer, FleetReportAnswer, FleetStatus, FleetVersions

__all__ = ["FleetReport", "FleetMethods"]


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


class FollowParams(msgspec.Struct, frozen=True):
    """Stored manifests as texts, in order.  An empty list says that the engine has no newer one.

    Without a list the request changes nothing: it only asks for this host's report.
    """

    manifests: list[str] | None = None


class ApplyParams(msgspec.Struct, frozen=True):
    """The number of a version, and its bundle in base64."""

    version: int
    bundle: str


class ResetParams(msgspec.Struct, frozen=True):
    reason: str


class FleetMethods(msgspec.Struct, frozen=True, kw_only=True):
    """The methods that read and activate the fleet's policy."""

    fleet: FleetLayer
    contact: FleetContact
    files: Reloader
    sources: Sources
    generations: FireGenerations
    status: StatusReport
    report: FleetReport
    background: Supervisor

    @property
    def of_links(self) -> MethodTable:
        return {
            "fleet_follow": ApiMethod(FollowParams, self._follow),
            "fleet_apply": ApiMethod(ApplyParams, self._apply),
        }

    @property
    def of_administrators(self) -> MethodTable:
        return {"fleet_reset": ApiMethod(ResetParams, self._reset)}

    async def _follow(self, connection: Connection, params: FollowParams) -> FleetReportAnswer:
        """Read manifests; return which versions this host has read, should have and has."""
        if params.manifests is not None:
            try:
                await self.fleet.follow(params.manifests)
            except PolicyRejectedError as error:
                raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        if params.manifests == [] and self.fleet.is_current:
            await self.contact.record_contact()
        return self.describe()

    async def _apply(self, connection: Connection, params: ApplyParams) -> AppliedAnswer:
        """Activate a version; if anything is wrong with it, the last good one stays active."""
        try:
            data = base64.b64decode(params.bundle, validate=True)
        except ValueError:
            raise RpcError(ErrorCode.INVALID_PARAMS, "bundle is not base64") from None
        try:
            applied = await self.fleet.apply(params.version, data, self.files.apply)
        except PolicyRejectedError as error:
            raise RpcError(ErrorCode.LOAD_FAILED, str(error)) from None
        # In the background: fires that began under the old version may run its workers for a while yet.
        self.background.spawn("fleet clean-up", self.clean)
        return {"applied": applied.describe(), "revision": self.status.registries.view.revision}

    async def _reset(self, connection: Connection, params: ResetParams) -> FleetReportAnswer:
        """Forget which versions were read; the active policy stays."""
        reason = " ".join(params.reason.split())
        if not reason:
            raise RpcError(ErrorCode.INVALID_PARAMS, 'give a "reason": it is recorded')
        try:
            await self.fleet.reset(reason)
        except PolicyRejectedError as error:
            raise RpcError(ErrorCode.NOT_PERMITTED, str(error)) from None
        await self.files.reload()
        return self.describe()

    def describe(self) -> FleetReportAnswer:
        """Return this host's report to its link."""
        fleet, settings = self.fleet, self.fleet.settings
        return {
            **self.report.describe_versions(),
            "problem": "; ".join(fleet.problems) or None,
            "host": settings.host if settings is not None else None,
            "labels": settings.labels if settings is not None else (),
            "health": self.status.report_health()["health"],
            "revision": self.status.registries.view.revision,
        }

    async def clean(self) -> None:
        """Remove the bundles that no fire needs any more."""
        await self.generations.wait_quiesced()
        await self.fleet.clean(self._is_used)

    def _is_used(self, root: str) -> bool:
        return any(location.startswith(f"{root}/") for location, _ in tuple(self.sources.pools))
