"""A fire, with its params, its session and its envelope.  Knows shapes; decides nothing.

Only this module merges a fire's envelope with the fields of its session.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec
import trio

from hooklatch.core.call import Call, EventEnvelope
from hooklatch.core.fire_params import FireParams, StatedEnvelope
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.registry import Hook, is_plugin_allowed
from hooklatch.core.hooks.snapshots import EventHooks
from hooklatch.core.messages import FireDecision
from hooklatch.core.payload import Payload, PayloadError
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.record.writer import FireFacts
from hooklatch.service.registry.budget import Budget, BudgetShare
from hooklatch.service.registry.sessions import AgentSession
from hooklatch_worker import wire
from hooklatch_worker.author.call_context import EmittedTelemetry
from hooklatch_worker.author.state import StateRequest

__all__ = [
    "ASKED", "RAN", "CallReport", "Counted", "Fire", "DecisionAdapter", "DialectPlan", "FireServices", "ExtraProjects",
    "excerpt_subject", "select_planned_hooks", "find_tool_name", "FireGeneration", "FireGenerations",
]  # fmt: skip

# Events that report a tool call: that it is asked about, or has run.
ASKED = frozenset({"pre_tool_use", "permission_request"})
RAN = frozenset({"post_tool_use", "post_tool_use_failure"})
LARGE = 2**15  # bytes of a payload, from which on its params are copied without it
TAKEN = msgspec.Raw(b"{}")  # in place of the payload that `Fire.payload` has
NAME = 200  # characters of a tool's name that are announced

# To the nearest stricter decision that a host can apply.
DecisionAdapter: TypeAlias = Callable[[FireDecision], FireDecision]
# How a fire reports a call: as a host that names each by an id, as one whose calls have none, or as our own client.
CallReport: TypeAlias = Literal["by id", "in order", "by a client"] | None
Counted = set[tuple[Hook, str, str]]  # the keys that hooks of one fire have counted `once`: hook, scope, key


class DialectPlan(msgspec.Struct, frozen=True):
    """The way in which another system runs an event: its axes in the spec, and its order of hooks."""

    spec: EventSpec
    arrange: Callable[[Sequence[Hook]], Sequence[Hook]]

    def asking_all(self) -> DialectPlan:
        """Return the plan with the guards after an ask judging too."""
        spec = msgspec.structs.replace(self.spec, ends_at=self.spec.ends_at - {"ask"})
        return msgspec.structs.replace(self, spec=spec)


class ExtraProjects(msgspec.Struct, frozen=True):
    """The projects whose hooks fire in addition to those that the session itself sees.

    A `fault` says that these projects are unknown, or that their hooks could not be loaded in time.
    """

    folders: frozenset[str] = frozenset()
    fault: str | None = None


class FireServices(msgspec.Struct, frozen=True):
    """The parts of the daemon that the calls of a fire need: see `processes.fire_context.FireContext`."""

    choose_excerpt: Callable[[FireFacts], None]
    answer: Callable[[Fire, Call, StateRequest], wire.StateResponse]
    take: Callable[[Fire, Sequence[EmittedTelemetry]], None]
    budget: Budget
    ids: Iterator[str]


class Fire(msgspec.Struct, eq=False):
    """One fire, from its params to its record; to a pool and a worker, the context of its calls.

    `session` is the live one of its connection.  `session_id` is the id of that, or the id that a host without a
    session claims.  The envelope, which hooks get, may name another session: then that is only the host's claim.
    `queue_key` says in whose turn its calls run: its session's, or else that of the session that its host names, or its
    own.  A host's claim cannot take a live session's turns, since claimed names have keys of their own.
    """

    spec: EventSpec
    payload: Payload
    params: FireParams
    session: AgentSession | None
    session_id: str | None
    queue_key: str
    decision_id: str
    envelope: EventEnvelope
    services: FireServices
    adapt_decision: DecisionAdapter | None
    deadline: float = math.inf  # on trio's clock; infinite until its hooks are selected
    facts: FireFacts | None = None  # for the record, once they are chosen
    counted: Counted = msgspec.field(default_factory=Counted)
    room: BudgetShare | None = None  # for the large answers of its hooks
    ask_seconds: float = 0.0  # for which an ask of its hooks may wait for a person; 0: it goes to the host
    report: CallReport = None

    @classmethod
    def begin(
        cls, spec: EventSpec, params: FireParams, session: AgentSession | None, services: FireServices,
        adapt_decision: DecisionAdapter | None = None, payload: Payload | None = None,
    ) -> Fire:  # fmt: skip
        """Begin a fire; the fields that its envelope lacks come from its session.

        `payload` is that of the params, if the caller has read it already.

        Raises:
            RpcError: its params cannot be used.
        """
        if params.timeout is not None and not params.timeout > 0:
            raise RpcError(ErrorCode.INVALID_PARAMS, "timeout must be a number of seconds over 0")
        payload = payload or Payload(bytes(params.payload))
        if len(payload.data) > LARGE:
            # The raw payload is a view of the whole line, which would be held in memory as long as the params.
            params = msgspec.structs.replace(params, payload=TAKEN)
        decision_id, given = next(services.ids), params.envelope
        session_id = claimed_id = given.session_id
        cwd, host, parent = given.cwd, given.host, given.parent_session_id
        if session is None:
            queue_key = f"?{claimed_id or decision_id}"  # a claim is not proven, so it has a key of its own
        else:
            session_id = queue_key = session.id
            if claimed_id is None or not isinstance(given, StatedEnvelope):
                claimed_id = session_id
            cwd, host = cwd or session.cwd, host or session.terms.host
            parent = parent or (session.parent.id if session.parent is not None else None)
        envelope = EventEnvelope(
            spec.name, claimed_id, params.call_id or decision_id, cwd, given.agent_id, given.agent_type, parent, host,
            given.turn, given.metadata, params.context or {},
        )  # fmt: skip
        return cls(
            spec, payload, params, session, session_id, queue_key, decision_id, envelope, services, adapt_decision
        )

    @property
    def ids(self) -> dict[str, object]:
        """Return the ids for a log line about this fire."""
        return {
            "event": self.params.event, "decision": self.decision_id, "session": self.session_id,
            "call": self.params.call_id,
        }  # fmt: skip

    @property
    def tool(self) -> str | None:
        """Return the tool that its payload names, as far as it can be read; a long name is cut."""
        return find_tool_name(self.payload)

    @property
    def subject(self) -> str:
        """Return what is judged, as far as the record shows it."""
        facts = self.prepare_record()
        return excerpt_subject(self.spec.name, self.tool, facts.excerpt, facts.excerpt_cut)

    def take_room(self, size: int) -> bool:
        """Take room for an answer of so many bytes until the fire ends; return whether there was any."""
        if self.room is None:
            self.room = BudgetShare(self.services.budget, self.queue_key)
        return self.room.take(size)

    def prepare_record(self) -> FireFacts:
        """Return what is recorded of this fire, chosen while its hooks run: then no client waits for it."""
        facts = self.facts
        if facts is None:
            envelope, session = self.envelope, self.session
            facts = self.facts = FireFacts(
                self.payload, self.spec.fails_closed, self.session_id, session.run if session is not None else None,
                self.params.call_id, envelope.host, envelope.cwd, decision_id=self.decision_id, envelope=envelope,
                claimed_session=envelope.session_id if envelope.session_id != self.session_id else None,
            )  # fmt: skip
            self.payload.digest()  # the payload keeps it, so that the entry need not hash once the hooks have answered
            self.services.choose_excerpt(facts)
        return facts

    def answer(self, call: Call, request: StateRequest) -> wire.StateResponse:
        """Perform one operation on the state of a hook's source, for this fire.

        Raises:
            FrameError: our own code in the worker never sends such a request.
        """
        return self.services.answer(self, call, request)

    def take(self, emitted: Sequence[EmittedTelemetry]) -> None:
        """Publish the telemetry that came with an answer."""
        self.services.take(self, emitted)


def find_tool_name(payload: Payload) -> str | None:
    """Return the tool that a payload names, as far as it can be read; a long name is cut."""
    try:
        name = payload.text("tool_name")
    except PayloadError:
        return None
    return name if name is None or len(name) <= NAME else f"{name[:NAME]}…"


def excerpt_subject(event: str, tool: str | None, excerpt: msgspec.Raw | None, excerpt_cut: str | None) -> str:
    """Return what is judged, as far as an excerpt of the payload shows it."""
    from hooklatch.core.subject import read_subject  # imported here: only watchers, failures and asks need it

    shown = msgspec.json.decode(excerpt) if excerpt else None
    return read_subject({"event": event, "tool": tool, "excerpt": shown, "excerpt_cut": excerpt_cut})


def select_planned_hooks(
    chain: EventHooks, plugins: Sequence[str] | None, plan: DialectPlan | None, session: AgentSession | None
) -> EventHooks:
    """Return the chain of one fire: with the plugins that the fire names, or in another system's order."""
    hooks = leave_out_plugins(chain.hooks, chain.spec, plugins, session)
    return EventHooks(chain.spec, plan.arrange(hooks) if plan is not None else hooks)


