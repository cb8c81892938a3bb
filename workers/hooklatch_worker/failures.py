"""How a built-in target says that it has no answer, and why.  Knows the causes; knows nothing of what failed."""

from __future__ import annotations

from typing import Literal

__all__ = ["CallFailed", "FailureCause"]

FailureCause = Literal["crash", "timeout", "protocol", "load", "overload"]


class CallFailed(Exception):
    """A call that gave no verdict; on a gate it is a deny with this cause."""

    def __init__(self, cause: FailureCause, message: str) -> None:
        super().__init__(message)
        self.cause: FailureCause = cause
        self.message = message
