"""What a script needs of a daemon, and how the two ways of saying a decision compare.  Knows the protocol's words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from model.oracle import Oracle, Playing, Result

__all__ = ["Conversation", "Place", "finished", "told"]


class Conversation(Protocol):
    """A connection, and what came of it without being asked for."""

    announcements: list[dict[str, Any]]

    async def call(self, method: str, **params: Any) -> dict[str, Any]: ...

    async def close(self) -> None: ...


class Place(Protocol):
    """A daemon under test: how a script reaches it."""

    failure: type[Exception]  # with the error's name in `name`
    is_exact: bool  # no time passes but where a script says so

    def connect(self, *, is_admin: bool) -> Awaitable[Conversation]: ...

    def run_of(self) -> str: ...

    def new_version(self) -> int: ...

    @property
    def version(self) -> int: ...

    def held(self) -> AbstractAsyncContextManager[tuple[str, Callable[[], None], Callable[[], Awaitable[None]]]]: ...

    async def advance(self, seconds: float) -> bool: ...

    def drain(self, *, is_draining: bool) -> None: ...


def told(decision: dict[str, Any]) -> Result:
    """Return the parts of a decision that the oracle knows."""
    outcomes = [
        (one["layer"], one["hook"], one["outcome"], one.get("cause"), one.get("verdict"), one.get("reinvoked", False))
        for one in decision.get("outcomes", [])
    ]
    keys = ("verdict", "cause", "hook", "layer", "patch", "value")
    is_said = decision["cause"] == "policy" and decision["verdict"] != "claim"
    reason = decision["reason"] if is_said else None
    return {**{key: decision[key] for key in keys}, "reason": reason, "outcomes": outcomes}


def finished(playing: Playing, oracle: Oracle, *, is_patient: bool = True) -> Any:
    """Play a fire to its end; or, impatiently, give None where it waits."""
    while True:
        try:
            next(playing)
        except StopIteration as end:
            return end.value
        if not is_patient:
            return None