def leave_out_plugins(
    hooks: tuple[Hook, ...], spec: EventSpec, plugins: Sequence[str] | None, session: AgentSession | None
) -> tuple[Hook, ...]:
    """Leave out the plugins that this fire does not name, but not the gates that a parent session hands down."""
    if plugins is None or all(hook.plugin is None for hook in hooks):
        return hooks
    above = session.gate_plugins if session is not None and spec.fails_closed else ()
    return tuple(
        hook for hook in hooks if hook.plugin is None or hook.plugin in plugins or is_plugin_allowed(above, hook.plugin)
    )


class FireGeneration(msgspec.Struct, eq=False):
    """The fires that started between two changes of sources.

    A fire counts itself: 1 when it starts, -1 when it ends.  At its end it calls `check_ended` if this is closed.
    """

    count: int = 0
    is_closed: bool = False
    ended: trio.Event = msgspec.field(default_factory=trio.Event)

    def check_ended(self) -> None:
        """Set `ended` if this was the last fire that started before the sources changed."""
        if not self.count:
            self.ended.set()


class FireGenerations:
    """All open generations.  A fire counts for the one that is `newest` when it starts, until it has ended.

    An old build ends once all fires that began before its end have ended.  This is a grace period, as in RCU.
    """

    def __init__(self) -> None:
        self.newest = FireGeneration()
        self._open = [self.newest]

    async def wait_quiesced(self) -> None:
        """Wait until every fire that has started by now has ended."""
        waited_for = list(self._open)
        for generation in waited_for:
            generation.is_closed = True
        self.newest = FireGeneration()
        self._open = [generation for generation in self._open if generation.count] + [self.newest]
        for generation in waited_for:
            if generation.count:
                await generation.ended.wait()
