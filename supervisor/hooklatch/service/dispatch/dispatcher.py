"""Runs fires: the machine says which hooks to call, this calls them.  Knows fires and time; decides no verdict.

A fire runs in the task of its request.  Its deadline is one moment, and each call's own deadline is cut to it.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Awaitable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec
import trio

from hooklatch.core.decisions import decision as decisions
from hooklatch.core.decisions import phases
from hooklatch.core.decisions.asks import STRANGERS, AskResolution, apply_resolution
from hooklatch.core.decisions.decision import Machine
from hooklatch.core.fire_params import EnvelopeParams, FireParams
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.hooks.snapshots import MAX_BUDGET, EventHooks, HookSelection
from hooklatch.core.hooks.suspension import Suspension, format_suspension_note, split_suspended
from hooklatch.core.messages import Cause, FireDecision
from hooklatch.core.payload import MAX_PAYLOAD, Payload, PayloadError
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.dialects.find import describe_undefined_event
from hooklatch.processes.supervisor import Supervisor
from hooklatch.service.dispatch.calls import HookRunners
from hooklatch.service.dispatch.fires import DialectPlan, ExtraProjects, Fire, FireServices, Fit, select_planned_hooks
from hooklatch.service.dispatch.generations import FireGenerations
from hooklatch.service.dispatch.recording import DecisionRecorder
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch.service.registry.asks import AskBroker
from hooklatch.service.registry.budget import SMALL, Budget, BudgetShare
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession
from hooklatch.service.registry.statistics import Statistics
from hooklatch_worker.author.call_context import EmittedTelemetry

__all__ = ["Dispatcher"]

logger = logging.getLogger("hooklatch.dispatcher")
REFUSED_FIELDS = ("tool_name", "tool_input", "tool_use_id")  # what the event about a refusal repeats of the refused one
MAX_BACKGROUND = 1000  # fires with wait = false that may be under way


class ProjectResolver(Protocol):
    """Tells in which projects a fire is."""

    def settled(self, session: AgentSession | None, envelope: EnvelopeParams) -> ExtraProjects | None:
        """Return them if that takes no time."""
        ...

    async def settle(self, session: AgentSession | None, envelope: EnvelopeParams, limit: float) -> ExtraProjects:
        """Return them, with their hooks up to date, within `limit` seconds."""
        ...


class Audience(Protocol):
    """The receivers of decisions and telemetry."""

    @property
    def watching(self) -> Mapping[int, object]:
        """The receivers of decisions."""
        ...

    def decided(self, fire: Fire, decision: FireDecision) -> None: ...

    def told(self, session: AgentSession | None, event_type: str, data: msgspec.Raw) -> None: ...


class ActiveSuspensions(Protocol):
    """What an operator has suspended: `ends` is empty if there is nothing."""

    @property
    def ends(self) -> Mapping[Suspension, float]: ...

    @property
    def active(self) -> Sequence[Suspension]: ...


class Dispatcher:
    """Turns a fire into a decision."""

    def __init__(
        self,
        registries: Registries,
        targets: HookRunners,
        generations: FireGenerations,
        statistics: Statistics,
        *,
        projects: ProjectResolver,
        suspensions: ActiveSuspensions,
        asks: AskBroker,
        recording: DecisionRecorder,
        state: SharedState,
        audience: Audience,
        budget: Budget,
    ) -> None:
        self._registries = registries
        self._targets = targets
        self._generations = generations
        self._statistics = statistics
        self._projects = projects
        self._suspensions = suspensions
        self._asks = asks
        self._recording = recording
        self._audience = audience
        self._budget = budget
        self._services = FireServices(recording.prepare, state.answer, self._take_telemetry, budget)
        self._now = trio.lowlevel.current_clock().current_time
        self.is_draining = False
        self._boot = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self.background = Supervisor("background fires")
        self._background_count = 0
        self._background_alone = 0  # the background fires without a session
        self._shields: set[trio.CancelScope] = set()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the background fires."""
        await self.background.run(task_status)

    def spec(self, event: str) -> EventSpec:
        """Find an event.

        Raises:
            RpcError: there is no such event.
        """
        catalogue = self._registries.catalogue
        spec = catalogue.specs.get(event)
        if spec is None:
            raise RpcError(ErrorCode.UNKNOWN_EVENT, describe_undefined_event(catalogue, event))
        return spec

    def _begin(self, spec: EventSpec, params: FireParams, session: AgentSession | None, fit: Fit | None = None) -> Fire:
        return Fire(spec, params, session, f"{self._boot}-{next(self._numbers)}", self._services, fit)

    def fire_later(self, params: FireParams, session: AgentSession | None, *, fit: Fit | None = None) -> dict[str, Any]:
        """Start a fire in the background; if there is no room, drop and count it."""
        fire = self._begin(self.spec(params.event), params, session, fit)
        own = session.background if session is not None else self._background_alone
        # Half of what is free: however many one session has under way, another one finds room.
        has_place = own < MAX_BACKGROUND - self._background_count and not self.is_draining
        room, size = BudgetShare(self._budget, "background fires"), len(fire.payload.data)
        is_accepted = (
            has_place
            and (size <= SMALL or room.take(size))
            and self.background.spawn(params.event, self._fire_in_background, fire, room)
        )
        if is_accepted:
            self._count_background(session, 1)
        else:
            room.shrink(0)
            self._statistics.dropped["background"] += 1
        return {"accepted": is_accepted, "decision_id": fire.decision_id}

    async def _fire_in_background(self, fire: Fire, room: BudgetShare) -> None:
        try:
            await self._run(fire)
        except RpcError as error:
            logger.warning("fire dropped: %s", error, extra=fire.ids)
        finally:
            room.shrink(0)
            self._count_background(fire.session, -1)

    def _count_background(self, session: AgentSession | None, change: int) -> None:
        self._background_count += change
        if session is not None:
            session.background += change
        else:
            self._background_alone += change

    def fire(
        self,
        params: FireParams,
        session: AgentSession | None,
        *,
        plan: DialectPlan | None = None,
        fit: Fit | None = None,
        asks_itself: bool = False,
    ) -> Awaitable[FireDecision]:
        """Decide one event.  Cancelling abandons a gate; any other event is finished in any case.

        `fit` makes of the decision what the host can be told, and that is what is recorded.  `asks_itself`: the host is
        one that asks a person where it is told ask.

        Raises:
            RpcError: the event is unknown or the params cannot be used.
        """
        wait = self._asks.ask_timeout(asks_itself=asks_itself) if params.wait and self._asks.wait else 0.0
        if wait and plan is not None and "ask" in plan.spec.ends_at:
            plan = plan.asking_all()  # a yes is for what every guard has judged
        spec = plan.spec if plan is not None else self._registries.catalogue.specs.get(params.event)
        fire = self._begin(spec or self.spec(params.event), params, session, fit)
        fire.wait = wait
        return self._run(fire, plan)

    async def _run(self, fire: Fire, plan: DialectPlan | None = None) -> FireDecision:
        try:
            return await self._decide(fire, plan)
        finally:
            fire.end()

    async def _decide(self, fire: Fire, plan: DialectPlan | None) -> FireDecision:
        """Decide a fire.  What only some fires need is a function of its own, and only these enter it."""
        spec, params, session, payload = fire.spec, fire.params, fire.session, fire.payload
        self._statistics.fired(spec.name, session.fired if session is not None else None)
        settled = self._projects.settled(session, params.envelope) or await self._settled_projects(fire)
        view = self._registries.view_of(session, params.plugins)
        if settled.folders:
            view = self._registries.with_projects(view, settled.folders)
        generation = self._generations.newest
        generation.count += 1
        machine: Machine | None = None
        try:
            started = self._now()
            chain = view.chain(spec)
            if params.plugins is not None or plan is not None:
                chain = select_planned_hooks(chain, params.plugins, plan, session)
            fault = self._fault(fire, chain, settled.fault)
            warnings: list[str] | None = None
            if self._suspensions.ends and fault is None:
                chain, warnings = self._unsuspended(chain, payload, fire.envelope.cwd)
            selection = chain.select(payload, fire.envelope.cwd) if fault is None else HookSelection(spec, ())
            if selection.fault and spec.fails_closed:
                fault = "payload", selection.fault
            if fault is not None:
                cause, message = fault
                decision = decisions.refuse_fire(
                    spec, cause, message, decision_id=fire.decision_id, revision=view.revision, payload=payload,
                    context=params.context,
                )  # fmt: skip
            else:
                machine = phases.start_machine(chain, selection, payload, fire.envelope.context, fire.envelope.cwd)
                if warnings:
                    machine.warnings += warnings
                needed = selection.needed if params.timeout is None else selection.budget(params.timeout)
                fire.deadline = started + needed
                if spec.fails_closed:
                    await play_machine(machine, self._targets, fire)
                else:
                    with self._to_the_end():  # also if its client leaves: its answer cannot refuse anything
                        await play_machine(machine, self._targets, fire)
                decision = machine.decide(
                    decision_id=fire.decision_id,
                    revision=view.revision,
                    duration_ms=round((self._now() - started) * 1000, 3),
                )
        except trio.Cancelled:
            self._abandon(fire, view.revision)
            raise
        finally:
            generation.count -= 1
            if generation.is_closed:
                generation.left()
        if decision.verdict == "ask" and fire.wait and machine is not None:
            decision = await self._asked(fire, machine, decision, started)
        if fire.fit is not None:
            decision = fire.fit(decision)
        decision = await self._publish(fire, decision)
        if decision.verdict != "pass" and decision.is_refusal:
            self._refused(fire, decision)
        return decision

    async def _asked(self, fire: Fire, machine: Machine, decision: FireDecision, started: float) -> FireDecision:
        """Return what a person says to an ask, within the time that its caller counts on; otherwise the deny it is."""
        if "ask" in fire.spec.ends_at:
            return decision  # not every guard has judged it, so a yes would not be for what they say
        session, now = fire.session, self._now()
        end = fire.deadline
        if fire.params.timeout is None:  # its caller counts on what the hooks need, and on this wait if it was told
            end = min(end + (session.ask_wait if session is not None else fire.wait), started + MAX_BUDGET)
        ask = self._recording.ask_of(fire, machine, decision, seconds := min(fire.wait, end - now))
        if self.is_draining:
            closed = AskResolution(id=ask.id, verdict="deny", cause="draining", reason="no person is asked any more")
        else:
            try:
                flow = session.flow if session is not None else None
                share = fire.share if ask.session_id else STRANGERS
                closed = await self._asks.hold(ask, share=share, flow=flow, seconds=seconds)
            except trio.Cancelled:
                self._abandon(fire, decision.revision)
                raise
        return apply_resolution(fire.spec, decision, closed)

    def _abandon(self, fire: Fire, revision: int | None) -> None:
        self._statistics.abandoned += 1
        self._recording.abandon(fire, revision)
        logger.info("abandoned", extra=fire.ids)

    async def _settled_projects(self, fire: Fire) -> ExtraProjects:
        spec, params = fire.spec, fire.params
        limit = min(params.timeout or spec.timeout, spec.timeout)
        if spec.fails_closed:
            return await self._projects.settle(fire.session, params.envelope, limit)
        with self._to_the_end():
            return await self._projects.settle(fire.session, params.envelope, limit)
        return ExtraProjects()  # the daemon is about to leave

    async def refuse(
        self, spec: EventSpec, cause: Cause, message: str, params: FireParams, session: AgentSession | None
    ) -> FireDecision:
        """Decide a fire whose payload could not be read, without calling any hook."""
        fire = self._begin(spec, params, session)
        revision = self._registries.view_of(session, params.plugins).revision
        refused = decisions.refuse_fire(
            spec, cause, message, decision_id=fire.decision_id, revision=revision, payload=fire.payload
        )
        return await self._publish(fire, refused)

    async def _publish(self, fire: Fire, decision: FireDecision) -> FireDecision:
        """Record a decision, count it and show it to subscribers; it is final from here on."""
        decision = self._recording.keep(fire, decision)
        if self._recording.is_awaited and fire.spec.fails_closed:
            decision = await self._recording.on_disk(fire, decision)
        self._statistics.decided(decision)
        if self._audience.watching:
            self._audience.decided(fire, decision)
        return decision

    def _unsuspended(self, chain: EventHooks, payload: Payload, folder: str | None) -> tuple[EventHooks, list[str]]:
        """Return a chain without the hooks that an operator has suspended, and a warning for each that would fire."""
        suspended = self._suspensions.active
        firing, left_out = split_suspended(suspended, chain.hooks)
        matching = EventHooks(chain.spec, left_out).select(payload, folder).hooks
        return EventHooks(chain.spec, firing), [format_suspension_note(suspended, hook) for hook in matching]

    def _fault(self, fire: Fire, chain: EventHooks, unsettled: str | None) -> tuple[Cause, str] | None:
        """Return why no hook may be called."""
        data, session, event = fire.payload.data, fire.session, fire.spec.name
        if self.is_draining:
            return "draining", "start it again, or wait for its successor"
        if fire.params.truncated:
            return "payload", "it is marked truncated"
        if len(data) > MAX_PAYLOAD:
            return "payload", f"its {len(data)} bytes are over the limit of {MAX_PAYLOAD}"
        if not data.startswith(b"{"):
            raise RpcError(ErrorCode.INVALID_PARAMS, "payload must be an object")
        if session is not None and event in session.terms.require_handlers and not chain.hooks:
            return "load", f"the session requires a hook for {event} and there is none"
        if unsettled is not None and fire.spec.fails_closed and all(one.hook for one in self._suspensions.active):
            return "load", unsettled
        return None

    @contextmanager
    def _to_the_end(self) -> Generator[None]:
        with trio.CancelScope(shield=True) as shield:
            self._shields.add(shield)
            try:
                yield
            finally:
                self._shields.discard(shield)

    def drain(self) -> None:
        """Decide no new gate from now on, and wait for no person any more."""
        self.is_draining = True
        self._asks.end_all()

    def stop(self) -> None:
        """End every fire that outlives its connection; the daemon is stopping."""
        for shield in self._shields:
            shield.cancel()

    def _refused(self, fire: Fire, decision: FireDecision) -> None:
        """Log a refusal, and fire the event that follows it, unless the host fires it itself."""
        hook = read_full_name(decision.layer, decision.hook, decision.name)
        what = {"verdict": decision.verdict, "cause": decision.cause, "hook": hook or None}
        logger.info("refused", extra=fire.ids | what)
        session, params, event = fire.session, fire.params, fire.spec.on_refusal
        if event is None or session is None or event in session.terms.emits:
            return
        spec = self._registries.catalogue.get(event)
        if spec is None or not self._registries.view_of(session, params.plugins).for_event(spec):
            return
        try:
            fields = fire.payload.fields
        except PayloadError:
            fields = {}  # a payload that could not be judged can still have been refused
        payload: dict[str, object] = {key: fields[key] for key in REFUSED_FIELDS if key in fields}
        self._fire_after(fire, event, payload | {"reason": decision.reason, "denial": {"code": decision.cause}})

    def _take_telemetry(self, fire: Fire, emitted: Sequence[EmittedTelemetry]) -> None:
        """Pass a hook's telemetry to the hooks on `telemetry` and to subscribers."""
        for one in emitted:
            data = msgspec.Raw(one.data)
            self._fire_after(fire, "telemetry", {"event_type": one.event_type, "data": data})
            self._audience.told(fire.session, one.event_type, data)

    def _fire_after(self, fire: Fire, event: str, payload: Mapping[str, object]) -> None:
        """Fire an event that follows from a fire, with its envelope, in the background."""
        raw, params = msgspec.Raw(msgspec.json.encode(payload)), fire.params
        following = FireParams(event, raw, envelope=params.envelope, wait=False, plugins=params.plugins)
        self.fire_later(following, fire.session)


async def play_machine(machine: Machine, targets: HookRunners, fire: Fire) -> None:
    """Run the calls that a machine requests, until it requests none."""
    while asked := machine.next_calls():
        if len(asked) == 1:
            machine.receive(asked[0], await targets.run(asked[0], fire))
            continue
        for call, outcome in zip(asked, await targets.run_all(asked, fire), strict=True):
            machine.receive(call, outcome)
