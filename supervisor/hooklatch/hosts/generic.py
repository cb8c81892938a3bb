"""The user's own agent, which starts a command for each event: canonical names in, our decision out.

The document is a fire's params, `{"event": ..., "payload": {...}, "envelope": {...}, "call_id": ...}`, and the answer
is the decision as `fire` returns it.  The exit code is 2 for every verdict but pass and allow, so that an agent that
reads nothing else is safe.  A changed payload (`patch`) is only in the document.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from hooklatch.core.fire_params import FireParams
from hooklatch.core.hooks.catalogue import Catalogue, EventSpec
from hooklatch.core.messages import FireDecision
from hooklatch.core.payload import Payload
from hooklatch.hosts.fitting import explain_decision
from hooklatch.hosts.host import (
    GATE_LIMIT,
    HookOutput,
    Host,
    HostEvent,
    HostEventSpec,
    HostFire,
    UnreadableError,
    make_denied_decision,
)
from hooklatch_worker.author.tools import UnclearToolError, arguments, find_tool_kind_by_name

__all__ = ["GenericHost", "list_added_words"]

WAITED_FOR: Final = frozenset({"inject", "append", "resume", "value"})


def make_generic_event(spec: EventSpec) -> HostEventSpec:
    words = {*spec.verdicts, *(["patch"] if spec.patch else [])}
    words |= {"context"} if spec.outputs & {"inject", "append"} else set[str]()
    words |= spec.outputs & {"resume"}
    is_awaited = bool(spec.outputs & WAITED_FOR or spec.patch or "claim" in spec.verdicts)
    return HostEventSpec(
        event=spec.name, kind="gate" if spec.is_gate else "context" if is_awaited else "notify",
        enforces=frozenset(words), patch=spec.patch, limit=GATE_LIMIT,
    )  # fmt: skip


EVENTS: Final[dict[str, HostEventSpec]] = {
    name: make_generic_event(spec) for name, spec in Catalogue.standard().items()
}


class GenericHost(Host):
    name = "generic"
    title = "the agent"
    events = EVENTS
    name_keys = ("event",)
    joins_calls = False  # it is not known whether it asks before each call that it reports

    def make_fire(self, native: HostEvent) -> HostFire:
        try:
            params = msgspec.json.decode(msgspec.json.encode({**native.fields, "event": native.event}), type=FireParams)
            raw = bytes(params.payload)
            fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
            payload: dict[str, Any] = msgspec.json.decode(raw)
            added = list_added_words(payload)
        except UnclearToolError as error:
            raise UnreadableError(str(error), native.name, "payload") from None
        except msgspec.MsgspecError as error:
            raise UnreadableError(f"the document cannot be fired: {error}", native.name, "payload") from None
        host = params.envelope.host or "generic"
        data = msgspec.json.encode({**fields, **added})
        params = msgspec.structs.replace(
            params, payload=msgspec.Raw(data), wait=True, timeout=None, dialect=None,
            envelope=msgspec.structs.replace(params.envelope, host=host),
        )  # fmt: skip
        return HostFire(params=params, payload=Payload(data))

    def render(self, native: HostEvent, decision: FireDecision) -> HookOutput:
        is_refused = native.is_gate and decision.verdict not in ("pass", "allow")
        text = explain_decision(decision)
        return HookOutput(
            exit_code=2 if is_refused else 0, stdout=msgspec.json.encode(decision).decode() + "\n",
            stderr=f"{text}\n" if is_refused else "",
        )  # fmt: skip

    def refusal(self, event: str | None, reason: str) -> HookOutput:
        decision = make_denied_decision(event or "", "protocol", reason)
        return HookOutput(exit_code=2, stdout=msgspec.json.encode(decision).decode() + "\n", stderr=f"{reason}\n")


def list_added_words(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the canonical keys for a tool, if the payload does not have them."""
    name, tool_input = payload.get("tool_name"), payload.get("tool_input", {})
    if not isinstance(name, str) or "tool_kind" in payload:
        return {}
    if not isinstance(tool_input, dict):
        raise UnclearToolError("tool_input is not an object")
    kind = find_tool_kind_by_name(name)
    return {"tool_kind": kind, "tool_args": arguments(kind, cast("dict[str, Any]", tool_input))}
