"""Plugs hooklatch into the kit: its reference agent runs the scenario, and a worker of ours plays each interceptor.

    agent ─ emitter ─▶ Crossing.intercept ─▶ client ═socket═▶ daemon ─▶ worker: the script
                                          ◀─ verdict_of(decision)

Each interceptor is a session of its own with one hook on every event. Nothing is played in this process: without a
daemon every call is the client's own deny.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from agent_hooks import (
    ApprovalResolver,
    CompositionConfig,
    EnforcementMode,
    HostRegistry,
    Interceptor,
)
from agent_hooks.ctk import RecordingInterceptor, RunRecord, Scenario
from agent_hooks.ctk.reference import ReferenceHarness
from agent_hooks.path import PathError, resolve

import hooklatch
from external.points import POINTS
from hooklatch import Decision, Session

__all__ = ["Crossing", "Harness", "verdict_of"]


class Crossing:
    """An interceptor whose every call is a fire; keeps the decisions, and shows the kit what the worker was handed."""

    def __init__(self, scripted: Any, socket: str, source: Path, journal: Path) -> None:
        is_recorded = isinstance(scripted, RecordingInterceptor)
        self.rules: list[dict[str, Any]] = (scripted.inner if is_recorded else scripted).rules
        self.decisions: list[Decision] = []
        self.handed_and_seen: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._recorded: list[dict[str, Any]] = scripted.recorded if is_recorded else []
        self._socket = socket
        self._source = source
        self._journal = journal
        self._read = 0
        self._session: Session | None = None

    def opened(self) -> Session:
        """Return the session that is to be entered before the first call."""
        config = {"rules": self.rules, "journal": str(self._journal)}
        hooks = [
            {"id": f"ctk-{name}", "event": point.event, "run": f"{self._source}:play", "config": config}
            for name, point in POINTS.items()
        ]
        self._session = hooklatch.connect(self._socket, cwd=self._source.parent, host="agent-hooks-ctk", hooks=hooks)
        return self._session

    async def intercept(self, context: dict[str, Any]) -> dict[str, Any]:
        assert self._session is not None
        point = POINTS[context["interception_point"]]
        payload, rest = point.payload_of(context)
        decision = await self._session.fire(point.event, payload=payload, envelope={"metadata": rest})
        self.decisions.append(decision)
        seen = self._seen()
        self._recorded += seen
        self.handed_and_seen += [(context, one) for one in seen]
        return verdict_of(decision, point.context_of({**payload, **(decision.patch or {})}, rest))

    def _seen(self) -> list[dict[str, Any]]:
        """The contexts that the worker was handed since; that a hook is asked again about its own patch is ours."""
        if not self._journal.exists():
            return []
        lines = self._journal.read_text().splitlines()
        new, self._read = lines[self._read :], len(lines)
        return [entry["context"] for entry in map(json.loads, new) if not entry["reinvoked"]]


def verdict_of(decision: Decision, patched: dict[str, Any]) -> dict[str, Any]:
    """Say a decision in the kit's words; `patched` is the context with the decision's patch in it.

    Raises:
        RefusedError: it was made for a failure of the hook, which the kit makes a refusal of its own kind.
    """
    if decision.cause == "protocol":
        return {}  # the answer was no verdict; the kit shall find that of what it gets, too
    if decision.cause == "timeout":
        raise TimeoutError(decision.reason)
    if decision.cause not in (None, "policy"):
        decision.raise_for_refusal()
    told: dict[str, Any] = dict((decision.context or {}).get("kit", {}))
    path, lost, approval = told.pop("path", None), told.pop("value", None), told.pop("approval", {})
    verdict = {**told, "decision": "allow" if decision.allowed else "deny"}
    if decision.reason:
        verdict["reason"] = decision.reason
    if decision.warnings:
        verdict["warnings"] = [json.loads(text) for text in decision.warnings]
    if decision.needs_asking:
        verdict["approval"] = approval
    if decision.allowed and (decision.patch or path):
        path = path or "$target"
        value = value_at(patched["target"], path, lost)
        verdict.update(decision="transform", transform={"path": path, "value": value})
    return verdict


def value_at(target: object, path: str, default: object) -> object:
    try:
        return resolve(target, path)
    except PathError:
        return default


class Harness(ReferenceHarness):
    """The kit's agent, all of whose interceptors are in workers."""

    name = "hooklatch"

    def __init__(self, socket: str, source: Path, journals: Path) -> None:
        super().__init__()
        self.crossings: list[Crossing] = []
        self._socket = socket
        self._source = source
        self._journals = journals

    @property
    def decisions(self) -> list[Decision]:
        """What was decided for all calls of all interceptors."""
        return [decision for crossing in self.crossings for decision in crossing.decisions]

    def declaration(self) -> dict[str, Any]:
        return {**super().declaration(), "id": "hooklatch", "host": {"name": "hooklatch"}}

    def setup(
        self,
        scenario: Scenario,
        interceptors: list[Interceptor],
        resolver: ApprovalResolver | None,
        mode: EnforcementMode,
        composition: CompositionConfig | None = None,
        identity_provider: str | None = "jcs-sha256",
        redact_for_approval: list[str] | None = None,
    ) -> None:
        crossings: list[Any] = [self._cross(interceptor) for interceptor in interceptors]
        super().setup(scenario, crossings, resolver, mode, composition, identity_provider, redact_for_approval)

    def setup_declared(self, scenario: Scenario, document: dict[str, Any], registry: HostRegistry) -> None:
        # The loader makes the interceptors, and hands none of them out; so what makes them makes crossings of them.
        for kind, make in list(registry._kinds.items()):
            registry._kinds[kind] = lambda config, binding, make=make: self._cross(make(config, binding))
        super().setup_declared(scenario, document, registry)

    async def run(self) -> RunRecord:
        async with AsyncExitStack() as sessions:
            for crossing in self.crossings:
                await sessions.enter_async_context(crossing.opened())
            return await super().run()

    def _cross(self, scripted: Interceptor) -> Any:
        journal = self._journals / f"{len(self.crossings)}.jsonl"
        self.crossings.append(Crossing(scripted, self._socket, self._source, journal))
        return self.crossings[-1]
