"""Decisions and documents for adapters, without a daemon."""

from __future__ import annotations

from typing import Any

import msgspec

from hooklatch.core.messages import FireDecision
from hooklatch.hosts.find import find_host
from hooklatch.hosts.host import HookOutput, HostEvent

__all__ = ["answered", "decided", "native"]


def native(host: str, event: str, **document: Any) -> HostEvent:
    fields = {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in document.items()}
    return HostEvent(name=event, spec=find_host(host).events[event], document=document, fields=fields)


def decided(verdict: Any, *, patch: dict[str, Any] | None = None, **rest: Any) -> FireDecision:
    encoded = None if patch is None else {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in patch.items()}
    base: dict[str, Any] = {
        "decision_id": "d1", "event": "pre_tool_use", "verdict": verdict, "cause": "policy", "reason": None,
        "layer": None, "hook": None, "retryable": False, "patch": encoded, "payload_digest": None, "append": None,
        "resume": None, "value": None, "revision": None, "duration_ms": 0.0,
    }  # fmt: skip
    return FireDecision(**(base | rest))


def answered(host: str, event: str, decision: FireDecision, **document: Any) -> HookOutput:
    return find_host(host).answer(native(host, event, **document), decision)
