"""The record as the daemon's method `log` answers it: a query of a client, and its newest records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hooklatch.core.messages import Cause, DecisionVerdict, Mismatch
from hooklatch.record.storage.reading import Filters, filter_entries, read_forwards, read_newest

if TYPE_CHECKING:
    from hooklatch.core.status_answers import LogAnswer

__all__ = ["LogQuery", "query_record"]

MAX_RECORDS = 10_000
MAX_ANSWER = 4 * 2**20  # bytes per response over a socket
ENCODER = msgspec.json.Encoder()


class LogQuery(msgspec.Struct, frozen=True):
    """The params of `log`: the fields of `Filters`, how many records to return, and whether these are the oldest."""

    session: str | None = None
    run: str | None = None
    hook: str | None = None
    by: str | None = None
    tool: str | None = None
    agent: str | None = None
    project: str | None = None
    text: str | None = None
    verdict: DecisionVerdict | None = None
    cause: Cause | Mismatch | None = None
    event: str | None = None
    kind: str | None = None
    decision_id: str | None = None
    since: str | None = None
    until: str | None = None
    before: int | None = None
    after: int | None = None
    oldest: bool = False
    limit: int = 100

    def filters(self) -> Filters:
        """Return what chooses the records."""
        return Filters(
            **{name: getattr(self, name) for name in self.__struct_fields__ if name not in ("oldest", "limit")}
        )


def query_record(folder: str, query: LogQuery) -> LogAnswer:
    """Return the newest or the oldest matching records in ascending order; `more` tells whether others match too.

    Raises:
        NoRecordError: there is no record.
    """
    from hooklatch.core.subject import read_subject  # imported here: most daemons are never asked

    records: list[dict[str, Any]] = []
    size = 0
    filters = query.filters()
    found = filter_entries(read_forwards(folder), filters) if query.oldest else read_newest(folder, filters)
    for record in found:
        if "event" in record:
            record["subject"] = read_subject(record)
        size += len(ENCODER.encode(record))
        if len(records) >= max(0, min(query.limit, MAX_RECORDS)) or size > MAX_ANSWER:
            return {"records": records if query.oldest else records[::-1], "more": True}
        records.append(record)
    return {"records": records if query.oldest else records[::-1], "more": False}
