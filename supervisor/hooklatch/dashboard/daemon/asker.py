"""The questions of one page, each answered or with the reason why not.  Knows the link; shows nothing.

A page asks several things.  What one of them is not answered is shown in its place, and nothing else is assumed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import msgspec

from hooklatch.dashboard.daemon.link import PATIENCE, Daemon, DaemonLink, RefusedError, UnansweredError

__all__ = ["Answer", "Asker", "asking"]

T = TypeVar("T")


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """What the daemon said, or the `fault` for which there is none; never both, never neither."""

    value: T | None = None
    fault: str = ""


class Asker:
    """Asks over one connection; once that is lost, every further question has the same fault."""

    def __init__(self, link: DaemonLink | None, fault: str = "") -> None:
        self._link = link
        self._fault = fault

    async def ask(self, method: str, shape: type[T], /, *, patience: float = PATIENCE, **params: object) -> Answer[T]:
        """Return the daemon's answer, or why there is none within `patience` seconds."""
        if self._link is None:
            return Answer(fault=self._fault)
        try:
            return Answer(await self._link.ask(method, shape, patience=patience, **params))
        except RefusedError as error:
            return Answer(fault=str(error))
        except UnansweredError as error:
            self._link, self._fault = None, str(error)
            return Answer(fault=self._fault)


@asynccontextmanager
async def asking(daemon: Daemon) -> AsyncGenerator[Asker]:
    """Connect for some questions; where nobody listens, that is the answer to each."""
    connection = daemon.connect()
    try:
        link = await connection.__aenter__()
    except UnansweredError as error:
        yield Asker(None, str(error))
        return
    try:
        yield Asker(link)
    finally:
        await connection.__aexit__(None, None, None)
