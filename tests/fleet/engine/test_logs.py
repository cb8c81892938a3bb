"""What every engine must do with the logs and the reports of hosts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
import trio

from hooklatch.fleet.engine.engine import ConflictError, Engine, LogFacts, RecordBatch
from support.tables import table

Opens = Callable[[], AbstractAsyncContextManager[Engine]]


def without_times(batches: list[RecordBatch]) -> list[tuple[int, int, bytes]]:
    return [(batch.first, batch.last, batch.data) for batch in batches]


async def test_a_host_without_a_log_has_no_batch(opens: Opens) -> None:
    async with opens() as engine:
        assert await engine.last_batch("host") is None
        assert await engine.epochs("host") == []
        assert await engine.batches("host", 1, 0) == []


async def test_batches_come_in_order_after_a_number(opens: Opens) -> None:
    sent = [(1, 5, b"\x00\r\n"), (6, 6, b""), (9, 20, bytes(range(256))), (21, 1000, b"last")]
    async with opens() as engine:
        for batch in sent:
            await engine.append("host", 1, RecordBatch(*batch))

        assert without_times(list(await engine.batches("host", 1, 0))) == sent
        assert without_times(list(await engine.batches("host", 1, 5))) == sent[1:]
        assert without_times(list(await engine.batches("host", 1, 19))) == sent[2:]
        assert without_times(list(await engine.batches("host", 1, 20, limit=1))) == sent[3:]
        assert await engine.batches("host", 1, 1000) == []
        assert await engine.batches("other", 1, 0) == []


async def test_many_batches_come_by_their_limit(opens: Opens) -> None:
    async with opens() as engine:
        for number in range(1, 101):
            await engine.append("host", 1, RecordBatch(number, number, b"%d" % number))

        assert [batch.last for batch in await engine.batches("host", 1, 10, limit=50)] == list(range(11, 61))
        assert [batch.last for batch in await engine.batches("host", 1, 60)] == list(range(61, 101))


async def test_a_batch_that_was_sent_already_is_refused(opens: Opens) -> None:
    async with opens() as engine:
        await engine.append("host", 1, RecordBatch(1, 10, b"first"))
        for again in (RecordBatch(1, 10, b"first"), RecordBatch(1, 9, b"less"), RecordBatch(5, 10, b"other")):
            with pytest.raises(ConflictError, match="holds record"):
                await engine.append("host", 1, again)

        assert without_times(list(await engine.batches("host", 1, 0))) == [(1, 10, b"first")]


async def test_the_newest_batch_is_that_of_the_newest_epoch(opens: Opens) -> None:
    async with opens() as engine:
        await engine.append("host", 1, RecordBatch(1, 1000, b"old"))
        await engine.append("host", 2, RecordBatch(1, 10, b"newer"))
        await engine.append("host", 10, RecordBatch(1, 3, b"newest"))
        await engine.append("host", 2, RecordBatch(11, 20, b"late"))

        last = await engine.last_batch("host")
        assert last is not None
        assert (last[0], *without_times([last[1]])) == (10, (1, 3, b"newest"))
        assert await engine.epochs("host") == [1, 2, 10]


async def test_a_batch_is_taken_at_the_engines_time(opens: Opens) -> None:
    async with opens() as engine:
        before = int((await engine.facts())["clock"])
        await engine.append("host", 1, RecordBatch(1, 1, b""))
        await engine.report("host", b"")
        after, now = int((await engine.facts())["clock"]), time.time() * 1000

        last = await engine.last_batch("host")
        assert last is not None
        assert before <= last[1].at <= after
        [report] = [report async for report in engine.reports()]
        # By the server, which runs on this machine; `before` is by what it told us, some moment ago.  Each is rounded.
        assert before - 2 <= report.at <= now + 2


@table(
    "epoch, first, last",
    [(1, 0, 1), (1, 2, 1), (1, -1, 1), (0, 1, 1), (-1, 1, 1), (1, 1, 2**63), (2**63, 1, 1)],
)
def test_what_is_no_batch_is_no_batch(opens: Opens, epoch: int, first: int, last: int) -> None:
    async def append() -> None:
        async with opens() as engine:
            await engine.append("host", epoch, RecordBatch(first, last, b""))

    with pytest.raises(ValueError, match="no batch of a log"):
        trio.run(append)


async def test_a_big_batch_comes_back_as_it_was(opens: Opens) -> None:
    data = os.urandom(8 * 2**20)
    async with opens() as engine:
        await engine.append("host", 1, RecordBatch(1, 10_000, data))

        [batch] = await engine.batches("host", 1, 0)
        assert batch.data == data


async def test_two_senders_of_one_log_keep_its_order(opens: Opens) -> None:
    async def send(number: int) -> None:
        async with opens() as engine:
            for first in range(1, 200, 10):
                try:
                    await engine.append("host", 1, RecordBatch(first, first + 9, b"%d" % number))
                except ConflictError:
                    continue

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(send, number)

    async with opens() as engine:
        batches = await engine.batches("host", 1, 0)
        assert [batch.last for batch in batches] == list(range(10, 201, 10))


async def test_a_report_replaces_the_one_before(opens: Opens) -> None:
    async with opens() as engine:
        await engine.report("one", b"first")
        await engine.report("two", b"other")
        await engine.report("one", b"second")

        assert {(report.host, report.data) async for report in engine.reports()} == {
            ("one", b"second"),
            ("two", b"other"),
        }


@pytest.mark.slow
async def test_thousands_of_hosts_report_each_once(opens: Opens) -> None:
    """Slow: three thousand reports are sent, and read in several pages."""
    hosts = {f"host-{number}" for number in range(3_000)}

    async def report(engine: Engine, some: list[str]) -> None:
        for host in some:
            await engine.report(host, b"data of " + host.encode())

    async with opens() as engine:
        async with trio.open_nursery() as nursery:
            for start in range(100):
                nursery.start_soon(report, engine, sorted(hosts)[start::100])

        found = [report async for report in engine.reports()]

    assert len(found) == len(hosts)
    assert {report.host for report in found} == hosts
    assert all(report.data == b"data of " + report.host.encode() for report in found)


async def test_batches_come_from_the_end_too(opens: Opens) -> None:
    async with opens() as engine:
        for number in (5, 6, 20):
            await engine.append("host", 1, RecordBatch(number, number, b"%d" % number))

        assert [batch.last for batch in await engine.batches_before("host", 1, 2**62)] == [20, 6, 5]
        assert [batch.last for batch in await engine.batches_before("host", 1, 20, limit=1)] == [6]
        assert await engine.batches_before("host", 1, 5) == []
        assert await engine.batches_before("other", 1, 5) == []


async def test_what_logs_there_are_is_known_without_asking_their_hosts(opens: Opens) -> None:
    async with opens() as engine:
        assert [log async for log in engine.logs()] == []
        for host, epoch in (("a", 1), ("a", 2), ("b", 10)):
            await engine.append(host, epoch, RecordBatch(1, 5, b"data"))
            await engine.append(host, epoch, RecordBatch(6, 7, b"data"))

        assert sorted([log async for log in engine.logs()]) == [("a", 1), ("a", 2), ("b", 10)]
        assert await engine.log_facts("a", 2) == LogFacts(last=7, batches=2, added=2)
        assert await engine.log_facts("a", 3) is None


async def test_what_was_trimmed_is_noted_and_stays_refused(opens: Opens) -> None:
    async with opens() as engine:
        for number in range(1, 6):
            await engine.append("host", 1, RecordBatch(number, number, b"data"))

        assert await engine.notes("host") == {}
        assert await engine.trim("host", 1, 3, b"first") == 3
        assert await engine.trim("host", 1, 4, b"second") == 1
        assert await engine.notes("host") == {1: b"second"}
        assert [batch.last for batch in await engine.batches("host", 1, 0)] == [5]
        assert await engine.log_facts("host", 1) == LogFacts(last=5, batches=1, added=5)
        with pytest.raises(ConflictError):
            await engine.append("host", 1, RecordBatch(3, 3, b"again"))
