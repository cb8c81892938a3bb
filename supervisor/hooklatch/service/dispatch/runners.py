"""The runners of hooks: the pools of workers, and the clients that serve hooks.  Knows deadlines, not verdicts.

A call has its outcome by its deadline, even if its target does not answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
import trio

from hooklatch.core.call import Call
from hooklatch.core.decision import Machine
from hooklatch.core.hooks.names import quote_name
from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.core.messages import CallOutcome
from hooklatch.core.restarts import Breaker
from hooklatch.processes.fire_context import FireContext
from hooklatch.processes.pool import BegunCall, Pool
from hooklatch.processes.worker import compute_deadline
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.fires import Fire
from hooklatch.service.registry.budget import SMALL
from hooklatch.service.registry.failure_log import DROPPED
from hooklatch.service.registry.statistics import Statistics

__all__ = ["HookRunner", "HookRunners"]

logger = logging.getLogger("hooklatch.calls")

GONE = CallOutcome(cause="crash", message="the client that served it is gone")


class HookRunner(Protocol):
    """A runner of hooks: the pool of a source, or the connection of a client that serves them."""

    async def call(self, call: Call, fire: FireContext, deadline: float) -> CallOutcome: ...


class NativeHooks(Protocol):
    """The caller of hooks that were registered in a dialect; it translates their answers."""

    async def call(self, target: HookRunner, call: Call, fire: FireContext, deadline: float) -> CallOutcome: ...


class HookRunners:
    """All runners of hooks: the pools by source and build, and the connections of clients by number."""

    def __init__(
        self,
        pools: Mapping[tuple[str, int], HookRunner],
        servers: Mapping[int, HookRunner],
        statistics: Statistics,
        *,
        breakers: Breakers,
        dialects: NativeHooks,
        on_quarantine: Callable[[Hook, str], None],
    ) -> None:
        self._pools = pools
        self._servers = servers
        self._statistics = statistics
        self._breakers = breakers
        self._dialects = dialects
        self._on_quarantine = on_quarantine
        self._clock = trio.lowlevel.current_clock().current_time

    def _find(self, hook: Hook) -> HookRunner | CallOutcome:
        """Return the runner of a hook, or an outcome that says why there is none."""
        target = hook.target
        if hook.problem is not None:
            return CallOutcome(cause="load", message=hook.problem)
        if isinstance(target, PythonTarget):
            pool = self._pools.get((target.source.location, target.build))
            return pool or CallOutcome(cause="load", message=f"{target.source.location} is not loaded")
        return self._servers.get(target.owner) or GONE

    async def run(self, call: Call, fire: Fire) -> CallOutcome:
        """Run a call and those that follow it, until one answers or time is up; return the outcome of the last one."""
        hook, target, now = call.hook, self._find(call.hook), self._clock()
        breaker = self._breakers.of(hook) if self._breakers.all else None
        if breaker is not None and not isinstance(target, CallOutcome) and not breaker.permits(now):
            text = f"{breaker.explain(now)}. {describe_way_out(hook)}"
            target = CallOutcome(cause="quarantined", message=text)
        if isinstance(target, CallOutcome):
            return self._take(call, fire, target)
        deadline = compute_deadline(hook, fire, now)
        if call.following and self._breakers.knows(hook, *call.following):
            call = msgspec.structs.replace(call, following=())  # each must pass its own breaker first
        try:
            if hook.target.native:
                outcome = await self._dialects.call(target, call, fire, deadline)
            else:
                outcome = await target.call(call, fire, deadline)
        except BaseException:  # cancelled, or a bug of ours: a probe of a quarantined hook must not stay open
            if breaker is not None:
                breaker.end_probe(trio.current_time())
            raise
        return self._take(call, fire, outcome, breaker)

    def _take(self, call: Call, fire: Fire, outcome: CallOutcome, breaker: Breaker | None = None) -> CallOutcome:
        """Make room for an answer, note a death, and count the call; `breaker` is the one that permitted it."""
        hook = call.hook
        if len(outcome.answer) > SMALL and not fire.take_room(len(outcome.answer)):
            text = f"there is no room for its answer of {len(outcome.answer)} bytes beside the answers of other hooks"
            outcome = msgspec.structs.replace(outcome, cause="overload", message=text, answer=b"")
        if outcome.earlier_ms:
            hook = self._count_silent_hooks(outcome, call)
        if outcome.cause != "policy" or breaker is not None:
            self._count_death(hook, outcome, breaker)
        self._statistics.calls.append((hook, outcome.cause, outcome.duration_ms))
        if outcome.cause != "policy":
            self._record_failure(hook, outcome, fire)
        return outcome

    async def run_all(self, calls: Sequence[Call], fire: Fire, machine: Machine) -> None:
        """Run several calls at the same time, until the machine has the outcomes of all or is settled.

        All that workers can take are sent before any answer is awaited.  Answers that come at once are taken in turn,
        and only the others have a task each.  Hooks that are still at work when the machine is settled go on to their
        own deadlines, and their answers are discarded.
        """
        waiting: dict[Call, BegunCall | None] = {}  # None: it is not sent yet

        async def finish(call: Call, nursery: trio.Nursery | None = None) -> None:
            begun = waiting.pop(call)
            if begun is None:
                outcome = await self.run(call, fire)
            else:
                outcome = self._take(call, fire, await begun.pool.end(begun))
            machine.receive(call, outcome)
            if nursery is not None and machine.is_settled:
                nursery.cancel_scope.cancel()

        try:
            now = self._clock()
            for call in calls:
                waiting[call] = self._begin(call, fire, now)
            if any(waiting.values()):
                fire.prepare_record()  # while the workers work
            is_quick = True  # until one keeps the loop waiting
            for call, begun in [*waiting.items()]:
                if begun is not None and not machine.is_settled:
                    is_quick = begun.pool.has_answered(begun, in_place=is_quick)
                    if is_quick:
                        await finish(call)
            if waiting and not machine.is_settled:
                async with trio.open_nursery() as nursery:
                    for call in waiting:
                        nursery.start_soon(finish, call, nursery)
        except BaseExceptionGroup:
            await trio.lowlevel.checkpoint_if_cancelled()  # one Cancelled for the fire, not one for each
            raise
        finally:
            for begun in waiting.values():
                if begun is not None:
                    begun.pool.abandon(begun)

    def _begin(self, call: Call, fire: Fire, now: float) -> BegunCall | None:
        """Send a call to an idle worker if it has no more to wait for; otherwise `run` does all of it."""
        hook = call.hook
        if self._breakers.all or hook.target.native or not isinstance(pool := self._find(hook), Pool):
            return None
        begun = pool.begin(call, fire, compute_deadline(hook, fire, now), now)
        return begun if isinstance(begun, BegunCall) else None

    def _count_silent_hooks(self, outcome: CallOutcome, call: Call) -> Hook:
        """Count the hooks that returned None before the one that this outcome is of; return that one."""
        hook = call.hook
        for duration, following in zip(outcome.earlier_ms, call.following, strict=False):
            self._statistics.calls.append((hook, "policy", duration))
            hook = following
        return hook

    def _count_death(self, hook: Hook, outcome: CallOutcome, breaker: Breaker | None) -> None:
        # An orphaned outcome has another reason than this hook, as the death of the zygote, so it does not count.
        if outcome.is_lost and outcome.cause in ("crash", "timeout") and not outcome.is_orphaned:
            if self._breakers.record_death(hook, trio.current_time(), outcome.message):
                logger.error("hook quarantined: %s", outcome.message, extra={"hook": hook.name})
                self._on_quarantine(hook, outcome.message)
        elif breaker is not None:
            if outcome.cause in ("policy", "crash", "protocol") and not outcome.is_orphaned:
                self._breakers.record_answer(hook)
            else:
                breaker.end_probe(trio.current_time())

    def _record_failure(self, hook: Hook, outcome: CallOutcome, fire: Fire) -> None:
        if is_dropped := outcome.cause in DROPPED:  # it is not kept: a flood must not cost a subject each
            self._statistics.dropped[outcome.cause] += 1
        self._statistics.failures.note_failure(
            hook, outcome, decision_id=fire.decision_id, event=fire.spec.name, session=fire.session_id,
            subject="" if is_dropped else fire.subject, is_new=not self._statistics.has_answered(hook),
        )  # fmt: skip
        if outcome.cause != "overload":  # a flood is counted, not logged call by call
            fields = {
                "hook": hook.name, "event": fire.spec.name, "cause": outcome.cause, "session": fire.session_id,
                "call": fire.envelope.call_id, "decision": fire.decision_id,
            }  # fmt: skip
            logger.warning("hook failed", extra=fields)  # no message: it may quote the payload


def describe_way_out(hook: Hook) -> str:
    """Return the remedies for a hook whose workers die."""
    remedy = f"fix {hook.origin} (a new version is taken at once)" if hook.origin else "fix it"
    name = quote_name(hook.name)
    return (
        f"To get on: {remedy}, or: hooklatch suspend {name} --for 15m --reason WHY, or: hooklatch hooks disable {name}"
    )
