"""What a script needs of a daemon, and how the two ways of saying a decision compare.  Knows the protocol's words."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import trio

from model.oracle import Oracle, Playing, Result

__all__ = ["Conversation", "FolderPlace", "Place", "finished", "told"]

SCRIPTED = (Path(__file__).parents[1] / "callbacks" / "scripted.py").read_text()


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


class FolderPlace:
    """The part of a place whose hooks are a file in a folder: a subclass connects, and writes."""

    is_exact = False

    def __init__(self, folder: str, dispatcher: Any) -> None:
        self.folder, self._dispatcher = folder, dispatcher
        self.version = self._held = 0
        self.new_version()

    def write(self, path: str, text: str) -> None:
        raise NotImplementedError

    def run_of(self) -> str:
        return f"{self.folder}/act.py:act"

    def new_version(self) -> int:
        self.version += 1
        self.write(f"{self.folder}/act.py", SCRIPTED.replace("VERSION = 0", f"VERSION = {self.version}"))
        return self.version

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[tuple[str, Callable[[], None], Callable[[], Awaitable[None]]]]:
        self._held += 1
        go = f"{self.folder}/go-{self._held}"

        def release() -> None:
            with open(go, "w"):
                pass

        async def began() -> None:
            with trio.fail_after(30):
                while not os.path.exists(f"{go}.began"):  # noqa: ASYNC110, ASYNC240  (nobody tells; a local disk)
                    await trio.sleep(0.002)

        yield go, release, began

    def drain(self, *, is_draining: bool) -> None:
        self._dispatcher.is_draining = is_draining


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
