"""What a worker runs for the kit: one hook that plays a script and says the result in hooklatch's words.

The kit's own engine reads the script, here, in the worker. What the hook was handed is written down before it is
judged, so that the harness can show the kit what arrived, also where the script then raises.
"""

from __future__ import annotations

import json
from typing import Any

from agent_hooks import Decision as KitDecision
from agent_hooks import Verdict as KitVerdict
from agent_hooks.ctk import ScriptedInterceptor
from agent_hooks.path import PathError, apply
from points import Point, point_of

from hooklatch import CustomEvent, Verdict, context


def play(event: CustomEvent) -> object:
    point = point_of(event.event)
    seen = point.context_of(event.payload, event.metadata or {})
    write_down(event, seen)
    script = ScriptedInterceptor(event.config["rules"])
    wire = script.intercept(point.context_of(event.payload, event.metadata or {}))
    try:
        said = KitVerdict.from_wire(wire)
    except ValueError:
        return wire  # no verdict of theirs is none of ours: refusing it is the daemon's part
    return translated(said, point, seen)


def translated(said: KitVerdict, point: Point, seen: dict[str, Any]) -> Verdict[Any]:
    patch = patched(said, point, seen)
    answer: Verdict[Any] = context(kit=beside(said, is_lost=patch is None))
    if said.decision is KitDecision.DENY:
        is_ask = said.is_liftable and "ask" in point.words
        answer = answer.ask(said.reason or "") if is_ask else answer.deny(said.reason or "")
    elif "allow" in point.words:
        answer = answer.allow(said.reason or "")
    for warning in said.warnings:
        answer = answer.warn(json.dumps(warning.to_wire()))
    return answer.amend(**patch) if patch else answer


def patched(said: KitVerdict, point: Point, seen: dict[str, Any]) -> dict[str, Any] | None:
    """The patch that a transform comes to; None where its path leads nowhere, so that there is nothing to patch."""
    if said.transform is None:
        return {}
    try:
        target = apply(seen["target"], said.transform.path, said.transform.value)
    except PathError:
        return None
    return point.patch_of(seen, target)


def beside(said: KitVerdict, *, is_lost: bool) -> dict[str, Any]:
    """What hooklatch has no word for; it travels in the context of the fire."""
    wire = said.to_wire()
    told = {key: wire[key] for key in ("message", "evidence", "result_labels") if key in wire}
    if said.transform is not None:
        told["path"] = said.transform.path
        if is_lost:
            told["value"] = said.transform.value  # the kit is to find for itself that the path leads nowhere
    if said.approval:
        told["approval"] = said.approval
    return told


def write_down(event: CustomEvent, seen: dict[str, Any]) -> None:
    with open(event.config["journal"], "a", encoding="utf-8") as journal:
        journal.write(json.dumps({"context": seen, "reinvoked": event.reinvoked}) + "\n")
