"""A session's operations as steps that do not wait: both clients run the same ones, each waiting in its own way.

A step is yielded; its answer is sent back, and an error is raised where it was yielded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

__all__ = ["RequestStep", "CallFunction", "FunctionReturned", "RunApart", "Step", "Steps", "fail_steps"]

T = TypeVar("T")


class RequestStep(msgspec.Struct, frozen=True):
    """The step to send this request to the daemon; the answer is its raw result."""

    method: str
    params: Mapping[str, object]


class CallFunction(msgspec.Struct, frozen=True):
    """The step to call this function of the host; the answer is `FunctionReturned`."""

    function: Callable[[Any], object]
    argument: object


class FunctionReturned(msgspec.Struct, frozen=True):
    """A function of the host has returned. `duration_ms` is in milliseconds."""

    result: Any
    duration_ms: float


class RunApart(msgspec.Struct, frozen=True):
    """The step to run other steps even if the caller is cancelled; the answer is None."""

    steps: Generator[Any, Any, object]


Step: TypeAlias = RequestStep | CallFunction | RunApart
Steps: TypeAlias = Generator[Step, Any, T]


def fail_steps(steps: Steps[T], error: Exception) -> T:
    """Run steps each of which fails with `error`; return their result."""
    try:
        next(steps)
        while True:
            steps.throw(error)
    except StopIteration as end:
        result: T = end.value
        return result
