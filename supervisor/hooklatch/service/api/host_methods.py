"""The method `host`: the document of a host's event in, the output of its hook process out.

An error on a gate ends as a refusal in the form that the host honours, on any other event in silence.  No error is
hidden: the log and `status` report it, and the record has it where the event is known.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
import trio

from hooklatch.core.fire_params import EnvelopeParams, FireParams, HostParams
from hooklatch.core.messages import Cause, FireDecision
from hooklatch.core.payload import Payload
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.hosts.find import UnknownHostError, find_host
from hooklatch.service.api.methods import ApiMethod, MethodTable
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.fires import CallReport, DecisionAdapter
from hooklatch.service.dispatch.host_calls import CallNumbers, DuplicateEvents, FirstRefusals
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession
from hooklatch.service.registry.statistics import Statistics
from hooklatch.service.transport.connection import Connection

if TYPE_CHECKING:
    from hooklatch.hosts.host import Call, HookOutput, Host, HostEvent, HostEventSpec, HostFire
    from hooklatch.service.dispatch.results import HeldResults

__all__ = ["HostMethods"]

logger = logging.getLogger("hooklatch.hosts")
# In place of those that a fire has taken, so that their bytes are held once.
NO_PARAMS, NO_PAYLOAD = FireParams(""), Payload(b"{}")
ANSWER_MARGIN = 0.5  # seconds, at most, that our answer takes to the host; for a short budget a tenth of it


class HostMethods:
    """The method that fires the events of hosts, and renders the decisions for them."""

    def __init__(
        self, dispatcher: Dispatcher, statistics: Statistics, projects: ProjectRegistry, registries: Registries
    ) -> None:
        self._dispatcher = dispatcher
        self._statistics = statistics
        self._projects = projects
        self._call_numbers = CallNumbers()
        self._first_refusals = FirstRefusals()
        self._duplicates = DuplicateEvents(trio.current_time, lambda: registries.epoch)
        self._held_results: HeldResults | None = None  # once a host has reported a result

    @property
    def methods(self) -> MethodTable:
        return {"host": ApiMethod(HostParams, self._host)}

    async def _host(self, connection: Connection, params: HostParams) -> HookOutput:
        """Answer one event."""
        # The adapters are imported for the first event.  If they cannot be, the forwarder refuses as without a daemon.
        from hooklatch.hosts import canary
        from hooklatch.hosts.host import UnreadableError

        try:
            host = find_host(params.host)
        except UnknownHostError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        session, event, budget = connection.session, params.event, params.budget
        try:
            native = host.read(event, bytes(params.document), params.environ)
            if canary.KEY in native.fields and (refusal := canary.refuse_canary(host, native)) is not None:
                return refusal
            if not native.spec.event:
                return host.silence(native.name)
            request = host.make_fire(native)
        except UnreadableError as error:
            return await self._refuse_unreadable(host, error.event or event, error.cause, str(error), session)
        except Exception as error:
            logger.exception("an adapter failed on a document", extra={"host": host.name, "event": event})
            return await self._refuse_unreadable(host, event, "protocol", describe_host_bug(host, error), session)
        # Of what can be large, only the payload and the document's bytes are kept while hooks run.
        firing = self._fire(host, msgspec.structs.replace(native, document={}), request, budget, session)
        del params, native, request
        return await firing

    async def _fire(
        self, host: Host, native: HostEvent, request: HostFire, budget: float | None, session: AgentSession | None
    ) -> HookOutput:
        adapt, spec, same_call = make_decision_adapter(host, native), native.spec, request.same_call
        report: CallReport = None if not host.joins_calls else "in order" if request.call_key else "by id"
        params, payload, warnings = request.params, request.payload, list[str]()
        if request.call is not None and request.call_key:  # never with an id of the host's own
            params = msgspec.structs.replace(params, call_id=self._number_call(request.call, request.call_key))
        if spec.kind == "gate" and budget is not None:
            params = msgspec.structs.replace(params, timeout=budget - min(ANSWER_MARGIN, budget / 10))
        if spec.after is not None:
            request = msgspec.structs.replace(request, params=params)
            return await self._fire_result(host, native, request, session, report)
        request = msgspec.structs.replace(request, params=NO_PARAMS, payload=NO_PAYLOAD)
        if spec.event == "post_tool_batch" and self._held_results is not None:
            adapt = self._held_results.adapt(host, native, adapt)
        if spec.event == "session_start":  # a person reads what the host shows then
            warnings = await self._projects.begun((params.envelope.cwd, params.envelope.began_in))
        try:
            if spec.kind == "notify":
                self._dispatcher.fire_later(params, session, adapt_decision=adapt, payload=payload, report=report)
                return host.silence(native.name)
            decision = self._duplicates.take(same_call, native.name) if same_call else None
            if decision is None:
                asks_itself = "ask" in spec.enforces
                firing = self._dispatcher.fire(
                    params, session, adapt_decision=adapt, asks_itself=asks_itself, payload=payload, report=report
                )
                params, payload = NO_PARAMS, NO_PAYLOAD
                decision = await firing
                if same_call:
                    self._duplicates.keep(same_call, native.name, decision)
            else:
                decision = adapt(decision)
        except RpcError as error:
            return self._render_failure(host, native.name, "protocol", error.message)
        if warnings:
            decision = msgspec.structs.replace(decision, warnings=[*decision.warnings, *warnings])
        if request.call == "begins" and decision.is_refusal:
            self._call_numbers.end_call(request.call_key)  # a refused call has no second event that would end it
        if decision.verdict == "deny":
            decision = self._explain_first(host, native, decision)
        try:
            return host.render(native, decision)
        except Exception as error:
            logger.exception("an adapter failed on a decision", extra={"host": host.name, "event": native.name})
            return self._render_failure(host, native.name, "protocol", describe_host_bug(host, error))

    async def _fire_result(
        self, host: Host, native: HostEvent, request: HostFire, session: AgentSession | None, report: CallReport
    ) -> HookOutput:
        """Fire what a tool gave, and after that the event that tells what ran."""
        from hooklatch.service.dispatch.results import HeldResults, fire_result

        is_gated, self._held_results = self._is_heard(native.spec, session), self._held_results or HeldResults()
        try:
            return await fire_result(
                self._dispatcher, host, native, request, session, make_decision_adapter, report=report,
                is_gated=is_gated, held=self._held_results,
            )  # fmt: skip
        except RpcError as error:
            return self._render_failure(host, native.name, "protocol", error.message)
        except Exception as error:
            logger.exception("an adapter failed on a result", extra={"host": host.name, "event": native.name})
            return self._render_failure(host, native.name, "protocol", describe_host_bug(host, error))

    def _explain_first(self, host: Host, native: HostEvent, decision: FireDecision) -> FireDecision:
        """Return a refusal, with whose rule it is if it is a guard's, of a tool, and the first one of its session."""
        from hooklatch.hosts.fitting import explain_rule

        is_ruled = decision.cause == "policy" and native.event == "pre_tool_use"
        if is_ruled and self._first_refusals.take(host.name, host.read_session_id(native)):
            return explain_rule(decision)
        return decision

    def _is_heard(self, spec: HostEventSpec, session: AgentSession | None) -> bool:
        """Return whether a hook may be on an event; where projects are trusted, one of theirs may."""
        registries = self._dispatcher.registries
        hooks = registries.view_of(session, None).for_event(registries.find_event(spec.event))
        is_required = session is not None and spec.event in session.terms.require_handlers
        return bool(hooks) or is_required or bool(self._projects.trusted)

    def _number_call(self, stage: Call, key: str) -> str:
        calls = self._call_numbers
        return {"begins": calls.begin_call, "goes_on": calls.find_open_call, "ends": calls.end_call}[stage](key)

    async def _refuse_unreadable(
        self, host: Host, event: str | None, cause: Cause, reason: str, session: AgentSession | None
    ) -> HookOutput:
        """Refuse an event that could not be read, and record the refusal if the event is known."""
        self._statistics.dropped["unreadable"] += 1
        logger.warning("unreadable: %s", reason, extra={"host": host.name, "event": event})
        spec = host.events.get(event) if event is not None else None
        if spec is not None and spec.after is not None and not self._is_heard(spec, session):
            return host.silence(event)
        if spec is not None and spec.event:
            params = FireParams(spec.event, envelope=EnvelopeParams(host=host.name))
            try:
                await self._dispatcher.refuse(
                    self._dispatcher.registries.find_event(spec.event), cause, reason, params, session
                )
            except RpcError:
                logger.exception("a refusal could not be recorded", extra={"host": host.name, "event": event})
        return self._render_failure(host, event, cause, reason)

    def _render_failure(self, host: Host, event: str | None, cause: Cause, reason: str) -> HookOutput:
        try:
            return host.failure(event, cause, reason)
        except Exception:
            logger.exception("an adapter failed on a refusal", extra={"host": host.name, "event": event})
            from hooklatch.hosts.fitting import explain_bug

            return host.refusal(event, explain_bug(reason))


def make_decision_adapter(host: Host, native: HostEvent) -> DecisionAdapter:
    """Return a function that adapts a decision to a host; a bug of the adapter makes it a refusal on a gate."""

    def adapt_decision(decision: FireDecision) -> FireDecision:
        try:
            return host.fit(native, decision)
        except Exception as error:
            logger.exception("an adapter failed on a decision", extra={"host": host.name, "event": native.name})
            if not native.is_gate:
                return decision
            from hooklatch.hosts.host import make_denied_decision

            refusal = make_denied_decision(decision.event, "protocol", describe_host_bug(host, error))
            return msgspec.structs.replace(
                refusal, decision_id=decision.decision_id, payload_digest=decision.payload_digest,
                revision=decision.revision, duration_ms=decision.duration_ms, outcomes=decision.outcomes,
            )  # fmt: skip

    return adapt_decision


def describe_host_bug(host: Host, error: Exception) -> str:
    return f"hooklatch's adapter for {host.title} failed with {type(error).__name__}: {error}"
