"""The method `host`: the document of a host's event in, the output of its hook process out.

An error on a gate ends as a refusal in the form that the host honours: an ambiguous document, an unknown event, a fire
that is refused, a bug of the adapter.  On any other event it ends in silence.  No error is hidden: the log and `status`
report it, and the record has it where the event is known.
"""

from __future__ import annotations

import logging
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from hooklatch.core.fire_params import EnvelopeParams, FireParams
from hooklatch.core.limits import Name, Path
from hooklatch.core.messages import Cause, FireDecision
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.hosts import canary
from hooklatch.hosts.find import UnknownHostError, find_host
from hooklatch.hosts.host import HookOutput, Host, HostEvent, HostFire, UnreadableError, make_denied_decision
from hooklatch.service.api.methods import ApiMethod, MethodTable
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.fires import DecisionAdapter
from hooklatch.service.dispatch.host_calls import CallNumbers, DuplicateEvents
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession
from hooklatch.service.registry.statistics import Statistics
from hooklatch.service.transport.connection import Connection

__all__ = ["HostMethods", "HostParams"]

logger = logging.getLogger("hooklatch.hosts")
NO_PARAMS = FireParams("")  # in place of those that a fire has taken, so that their payload is held once
MARGIN = 0.5  # seconds, at most, that our answer takes to the host; for a short budget a tenth of it


class HostParams(msgspec.Struct, frozen=True):
    """One event of a host.

    `event` is the one that the forwarder was installed for, `document` the text that the host wrote, and `budget` the
    seconds for which the forwarder still waits.
    """

    host: Name
    document: str
    event: Name | None = None
    environ: dict[Name, Path] = {}
    budget: Annotated[float, Meta(gt=0)] | None = None


class HostMethods:
    """The method that fires the events of hosts, and renders the decisions for them."""

    def __init__(
        self, dispatcher: Dispatcher, statistics: Statistics, projects: ProjectRegistry, registries: Registries
    ) -> None:
        self._dispatcher = dispatcher
        self._statistics = statistics
        self._projects = projects
        self._call_numbers = CallNumbers()
        self._duplicates = DuplicateEvents(trio.current_time, lambda: registries.epoch)

    @property
    def methods(self) -> MethodTable:
        return {"host": ApiMethod(HostParams, self._host)}

    async def _host(self, connection: Connection, params: HostParams) -> HookOutput:
        """Answer one event.

        Raises:
            RpcError: there is no such host, so the form of a refusal is unknown.  The forwarder then does as without
                a daemon.
        """
        try:
            host = find_host(params.host)
        except UnknownHostError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        session, event, budget = connection.session, params.event, params.budget
        try:
            native = host.read(event, params.document.encode(), params.environ)
            del params  # of what can be large, only the payload and the document's bytes are kept while hooks run
            if (refusal := canary.refuse_canary(host, native)) is not None:
                return refusal
            if not native.event:
                return host.silence(native.name)
            request = host.make_fire(native)
        except UnreadableError as error:
            return await self._refuse_unreadable(host, error.event or event, error.cause, str(error), session)
        except Exception as error:
            logger.exception("an adapter failed on a document", extra={"host": host.name, "event": event})
            return await self._refuse_unreadable(host, event, "protocol", describe_host_bug(host, error), session)
        firing = self._fire(host, native.decode_lazily(), request, budget, session)
        del native, request
        return await firing

    async def _fire(
        self, host: Host, native: HostEvent, request: HostFire, budget: float | None, session: AgentSession | None
    ) -> HookOutput:
        adapt, params, same_call = make_decision_adapter(host, native), self._with_call_id(request), request.same_call
        request = msgspec.structs.replace(request, params=NO_PARAMS)
        warnings = (
            await self._projects.begun((params.envelope.cwd, params.envelope.began_in))
            if is_session_begin(native)
            else []
        )
        try:
            if native.spec.kind == "notify":
                self._dispatcher.fire_later(params, session, adapt_decision=adapt)
                return host.silence(native.name)
            if native.is_gate and budget is not None:
                params = msgspec.structs.replace(params, timeout=budget - min(MARGIN, budget / 10))
            decision = self._duplicates.take(same_call, native.name)
            if decision is None:
                asks_itself = "ask" in native.spec.enforces
                firing = self._dispatcher.fire(params, session, adapt_decision=adapt, asks_itself=asks_itself)
                params = NO_PARAMS
                decision = await firing
                self._duplicates.keep(same_call, native.name, decision)
            else:
                decision = adapt(decision)
        except RpcError as error:
            return self._render_failure(host, native.name, "protocol", error.message)
        if warnings:
            decision = msgspec.structs.replace(decision, warnings=[*decision.warnings, *warnings])
        if decision.is_refusal and request.call == "begins":
            self._call_numbers.end_call(request.call_key)  # a refused call has no second event that would end it
        try:
            return host.render(native, decision)
        except Exception as error:
            logger.exception("an adapter failed on a decision", extra={"host": host.name, "event": native.name})
            return self._render_failure(host, native.name, "protocol", describe_host_bug(host, error))

    def _with_call_id(self, request: HostFire) -> FireParams:
        if request.params.call_id is not None or request.call is None or not request.call_key:
            return request.params
        calls = self._call_numbers
        number_call = {"begins": calls.begin_call, "goes_on": calls.find_open_call, "ends": calls.end_call}
        return msgspec.structs.replace(request.params, call_id=number_call[request.call](request.call_key))

    async def _refuse_unreadable(
        self, host: Host, event: str | None, cause: Cause, reason: str, session: AgentSession | None
    ) -> HookOutput:
        """Refuse an event that could not be read, and record the refusal if the event is known."""
        self._statistics.dropped["unreadable"] += 1
        logger.warning("unreadable: %s", reason, extra={"host": host.name, "event": event})
        spec = host.events.get(event) if event is not None else None
        if spec is not None and spec.event:
            params = FireParams(spec.event, envelope=EnvelopeParams(host=host.name))
            try:
                await self._dispatcher.refuse(self._dispatcher.spec(spec.event), cause, reason, params, session)
            except RpcError:
                logger.exception("a refusal could not be recorded", extra={"host": host.name, "event": event})
        return self._render_failure(host, event, cause, reason)

    def _render_failure(self, host: Host, event: str | None, cause: Cause, reason: str) -> HookOutput:
        try:
            return host.failure(event, cause, reason)
        except Exception:
            logger.exception("an adapter failed on a refusal", extra={"host": host.name, "event": event})
            return host.refusal(event, f"hooklatch: refused: {reason} ({cause})")


def is_session_begin(native: HostEvent) -> bool:
    """Return whether a session begins with this event: a person reads what the host shows then."""
    return native.event == "session_start"


def make_decision_adapter(host: Host, native: HostEvent) -> DecisionAdapter:
    """Return a function that adapts a decision to a host; a bug of the adapter makes it a refusal on a gate."""

    def adapt_decision(decision: FireDecision) -> FireDecision:
        try:
            return host.fit(native, decision)
        except Exception as error:
            logger.exception("an adapter failed on a decision", extra={"host": host.name, "event": native.name})
            if not native.is_gate:
                return decision
            refusal = make_denied_decision(decision.event, "protocol", describe_host_bug(host, error))
            return msgspec.structs.replace(
                refusal, decision_id=decision.decision_id, payload_digest=decision.payload_digest,
                revision=decision.revision, duration_ms=decision.duration_ms, outcomes=decision.outcomes,
            )  # fmt: skip

    return adapt_decision


def describe_host_bug(host: Host, error: Exception) -> str:
    return f"hooklatch's adapter for {host.title} failed with {type(error).__name__}: {error}"
