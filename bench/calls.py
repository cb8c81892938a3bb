"""Calls of workers as a fire makes them, outside of a daemon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import repeat

from hooklatch.core.call import Call
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget
from hooklatch.core.payload import Payload
from hooklatch.record.writer import FireFacts
from hooklatch.service.dispatch.fires import Fire, FireParams, FireServices
from hooklatch.service.registry.budget import Budget
from hooklatch_worker import wire
from hooklatch_worker.author.call_context import EmittedTelemetry
from hooklatch_worker.author.state import StateRequest

__all__ = ["call_of", "fire_of"]

Answer = Callable[[Fire, Call, StateRequest], wire.StateResponse]
SPEC = Catalogue.standard()["pre_tool_use"]


def fire_of(answer: Answer | None = None) -> Fire:
    """Make a fire for calls; the state of their hooks is what `answer` says, if anything."""
    services = FireServices(ignore, answer or refuse, ignore, Budget(Counter()), repeat("bench"))
    return Fire.begin(SPEC, FireParams(SPEC.name), None, services)


def ignore(fire: Fire | FireFacts, emitted: Sequence[EmittedTelemetry] = ()) -> None:
    return


def refuse(fire: Fire, call: Call, asked: StateRequest) -> wire.StateResponse:
    raise wire.FrameError("a question about state, which nobody serves")


def call_of(function: str, payload: bytes, config: bytes = b"") -> Call:
    hook = Hook(
        id=function, event=SPEC.name, layer=Layer.GLOBAL, matcher=compile_matcher(None), config=config,
        target=PythonTarget(wire.Source("module", ""), 1, function),
    )  # fmt: skip
    return Call(0, hook, Payload(payload), {})
