"""Calls hooks' targets: workers of pools, and clients that serve hooks.  Knows targets and deadlines, not verdicts.

A call has its outcome by its deadline, whatever the target does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
import trio

from hooklatch.core.decisions.call import Call
from hooklatch.core.hooks.names import quote_name
from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.core.messages import CallOutcome
from hooklatch.processes.fire_context import FireContext
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.fires import Fire
from hooklatch.service.registry.budget import SMALL
from hooklatch.service.registry.statistics import Statistics

__all__ = ["HookRunner", "HookRunners"]

logger = logging.getLogger("hooklatch.calls")


class HookRunner(Protocol):
    """What runs hooks: the pool of a source, or the connection of a client that serves them."""

    async def call(self, call: Call, fire: FireContext, deadline: float) -> CallOutcome: ...


class NativeHooks(Protocol):
    """Calls hooks that were registered in a dialect, and translates their answers."""

    async def call(self, target: HookRunner, call: Call, fire: FireContext, deadline: float) -> CallOutcome: ...


class HookRunners:
    """What hooks run on: the pools by source and build, and the connections of clients by number."""

    def __init__(
        self,
        pools: Mapping[tuple[str, int], HookRunner],
        servers: Mapping[int, HookRunner],
        statistics: Statistics,
        *,
        breakers: Breakers,
        native: NativeHooks,
        on_quarantine: Callable[[Hook, str], None],
    ) -> None:
        self._pools = pools
        self._servers = servers
        self._statistics = statistics
        self._breakers = breakers
        self._native = native
        self._on_quarantine = on_quarantine
        self._now = trio.lowlevel.current_clock().current_time

    def _find(self, hook: Hook) -> HookRunner | CallOutcome:
        """Return the client that serves a hook, or why there is nothing that can run it."""
        target = hook.target
        if hook.problem is not None:
            return CallOutcome(cause="load", message=hook.problem)
        if isinstance(target, PythonTarget):
            return CallOutcome(cause="load", message=f"{target.source.location} is not loaded")
        gone = CallOutcome(cause="crash", message="the client that served it is gone")
        return self._servers.get(target.owner, gone)

    async def run(self, call: Call, fire: Fire) -> CallOutcome:
        """Run one call to its end, or to its deadline, and those after it; return the outcome of the last one."""
        hook, own = call.hook, call.hook.target
        target: HookRunner | CallOutcome | None = None
        if isinstance(own, PythonTarget) and hook.problem is None:
            target = self._pools.get((own.source.location, own.build))
        if target is None:
            target = self._find(hook)
        breaker = self._breakers.of(hook) if self._breakers.all else None
        now = self._now()
        if isinstance(target, CallOutcome):
            outcome = target
        elif breaker is not None and not breaker.permits(now):
            outcome = CallOutcome(cause="quarantined", message=f"{breaker.explain(now)}. {describe_way_out(hook)}")
        else:
            deadline = min(now + (hook.timeout or fire.spec.timeout), fire.deadline)
            if call.following and self._breakers.knows(hook, *call.following):
                call = msgspec.structs.replace(call, following=())  # whether it is quarantined is asked before each one
            try:
                if own.native:
                    outcome = await self._native.call(target, call, fire, deadline)
                else:
                    outcome = await target.call(call, fire, deadline)
            except BaseException:  # cancelled, or a fault of our own: a quarantined hook's probe must not stay open
                if breaker is not None:
                    breaker.end_probe(trio.current_time())
                raise
            if len(outcome.answer) > SMALL and not fire.take_room(len(outcome.answer)):
                text = f"there is no room for its answer of {len(outcome.answer)} bytes beside those of others"
                outcome = msgspec.structs.replace(outcome, cause="overload", message=text, answer=b"")
            if outcome.earlier_ms:
                hook = self._count_run(outcome, call)
            if outcome.cause != "policy" or breaker is not None:
                self._count_death(hook, outcome)
        self._statistics.calls.append((hook, outcome.cause, outcome.duration_ms))
        if outcome.cause != "policy":
            self._failed(hook, outcome, fire)
        return outcome

    async def run_all(self, asked: Sequence[Call], fire: Fire) -> list[CallOutcome]:
        """Run several calls at the same time; return their outcomes in order."""
        outcomes: dict[int, CallOutcome] = {}

        async def run_into(call: Call) -> None:
            outcomes[call.index] = await self.run(call, fire)

        try:
            async with trio.open_nursery() as nursery:
                for call in asked:
                    nursery.start_soon(run_into, call)
        except BaseExceptionGroup:
            await trio.lowlevel.checkpoint_if_cancelled()  # the fire is cancelled once, not once for each call
            raise
        return [outcomes[call.index] for call in asked]

    def _count_run(self, outcome: CallOutcome, call: Call) -> Hook:
        """Count the hooks that had nothing to say before the one that an outcome is of; return that one."""
        hook = call.hook
        for duration, following in zip(outcome.earlier_ms, call.following, strict=False):
            self._statistics.calls.append((hook, "policy", duration))
            hook = following
        return hook

    def _count_death(self, hook: Hook, outcome: CallOutcome) -> None:
        if outcome.is_lost and outcome.cause in ("crash", "timeout") and not outcome.is_orphaned:
            if self._breakers.died(hook, trio.current_time(), outcome.message):
                logger.error("hook quarantined: %s", outcome.message, extra={"hook": hook.name})
                self._on_quarantine(hook, outcome.message)
        elif (breaker := self._breakers.of(hook)) is not None:
            if outcome.cause in ("policy", "crash", "protocol") and not outcome.is_orphaned:
                self._breakers.answered(hook)
            else:
                breaker.end_probe(trio.current_time())

    def _failed(self, hook: Hook, outcome: CallOutcome, fire: Fire) -> None:
        self._statistics.failures.failed(
            hook, outcome, decision_id=fire.decision_id, event=fire.spec.name, session=fire.session_id
        )
        if outcome.cause in ("overload", "quarantined"):
            self._statistics.dropped[outcome.cause] += 1
        if outcome.cause != "overload":  # a flood is counted, not logged call by call
            what = {
                "hook": hook.name, "event": fire.spec.name, "cause": outcome.cause, "session": fire.session_id,
                "call": fire.envelope.call_id, "decision": fire.decision_id,
            }  # fmt: skip
            logger.warning("hook failed", extra=what)  # no message: it may quote the payload


def describe_way_out(hook: Hook) -> str:
    """Return what the operator can do about a hook whose workers die."""
    place = f"fix {hook.origin} (a new version is taken at once)" if hook.origin else "fix it"
    name = quote_name(hook.name)
    return (
        f"To get on: {place}, or: hooklatch suspend {name} --for 15m --reason WHY, or: hooklatch hooks disable {name}"
    )
