"""The daemon's answers as structs.  Knows their shapes; does not know connections."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from hooklatch.core.protocol import DECODE_ERRORS
from hooklatch.errors import UnreadableAnswerError

__all__ = ["Changed", "Registered", "is_handled", "read_answer"]

T = TypeVar("T")


class Changed(msgspec.Struct, frozen=True):
    """A change was made; it is active from this revision on."""

    revision: int


class Registered(msgspec.Struct, frozen=True):
    """Hooks were registered, in the order in which they were sent."""

    ids: list[str]
    revision: int


def read_answer(result: msgspec.Raw, shape: type[T], what: str) -> T:
    """Read an answer; `what` names it in the error.

    Raises:
        UnreadableAnswerError: it has another shape.
    """
    try:
        return msgspec.json.decode(result, type=shape)
    except DECODE_ERRORS as error:
        raise UnreadableAnswerError(f"the answer is not a valid {what}: {error}") from None


def is_handled(listed: dict[str, Any]) -> bool:
    """Return whether one of the hooks that `hooks` has listed would be called, or would refuse because it cannot be."""
    return any(hook.get("state") != "disabled" for hook in listed.get("hooks", ()))
