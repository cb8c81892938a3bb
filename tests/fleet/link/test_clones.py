"""Two machines under one name: said on both, and in what they report.  Slow: the engine is a process of its own."""

from __future__ import annotations

from functools import partial

import pytest

from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.enrolment import HostIdentity
from hooklatch.fleet.reports import read_report
from hooklatch.fleet.signing import make_key
from support.link_parts import FLEET, HOST, MemoryDaemon, Publisher, WrittenRecord, linked, settings_of, until
from support.redis_server import RedisServer, needs_redis

pytestmark = [pytest.mark.slow, needs_redis]


@pytest.mark.parametrize("has_same_key", [True, False])
async def test_two_machines_under_one_name_are_told_on_both_and_in_the_report(
    redis: RedisServer, engine: Engine, publisher: Publisher, record: WrittenRecord, has_same_key: bool
) -> None:
    record.write(3)
    key = make_key()
    settings = settings_of(redis.url, publisher.key)
    first, second = (HostIdentity(one, FLEET, HOST) for one in (key, key if has_same_key else make_key()))
    async with (
        linked(settings, MemoryDaemon(publisher.key), record.folder, identity=first) as one,
        linked(settings, MemoryDaemon(publisher.key), record.folder, identity=second) as other,
    ):
        findings = [link.state.make_report(0, 0).findings for link in (one, other)]
        await until(lambda: all("two machines have this host's name" in str(told(link)) for link in (one, other)))
        report = await engine.newest_report(HOST)
        faults = [link.state.engine_fault for link in (one, other)]  # which the daemon of each hears

    assert [fault.kind for fault in faults if fault is not None] == ["shared", "shared"]
    assert findings == [(), ()]
    assert report is not None
    expected = "its key: one is a copy of the other" if has_same_key else "another process has its password"
    assert any(expected in text for text in told(one))


def has_reported(identity: HostIdentity) -> bool:
    return identity.number > 3


def told(link: object) -> tuple[str, ...]:
    return link.state.make_report(0, 0).findings  # type: ignore[attr-defined, no-any-return]


async def test_a_link_that_starts_again_is_no_second_machine(
    redis: RedisServer, engine: Engine, publisher: Publisher, record: WrittenRecord
) -> None:
    record.write(3)
    key = make_key()
    settings = settings_of(redis.url, publisher.key)
    numbers: list[int] = []
    for _ in range(2):
        identity = HostIdentity(key, FLEET, HOST)
        async with linked(settings, MemoryDaemon(publisher.key), record.folder, identity=identity) as link:
            await until(partial(has_reported, identity))
            assert told(link) == ()
        stored = await engine.newest_report(HOST)
        assert stored is not None
        numbers.append(read_report(stored.data, HOST).number)

    assert min(numbers) >= 3
