"""Calls of workers as a fire makes them, without a fire."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hooklatch.core.decisions.call import Call, Envelope
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget
from hooklatch.core.payload import Payload
from hooklatch_worker import wire
from hooklatch_worker.author.call_context import Emitted
from hooklatch_worker.author.state import Asked

__all__ = ["TimedFire", "call_of"]

Answer = Callable[[Asked], wire.Told]


class TimedFire:
    """What a worker needs of a fire; its state is what `answer` says, if anything."""

    spec = Catalogue.standard()["pre_tool_use"]
    share = ""
    deadline = math.inf
    envelope = Envelope(spec.name, None, None, "/", None, None, None, None, None, None, {})

    def __init__(self, answer: Answer | None = None) -> None:
        self._answer = answer

    def sent(self) -> None:
        return

    def answer(self, call: Call, asked: Asked) -> wire.Told:
        if self._answer is None:
            raise wire.FrameError("a question about state, which nobody serves")
        return self._answer(asked)

    def take(self, emitted: Sequence[Emitted]) -> None:
        return


def call_of(function: str, payload: bytes, config: bytes = b"") -> Call:
    hook = Hook(
        id=function, event="pre_tool_use", layer=Layer.GLOBAL, matcher=compile_matcher(None), config=config,
        target=PythonTarget(wire.Source("module", ""), 1, function),
    )  # fmt: skip
    return Call(0, hook, Payload(payload), {})
