"""Calls hooks' targets: workers of pools, and clients that serve hooks.  Knows targets and deadlines; knows no verdict.

The outcome of a call is there by its deadline, whatever the target does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import msgspec
import trio

from hooklatch.core.decisions.decision import StartCall
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.names import quoted
from hooklatch.core.hooks.registry import Hook, PythonTarget, ServedTarget
from hooklatch.core.messages import CallOutcome
from hooklatch.processes.pool import Invocation, Pool
from hooklatch.processes.worker import Reply
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.fires import Envelope, FireParams, Question
from hooklatch.service.dispatch.shared_state import Counted, SharedState
from hooklatch.service.registry.sessions import Session
from hooklatch.service.registry.statistics import Statistics
from hooklatch_worker import wire
from hooklatch_worker.author.state import Asked

__all__ = ["Calls", "Server", "Targets", "question"]

logger = logging.getLogger("hooklatch.calls")


class Server(Protocol):
    """A connection whose client serves hooks."""

    async def call_hook(self, question: Question, envelope: Envelope, deadline: float) -> CallOutcome: ...


class NativeHooks(Protocol):
    """Calls hooks that were registered in a dialect, and reads what they said."""

    async def call(self, server: Server, call: StartCall, envelope: Envelope, deadline: float) -> CallOutcome: ...

    def read(self, call: StartCall, envelope: Envelope, outcome: CallOutcome) -> CallOutcome: ...


Telemetry = Callable[[Reply, FireParams, Session | None], None]


def question(call: StartCall, envelope: Envelope) -> Question:
    """Put a call of a served hook into our own words."""
    hook, payload = call.hook, msgspec.Raw(call.payload.data)
    config = msgspec.Raw(hook.config) if hook.config else None
    return Question(hook.id, f"{envelope.call_id or ''}", hook.event, payload, call.merged, call.reinvoked, config)


class Targets:
    """What hooks run on: the pools by source and build, and the connections of clients by number."""

    def __init__(
        self,
        pools: Mapping[tuple[str, int], Pool],
        servers: Mapping[int, Server],
        statistics: Statistics,
        *,
        breakers: Breakers,
        native: NativeHooks,
        state: SharedState,
        on_quarantine: Callable[[Hook, str], None],
    ) -> None:
        self._pools = pools
        self._servers = servers
        self._statistics = statistics
        self._breakers = breakers
        self._native = native
        self.state = state
        self._on_quarantine = on_quarantine

    async def call(
        self,
        call: StartCall,
        invocation: Invocation,
        envelope: Envelope,
        deadline: float,
        take: Callable[[Reply], None],
    ) -> CallOutcome:
        """Call one hook's target; the outcome is there by the deadline."""
        hook = call.hook
        if hook.problem is not None:
            return CallOutcome("load", message=hook.problem)
        match hook.target:
            case PythonTarget(source, build):
                pool = self._pools.get((source.location, build))
                if pool is None:
                    return CallOutcome("load", message=f"{source.location} is not loaded")
                breaker = self._breakers.of(hook)
                if breaker is not None and not breaker.permits(trio.current_time()):
                    return CallOutcome(
                        "quarantined", message=f"{breaker.explain(trio.current_time())}. {way_out(hook)}"
                    )
                try:
                    reply = await pool.call(invocation, deadline)
                except trio.Cancelled:
                    if breaker is not None:
                        breaker.unresolved(trio.current_time())
                    raise
                self._count_death(hook, reply)
                if reply.emitted:
                    take(reply)
                if hook.target.native:
                    return self._native.read(call, envelope, reply.outcome)
                return reply.outcome
            case ServedTarget(owner):
                server = self._servers.get(owner)
                if server is None:
                    return CallOutcome("crash", message="the client that served it is gone")
                if hook.target.native:
                    return await self._native.call(server, call, envelope, deadline)
                return await server.call_hook(question(call, envelope), envelope, deadline)

    def _count_death(self, hook: Hook, reply: Reply) -> None:
        outcome = reply.outcome
        if reply.is_lost and outcome.cause in ("crash", "timeout") and not reply.is_orphaned:
            if self._breakers.make(hook).died(trio.current_time(), outcome.message):
                logger.error("hook quarantined: %s", outcome.message, extra={"hook": hook.name})
                self._on_quarantine(hook, outcome.message)
        elif (breaker := self._breakers.of(hook)) is not None:
            if outcome.cause in ("policy", "crash", "protocol") and not reply.is_orphaned:
                breaker.answered()
            else:
                breaker.unresolved(trio.current_time())

    def called(self, hook: Hook, outcome: CallOutcome, *, decision_id: str, event: str, session: str | None) -> None:
        self._statistics.called(hook.name, outcome.cause, outcome.duration_ms, owner=hook.owner)
        self._statistics.failures.called(hook, outcome, decision_id=decision_id, event=event, session=session)
        if outcome.cause in ("overload", "quarantined"):
            self._statistics.dropped[outcome.cause] += 1


