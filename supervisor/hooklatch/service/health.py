"""Whether the daemon can do its work, in a word, and why not.  Reads the parts; is cheap, since probes ask often."""

from __future__ import annotations

from typing import Any

from hooklatch.service.hub import Hub
from hooklatch.service.levels import shortfalls
from hooklatch.version import VERSION

__all__ = ["health", "is_vital_well", "reasons"]


def health(hub: Hub) -> dict[str, Any]:
    """Give `draining` when the daemon is about to leave, `red` when gates are denied for no policy, else `ready`."""
    found = reasons(hub)
    state = "draining" if hub.dispatcher.is_draining else "red" if found else "ready"
    return {"health": state, "reasons": found, "revision": hub.registries.view.revision, "version": VERSION}


def reasons(hub: Hub) -> list[str]:
    """Give a word for each thing that is wrong; `status` has the text."""
    checks = {
        "zygote": not hub.sources.zygote.is_alive,
        "record": bool(hub.record.status()["faults"]),
        "isolation": bool(shortfalls({location: unit.pool for location, unit in hub.sources.units.items()})),
        "files": bool(hub.files.diagnostics),
        "hooks": any(hook.problem for hook in hub.registries.api_hooks),
        "faults": bool(hub.faults or hub.state.unwritten),
        "quarantined": has_quarantined(hub),
        "suspended": any(True for _ in hub.suspensions),
    }
    return [word for word, is_wrong in checks.items() if is_wrong]


def has_quarantined(hub: Hub) -> bool:
    breakers = hub.dispatcher.targets.breakers
    if not any(breaker.is_quarantined for breaker in breakers):
        return False
    suspended = list(hub.suspensions)
    return any(
        hook.enabled and breakers.is_quarantined(hook) and not any(one.covers(hook) for one in suspended)
        for hook in hub.registries.all_hooks()
    )


def is_vital_well(hub: Hub) -> bool:
    """Whether no restart is called for: workers can be started, decisions recorded.  The loop runs, since it asks."""
    return hub.sources.zygote.is_alive and hub.record.is_sound
