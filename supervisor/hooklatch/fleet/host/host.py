"""The fleet's part of a daemon: its policy, this host's contact, the link that may change both, and the report on them.

The daemon loads it when hooks.toml has [fleet], or when a fleet left a policy here.  A link may call fleet_follow,
fleet_apply and fleet_shipped; fleet_reset is for administrators alone.
"""

from __future__ import annotations

import base64
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hooklatch.core.health import ActiveFaults
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.core.text import suggest_name
from hooklatch.errors import locate_error
from hooklatch.fleet.host.contact import FleetContact
from hooklatch.fleet.host.fleet_layer import FleetLayer
from hooklatch.fleet.host.trust import FleetTrust, LinkToken
from hooklatch.fleet.manifests import START, BundleVersion, FleetError
from hooklatch.fleet.reports import EngineFault
from hooklatch.fleet.roles import format_moment
from hooklatch.fleet.settings import describe_open_password, read_settings
from hooklatch.fleet.version_copies import (
    find_following,
    keep_timestamp,
    read_kept_bundle,
    read_kept_key_sets,
    read_kept_versions,
)
from hooklatch.service.api.methods import ApiMethod, MethodTable, PolicyContribution, PolicyRejectedError
from hooklatch.service.config.settings import Settings
from hooklatch.service.loading.see import BundleFiles, FleetFiles
from hooklatch.service.transport.connection import Connection
from hooklatch.threads import in_thread

if TYPE_CHECKING:
    from hooklatch.core.status_answers import (
        AppliedAnswer,
        EmptyAnswer,
        FleetReportAnswer,
        FleetStatus,
        FleetVersions,
    )
    from hooklatch.service.parts import DaemonComponents

__all__ = ["FleetHost"]

logger = logging.getLogger("hooklatch.fleet")
ROLES = ("link",)
NO_LINK = (
    "no link is connected, so nothing comes from the fleet and nothing is shipped to it; start it: hooklatch link, or"
    " for good: hooklatch service install --link"
)


class FollowParams(msgspec.Struct, frozen=True):
    """Stored manifests as texts, in order.  An empty list says that the engine has no newer one.

    Without a list the request only asks for this host's report.  `timestamp` is the one that the engine has, if any,
    asked for before the manifests were, and `keys` are the key sets after this host's.  `engine` says what is wrong
    with the engine, null that nothing is.
    """

    manifests: list[str] | None = None
    timestamp: str | None = None
    keys: list[str] = []
    engine: EngineFault | UnsetType | None = UNSET


class ApplyParams(msgspec.Struct, frozen=True):
    """The number of a version, and its bundle in base64."""

    version: int
    bundle: str


class ShippedParams(msgspec.Struct, frozen=True):
    """The number of the last entry up to which the engine has acknowledged all; 0 if it has none."""

    seq: Annotated[int, Meta(ge=0)]


class ResetParams(msgspec.Struct, frozen=True):
    reason: str


