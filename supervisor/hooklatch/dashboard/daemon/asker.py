"""The questions of one page, each answered or with the reason why not.  Knows the link; shows nothing.

A page asks several things.  What one of them is not answered is shown in its place, and nothing else is assumed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import msgspec

from hooklatch.dashboard.daemon.link import (
    PATIENCE,
    DaemonConnector,
    DaemonLink,
    DaemonUnansweredError,
    RequestRejectedError,
)

__all__ = ["QueryResult", "DaemonQueries", "open_asker"]

T = TypeVar("T")


class QueryResult(msgspec.Struct, Generic[T], frozen=True):
    """What the daemon said, or the `fault` for which there is none; never both, never neither."""

    value: T | None = None
    fault: str = ""


class DaemonQueries:
    """Asks over one connection; once that is lost, every further question has the same fault."""

    def __init__(self, link: DaemonLink | None, fault: str = "") -> None:
        self._link = link
        self._fault = fault

    async def ask(
        self, method: str, shape: type[T], /, *, patience: float = PATIENCE, **params: object
    ) -> QueryResult[T]:
        """Return the daemon's answer, or why there is none within `patience` seconds."""
        if self._link is None:
            return QueryResult(fault=self._fault)
        try:
            return QueryResult(await self._link.ask(method, shape, patience=patience, **params))
        except RequestRejectedError as error:
            return QueryResult(fault=str(error))
        except DaemonUnansweredError as error:
            self._link, self._fault = None, str(error)
            return QueryResult(fault=self._fault)


@asynccontextmanager
async def open_asker(daemon: DaemonConnector) -> AsyncGenerator[DaemonQueries]:
    """Connect for some questions; where nobody listens, that is the answer to each."""
    connection = daemon.connect()
    try:
        link = await connection.__aenter__()
    except DaemonUnansweredError as error:
        yield DaemonQueries(None, str(error))
        return
    try:
        yield DaemonQueries(link)
    finally:
        await connection.__aexit__(None, None, None)
