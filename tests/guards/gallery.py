"""The gallery's cases, and what a guard answers to one in this process: a table of hundreds takes a second so."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec

from hooklatch.cli.testing.cases import Case, read_cases
from hooklatch.guards.catalogue import list_gallery, read_guard_cases
from hooklatch_worker.author.events import build_event
from hooklatch_worker.author.verdicts import encode_verdict

__all__ = ["NAMES", "NOT_STOPPED", "PURE", "answers_to", "cases"]

NAMES = [one.name for one in list_gallery()]
# Those that judge a call by itself alone: they run anywhere.  The others need workers, for what they remember or start.
PURE = [
    "destructive_commands",
    "git_rules",
    "network_egress",
    "only_guarded_agents",
    "package_installs",
    "protected_paths",
    "secrets",
]
NOT_STOPPED = "not stopped: "  # how the name of a case begins that shows what a guard lets pass


def cases(name: str) -> list[Case]:
    return read_cases(f"{name}.jsonl", read_guard_cases(name).encode(), "/")


def answers_to(name: str, case: Case) -> list[dict[str, Any]]:
    """Return what the hooks of a guard answer that match the case's tool, without those that have no opinion."""
    module = importlib.import_module(f"hooklatch.guards.gallery.{name}")
    payload = msgspec.json.decode(bytes(case.params.payload), type=dict[str, Any])
    envelope = msgspec.to_builtins(case.params.envelope)
    found: list[dict[str, Any]] = []
    for hook in vars(module).values():
        for marker in getattr(hook, "__hooklatch_markers__", ()):
            names = [marker.match] if isinstance(marker.match, str) else marker.match
            event = build_event(case.params.event, payload, envelope, None, None, False)
            is_matching = names is None or {event.tool_name, event.tool_kind} & set(names)
            if marker.event != case.params.event or not is_matching:
                continue
            answer = hook(event)
            found += [msgspec.json.decode(encode_verdict(answer))] if answer is not None else []
    return found
