"""The dispatcher of fires: it calls the hooks that the machine requests.  Knows fires and time; decides no verdict.

A fire runs in the task of its request.  It has one deadline, and no call's own deadline is later.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Awaitable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import msgspec
import trio
from msgspec.structs import replace

from hooklatch.core import decision as decisions
from hooklatch.core import phases
from hooklatch.core.asks import STRANGERS, AskResolution, apply_resolution
from hooklatch.core.call import Call
from hooklatch.core.decision import Machine, deny_unrecorded
from hooklatch.core.fire_params import EnvelopeParams, FireParams
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.hooks.snapshots import MAX_BUDGET, EventHooks, HookSelection
from hooklatch.core.hooks.suspension import Suspension, format_suspension_note, split_suspended
from hooklatch.core.messages import CallOutcome, Cause, FireDecision
from hooklatch.core.payload import MAX_PAYLOAD, Payload, PayloadError
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.processes.supervisor import Supervisor
from hooklatch.record.writer import RecordError, RecordWriter
from hooklatch.service.dispatch.fires import (
    ASKED,
    RAN,
    CallReport,
    DecisionAdapter,
    DialectPlan,
    ExtraProjects,
    Fire,
    FireGenerations,
    FireServices,
    select_planned_hooks,
)
from hooklatch.service.dispatch.runners import HookRunners
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch.service.registry.asks import AskBroker
from hooklatch.service.registry.budget import SMALL, Budget, BudgetShare
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession
from hooklatch.service.registry.statistics import TOGETHER, Statistics
from hooklatch_worker.author.call_context import EmittedTelemetry

if TYPE_CHECKING:
    from hooklatch.core.answers import AcceptedFire
    from hooklatch.service.dispatch.call_watch import CallWatch

__all__ = ["Dispatcher"]

logger = logging.getLogger("hooklatch.dispatcher")
REFUSED_FIELDS = ("tool_name", "tool_input", "tool_use_id")  # of a payload, which the event about its refusal repeats
NOWHERE = ExtraProjects()
UNSHIELDED = nullcontext()
MAX_BACKGROUND = 1000  # fires with wait = false that may be under way


class ProjectResolver(Protocol):
    """The finder of the projects in which a fire is.

    While no project is `trusted`, it has nothing to look up for a fire of a session, or of a client that names none.
    """

    @property
    def trusted(self) -> Mapping[str, object]: ...

    async def find_current(self, session: AgentSession | None, envelope: EnvelopeParams, limit: float) -> ExtraProjects:
        """Return the projects, with their hooks up to date, within `limit` seconds."""
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
    """The suspensions by an operator; `ends` is empty if there are none."""

    @property
    def ends(self) -> Mapping[Suspension, float]: ...

    @property
    def active(self) -> Sequence[Suspension]: ...


class Dispatcher:
    """The dispatcher, which turns a fire into a decision."""

    def __init__(
        self,
        registries: Registries,
        runners: HookRunners,
        generations: FireGenerations,
        statistics: Statistics,
        *,
        projects: ProjectResolver,
        suspensions: ActiveSuspensions,
        asks: AskBroker,
        record: RecordWriter,
        state: SharedState,
        audience: Audience,
        budget: Budget,
    ) -> None:
        self.registries = registries
        self._runners = runners
        self._generations = generations
        self._statistics = statistics
        self._projects = projects
        self._suspensions = suspensions
        self._asks = asks
        self._record = record
        self._audience = audience
        self._budget = budget
        # The prefix is new at each start, so that no id of a decision is in the record twice.
        ids = map(f"{secrets.token_hex(4)}-{{}}".format, itertools.count(1))
        self._services = FireServices(record.choose_excerpt, state.answer, self._take_telemetry, budget, ids)
        self._clock = trio.lowlevel.current_clock().current_time
        self.is_draining = False
        self.background = Supervisor("background fires")
        self.is_halting = False  # a call that ran although it was refused ends the work of its session
        self._background_count = 0
        self._background_unowned = 0  # the background fires without a session
        self._shields: dict[trio.CancelScope, None] = {}

    @cached_property
    def call_watch(self) -> CallWatch:
        """The watch over tool calls, which begins with the first that a client names."""
        from hooklatch.service.dispatch.call_watch import CallWatch

        return CallWatch(self._record, self.background, self.fire_later)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the background fires."""
        await self.background.run(task_status)

    def fire_later(
        self,
        params: FireParams,
        session: AgentSession | None,
        *,
        adapt_decision: DecisionAdapter | None = None,
        payload: Payload | None = None,
        report: CallReport = None,
    ) -> AcceptedFire:
        """Start a fire in the background; if there is no room, drop and count it."""
        fire = Fire.begin(
            self.registries.find_event(params.event), params, session, self._services, adapt_decision, payload
        )
        if report is not None or params.call_id is not None:
            self._begin_report(fire, report)
        own = session.background if session is not None else self._background_unowned
        # At most half of what is free: a session that has many under way leaves room for others.
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
            self._background_unowned += change

    def fire(
        self,
        params: FireParams,
        session: AgentSession | None,
        *,
        plan: DialectPlan | None = None,
        adapt_decision: DecisionAdapter | None = None,
        asks_itself: bool = False,
        payload: Payload | None = None,
        report: CallReport = None,
    ) -> Awaitable[FireDecision]:
        """Decide one event.  Cancelling abandons a gate; any other event is finished in any case.

        `adapt_decision` makes a decision that the host can apply, and that one is recorded.  `asks_itself`: the host
        asks a person itself when the verdict is ask.  `payload` is that of the params, if it has been read already.
        `report` says how a host names the call that it reports.

        Raises:
            RpcError: the event is unknown or the params cannot be used.
        """
        ask_seconds = self._asks.ask_timeout(asks_itself=asks_itself) if params.wait and self._asks.wait else 0.0
        if ask_seconds and plan is not None and "ask" in plan.spec.ends_at:
            plan = plan.asking_all()  # a person may allow only what every guard has judged
        spec = plan.spec if plan is not None else self.registries.catalogue.specs.get(params.event)
        spec = spec or self.registries.find_event(params.event)
        fire = Fire.begin(spec, params, session, self._services, adapt_decision, payload)
        fire.ask_seconds = ask_seconds
        if report is not None or params.call_id is not None:
            self._begin_report(fire, report)
        return self._run(fire, plan)

    def _begin_report(self, fire: Fire, report: CallReport) -> None:
        """Have a fire report a call; one that has run is compared at once, whether or not its fire has room."""
        fire.report = report or "by a client"
        if fire.spec.name in RAN:
            self.call_watch.run(fire)

    async def _run(self, fire: Fire, plan: DialectPlan | None = None) -> FireDecision:
        """Decide a fire.  A step that only some fires need is a function of its own, which the others never enter."""
        try:
            spec, params, session, payload = fire.spec, fire.params, fire.session, fire.payload
            statistics = self._statistics
            statistics.fired.append((spec.name, session.fired if session is not None else None, time.time()))
            if len(statistics.fired) >= TOGETHER:
                statistics.add_up()
            projects = NOWHERE
            if self._projects.trusted or (session is None and params.envelope.session_id is not None):
                projects = await self._resolve_projects(fire)
            view = self.registries.view_of(session, params.plugins)
            if projects.folders:
                view = self.registries.with_projects(view, projects.folders)
            # No checkpoint since the view was read: a build that it names must not retire before this fire counts.
            generation = self._generations.newest
            generation.count += 1
            machine: Machine | None = None
            try:
                started = self._clock()
                chain = view.chain(spec)
                if params.plugins is not None or plan is not None:
                    chain = select_planned_hooks(chain, params.plugins, plan, session)
                fault = self._find_fault(fire, chain, projects.fault)
                warnings: list[str] = []
                if self._suspensions.ends and fault is None:
                    chain, warnings = self._leave_out_suspended(chain, payload, fire.envelope.cwd)
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
                    needed = selection.needed if params.timeout is None else selection.budget(params.timeout)
                    fire.deadline = started + needed
                    # Any other event than a gate goes on if the client leaves: its hooks must see each event.
                    context, only = fire.envelope.context, selection.only
                    with UNSHIELDED if spec.fails_closed else self._uncancelled():
                        outcome: CallOutcome | None = None
                        if only is not None:
                            first = Call(chain.indices[only], only, payload, context)
                            outcome = await self._runners.run(first, fire)
                        # Nearly always the only hook says nothing: then there is nothing to weigh and to walk over.
                        if outcome is None or outcome.outcome != "answered" or outcome.cause != "policy":
                            machine = phases.start_machine(chain, selection, payload, context, fire.envelope.cwd)
                            machine.warnings += warnings
                            while calls := machine.next_calls():
                                if outcome is not None:
                                    machine.receive(calls[0], outcome)
                                    outcome = None
                                    continue
                                machine.began_ms = round((self._clock() - started) * 1000, 3)
                                if len(calls) == 1:  # without the nursery of several
                                    machine.receive(calls[0], await self._runners.run(calls[0], fire))
                                else:
                                    await self._runners.run_all(calls, fire, machine)
                    decided = fire.decision_id, view.revision, round((self._clock() - started) * 1000, 3)
                    if machine is None and outcome is not None:
                        decision = decisions.decide_silence(spec, [outcome], payload, context, warnings, *decided)
                    else:  # without a machine: the daemon stops, and waits no longer for what only observes
                        machine = machine or phases.start_machine(chain, selection, payload, context, None)
                        decision = machine.decide(*decided)
            except trio.Cancelled:
                self._abandon(fire, view.revision)
                raise
            finally:
                generation.count -= 1
                if generation.is_closed:
                    generation.check_ended()
            if decision.verdict == "ask" and fire.ask_seconds and machine is not None:
                decision = await self._wait_for_person(fire, machine, decision, started)
            if fire.adapt_decision is not None:
                decision = fire.adapt_decision(decision)
            decision = await self._publish(fire, decision)
            if fire.report is not None and spec.name in ASKED:
                self.call_watch.note(fire, decision)
            if decision.verdict != "pass" and decision.is_refusal:
                self._follow_refusal(fire, decision)
            return decision
        finally:
            if fire.room is not None:
                fire.room.shrink(0)

    async def _wait_for_person(
        self, fire: Fire, machine: Machine, decision: FireDecision, started: float
    ) -> FireDecision:
        """Return an ask as a person resolves it within the time that the client waits, or else denied."""
        if "ask" in fire.spec.ends_at:
            return decision  # guards after the ask have not judged, so a person may not allow it
        session, now = fire.session, self._clock()
        end = fire.deadline
        if fire.params.timeout is None:  # its client waits for the budget of the hooks, and for this if a hello said so
            end = min(end + (session.ask_wait if session is not None else fire.ask_seconds), started + MAX_BUDGET)
        from hooklatch.service.dispatch.shown_asks import make_ask  # here: a person takes longer

        ask = make_ask(fire, machine, decision, seconds := min(fire.ask_seconds, end - now), self._record.redactor)
        if self.is_draining:
            resolution = AskResolution(
                id=ask["id"], verdict="deny", cause="draining", reason="no person is asked any more"
            )
        else:
            try:
                flow = session.flow if session is not None else None
                share = fire.queue_key if ask["session_id"] else STRANGERS
                resolution = await self._asks.hold(ask, share=share, flow=flow, seconds=seconds)
            except trio.Cancelled:
                self._abandon(fire, decision.revision)
                raise
        return apply_resolution(fire.spec, decision, resolution)

    def _abandon(self, fire: Fire, revision: int | None) -> None:
        self._statistics.abandoned += 1
        if fire.spec.fails_closed:
            self._record.append_abandoned(fire.spec.name, fire.decision_id, revision, fire.prepare_record())
        if fire.report is not None and fire.spec.name in ASKED:
            self.call_watch.note(fire, None)
        logger.info("abandoned", extra=fire.ids)

    async def _resolve_projects(self, fire: Fire) -> ExtraProjects:
        limit = min(fire.params.timeout or fire.spec.timeout, fire.spec.timeout)
        finding = self._projects.find_current(fire.session, fire.params.envelope, limit)
        if fire.spec.fails_closed:
            try:
                return await finding
            except trio.Cancelled:
                self._abandon(fire, None)
                raise
        with self._uncancelled():
            return await finding
        return NOWHERE  # the daemon is stopping, which cancelled the block

    async def refuse(
        self, spec: EventSpec, cause: Cause, message: str, params: FireParams, session: AgentSession | None
    ) -> FireDecision:
        """Decide a fire whose payload could not be read, without calling any hook."""
        fire = Fire.begin(spec, params, session, self._services)
        revision = self.registries.view_of(session, params.plugins).revision
        decision = decisions.refuse_fire(
            spec, cause, message, decision_id=fire.decision_id, revision=revision, payload=fire.payload
        )
        decision = await self._publish(fire, decision)
        self._statistics.add_up()  # it is not among those that were fired
        return decision

    async def _publish(self, fire: Fire, decision: FireDecision) -> FireDecision:
        """Record a decision, count it and notify subscribers.  After that it is final.

        A gate whose decision cannot be recorded, or does not reach the disk where the settings want that, is denied
        with cause `audit`, and that is recorded from the record's reserve.  A notification continues without its entry,
        and the record counts the missing one.
        """
        record, facts = self._record, fire.facts or fire.prepare_record()
        # The record first: it may replace the decision by a denial, and no subscriber may see the other one.
        try:
            decision = replace(decision, record=record.append_decision(decision, facts))
            if record.is_synced_first and facts.is_gate:
                await record.durable(decision.record)
        except RecordError as error:
            denial = deny_unrecorded(decision, str(error))
            decision = replace(denial, record=record.append_refusal(denial, facts))
        self._statistics.decided.append((decision.event, decision.verdict, decision.cause, decision.duration_ms))
        if self._audience.watching:
            self._audience.decided(fire, decision)
        return decision

    def _leave_out_suspended(
        self, chain: EventHooks, payload: Payload, folder: str | None
    ) -> tuple[EventHooks, list[str]]:
        """Return a chain without the hooks that an operator has suspended, and a warning for each that would fire."""
        suspended = self._suspensions.active
        firing, left_out = split_suspended(suspended, chain.hooks)
        matching = EventHooks(chain.spec, left_out).select(payload, folder).hooks
        return EventHooks(chain.spec, firing), [format_suspension_note(suspended, hook) for hook in matching]

    def _find_fault(self, fire: Fire, chain: EventHooks, projects_fault: str | None) -> tuple[Cause, str] | None:
        """Return why no hook may be called."""
        data, session = fire.payload.data, fire.session
        if self.is_draining:
            return "draining", "a new one may take its place soon"
        if fire.params.truncated:
            return "payload", "it is marked truncated"
        if len(data) > MAX_PAYLOAD:
            return "payload", f"its {len(data)} bytes are over the limit of {MAX_PAYLOAD}"
        if not data.startswith(b"{"):
            raise RpcError(ErrorCode.INVALID_PARAMS, "payload must be an object")
        if not chain.enforces and session is not None and fire.spec.name in session.terms.require_handlers:
            return "load", f"the session requires a hook for {fire.spec.name} and there is none that is enforced"
        if self.is_halting and (overruled := self.call_watch.fault_of(fire)) is not None:
            return "policy", overruled
        if projects_fault is None or not fire.spec.fails_closed:
            return None
        # An operator who has suspended all hooks (no `hook`) has suspended the unknown ones of a project too.
        return ("load", projects_fault) if all(entry.hook for entry in self._suspensions.active) else None

    @contextmanager
    def _uncancelled(self) -> Generator[None]:
        """Shield the block from its client's cancellation; only `stop` ends it."""
        with trio.CancelScope(shield=True) as shield:
            self._shields[shield] = None
            try:
                yield
            finally:
                self._shields.pop(shield, None)

    def drain(self) -> None:
        """Deny every new gate from now on, and stop waiting for persons."""
        self.is_draining = True
        self._asks.end_all()

    def stop(self) -> None:
        """End every fire that outlives its connection; the daemon is stopping."""
        for shield in self._shields:
            shield.cancel()

    def _follow_refusal(self, fire: Fire, decision: FireDecision) -> None:
        """Log a refusal, and fire the event that follows it, unless the host fires it itself."""
        hook = read_full_name(decision.layer, decision.hook, decision.name)
        fields = {"verdict": decision.verdict, "cause": decision.cause, "hook": hook or None}
        logger.info("refused", extra=fire.ids | fields)
        session, params, event = fire.session, fire.params, fire.spec.on_refusal
        if event is None or session is None or event in session.terms.emits:
            return
        spec = self.registries.catalogue.get(event)
        if spec is None or not self.registries.view_of(session, params.plugins).for_event(spec):
            return
        try:
            payload_fields = fire.payload.fields
        except PayloadError:
            payload_fields = {}  # a payload that cannot be read was refused for that
        payload: dict[str, object] = {key: payload_fields[key] for key in REFUSED_FIELDS if key in payload_fields}
        self._fire_after(fire, event, payload | {"reason": decision.reason, "denial": {"code": decision.cause}})

    def _take_telemetry(self, fire: Fire, emitted: Sequence[EmittedTelemetry]) -> None:
        """Pass a hook's telemetry to the hooks on `telemetry` and to subscribers."""
        for item in emitted:
            data = msgspec.Raw(item.data)
            self._fire_after(fire, "telemetry", {"event_type": item.event_type, "data": data})
            self._audience.told(fire.session, item.event_type, data)

    def _fire_after(self, fire: Fire, event: str, payload: Mapping[str, object]) -> None:
        """Fire an event that follows from a fire, with its envelope, in the background."""
        raw, params = msgspec.Raw(msgspec.json.encode(payload)), fire.params
        following = FireParams(event, raw, envelope=params.envelope, wait=False, plugins=params.plugins)
        self.fire_later(following, fire.session)