class FleetHost(PolicyContribution):
    """This host's side of a fleet, in its daemon."""

    def __init__(self, daemon: DaemonComponents) -> None:
        self.counts: Counter[str] = Counter()  # what happened to the policy, by the action that is recorded
        self._daemon = daemon
        self._engine: EngineFault | None = None  # what the link says is wrong with the engine
        self._unreadable: str | None = None  # the reason why the settings that the daemon kept are unknown
        self._faults = ActiveFaults()  # of the layer and of the token
        self.token = LinkToken(os.path.dirname(daemon.places["admin"]), self._faults, self._end_links)
        self.trust = FleetTrust(daemon.state, self._note)
        self.contact = FleetContact(
            daemon.state, self._note, daemon.reloader.deny, self._find_lack, find_end=lambda: self.trust.ends,
            find_observing=lambda: self.layer.find_observing(), find_active=lambda: self.layer.observing,
        )  # fmt: skip
        self.layer = FleetLayer(
            daemon.state, self._note, self._faults, lambda: self.contact.denial, lambda: self.contact.time
        )
        self.layer.load()

    @property
    def of_administrators(self) -> MethodTable:
        return {"fleet_reset": ApiMethod(ResetParams, self._reset)}

    @property
    def of_links(self) -> MethodTable:
        return {
            "fleet_follow": ApiMethod(FollowParams, self._follow),
            "fleet_apply": ApiMethod(ApplyParams, self._apply),
            "fleet_shipped": ApiMethod(ShippedParams, self._shipped),
        }

    def take(self, settings: Settings) -> None:
        try:
            fleet = read_settings(settings.fleet)
        except msgspec.ValidationError as error:
            self._unreadable = f"the [fleet] in the state file is not this version's: {error}; repair hooks.toml"
            return
        self._unreadable = None
        self.token.take(fleet)
        self.trust.take(fleet)
        self.layer.take(self.trust.settings)
        self.contact.take(fleet)

    async def run(self) -> None:
        await self._begin_with_image()
        await self.contact.run()

    async def _begin_with_image(self) -> None:
        """Take the policy that this machine's image carries, if none was proven here, as if a link had brought it."""
        settings = self.layer.settings
        if settings is None or (folder := settings.image) is None or self.layer.has_policy:
            return
        try:
            key_sets, kept = await in_thread(lambda: (read_kept_key_sets(folder), read_kept_versions(folder)))
            texts = [msgspec.json.encode(envelope).decode() for envelope in find_following(START, kept)]
            if not texts:
                raise FleetError(
                    "it has no version of the policy; copy a host's or a publisher's folder, or an archive"
                )
            await self._take(FollowParams(texts, keys=[data.decode("utf-8", "replace") for data in key_sets]))
            for wanted in [of.wanted for of in self.layer.versions.values() if of.wanted != of.applied]:
                assert wanted is not None
                data = await in_thread(read_kept_bundle, [folder], wanted.bundle)
                if data is None:
                    raise FleetError(f"it does not have the bundle of version {wanted.version}")
                await self.layer.apply(wanted.version, data, self._daemon.reloader.apply)
        except (FleetError, PolicyRejectedError, RpcError, OSError) as error:
            self._faults.report("image", f"the policy in the image, {folder}, is not active: {locate_error(error)}")

    def close(self) -> None:
        self.token.remove()

    def _find_lack(self) -> str | None:
        """Return why every gate is denied while no policy is proven here: the operator's guards may be in it."""
        settings, layer = self.layer.settings, self.layer
        if settings is None or settings.when_none != "deny":
            return None
        # A host that is new has all of its policies before it passes anything; a later one may take its time.
        if layer.has_policy and (self.contact.has_answered or not layer.has_missing_policy):
            return None
        # That no version is meant for this host counts only once all that the engine has was read.
        if self.contact.has_answered and layer.followed.head.version > 0 and not layer.has_missing_policy:
            return None
        return (
            f"no policy of the fleet {settings.name!r}, which may hold guards, has been proven on this host; make sure"
            ' that `hooklatch link` runs and reaches the engine, or set when_none = "serve" in [fleet]'
        )

    # -- the report ---------------------------------------------------------------------------------------------------

    @property
    def problems(self) -> list[str]:
        """Return what is wrong, and what to do."""
        contact = self.contact
        fault = contact.fault if contact.stale_denial is None else None  # else the denial says it
        engine = f"the fleet's engine: {self._engine.text}" if self._engine is not None else None
        texts = (engine, contact.denial or contact.problem, fault, self.trust.fault, self._unreadable)
        observing = [
            f"the fleet's policy {name!r} only observes until {format_moment(end)}: nothing of it is enforced here;"
            " its publisher ends that: hooklatch fleet observe --end"
            for name, end in self.layer.observing.items()
        ]
        return [*observing, *self._faults, *(text for text in texts if text is not None)]

    @property
    def warnings(self) -> list[str]:
        """Return what deserves a look."""
        if (settings := self.layer.settings) is None:
            return []
        text = describe_open_password(settings)
        return [*([] if self._count_links() else [NO_LINK]), *([] if text is None else [text])]

    def _count_links(self) -> int:
        return sum(connection.role == "link" for connection in self._daemon.bus.connections.values())

    def status(self) -> FleetStatus | None:
        settings, contact = self.layer.settings, self.contact
        if settings is None and not self.layer.policy.applied:
            return None
        keys = self.trust.key_set
        return {
            "name": settings.name if settings is not None else None,
            "host": settings.host if settings is not None else None,
            "labels": settings.labels if settings is not None else (),
            **self._describe_versions(),
            "contact_at": contact.at,
            "timestamp": msgspec.to_builtins(contact.newest),
            "key_set": {"version": keys.version, "expires": format_moment(keys.ends)} if keys is not None else None,
            "is_stale": contact.is_stale,
            "max_staleness_s": settings.max_staleness if settings is not None else None,
            "when_stale": settings.when_stale if settings is not None else None,
            "when_none": settings.when_none if settings is not None else None,
            "denies": self.layer.denies,
            "links": self._count_links(),
            "counts": dict(self.counts),
            "problems": self.problems,
        }

    def _describe_versions(self) -> FleetVersions:
        """Return which versions this host has read, should have and has, and the seconds since its last contact."""
        age, versions, followed = self.contact.age, self.layer.versions, self.layer.followed
        return {
            "head": msgspec.to_builtins(followed.head),
            "floor": msgspec.to_builtins(followed.floor),
            "engine": msgspec.to_builtins(self._engine),
            "wanted": msgspec.to_builtins(find_newest(of.wanted for of in versions.values())),
            "applied": msgspec.to_builtins(find_newest(of.applied for of in versions.values())),
            "policies": msgspec.to_builtins(versions),
            "stale_s": round(age, 1) if age is not None else None,
        }

    def _report(self) -> FleetReportAnswer:
        settings, status = self.layer.settings, self._daemon.status
        return {
            **self._describe_versions(),
            "problem": "; ".join((*self.layer.problems, *filter(None, (self.contact.fault, self.trust.fault)))) or None,
            "key_set": self.trust.key_set.version if self.trust.key_set is not None else 0,
            "host": settings.host if settings is not None else None,
            "labels": settings.labels if settings is not None else (),
            "health": status.report_health()["health"],
            "revision": status.registries.view.revision,
        }

    # -- the policy ---------------------------------------------------------------------------------------------------

    def load(self) -> None:
        self.trust.load()
        self.contact.load()
        self.layer.take(self.trust.settings)
        self.layer.load()

    def look(self, before: FleetFiles | None, *, mends: bool) -> Callable[[], FleetFiles | None]:
        return self.layer.look(before, mends=mends)

    def add_denial(self, files: FleetFiles | None) -> FleetFiles | None:
        if self._unreadable is not None:
            return FleetFiles((BundleFiles(fault=self._unreadable),))
        return self.layer.add_denial(files)

    def record_active(self, files: FleetFiles | None) -> None:
        self.layer.record_active(files)
        self.contact.look_again()

    def record_attempt(self, what: str, hook: str) -> None:
        self.layer.record_attempt(what, hook)

    async def leave(self) -> bool:
        return await self.layer.leave()

    async def clean(self) -> None:
        """Remove the bundles that no fire needs any more."""
        await self._daemon.generations.wait_quiesced()
        await self.layer.clean(self._is_used)

    def _is_used(self, root: str) -> bool:
        return any(location.startswith(f"{root}/") for location, _ in tuple(self._daemon.sources.pools))

    # -- the link and its methods -------------------------------------------------------------------------------------

    def admit(self, connection: Connection, role: str, token: str | None, *, has_session: bool) -> None:
        if role not in ROLES:
            hint = suggest_name(role, ROLES) or "; the only role is link"
            raise RpcError(ErrorCode.INVALID_PARAMS, f"unknown role {role!r}{hint}")
        if has_session:
            raise RpcError(ErrorCode.INVALID_PARAMS, "a link has no session; leave one of the two out")
        refusal = self.token.find_refusal(token, is_admin=connection.is_admin)
        if refusal is not None:
            logger.warning("link refused: %s", refusal.message, extra={"connection": connection.number})
            self._note("fleet", {"action": "link refused", "problem": refusal.message})
            raise refusal
        connection.role = "link"

    async def _shipped(self, connection: Connection, params: ShippedParams) -> EmptyAnswer:
        """Note what the engine has acknowledged; a smaller number than before counts too: it may have lost entries.

        Raises:
            RpcError: there is no such entry, so the engine's log is of another record.
        """
        try:
            self._daemon.record.set_shipped(params.seq)
        except ValueError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, f"{error}; the engine's log is of another record") from None
        return {}

    async def _follow(self, connection: Connection, params: FollowParams) -> FleetReportAnswer:
        """Read manifests; return which versions this host has read, should have and has."""
        await self._take(params)
        return self._report()

    async def _take(self, params: FollowParams) -> None:
        if params.engine is not UNSET:
            self._engine = params.engine
        if params.manifests is not None:
            if (unknown := self._daemon.state.fault) is not None:  # with the floors that are in it
                raise RpcError(ErrorCode.INVALID_PARAMS, f"nothing is taken while the state is unknown: {unknown}")
            if await self.trust.follow(params.keys):
                self.contact.forget_timestamp()
            if params.keys:
                self.layer.take(self.trust.settings)
            if params.manifests and (expired := self.contact.expired) is not None:
                raise RpcError(ErrorCode.INVALID_PARAMS, expired)
            try:
                await self.layer.follow(params.manifests)
            except PolicyRejectedError as error:
                raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
            if not params.manifests and self.layer.is_current:
                self._engine = None
            before = self.contact.newest
            await self.contact.record_answer(
                params.timestamp,
                self.trust.timestamp_role,
                head=self.layer.followed.head,
                is_current=self.layer.is_current,
                is_end=not params.manifests,
            )
            if params.timestamp is not None and self.contact.newest != before:
                with suppress(OSError):  # only a copy, by which an engine could be mended
                    await in_thread(keep_timestamp, self.layer.folder, params.timestamp.encode())

    async def _apply(self, connection: Connection, params: ApplyParams) -> AppliedAnswer:
        """Activate a version; if anything is wrong with it, the last good one stays active."""
        try:
            data = base64.b64decode(params.bundle, validate=True)
        except ValueError:
            raise RpcError(ErrorCode.INVALID_PARAMS, "bundle is not base64") from None
        try:
            applied = await self.layer.apply(params.version, data, self._daemon.reloader.apply)
        except PolicyRejectedError as error:
            raise RpcError(ErrorCode.LOAD_FAILED, str(error)) from None
        self._faults.report("image")  # it is needed no more
        await self.contact.apply_denial()  # it may only observe, by a key that was not active before
        # In the background: fires that began under the old version may run its workers for a while yet.
        self._daemon.dispatcher.background.spawn("fleet clean-up", self.clean)
        return {"applied": msgspec.to_builtins(applied), "revision": self._daemon.registries.view.revision}

    async def _reset(self, connection: Connection, params: ResetParams) -> FleetReportAnswer:
        """Forget which versions were read; the active policy stays."""
        reason = " ".join(params.reason.split())
        if not reason:
            raise RpcError(ErrorCode.INVALID_PARAMS, 'give a "reason": it is recorded')
        try:
            await self.layer.reset(reason)
        except PolicyRejectedError as error:
            raise RpcError(ErrorCode.NOT_PERMITTED, str(error)) from None
        await self._daemon.reloader.reload()
        return self._report()

    # -- notes --------------------------------------------------------------------------------------------------------

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
        """Record an event of the fleet, and count it."""
        self.counts[fields["action"]] += 1
        self._daemon.notes.note(kind, fields)

    def _end_links(self) -> None:
        """Close the links when [fleet] changes. The new one has acknowledged nothing, and has another token."""
        self._daemon.record.set_shipped(None)
        self._daemon.bus.close_links()


def find_newest(versions: Iterable[BundleVersion | None]) -> BundleVersion | None:
    """Return the version with the highest number, if there is any."""
    return max(
        (version for version in versions if version is not None), key=lambda version: version.version, default=None
    )
