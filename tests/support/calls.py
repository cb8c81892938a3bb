"""Calls for pools and workers as a fire makes them, with nothing of a fire around them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from hooklatch.core.call import Call, EventEnvelope
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget
from hooklatch.core.payload import Payload
from hooklatch_worker import wire
from hooklatch_worker.author.call_context import EmittedTelemetry
from hooklatch_worker.author.state import StateRequest

__all__ = ["LoneFire", "call_of"]

NOWHERE = wire.Source("module", "")


class LoneFire:
    """What a worker needs of a fire; its state is what `on_asked` answers."""

    def __init__(
        self,
        event: str = "pre_tool_use",
        *,
        queue_key: str = "",
        on_asked: Callable[[StateRequest], wire.StateResponse] | None = None,
        **envelope: Any,
    ) -> None:
        self.spec = Catalogue.standard()[event]
        self.queue_key = queue_key
        self.deadline = math.inf
        self.emitted: list[EmittedTelemetry] = []
        self._on_asked = on_asked
        told = dict.fromkeys(EventEnvelope.__struct_fields__) | {"event": event, "context": {}} | envelope
        self.envelope = msgspec.convert(told, EventEnvelope)

    def prepare_record(self) -> None:
        """Do nothing: there is nothing of a fire to prepare meanwhile."""

    def answer(self, call: Call, request: StateRequest) -> wire.StateResponse:
        if self._on_asked is None:
            raise wire.FrameError("a question about state, which nobody serves")
        return self._on_asked(request)

    def take(self, emitted: Sequence[EmittedTelemetry]) -> None:
        self.emitted += emitted


def call_of(
    function: str,
    payload: object = None,
    config: Mapping[str, Any] | None = None,
    *,
    then: Sequence[str] = (),
    timeout: float | None = None,
) -> Call:
    """Make a call of a function, and of others after it; the payload is an object, or JSON as bytes.

    `timeout` is of those after it: the pool is told the deadline of the first one.
    """
    data = payload if isinstance(payload, bytes) else json.dumps(payload or {}).encode()
    hooks = [
        Hook(
            id=name, event="pre_tool_use", layer=Layer.GLOBAL, matcher=compile_matcher(None), timeout=timeout,
            target=PythonTarget(NOWHERE, 1, name), config=json.dumps(config).encode() if config is not None else b"",
        )
        for name in (function, *then)
    ]  # fmt: skip
    return Call(0, hooks[0], Payload(data), {}, following=tuple(hooks[1:]))
