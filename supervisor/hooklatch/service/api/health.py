"""The daemon's health: gathers what the definition of red (`core/health.py`) needs.  Cheap: probes call it often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hooklatch.core.health import Condition, Faults, is_vital_well, red, word
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.hooks.suspension import find
from hooklatch.processes.supervisor import Supervisor
from hooklatch.processes.zygote import Zygote
from hooklatch.record.writer import Record
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.config.isolation_levels import shortfalls
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch.service.loading.files import Files
from hooklatch.service.loading.sources import Sources
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.suspensions import Suspensions
from hooklatch.version import VERSION

__all__ = ["Health"]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Inspects the parts that the daemon needs to do its work."""

    supervisors: Sequence[Supervisor]
    listeners: Faults
    faults: Faults
    zygote: Zygote
    record: Record
    sources: Sources
    files: Files
    registries: Registries
    state: StateFile
    shared_state: SharedState
    suspensions: Suspensions
    breakers: Breakers
    dispatcher: Dispatcher

    def condition(self) -> Condition:
        """Return everything that makes the daemon ready or not, at this moment."""
        return Condition(
            is_draining=self.dispatcher.is_draining,
            parts=[fault for supervisor in self.supervisors for fault in supervisor.faults()],
            listeners=list(self.listeners),
            is_zygote_alive=self.zygote.is_alive,
            record=self.record.faults,
            is_record_sound=self.record.is_sound,
            isolation=shortfalls(self.sources.pools_in_force),
            files=self.files.diagnostics,
            hooks=inactive(self.registries.api_hooks),
            faults=[*self.faults, *([self.state.unwritten] if self.state.unwritten else [])],
            quarantined=self._quarantined(),
            state=self.shared_state.faults,
            suspended=list(self.suspensions),
        )

    def state_of(self, hook: Hook) -> str:
        """Return whether a hook is called, and if not, why: it is disabled, suspended, inactive or quarantined."""
        if not hook.enabled:
            return "disabled"
        if find(self.suspensions, hook) is not None:
            return "suspended"
        if hook.problem is not None:
            return "inactive"
        return "quarantined" if self.breakers.is_quarantined(hook) else "active"

    def _quarantined(self) -> list[str]:
        """Return the names of the shared hooks that are quarantined."""
        if not any(breaker.is_quarantined for breaker in self.breakers):
            return []
        return [hook.name for hook in self.registries.all_hooks() if self.state_of(hook) == "quarantined"]

    def report(self) -> dict[str, Any]:
        """Answer `health`: one word, and one code for each kind of problem."""
        condition = self.condition()
        return {
            "health": word(condition),
            "reasons": list(dict.fromkeys(one.reason for one in red(condition))),
            "revision": self.registries.view.revision,
            "version": VERSION,
        }

    def is_vital_well(self) -> bool:
        """Return whether no restart is needed.  The loop runs, since it runs this."""
        return is_vital_well(is_zygote_alive=self.zygote.is_alive, is_record_sound=self.record.is_sound)


def inactive(hooks: Iterable[Hook]) -> list[Diagnostic]:
    """Return clients' hooks that cannot be called: those of files have diagnostics, these only show here."""
    return [Diagnostic(f"hook {hook.id!r}", 0, hook.problem) for hook in hooks if hook.problem is not None]