def way_out(hook: Hook) -> str:
    """Return how to get on with a hook whose workers die."""
    place = f"mend {hook.origin} (a new version is taken at once)" if hook.origin else "mend it"
    name = quoted(hook.name)
    return (
        f"To get on: {place}, or: hooklatch suspend {name} --for 15m --reason WHY, or: hooklatch hooks disable {name}"
    )


class Calls:
    """The calls of one fire: what they share, and the deadline they are cut from."""

    def __init__(
        self,
        targets: Targets,
        spec: EventSpec,
        params: FireParams,
        session: Session | None,
        deadline: float,
        decision_id: str,
        telemetry: Telemetry,
    ) -> None:
        self._targets = targets
        self._spec = spec
        self._params = params
        self._session = session
        self._deadline = deadline
        self._decision_id = decision_id
        self._telemetry = telemetry
        self._counted: Counted = set()

    async def run_into(self, outcomes: dict[int, CallOutcome], call: StartCall) -> None:
        outcomes[call.index] = await self.run(call)

    async def run(self, call: StartCall) -> CallOutcome:
        hook = call.hook
        deadline = min(trio.current_time() + (hook.timeout or self._spec.timeout), self._deadline)
        envelope = self._envelope(call)
        target = hook.target
        invocation = Invocation(
            target.function if isinstance(target, PythonTarget) else "",
            self._spec.name,
            call.payload.data,
            msgspec.json.encode(envelope),
            hook.config,
            msgspec.json.encode(call.merged) if call.merged else b"",
            call.reinvoked,
            target.runtime if isinstance(target, PythonTarget) else "",
            self._spec.is_gate,
            isinstance(target, PythonTarget) and bool(target.command),
            self._share,
            isinstance(target, PythonTarget) and bool(target.native),
            partial(self._answer, hook),
        )
        outcome = await self._targets.call(call, invocation, envelope, deadline, self._take)
        self._targets.called(
            hook, outcome, decision_id=self._decision_id, event=envelope.event, session=envelope.session_id
        )
        if outcome.cause not in ("policy", "overload"):  # a flood is counted, and not written line by line
            what = {
                "hook": hook.name, "event": envelope.event, "cause": outcome.cause, "session": envelope.session_id,
                "call": envelope.call_id, "decision": self._decision_id,
            }  # fmt: skip
            logger.warning("hook failed", extra=what)  # its words may be the payload's: the decision has them
        return outcome

    @property
    def _share(self) -> str:
        """Whose turn its calls take: its session's; without one, that which its host says it is of, or its own.

        What a host says cannot take a live session's turns: those are named apart.
        """
        if self._session is not None:
            return self._session.id
        return f"?{self._params.envelope.session_id or self._decision_id}"

    def _answer(self, hook: Hook, asked: Asked) -> wire.Told:
        """Do one step on the state of a hook's source, for this fire."""
        claimed = self._params.envelope.session_id
        return self._targets.state.answer(asked, hook, self._session, self._counted, claimed=claimed)

    def _take(self, reply: Reply) -> None:
        self._telemetry(reply, self._params, self._session)

    def _envelope(self, call: StartCall) -> Envelope:
        given, session = self._params.envelope, self._session
        return Envelope(
            self._spec.name,
            session.id if session is not None else given.session_id,
            self._params.call_id or self._decision_id,
            given.cwd or (session.cwd if session is not None else None),
            given.agent_id,
            given.agent_type,
            given.parent_session_id or (session.parent.id if session is not None and session.parent else None),
            given.host or (session.host if session is not None else None),
            given.turn,
            given.metadata,
            call.context,
        )
