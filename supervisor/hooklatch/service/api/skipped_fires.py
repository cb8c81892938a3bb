"""The method by which clients report the events that they did not fire, since no hook is on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from hooklatch.core.limits import Name
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.record.writer import RecordWriter
from hooklatch.service.api.methods import ApiMethod, MethodTable, require_session
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.statistics import Statistics
from hooklatch.service.transport.connection import Connection

if TYPE_CHECKING:
    from hooklatch.core.status_answers import EmptyAnswer

__all__ = ["SkippedFires"]


class SkippedParams(msgspec.Struct, frozen=True):
    """The number of times that each event was skipped since the last report."""

    events: dict[Name, Annotated[int, Meta(gt=0, le=2**31)]]


class SkippedFires(msgspec.Struct, frozen=True):
    """The method that counts skipped events as fired, and records the counts."""

    registries: Registries
    statistics: Statistics
    record: RecordWriter

    @property
    def methods(self) -> MethodTable:
        return {"skipped": ApiMethod(SkippedParams, self._skipped)}

    async def _skipped(self, connection: Connection, params: SkippedParams) -> EmptyAnswer:
        """Take one report."""
        session, harmless = require_session(connection), self.registries.catalogue.harmless
        if unskippable := params.events.keys() - harmless:
            raise RpcError(ErrorCode.INVALID_PARAMS, f"{min(unskippable)!r} is not an event that may be skipped")
        for event, count in params.events.items():
            self.statistics.count_skipped(event, session.fired, count)
        if params.events:
            self.record.append_skipped(params.events, session=session.id, run=session.run, host=session.terms.host)
        return {}
