"""What is said of failures: a built-in target's, and how much of what was wrong.  Knows causes; knows no hook."""

from __future__ import annotations

from typing import Literal

__all__ = ["CallFailed", "FailureCause", "clipped"]

FailureCause = Literal["crash", "timeout", "protocol", "load", "overload"]
MAX_TOLD = 2000  # characters of an error; it may repeat what was wrong, and that may be a document of megabytes


def clipped(text: str) -> str:
    """Give an error's text as it is told: whole, unless it is very long."""
    return text if len(text) <= MAX_TOLD else f"{text[:MAX_TOLD]}…"


class CallFailed(Exception):
    """A call that gave no verdict; on a gate it is a deny with this cause."""

    def __init__(self, cause: FailureCause, message: str) -> None:
        super().__init__(message)
        self.cause: FailureCause = cause
        self.message = message
