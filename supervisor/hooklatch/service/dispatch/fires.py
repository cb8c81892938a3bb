"""A fire: what was asked, by whom, which hooks it names, and what they are told of it.  Knows shapes; decides nothing.

This is the only place that merges a fire's envelope with what its session says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from hooklatch.core.decisions.call import Call, EventEnvelope
from hooklatch.core.fire_params import FireParams, StatedEnvelope
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.registry import Hook, has
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
    "Counted",
    "Fire",
    "Fit",
    "DialectPlan",
    "FireServices",
    "ExtraProjects",
    "select_planned_hooks",
    "find_tool_name",
]

LARGE = 2**15  # bytes of a payload, from which a fire is worth the change
TAKEN = msgspec.Raw(b"{}")  # in place of the payload that `Fire.payload` has
NAME = 200  # characters of a tool's name that are announced

Fit: TypeAlias = Callable[[FireDecision], FireDecision]  # to the nearest stricter one that a host can be told
Counted = set[tuple[Hook, str, str]]  # what the hooks of one fire have counted `once`: hook, scope, key


class DialectPlan(msgspec.Struct, frozen=True):
    """How another system runs an event: its axes in the spec, and its order of hooks."""

    spec: EventSpec
    arrange: Callable[[Sequence[Hook]], Sequence[Hook]]

    def asking_all(self) -> DialectPlan:
        """Return the plan with an ask that does not keep the guards after it from judging."""
        spec = msgspec.structs.replace(self.spec, ends_at=self.spec.ends_at - {"ask"})
        return msgspec.structs.replace(self, spec=spec)


class ExtraProjects(msgspec.Struct, frozen=True):
    """The projects whose hooks fire besides those that the session itself sees.

    A `fault` says that these are unknown, or that their hooks could not be loaded in time.
    """

    folders: frozenset[str] = frozenset()
    fault: str | None = None


class FireServices(msgspec.Struct, frozen=True):
    """What the calls of a fire need of the daemon: see `processes.worker.FireContext`."""

    prepare: Callable[[Fire], object]
    answer: Callable[[Fire, Call, StateRequest], wire.StateResponse]
    take: Callable[[Fire, Sequence[EmittedTelemetry]], None]
    budget: Budget


class Fire:
    """One fire, from its params to its record; to a pool and a worker, the context of its calls.

    `session` is the live one of its connection, and `session_id` its id, or what a host without one claims.  The
    envelope may name another one, which hooks are told and which is only the host's claim.
    `share` tells whose turn its calls take: its session's, or else that of the session that its host names, or its own.
    A host's claim cannot take a live session's turns: claimed names are kept apart.
    """

    __slots__ = (
        "_room", "_services", "counted", "deadline", "decision_id", "envelope", "fact", "fit", "params", "payload",
        "session", "session_id", "share", "spec", "wait",
    )  # fmt: skip

    def __init__(
        self,
        spec: EventSpec,
        params: FireParams,
        session: AgentSession | None,
        decision_id: str,
        services: FireServices,
        fit: Fit | None = None,
    ) -> None:
        """Begin a fire; what its envelope does not say comes from its session.

        Raises:
            RpcError: its params cannot be used.
        """
        if params.timeout is not None and not params.timeout > 0:
            raise RpcError(ErrorCode.INVALID_PARAMS, "timeout must be a number of seconds over 0")
        self.spec = spec
        self.payload = Payload(bytes(params.payload))
        # The raw payload is a view of the whole line, which would be kept with it.
        self.params = msgspec.structs.replace(params, payload=TAKEN) if len(self.payload.data) > LARGE else params
        self.session = session
        self.decision_id = decision_id
        self.deadline = math.inf  # on trio's clock; until it is known which hooks it calls there is none
        self.fact: FireFacts | None = None  # what is recorded of it, once somebody had the time to choose that
        self.counted: Counted = set()
        self.fit = fit
        self._room: BudgetShare | None = None  # for the large answers of its hooks
        self.wait = 0.0  # seconds for which an ask of its hooks may wait for a person; 0: it goes to the host
        self._services = services
        given = params.envelope
        told, cwd, host, parent = given.session_id, given.cwd, given.host, given.parent_session_id
        self.session_id = told if session is None else session.id
        if session is None:
            self.share = f"?{told or decision_id}"
        else:
            self.share = session.id
            if told is None or not isinstance(given, StatedEnvelope):
                told = session.id
            cwd, host = cwd or session.cwd, host or session.terms.host
            parent = parent or (session.parent.id if session.parent is not None else None)
        self.envelope = EventEnvelope(
            spec.name, told, params.call_id or decision_id, cwd, given.agent_id, given.agent_type, parent, host,
            given.turn, given.metadata, params.context or {},
        )  # fmt: skip

    @property
    def ids(self) -> dict[str, object]:
        """Return the ids for a log line about it."""
        return {
            "event": self.params.event, "decision": self.decision_id, "session": self.session_id,
            "call": self.params.call_id,
        }  # fmt: skip

    @property
    def tool(self) -> str | None:
        """Return the tool that its payload names, as far as it can be read; a long name is cut."""
        return find_tool_name(self.payload)

    def take_room(self, size: int) -> bool:
        """Take room for an answer of so many bytes until the fire ends; return whether there was any."""
        if self._room is None:
            self._room = BudgetShare(self._services.budget, self.share)
        return self._room.take(size)

    def end(self) -> None:
        """Give back the room that its answers took."""
        if self._room is not None:
            self._room.shrink(0)

    def sent(self) -> None:
        """Do what can be done while a worker works."""
        self._services.prepare(self)

    def answer(self, call: Call, request: StateRequest) -> wire.StateResponse:
        """Perform one operation on the state of a hook's source, for this fire.

        Raises:
            FrameError: our own code in the worker never sends such a request.
        """
        return self._services.answer(self, call, request)

    def take(self, emitted: Sequence[EmittedTelemetry]) -> None:
        """Publish the telemetry that came with an answer."""
        self._services.take(self, emitted)


def find_tool_name(payload: Payload) -> str | None:
    """Return the tool that a payload names, as far as it can be read; a long name is cut."""
    try:
        name = payload.text("tool_name")
    except PayloadError:
        return None
    return name if name is None or len(name) <= NAME else f"{name[:NAME]}…"


def select_planned_hooks(
    chain: EventHooks, plugins: Sequence[str] | None, plan: DialectPlan | None, session: AgentSession | None
) -> EventHooks:
    """Return a chain as this one fire has it: with the plugins that it names, or in another system's order."""
    hooks = leave_out_plugins(chain.hooks, chain.spec, plugins, session)
    return EventHooks(chain.spec, plan.arrange(hooks) if plan is not None else hooks)


def leave_out_plugins(
    hooks: tuple[Hook, ...], spec: EventSpec, plugins: Sequence[str] | None, session: AgentSession | None
) -> tuple[Hook, ...]:
    """Leave out the plugins that this fire does not name, but not the gates that a parent session hands down."""
    if plugins is None or all(hook.plugin is None for hook in hooks):
        return hooks
    above = session.gate_plugins if session is not None and spec.fails_closed else ()
    return tuple(hook for hook in hooks if hook.plugin is None or hook.plugin in plugins or has(above, hook.plugin))
