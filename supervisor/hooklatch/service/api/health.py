"""Whether the daemon can do its work, in a word, and why not.  Reads the parts; is cheap, since probes ask often."""

from __future__ import annotations

from typing import Any

from hooklatch.core.hooks.registry import Hook
from hooklatch.core.hooks.suspension import find
from hooklatch.service.api.hub import Hub
from hooklatch.service.config.isolation_levels import shortfalls
from hooklatch.version import VERSION

__all__ = ["health", "is_vital_well", "reasons", "state_of"]


def health(hub: Hub) -> dict[str, Any]:
    """Return `draining` when the daemon is about to leave, `red` when gates are denied for no policy, else `ready`."""
    found = reasons(hub)
    state = "draining" if hub.dispatcher.is_draining else "red" if found else "ready"
    return {"health": state, "reasons": found, "revision": hub.registries.view.revision, "version": VERSION}


def reasons(hub: Hub) -> list[str]:
    """Return a word for each thing that is wrong; `status` has the text."""
    checks = {
        "parts": bool(hub.part_faults),
        "zygote": not hub.sources.zygote.is_alive,
        "record": bool(hub.record.faults),
        "isolation": bool(shortfalls(hub.sources.pools_in_force)),
        "files": bool(hub.files.diagnostics),
        "hooks": any(hook.problem for hook in hub.registries.api_hooks),
        "faults": bool(hub.faults or hub.state.unwritten),
        "quarantined": has_quarantined(hub),
        "state": bool(hub.shared_state.faults),
        "suspended": any(True for _ in hub.suspensions),
    }
    return [word for word, is_wrong in checks.items() if is_wrong]


def has_quarantined(hub: Hub) -> bool:
    breakers = hub.dispatcher.targets.breakers
    if not any(breaker.is_quarantined for breaker in breakers):
        return False
    return any(state_of(hub, hook) == "quarantined" for hook in hub.registries.all_hooks())


def state_of(hub: Hub, hook: Hook) -> str:
    """Say in a word whether a hook is called: `active`, `disabled`, `suspended`, `inactive` or `quarantined`."""
    if not hook.enabled:
        return "disabled"
    if find(hub.suspensions, hook) is not None:
        return "suspended"
    if hook.problem is not None:
        return "inactive"
    return "quarantined" if hub.dispatcher.targets.breakers.is_quarantined(hook) else "active"


def is_vital_well(hub: Hub) -> bool:
    """Whether no restart is called for: workers can be started, decisions recorded.  The loop runs, since it asks."""
    return hub.sources.zygote.is_alive and hub.record.is_sound
