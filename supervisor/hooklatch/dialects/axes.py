"""The application of a dialect's axes, which can tighten or reorder an event, but never loosen it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.registry import Hook, Layer
from hooklatch.dialects.dialect import Dialect, EventMapping

__all__ = ["order_dialect_hooks", "is_due", "adapt_spec"]

AXES = ("flow", "view", "combine", "ends_at")


def adapt_spec(feed: EventMapping, spec: EventSpec) -> EventSpec:
    """Return the spec with the feed's axes in place of its own; model, verdicts, outputs and patch keys stay.

    Raises:
        ValueError: the feed is for another event, or would run the hooks of a gate concurrently.
    """
    if feed.event != spec.name:
        raise ValueError(f"a feed of {feed.event} sets no axes of {spec.name}")
    if feed.flow == "concurrent" and spec.model != "notify":
        raise ValueError(f"the hooks of {spec.name} run in order; only a notify event can be concurrent")
    changes: dict[str, Any] = {axis: getattr(feed, axis) for axis in AXES if getattr(feed, axis) is not None}
    return msgspec.structs.replace(spec, **changes) if changes else spec


def is_due(feed: EventMapping, verdicts: Sequence[str]) -> bool:
    """Return whether to fire a feed, given the verdicts of the feeds before it."""
    return feed.when == "always" or all(verdict in ("pass", "allow", "claim") for verdict in verdicts)


def order_dialect_hooks(dialect: Dialect, hooks: Sequence[Hook]) -> tuple[Hook, ...]:
    """Return all hooks, sorted into the firing order of that system, with the fleet's hooks first."""
    if dialect.by_priority:
        return tuple(sorted(hooks, key=lambda hook: (hook.layer is not Layer.FLEET, -hook.priority)))
    if not dialect.layers:
        return tuple(hooks)
    ranks = {label: rank for rank, label in enumerate(dialect.layers)}
    return tuple(sorted(hooks, key=lambda hook: rank_hook(hook, ranks)))


def rank_hook(hook: Hook, ranks: Mapping[str, int]) -> int:
    return -1 if hook.layer is Layer.FLEET else ranks.get(hook.layer.label, len(ranks))
