"""Runs fires: the machine says which hooks to call, this has them called.  Knows fires and time; decides no verdict.

A fire runs in the task that asked for it.  Its deadline is one moment, from which every call's own is cut.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec
import trio

from hooklatch.core.decisions import decision as decisions
from hooklatch.core.decisions import phases
from hooklatch.core.decisions.decision import Fire
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.registry import Hook, Selection, Snapshot, budget, has, select
from hooklatch.core.hooks.suspension import Suspension, note, parted
from hooklatch.core.limits import MAX_BACKGROUND_BYTES
from hooklatch.core.messages import CallOutcome, Cause, Decision
from hooklatch.core.payload import MAX_PAYLOAD, Payload, PayloadError
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.processes.supervisor import Supervisor
from hooklatch.processes.worker import Reply
from hooklatch.service.config.custom_events import unknown_event
from hooklatch.service.dispatch.calls import Calls, Targets
from hooklatch.service.dispatch.fires import EnvelopeParams, FireParams, Plan, Settled
from hooklatch.service.dispatch.generations import Generations
from hooklatch.service.dispatch.recording import Recording
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import Session
from hooklatch.service.registry.statistics import Statistics

__all__ = ["Dispatcher"]

logger = logging.getLogger("hooklatch.dispatcher")
REFUSED_FIELDS = ("tool_name", "tool_input", "tool_use_id")  # what a refusal's own event repeats of the refused one
MAX_BACKGROUND = 1000  # fires with wait = false that may be under way


Settle = Callable[[Session | None, EnvelopeParams, float], Awaitable[Settled]]


class Audience(Protocol):
    """Those who are shown decisions and telemetry."""

    def decided(self, session: Session | None, decision: Decision) -> None: ...

    def told(self, session: Session | None, event_type: str, data: msgspec.Raw) -> None: ...


class Dispatcher:
    """Turns a fire into a decision."""

    def __init__(
        self,
        registries: Registries,
        targets: Targets,
        generations: Generations,
        statistics: Statistics,
        *,
        settle: Settle,
        suspensions: Iterable[Suspension],
        recording: Recording,
        audience: Audience,
    ) -> None:
        self._registries = registries
        self._targets = targets
        self._generations = generations
        self._statistics = statistics
        self._settle = settle
        self._suspensions = suspensions
        self._recording = recording
        self._audience = audience
        self.is_draining = False
        self._boot = secrets.token_hex(4)
        self._count = 0
        self.background = Supervisor("background fires")
        self._background_count = 0
        self._background_bytes = 0
        self._background_alone = 0  # of them those without a session
        self._shields: set[trio.CancelScope] = set()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the fires that nobody waits for."""
        await self.background.run(task_status)

    def next_id(self) -> str:
        self._count += 1
        return f"{self._boot}-{self._count}"

    def spec(self, event: str) -> EventSpec:
        """Find an event.

        Raises:
            RpcError: nobody defines it.
        """
        catalogue = self._registries.catalogue
        spec = catalogue.get(event)
        if spec is None:
            raise RpcError(ErrorCode.UNKNOWN_EVENT, unknown_event(catalogue, event))
        return spec

    def fire_later(self, params: FireParams, session: Session | None) -> dict[str, Any]:
        """Start a fire that nobody waits for; one that does not fit is dropped and counted."""
        self.spec(params.event)
        decision_id = self.next_id()
        own = session.background if session is not None else self._background_alone
        # A half of what is free: however many one session has under way, another one finds room.
        size = len(bytes(params.payload))
        has_room = (
            own < MAX_BACKGROUND - self._background_count
            and size <= (MAX_BACKGROUND_BYTES - self._background_bytes) // 2
        )
        is_accepted = (
            has_room
            and not self.is_draining
            and self.background.spawn(params.event, self._fire_in_background, params, session, decision_id)
        )
        if is_accepted:
            self._count_background(session, 1, size)
        else:
            self._statistics.dropped["background"] += 1
        return {"accepted": is_accepted, "decision_id": decision_id}

    async def _fire_in_background(self, params: FireParams, session: Session | None, decision_id: str) -> None:
        try:
            await self.fire(params, session, decision_id)
        except RpcError as error:
            logger.warning("fire dropped: %s", error, extra=ids_of(params, session, decision_id))
        finally:
            self._count_background(session, -1, -len(bytes(params.payload)))

    def _count_background(self, session: Session | None, change: int, size: int) -> None:
        self._background_count += change
        self._background_bytes += size
        if session is not None:
            session.background += change
        else:
            self._background_alone += change

    async def fire(
        self,
        params: FireParams,
        session: Session | None,
        decision_id: str | None = None,
        *,
        plan: Plan | None = None,
    ) -> Decision:
        """Decide one event.  Cancelling abandons a gate; anything else is finished in any case.

        Raises:
            RpcError: the event is unknown or the params cannot be used.
        """
        spec = plan.spec if plan is not None else self.spec(params.event)
        if params.timeout is not None and not params.timeout > 0:
            raise RpcError(ErrorCode.INVALID_PARAMS, "timeout is a number of seconds over 0")
        decision_id = decision_id or self.next_id()
        self._statistics.fired(spec.name)
        if session is not None:
            session.fired(spec.name)
        settled = await self._settled_projects(spec, params, session)
        view = self._registries.view_at(session, settled.folders, params.plugins)
        generation = self._generations.enter()
        payload = Payload(bytes(params.payload))
        try:
            decision = await self._decide(spec, params, session, view, decision_id, plan, settled.fault, payload)
        except trio.Cancelled:
            self._statistics.causes["abandoned"] += 1
            self._recording.abandon(spec, decision_id, view.revision, payload, params, session)
            logger.info("abandoned", extra=ids_of(params, session, decision_id))
            raise
        finally:
            generation.leave()
        decision = await self._settled(spec, decision, payload, params, session)
        if decision.is_refusal:
            hook = f"{decision.layer}/{decision.hook}" if decision.hook else None
            what = {"verdict": decision.verdict, "cause": decision.cause, "hook": hook}
            logger.info("refused", extra=ids_of(params, session, decision_id) | what)
            if spec.on_refusal is not None:
                self._fire_refusal(spec.on_refusal, params, session, decision)
        return decision

    async def _settled_projects(self, spec: EventSpec, params: FireParams, session: Session | None) -> Settled:
        limit = min(params.timeout or spec.timeout, spec.timeout)
        if spec.fails_closed:
            return await self._settle(session, params.envelope, limit)
        with self._to_the_end():
            return await self._settle(session, params.envelope, limit)
        return Settled()  # the daemon is about to leave

    async def refuse(
        self, spec: EventSpec, cause: Cause, message: str, params: FireParams, session: Session | None
    ) -> Decision:
        """Decide a fire that could not even be read, without asking any hook."""
        payload = Payload(bytes(params.payload))
        refused = decisions.refuse(spec, cause, message, decision_id=self.next_id(), payload=payload)
        return await self._settled(spec, refused, payload, params, session)

    async def _settled(
        self, spec: EventSpec, decision: Decision, payload: Payload, params: FireParams, session: Session | None
    ) -> Decision:
        """Record a decision, count it and tell of it; from here on it stands."""
        decision = await self._recording.keep(spec, decision, payload, params, session)
        self._statistics.decided(decision)
        self._audience.decided(session, decision)
        return decision

    async def _decide(
        self,
        spec: EventSpec,
        params: FireParams,
        session: Session | None,
        view: Snapshot,
        decision_id: str,
        plan: Plan | None,
        unsettled: str | None,
        payload: Payload,
    ) -> Decision:
        started, began = trio.current_time(), time.perf_counter()
        candidates = narrowed(view.for_event(spec), spec, params.plugins, session)
        if plan is not None:
            candidates = tuple(plan.arrange(candidates))
        fault = self._fault(spec, params, session, candidates, payload)
        suspended = tuple(self._suspensions)
        if fault is None and unsettled is not None and spec.fails_closed and all(one.hook for one in suspended):
            fault = ("load", unsettled)
        selection = Selection(())
        warnings: list[str] = []
        if fault is None:
            if suspended:
                candidates, left_out = parted(suspended, candidates)
                warnings = [note(suspended, hook) for hook in select(spec, left_out, payload).hooks]
            selection = select(spec, candidates, payload)
            if selection.is_blind and spec.fails_closed:
                fault = (
                    "payload",
                    f"its field {spec.match!r} is missing or no string, or too long to match, and hooks match on it",
                )
        if fault is not None:
            return decisions.refuse(
                spec, *fault, decision_id=decision_id, revision=view.revision, payload=payload, context=params.context
            )
        fire = phases.start(spec, candidates, selection, payload, params.context or {})
        fire.warnings += warnings
        deadline = started + budget(spec, selection.hooks, params.timeout)
        call = Calls(self._targets, spec, params, session, deadline, decision_id, self._take_telemetry)
        if spec.fails_closed:
            await self._play(fire, call)
        else:
            await self._play_to_the_end(fire, call)
        elapsed = (time.perf_counter() - began) * 1000
        return fire.decide(decision_id=decision_id, revision=view.revision, duration_ms=round(elapsed, 3))

    def _fault(
        self,
        spec: EventSpec,
        params: FireParams,
        session: Session | None,
        candidates: Sequence[Hook],
        payload: Payload,
    ) -> tuple[Cause, str] | None:
        if self.is_draining:
            return "draining", "start it again, or wait for its successor"
        if params.truncated:
            return "payload", "it is marked truncated"
        if len(payload.data) > MAX_PAYLOAD:
            return "payload", f"its {len(payload.data)} bytes are over the limit of {MAX_PAYLOAD}"
        if not payload.data.startswith(b"{"):
            raise RpcError(ErrorCode.INVALID_PARAMS, "payload must be an object")
        if session is not None and spec.name in session.require_handlers and not candidates:
            return "load", f"the session requires a hook for {spec.name} and there is none"
        return None

    async def _play_to_the_end(self, fire: Fire, call: Calls) -> None:
        """Finish what needs nobody to wait for it, also when its client leaves."""
        with self._to_the_end():
            await self._play(fire, call)

    @contextmanager
    def _to_the_end(self) -> Generator[None]:
        with trio.CancelScope(shield=True) as shield:
            self._shields.add(shield)
            try:
                yield
            finally:
                self._shields.discard(shield)

    def stop(self) -> None:
        """End every fire that the end of a connection does not end; the daemon is about to leave."""
        for shield in self._shields:
            shield.cancel()

    async def _play(self, fire: Fire, call: Calls) -> None:
        while calls := fire.next_calls():
            if len(calls) == 1:
                fire.receive(calls[0], await call.run(calls[0]))
                continue
            outcomes: dict[int, CallOutcome] = {}
            async with trio.open_nursery() as nursery:
                for one in calls:
                    nursery.start_soon(call.run_into, outcomes, one)
            for one in calls:
                fire.receive(one, outcomes[one.index])

    def _fire_refusal(self, event: str, params: FireParams, session: Session | None, decision: Decision) -> None:
        """Tell the hooks of the event that follows a refusal, unless the host says it fires that itself."""
        if session is None or event in session.emits:
            return
        spec = self._registries.catalogue.get(event)
        if spec is None or not self._registries.view_of(session, params.plugins).for_event(spec):
            return
        try:
            fields = Payload(bytes(params.payload)).fields
        except PayloadError:
            fields = {}  # a payload that could not be judged can still have been refused
        payload: dict[str, object] = {key: fields[key] for key in REFUSED_FIELDS if key in fields}
        payload |= {"reason": decision.reason, "denial": {"code": decision.cause}}
        raw = msgspec.Raw(msgspec.json.encode(payload))
        self.fire_later(FireParams(event, raw, envelope=params.envelope, wait=False, plugins=params.plugins), session)

    def _take_telemetry(self, reply: Reply, params: FireParams, session: Session | None) -> None:
        """Hand on what a built-in hook told of its work, to hooks on `telemetry` and to who subscribed."""
        for emitted in reply.emitted:
            data = msgspec.Raw(emitted.data)
            raw = msgspec.Raw(msgspec.json.encode({"event_type": emitted.event_type, "data": data}))
            told = FireParams("telemetry", raw, envelope=params.envelope, wait=False, plugins=params.plugins)
            self.fire_later(told, session)
            self._audience.told(session, emitted.event_type, data)


def ids_of(params: FireParams, session: Session | None, decision_id: str) -> dict[str, object]:
    """Return what a line of the log about a fire names."""
    session_id = session.id if session is not None else params.envelope.session_id
    return {"event": params.event, "decision": decision_id, "session": session_id, "call": params.call_id}


def narrowed(
    hooks: tuple[Hook, ...], spec: EventSpec, plugins: Sequence[str] | None, session: Session | None
) -> tuple[Hook, ...]:
    """Leave out the plugins that this fire does not name; not the gates that a parent session hands down."""
    if plugins is None or all(hook.plugin is None for hook in hooks):
        return hooks
    above = session.gate_plugins if session is not None and spec.fails_closed else ()
    return tuple(hook for hook in hooks if hook.plugin is None or hook.plugin in plugins or has(above, hook.plugin))
