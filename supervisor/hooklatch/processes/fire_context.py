"""The part of a fire that pools and workers need, as a protocol: the dispatcher has the class of this shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hooklatch.core.call import Call, EventEnvelope
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch_worker import wire
from hooklatch_worker.author.call_context import EmittedTelemetry
from hooklatch_worker.author.state import StateRequest

__all__ = ["FireContext"]


class FireContext(Protocol):
    """The fire that a call belongs to, as a pool and a worker see it.

    `queue_key` names the session whose turn its calls take.
    """

    @property
    def spec(self) -> EventSpec: ...

    @property
    def queue_key(self) -> str: ...

    @property
    def deadline(self) -> float:
        """Return the moment at which all of its calls end, on trio's clock."""
        ...

    @property
    def envelope(self) -> EventEnvelope:
        """Return the values that callbacks get besides the payload."""
        ...

    def prepare_record(self) -> object:
        """Do what can be done while a worker works: a call was sent to it just now."""
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
