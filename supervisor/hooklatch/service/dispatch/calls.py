"""Calls hooks' targets: workers of pools, and clients that serve hooks.  Knows targets and deadlines, not verdicts.

A call has its outcome by its deadline, whatever the target does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
import trio

from hooklatch.core.decisions.call import Call, Envelope
from hooklatch.core.hooks.names import quoted
from hooklatch.core.hooks.registry import Hook, PythonTarget, ServedTarget
from hooklatch.core.messages import Outcome
from hooklatch.processes.pool import Pool
from hooklatch.processes.worker import FireContext
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.fires import Fire
from hooklatch.service.dispatch.shared_state import Counted, SharedState
from hooklatch.service.registry.statistics import Statistics
from hooklatch_worker import wire
from hooklatch_worker.author.call_context import Emitted
from hooklatch_worker.author.state import Asked

__all__ = ["Calls", "Target", "Targets"]

logger = logging.getLogger("hooklatch.calls")


class Target(Protocol):
    """What runs hooks: the pool of a source, or the connection of a client that serves them."""

    async def call(self, call: Call, fire: FireContext, deadline: float) -> Outcome: ...


class NativeHooks(Protocol):
    """Calls hooks that were registered in a dialect, and translates their answers."""

    async def call(self, target: Target, call: Call, fire: FireContext, deadline: float) -> Outcome: ...


Telemetry = Callable[[Fire, Sequence[Emitted]], None]


class Targets:
    """What hooks run on: the pools by source and build, and the connections of clients by number."""

    def __init__(
        self,
        pools: Mapping[tuple[str, int], Pool],
        servers: Mapping[int, Target],
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

    def find(self, target: PythonTarget | ServedTarget) -> Target | Outcome:
        """Return what a hook runs on, or why that is missing."""
        if isinstance(target, ServedTarget):
            return self._servers.get(target.owner) or Outcome(
                cause="crash", message="the client that served it is gone"
            )
        location = target.source.location
        pool = self._pools.get((location, target.build))
        return pool or Outcome(cause="load", message=f"{location} is not loaded")

    async def call(self, call: Call, fire: FireContext, deadline: float) -> Outcome:
        """Call one hook's target; return the outcome by the deadline."""
        hook = call.hook
        target = self.find(hook.target) if hook.problem is None else Outcome(cause="load", message=hook.problem)
        if isinstance(target, Outcome):
            return target
        breaker = self._breakers.of(hook)
        if breaker is not None and not breaker.permits(trio.current_time()):
            why = f"{breaker.explain(trio.current_time())}. {way_out(hook)}"
            return Outcome(cause="quarantined", message=why)
        try:
            if hook.target.native:
                outcome = await self._native.call(target, call, fire, deadline)
            else:
                outcome = await target.call(call, fire, deadline)
        except trio.Cancelled:
            if breaker is not None:
                breaker.unresolved(trio.current_time())
            raise
        if outcome.cause != "policy" or breaker is not None:
            self._count_death(hook, outcome)
        return outcome

    def _count_death(self, hook: Hook, outcome: Outcome) -> None:
        if outcome.is_lost and outcome.cause in ("crash", "timeout") and not outcome.is_orphaned:
            if self._breakers.make(hook).died(trio.current_time(), outcome.message):
                logger.error("hook quarantined: %s", outcome.message, extra={"hook": hook.name})
                self._on_quarantine(hook, outcome.message)
        elif (breaker := self._breakers.of(hook)) is not None:
            if outcome.cause in ("policy", "crash", "protocol") and not outcome.is_orphaned:
                breaker.answered()
            else:
                breaker.unresolved(trio.current_time())

    def called(self, fire: Fire, hook: Hook, outcome: Outcome) -> None:
        """Count a call that has ended, and keep why it failed."""
        self._statistics.called(hook.name, outcome.cause, outcome.duration_ms, owner=hook.owner)
        self._statistics.failures.called(
            hook, outcome, decision_id=fire.decision_id, event=fire.spec.name, session=fire.envelope.session_id
        )
        if outcome.cause in ("overload", "quarantined"):
            self._statistics.dropped[outcome.cause] += 1


def way_out(hook: Hook) -> str:
    """Return what the operator can do about a hook whose workers die."""
    place = f"fix {hook.origin} (a new version is taken at once)" if hook.origin else "fix it"
    name = quoted(hook.name)
    return (
        f"To get on: {place}, or: hooklatch suspend {name} --for 15m --reason WHY, or: hooklatch hooks disable {name}"
    )


class Calls:
    """The calls of one fire: their deadline, and what workers and serving clients need of the fire."""

    __slots__ = ("_counted", "_deadline", "_fire", "_prepare", "_take_telemetry", "_targets", "share", "spec")

    def __init__(
        self, targets: Targets, fire: Fire, deadline: float, take_telemetry: Telemetry, prepare: Callable[[Fire], None]
    ) -> None:
        self.spec = fire.spec
        self.share = fire.share
        self._targets = targets
        self._fire = fire
        self._deadline = deadline
        self._take_telemetry = take_telemetry
        self._prepare = prepare
        self._counted: Counted = set()

    def sent(self) -> None:
        """Do what can be done while a worker works."""
        self._prepare(self._fire)

    async def run_into(self, outcomes: dict[int, Outcome], call: Call) -> None:
        outcomes[call.index] = await self.run(call)

    async def run(self, call: Call) -> Outcome:
        """Run one call to its end, or to its deadline."""
        hook, fire = call.hook, self._fire
        deadline = min(trio.current_time() + (hook.timeout or self.spec.timeout), self._deadline)
        outcome = await self._targets.call(call, self, deadline)
        self._targets.called(fire, hook, outcome)
        if outcome.cause not in ("policy", "overload"):  # a flood is counted, not logged call by call
            what = {
                "hook": hook.name, "event": self.spec.name, "cause": outcome.cause, "session": fire.envelope.session_id,
                "call": fire.envelope.call_id, "decision": fire.decision_id,
            }  # fmt: skip
            logger.warning("hook failed", extra=what)  # no message: it may quote the payload
        return outcome

    def envelope(self, call: Call) -> Envelope:
        """Return what a callback is given besides the payload."""
        envelope = self._fire.envelope
        if call.context is envelope.context:
            return envelope
        return msgspec.structs.replace(envelope, context=call.context)

    def answer(self, call: Call, asked: Asked) -> wire.Told:
        """Perform one operation on the state of a hook's source, for this fire.

        Raises:
            FrameError: our own code in the worker never sends such a request.
        """
        claimed = self._fire.params.envelope.session_id
        return self._targets.state.answer(asked, call.hook, self._fire.session, self._counted, claimed=claimed)

    def take(self, emitted: Sequence[Emitted]) -> None:
        """Publish the telemetry that came with an answer."""
        self._take_telemetry(self._fire, emitted)
