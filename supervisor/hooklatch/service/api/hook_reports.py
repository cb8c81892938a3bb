"""The methods that show hooks, events and the record: hooks, hook, events, explain, log.  They change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

import msgspec
import trio

from hooklatch.core.answers import describe_event
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.matchers import UnreadableFieldError
from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.core.hooks.snapshots import EventHooks, Snapshot, compute_budget, find_tool_kind
from hooklatch.core.hooks.suspension import find_suspension, split_suspended
from hooklatch.core.payload import Payload, PayloadError
from hooklatch.core.phases import order_hooks
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.processes.pool import Pool
from hooklatch.processes.pool_limits import UnmeasuredError
from hooklatch.processes.resource_limits import read_proportional_bytes
from hooklatch.record.storage.querying import LogQuery, query_record
from hooklatch.record.storage.reading import NoRecordError
from hooklatch.service.api.methods import ApiMethod, MethodTable, require_session, select_viewed_session
from hooklatch.service.api.status_report import StatusReport
from hooklatch.service.dispatch.dialects import DialectDispatcher, Dialects
from hooklatch.service.registry.registries import find_named_hook
from hooklatch.service.registry.statistics import EventCount
from hooklatch.service.transport.connection import Connection
from hooklatch.threads import in_thread

if TYPE_CHECKING:
    from hooklatch.core.answers import (
        BriefHook,
        EventsAnswer,
        EventStatus,
        ExplainAnswer,
        HookLoad,
        HooksAnswer,
        HookStatus,
        ShownHooks,
    )
    from hooklatch.core.status_answers import LogAnswer

__all__ = ["HookReports"]

FRESH = 3.0  # seconds for which a measurement of memory counts: `top` asks each second
UNMEASURED = (float("-inf"), None)


class HookParams(msgspec.Struct, frozen=True):
    """The id of a hook, or its layer and id."""

    id: str
    session: str | None = None


class FilterParams(msgspec.Struct, frozen=True):
    event: str | None = None
    session: str | None = None


class ExplainParams(msgspec.Struct, frozen=True):
    event: str
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    session: str | None = None
    cwd: str | None = None


class HookReports(msgspec.Struct, frozen=True):
    """The methods that describe hooks as one viewer sees them, from the parts of the status report."""

    parts: StatusReport
    dialects: Dialects
    dialect_dispatcher: DialectDispatcher
    memory: WeakKeyDictionary[Pool, tuple[float, int | None]] = msgspec.field(
        default_factory=WeakKeyDictionary[Pool, tuple[float, int | None]]
    )

    @property
    def methods(self) -> MethodTable:
        return {
            "hooks": ApiMethod(FilterParams, self._hooks),
            "hook": ApiMethod(HookParams, self._hook),
            "events": ApiMethod(FilterParams, self._events),
            "explain": ApiMethod(ExplainParams, self._explain),
            "log": ApiMethod(LogQuery, self._log),
        }

    async def _hooks(self, connection: Connection, params: FilterParams) -> HooksAnswer:
        """List hooks in their firing order."""
        view = self.parts.registries.view_of(select_viewed_session(self.parts.sessions, connection, params.session))
        event = self._canonical_name(connection, params.event) if params.event is not None else None
        hooks = [hook for hook in view.hooks if event in (None, hook.event)]
        await self._measure_memory(hooks)
        return {"revision": view.revision, "digest": view.digest, "hooks": [self._describe(hook) for hook in hooks]}

    def _canonical_name(self, connection: Connection, event: str) -> str:
        """Return the canonical name of an event that a session may have named in its dialect."""
        session = connection.session
        if session is None or session.terms.dialect is None:
            return event
        return self.dialect_dispatcher.canonical_name(self.dialects.find(session.terms.dialect), event)

    def _describe(self, hook: Hook) -> HookStatus:
        """Return one hook's row in the answer of `hooks`."""
        return {
            "id": hook.id,
            "name": hook.name,
            "layer": hook.layer.label,
            "project": hook.project or None,
            "plugin": hook.plugin,
            "event": hook.event,
            "match": hook.matcher.text,
            "where": format_where(hook),
            "target": hook.target.describe(),
            "kind": name_hook_kind(hook),
            "origin": str(hook.origin) if hook.origin else None,
            "digests": self.parts.reloader.digests_of(hook),
            "state": self.parts.state_of(hook),
            "problem": hook.problem,
            "failing": bool(self.parts.statistics.failures.find_failing([hook])),
            "enabled": hook.enabled,
            "observe": hook.observe,
            "optional": hook.optional,
            "amends": hook.amends,
            "only_judges": hook.only_judges,
            "priority": hook.priority,
            "timeout": hook.timeout,
            "description": hook.description,
            "timings": self.parts.statistics.timings(hook.name, hook.owner),
            "load": self._find_load(hook),
        }

    def _find_load(self, hook: Hook) -> HookLoad | None:
        """Return the load of a hook and its workers; None if a client serves it, or its source is not loaded."""
        pool = self._find_pool(hook)
        return pool.load_of(hook, self.memory.get(pool, UNMEASURED)[1]) if pool is not None else None

    def _find_pool(self, hook: Hook) -> Pool | None:
        target = hook.target
        if not isinstance(target, PythonTarget):
            return None
        return self.parts.sources.pools.get((target.source.location, target.build))

    async def _measure_memory(self, hooks: Iterable[Hook]) -> None:
        """Measure the workers of hooks, unless that was done just now; the kernel walks page tables for each."""
        now, pools = trio.current_time(), set(filter(None, map(self._find_pool, hooks)))
        pids = {
            pool: [worker.pid for worker in pool.live_workers()]
            for pool in pools
            if now - self.memory.get(pool, UNMEASURED)[0] > FRESH
        }
        sizes = await in_thread(measure_pools, pids) if any(pids.values()) else dict.fromkeys(pids, 0)
        self.memory.update({pool: (now, size) for pool, size in sizes.items()})

    async def _events(self, connection: Connection, params: FilterParams) -> EventsAnswer:
        """List the catalogue, with each event's budget for this viewer and how often it was fired.

        An agent sees only the fires of its own session, an administrator sees all.  A session of a dialect sees the
        dialect's events.  Each has the counts of the first canonical event that it maps to.
        """
        session = select_viewed_session(self.parts.sessions, connection, params.session)
        view = self.parts.registries.view_of(session)
        catalogue = self.parts.registries.catalogue
        statistics = self.parts.statistics
        find_count = statistics.event
        if not connection.is_admin and session is not None:
            find_count = partial(statistics.event_of, session.fired)

        def report_event(name: str) -> EventStatus:
            return self._describe_event(catalogue[name], view, find_count(name))

        if session is None or session.terms.dialect is None:
            return {"events": [report_event(name) for name in catalogue]}
        native_events = self.dialects.find(session.terms.dialect).events.items()
        return {"dialect": session.terms.dialect, "events": [
            {**report_event(event.feeds[0].event), "name": name,
             "aliases": event.aliases, "feeds": [feed.event for feed in event.feeds]}
            for name, event in native_events
        ]}  # fmt: skip

    def _describe_event(self, spec: EventSpec, view: Snapshot, count: EventCount) -> EventStatus:
        hooks = view.for_event(spec)
        return {
            **describe_event(spec),
            "budget": compute_budget(spec, hooks, wait=self.parts.asks.wait),
            "hooks": len(hooks),
            "fired": count.fired,
            "last_fired": count.last_fired,
            "timings": count.timings,
        }

    async def _explain(self, connection: Connection, params: ExplainParams) -> ExplainAnswer:
        """Return the hooks that a fire of this payload would call, in order, and why it would not call the others."""
        spec = self.parts.registries.find_event(self._canonical_name(connection, params.event))
        from hooklatch.service.loading.tool_names import list_unknown_tools  # most daemons are never asked

        session = select_viewed_session(self.parts.sessions, connection, params.session)
        view = self.parts.registries.view_of(session)
        payload, folder = Payload(bytes(params.payload)), params.cwd or (session.cwd if session is not None else None)
        try:
            firing, _ = split_suspended(self.parts.suspensions, view.for_event(spec))
            chain = EventHooks(spec, firing)
            selection = chain.select(payload, folder)
            matched = {hook.name for hook in chain.matching(payload).hooks if hook.where is not None}
        except PayloadError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        chosen = {hook.name for hook in selection.hooks}
        name = payload.text("tool_name") if spec.match == "tool_name" else None
        kind = find_tool_kind(payload, name) if name is not None else None
        refusal = None
        if selection.fault and spec.fails_closed:
            refusal = f"denied (cause payload) before any hook is called: {selection.fault}"
        return {
            "event": spec.name,
            "revision": view.revision,
            "budget": compute_budget(spec, selection.hooks, wait=self.parts.asks.wait),
            "refusal": refusal,
            "tool_kind": kind,
            "fires": [self._describe_briefly(hook) for hook in order_hooks(chain, selection)],
            "others": [
                {
                    **self._describe_briefly(hook),
                    "why": "; ".join(
                        (
                            self._explain_mismatch(spec, hook, view, kind)
                            if hook.name not in matched
                            else describe_unmet_condition(hook, spec, payload, folder),
                            *(list_unknown_tools(hook, spec) if hook.event == spec.name else ()),
                        )
                    ),
                }
                for hook in (*view.hooks, *self._hidden_hooks(view))
                if hook.name not in chosen
            ],
        }

    def _hidden_hooks(self, view: Snapshot) -> list[Hook]:
        """Return the hooks of plugins that this viewer does not allow."""
        visible_names = {hook.name for hook in view.hooks}
        shared = self.parts.registries.view.hooks
        return [hook for hook in shared if hook.plugin is not None and hook.name not in visible_names]

    def _describe_briefly(self, hook: Hook) -> BriefHook:
        return {
            "name": hook.name,
            "layer": hook.layer.label,
            "hook": hook.id,
            "match": hook.matcher.text,
            "where": format_where(hook),
            "state": self.parts.state_of(hook),
            "priority": hook.priority,
            "amends": hook.amends,
            "only_judges": hook.only_judges,
        }

    def _explain_mismatch(self, spec: EventSpec, hook: Hook, view: Snapshot, kind: str | None) -> str:
        if hook.event != spec.name:
            return f"it is a hook of {hook.event}"
        if not hook.enabled:
            return "it is disabled"
        if (suspension := find_suspension(self.parts.suspensions, hook)) is not None:
            return f"it is suspended: {suspension.reason}"
        if hook.plugin is not None and hook.name not in {visible.name for visible in view.hooks}:
            return f"this session does not allow the plugin {hook.plugin!r}"
        kind_text = f", nor its kind {kind!r}" if kind is not None and hook.matcher.names else ""
        return f"its matcher ({hook.matcher.text}) does not match {spec.match}{kind_text}"

    async def _log(self, connection: Connection, query: LogQuery) -> LogAnswer:
        """Return records: to a session those of its own, or of one below it."""
        if not connection.is_admin:
            session = select_viewed_session(self.parts.sessions, connection, query.session)
            session = session or require_session(connection)
            query = msgspec.structs.replace(query, session=session.id, run=session.run)
        try:
            return await in_thread(query_record, self.parts.record.folder, query)
        except NoRecordError as error:
            raise RpcError(ErrorCode.NOT_FOUND, str(error)) from None

    async def _hook(self, connection: Connection, params: HookParams) -> ShownHooks:
        """Describe every hook of this name that the viewer sees; an admin without a session sees all.

        A session sees only the failures of its own hooks, since those of others may quote others' payloads.
        """
        name, registries = params.id, self.parts.registries
        viewer = select_viewed_session(self.parts.sessions, connection, params.session)
        visible = registries.all_hooks() if viewer is None else [*registries.view_of(viewer).hooks]
        known = list(dict.fromkeys(visible))
        hooks = [hook for hook in known if name in (hook.id, hook.name)] or find_named_hook(name, known).hooks
        await self._measure_memory(hooks)
        own, failures = viewer.id if viewer is not None else None, self.parts.statistics.failures
        return {
            "revision": registries.view_of(viewer).revision,
            "hooks": [
                {
                    **self._describe(hook),
                    "owner": hook.owner or None,
                    "command": hook.target.command or None if isinstance(hook.target, PythonTarget) else None,
                    "last_failures": failures.of(hook) if connection.is_admin or hook.owner == own else None,
                }
                for hook in hooks
            ],
        }


def measure_pools(pids: Mapping[Pool, Sequence[int]]) -> dict[Pool, int | None]:
    """Return the memory of the workers of each pool, shared pages by their share; None if it cannot be read."""
    sizes: dict[Pool, int | None] = {}
    for pool, workers in pids.items():
        try:
            sizes[pool] = sum(map(read_proportional_bytes, workers))
        except UnmeasuredError:
            sizes[pool] = None
    return sizes


def describe_unmet_condition(hook: Hook, spec: EventSpec, payload: Payload, folder: str | None) -> str:
    """Return the condition of a hook that does not hold, and why."""
    if hook.where is None:
        return "a condition does not hold"
    try:
        return f"a condition does not hold: {hook.where.find_failing(hook.where.read(spec, payload, folder))}"
    except UnreadableFieldError as error:
        return f"its condition cannot be checked: {error}"


def format_where(hook: Hook) -> str | None:
    return hook.where.text if hook.where is not None else None


def name_hook_kind(hook: Hook) -> Literal["python", "shell", "served"]:
    if not isinstance(hook.target, PythonTarget):
        return "served"
    return "shell" if hook.target.command else "python"
