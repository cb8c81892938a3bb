"""Scripts a fire: hooks with canned answers go in; the decision and the calls that led to it come out."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from hooklatch.core.call import Call
from hooklatch.core.decision import Machine
from hooklatch.core.hooks.catalogue import Catalogue, EventSpec
from hooklatch.core.hooks.conditions import compile_where
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.registry import Hook, Layer, ServedTarget
from hooklatch.core.hooks.snapshots import EventHooks
from hooklatch.core.messages import CallOutcome, Cause, FireDecision
from hooklatch.core.payload import Payload
from hooklatch.core.phases import start_machine
from hooklatch_worker.author.verdicts import Verdict, encode_verdict

Reply = Verdict[Any] | CallOutcome | bytes | None

CATALOGUE = Catalogue.standard()
BASH = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
GATES = [name for name, spec in CATALOGUE.items() if spec.model == "gate"]
OTHERS = [name for name, spec in CATALOGUE.items() if spec.model != "gate"]
FAILURES = [cause for cause in get_args(Cause) if cause != "policy"]
PROMPT = {"prompt": "hello", "params": {}}
PATHS = {"tool_name": "Edit", "tool_input": {"path": "/etc"}}
MESSAGE = {"role": "user", "content": "look"}
SAFE, SAFER = {"command": "ls -l"}, {"command": "true"}


class Play(msgspec.Struct):
    """A fire that was played to its end."""

    decision: FireDecision
    calls: list[Call]

    @property
    def asked(self) -> list[str]:
        """Who was called, in order; "again" where reinvoked."""
        return [call.hook.id + (" again" if call.reinvoked else "") for call in self.calls]

    @property
    def shown(self) -> list[Any]:
        """The payload of each call."""
        return [json.loads(call.payload.data) for call in self.calls]

    @property
    def patch(self) -> Any:
        return json.loads(msgspec.json.encode(self.decision.patch))


def payload_for(event: str) -> dict[str, Any]:
    return {CATALOGUE[event].match or "x": "y"}


def hook(
    id: str,  # noqa: A002 - its name
    event: str = "pre_tool_use",
    *,
    match: object = None,
    where: object = None,
    **rest: Any,
) -> Hook:
    settings = {"layer": Layer.SESSION, "target": ServedTarget(1), **rest}
    return Hook(id=id, event=event, matcher=compile_matcher(match), where=compile_where(where), **settings)


def failed(cause: Cause, message: str = "") -> CallOutcome:
    return CallOutcome(cause=cause, message=message)


def outcome_of(reply: Reply) -> CallOutcome:
    if isinstance(reply, CallOutcome):
        return reply
    return CallOutcome(cause="policy", answer=reply if isinstance(reply, bytes) else encode_verdict(reply))


def begin(spec: EventSpec, hooks: Sequence[Hook], payload: object, context: dict[str, Any] | None = None) -> Machine:
    first = Payload(msgspec.json.encode(payload))
    chain = EventHooks(spec, hooks)
    return start_machine(chain, chain.select(first), first, context or {})


def end(fire: Machine) -> FireDecision:
    return fire.decide(decision_id="d1", revision=7, duration_ms=1.5)


def play(
    event: str | EventSpec,
    /,
    *,
    payload: object = BASH,
    context: dict[str, Any] | None = None,
    marks: Mapping[str, Mapping[str, Any]] | None = None,
    arrival: Sequence[str] = (),
    **replies: Reply | list[Reply],
) -> Play:
    """Play an event to its end, with a hook for each of `replies`, in that firing order.

    A list answers call after call, anything else every call. `marks` adds to a hook's definition. `arrival` says in
    which order the answers of hooks that run at once come in.
    """
    spec = CATALOGUE[event] if isinstance(event, str) else event
    hooks = [hook(id, spec.name, **(marks or {}).get(id, {})) for id in replies]  # noqa: A001 - its name
    script = {id: iter(reply) if isinstance(reply, list) else None for id, reply in replies.items()}  # noqa: A001
    fire = begin(spec, hooks, payload, context)
    calls: list[Call] = []
    while started := fire.next_calls():
        calls += started
        for call in sorted(started, key=lambda call: arrival.index(call.hook.id) if arrival else call.index):
            canned = script[call.hook.id]
            fire.receive(call, outcome_of(next(canned) if canned else replies[call.hook.id]))  # type: ignore[arg-type]
    return Play(end(fire), calls)
