"""What the processes need to know of a fire.  Knows no dispatcher: that has the class of this shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hooklatch.core.decisions.call import Call, EventEnvelope
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch_worker import wire
from hooklatch_worker.author.call_context import EmittedTelemetry
from hooklatch_worker.author.state import StateRequest

__all__ = ["FireContext"]


class FireContext(Protocol):
    """What a pool and a worker need of the fire that a call belongs to.

    `queue_key` says in whose turn its calls run: its session's.
    """

    @property
    def spec(self) -> EventSpec: ...

    @property
    def queue_key(self) -> str: ...

    @property
    def deadline(self) -> float:
        """The moment at which all of its calls end, on trio's clock."""
        ...

    @property
    def envelope(self) -> EventEnvelope:
        """What callbacks are given besides the payload."""
        ...

    def sent(self) -> None:
        """Do what can be done while a worker works: a call has been sent to it."""
        ...

    def answer(self, call: Call, request: StateRequest) -> wire.StateResponse:
        """Perform one operation on the state of the hook's source, at once.

        Raises:
            FrameError: our own code in the worker never sends such a request.
        """
        ...

    def take(self, emitted: Sequence[EmittedTelemetry]) -> None:
        """Publish the telemetry that came with an answer."""
        ...
