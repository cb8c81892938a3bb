"""The requests of one page, each with its response or the reason why there is none.

A page sends several requests.  If one has no response, the page shows the reason in its place, and assumes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import msgspec

from hooklatch.client.trio_admin import TIMEOUT, AdminConnector, TrioAdminConnection
from hooklatch.errors import HooklatchError, RequestFailedError

__all__ = ["QueryResult", "DaemonQueries", "open_asker"]

T = TypeVar("T")


class QueryResult(msgspec.Struct, Generic[T], frozen=True):
    """The daemon's response, or the `fault` for which there is none. It has exactly one of both."""

    value: T | None = None
    fault: str = ""


class DaemonQueries:
    """The requests over one connection. Once that is lost, every further request has the same fault."""

    def __init__(self, link: TrioAdminConnection | None, fault: str = "") -> None:
        self._link = link
        self._fault = fault

    async def ask(
        self, method: str, shape: type[T], /, *, timeout: float = TIMEOUT, **params: object
    ) -> QueryResult[T]:
        """Return the daemon's response, or the fault if there is none within `timeout` seconds."""
        if self._link is None:
            return QueryResult(fault=self._fault)
        try:
            return QueryResult(await self._link.ask(method, shape, timeout=timeout, **params))
        except RequestFailedError as error:
            return QueryResult(fault=error.message)
        except HooklatchError as error:
            self._link, self._fault = None, str(error)
            return QueryResult(fault=self._fault)


@asynccontextmanager
async def open_asker(daemon: AdminConnector) -> AsyncGenerator[DaemonQueries]:
    """Connect for the requests of a page. Without a daemon, each of them gets that fault."""
    try:
        link = await daemon.connect()
    except HooklatchError as error:
        yield DaemonQueries(None, str(error))
        return
    async with link:
        yield DaemonQueries(link)
