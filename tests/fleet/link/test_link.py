"""The link over a real engine, with a daemon in memory that checks as the real one does.

Slow: most tests have an engine of their own, which they kill, fill, empty or halt.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import trio

from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.link import shipping
from hooklatch.fleet.link.daemon import FollowAnswer
from hooklatch.fleet.link.reporting import find_effective_seq
from hooklatch.fleet.manifests import Bundle, BundleVersion, PolicyVersions, RolloutTarget, encode_bundle, read_envelope
from hooklatch.fleet.reports import HostReport, read_report
from support.link_parts import (
    FLEET,
    HOST,
    MemoryDaemon,
    Publisher,
    RunLink,
    WrittenRecord,
    linked,
    settings_of,
    shipped_records,
    until,
    until_shipped,
)
from support.redis_server import RedisServer, needs_redis

pytestmark = [pytest.mark.slow, needs_redis]


async def report_of(engine: Engine) -> HostReport | None:
    found = [report async for report in engine.reports()]
    return read_report(found[0].data, HOST) if found else None


async def until_reported(engine: Engine, is_so: object) -> HostReport:
    with trio.fail_after(30):
        while True:
            report = await report_of(engine)
            if report is not None and is_so(report):  # type: ignore[operator]
                return report
            await trio.sleep(0.02)


async def test_versions_are_applied_and_records_shipped(
    engine: Engine, record: WrittenRecord, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    record.write(5)
    await publisher.push(engine, "one")
    async with run_link():
        await until(lambda: daemon.applied is not None and daemon.applied.version == 1)
        await publisher.push(engine, "two")
        await until(lambda: daemon.applied is not None and daemon.applied.version == 2)
        record.write(3)
        found = await until_shipped(engine, record)
        await until(lambda: daemon.contacts > 0 and daemon.shipped_seq[-1:] == [8])
        report = await until_reported(engine, lambda report: report.applied == 2 and report.shipped == 8)

    assert [one["seq"] for one in found] == list(range(1, 9))
    assert [one.version for one in daemon.history] == [1, 2]
    assert report.record is not None
    assert (report.record.seq, report.record.hash) == (8, record.hash)
    assert (report.unshipped, report.lost, report.findings, report.health) == (0, 0, (), "ready")


async def test_the_bundles_of_all_policies_are_brought_and_one_that_is_missing_holds_up_no_other(
    redis: RedisServer,
    engine: Engine,
    record: WrittenRecord,
    publisher: Publisher,
    daemon: MemoryDaemon,
    run_link: RunLink,
) -> None:
    await publisher.push(engine, "base")
    await publisher.push(engine, "lost", policy="ci")
    digest = msgspec.json.decode(read_envelope(publisher.envelopes[1]).payload)["bundle"]
    redis.command("DEL", f"hooklatch:{FLEET}:bundle:{digest}")
    await publisher.push(engine, "gpu", policy="gpu")
    async with run_link() as link:
        report = await until_reported(
            engine, lambda report: applied_in(report) == {"default": 1, "ci": None, "gpu": 3} and report.problem
        )
        assert "which version 2 names; put them back" in (report.problem or "")
        await publisher.push(engine, "found", policy="ci")
        report = await until_reported(engine, lambda report: applied_in(report)["ci"] == 4 and not report.problem)

    assert (report.wanted, report.applied) == (4, 4)
    assert "bundle" not in link.state.faults


def applied_in(report: HostReport) -> dict[str, int | None]:
    return {name: of.applied for name, of in report.policies.items()}


def test_gates_are_counted_since_the_last_of_the_active_bundles_took_effect(record: WrittenRecord) -> None:
    def apply(policy: str | None, bundle: str) -> int:
        record.write(kind="fleet", action="applied", bundle=bundle, **({"policy": policy} if policy else {}))
        return record.seq

    apply(None, "a")
    ci = apply("ci", "c")
    base = apply("default", "b")
    apply("default", "b")
    folder = str(record.folder)

    assert find_effective_seq(folder, {"a", "c"}) == ci  # as of before the base changed
    assert find_effective_seq(folder, {"b", "c"}) == base
    assert find_effective_seq(folder, {"x"}) is None


async def test_nothing_leaves_but_the_configured_fields(
    redis: RedisServer, engine: Engine, record: WrittenRecord, run_link: RunLink
) -> None:
    record.write(2, verdict="deny", reason="r", excerpt={"password": "hunter2"}, cwd="/home/me")
    async with run_link(fields=("verdict",)):
        found = await until_shipped(engine, record)

    assert [set(one) for one in found] == [{"seq", "prev", "at", "kind", "hash", "verdict"}] * 2
    assert b"hunter2" not in b"".join(path.read_bytes() for path in redis.folder.rglob("*") if path.is_file())


async def test_a_version_for_others_is_read_and_not_fetched(
    engine: Engine, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    await publisher.push(engine, "one", RolloutTarget(labels=("ci",)))
    async with run_link():
        await until(lambda: daemon.head.version == 1 and daemon.contacts)
    assert daemon.applied is None


async def test_what_the_daemon_refuses_is_told_and_the_next_version_is_followed(
    engine: Engine, record: WrittenRecord, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    stranger = Publisher()
    await publisher.push(engine, "one")
    record.write()
    own, publisher.key = publisher.key, stranger.key
    await publisher.push(engine, "two")  # signed by a key that is not listed
    publisher.key = own
    async with run_link() as link:
        await until(lambda: "policy" in link.state.faults)
        report = await until_reported(engine, lambda report: report.problem)
        assert daemon.applied is None
        await publisher.push(engine, "three")  # vouches for the one before
        await until(lambda: daemon.applied is not None and daemon.applied.version == 3)
        await until(lambda: not link.state.faults)

    assert "does not list" in (report.problem or "")
    assert len(daemon.refusals) < 5
    assert [one.version for one in daemon.history] == [3]


async def test_a_refused_bundle_is_offered_again_with_patience(
    engine: Engine, record: WrittenRecord, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    record.write()
    daemon.refuses_bundles = "guards.py does not load"
    await publisher.push(engine, "one")
    async with run_link() as link:
        await until(lambda: "bundle" in link.state.faults)
        report = await until_reported(engine, lambda report: report.problem)
        refusals = len(daemon.refusals)
        daemon.refuses_bundles = None
        await until(lambda: daemon.applied is not None)
        await until(lambda: not link.state.faults)

    assert "does not load" in (report.problem or "")
    assert refusals < 10


async def test_an_engine_to_which_nothing_was_ever_pushed_is_told_until_something_is(
    engine: Engine, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    async with run_link(max_staleness=0.4) as link:
        await until(lambda: "nothing was ever pushed to it" in link.state.faults.get("fleet", ""))
        report = await until_reported(engine, lambda report: report.problem)
        await publisher.push(engine, "one")
        await until(lambda: daemon.applied is not None and daemon.applied.version == 1)
        await until(lambda: "fleet" not in link.state.faults)

    assert "nothing was ever pushed to it" in (report.problem or "")


async def test_an_engine_that_was_emptied_is_told_and_nothing_is_applied(
    redis: RedisServer,
    engine: Engine,
    record: WrittenRecord,
    publisher: Publisher,
    daemon: MemoryDaemon,
    run_link: RunLink,
) -> None:
    anew = Publisher(publisher.key)
    record.write(4)
    for text in ("one", "two"):
        await publisher.push(engine, text)
    async with run_link(max_staleness=0.4) as link:
        await until(lambda: daemon.applied is not None and daemon.applied.version == 2)
        await until_shipped(engine, record)
        redis.command("FLUSHALL")
        await until(lambda: "policy" in link.state.faults)
        report = await until_reported(engine, lambda report: report.problem)
        contacts = daemon.contacts
        record.write(1)
        await anew.push(engine, "another one")  # another history
        found = await until_shipped(engine, record)
        for text in ("another two", "another three"):
            await anew.push(engine, text)
        await until(lambda: "rewritten" in link.state.faults["policy"])

    assert "behind" in (report.problem or "")
    assert [one["seq"] for one in found] == [1, 2, 3, 4, 5]
    assert [one.version for one in daemon.history] == [1, 2][-len(daemon.history) :]
    assert daemon.contacts - contacts <= 1


async def test_a_daemon_that_restarts_is_followed_and_told_again(
    engine: Engine, record: WrittenRecord, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    record.write(2)
    async with run_link() as link:
        await until(lambda: daemon.shipped_seq)
        daemon.is_there = False
        await until(lambda: "daemon" in link.state.faults)
        report = await until_reported(engine, lambda report: report.health == "unreachable")
        record.write(2)
        await until_shipped(engine, record)  # records need no daemon
        await publisher.push(engine, "one")
        daemon.is_there = True
        await until(lambda: daemon.applied is not None and daemon.shipped_seq[-1] == 4)

    assert report.problem == "there is no daemon"


async def test_an_engine_that_is_killed_and_restarted_gets_everything_once(
    redis: RedisServer, record: WrittenRecord, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    record.write(10)
    async with run_link() as link:
        for number in range(3):
            await until(lambda: link.state.shipped == record.seq)
            redis.kill()
            record.write(10)
            await until(lambda: "engine" in link.state.faults)
            redis.start()
            async with open_engine(redis.url, FLEET) as engine:
                version = await publisher.push(engine, f"number {number}")
            await until(lambda version=version: daemon.applied is not None and daemon.applied.version == version)
        async with open_engine(redis.url, FLEET) as engine:
            found = await until_shipped(engine, record)

    assert [one["seq"] for one in found] == list(range(1, 41))


async def test_a_link_that_ends_anywhere_goes_on_where_the_engine_is(
    engine: Engine, record: WrittenRecord, run_link: RunLink
) -> None:
    for number in range(6):
        record.write(700)
        async with run_link():
            if number % 2:
                await until_shipped(engine, record)
            else:
                await trio.sleep(0.02 * number)
    record.write(1)
    async with run_link():
        found = await until_shipped(engine, record)

    assert [one["seq"] for one in found] == list(range(1, record.seq + 1))


async def test_a_truncated_record_is_a_finding_and_begins_a_new_epoch(
    engine: Engine, record: WrittenRecord, run_link: RunLink
) -> None:
    record.write(5)
    async with run_link():
        await until_shipped(engine, record)
    record.truncate(3)
    async with run_link():
        found = await until_shipped(engine, record, epoch=2)
        report = await until_reported(engine, lambda report: report.findings and report.epoch == 2)

    assert [one["seq"] for one in found] == [1, 2, 3]
    assert len(await shipped_records(engine, epoch=1)) == 5
    assert report.epoch == 2
    assert "truncated" in report.findings[0]


async def test_a_record_that_is_rewritten_while_the_link_runs_is_found(
    engine: Engine, record: WrittenRecord, run_link: RunLink
) -> None:
    record.write(5)
    async with run_link() as link:
        await until_shipped(engine, record)
        record.truncate(2)
        record.write(6, verdict="allow", reason="nothing happened")
        await until_shipped(engine, record, epoch=2)

    assert link.state.epoch == 2


async def test_two_records_under_one_name_do_not_begin_one_epoch_after_the_other(
    redis: RedisServer, engine: Engine, tmp_path: Path
) -> None:
    one, other = WrittenRecord(tmp_path / "one"), WrittenRecord(tmp_path / "other")
    one.write(700)
    other.write(3, verdict="deny")
    for _ in range(3):
        for which in (one, other):
            which.write(400)
            async with linked(settings_of(redis.url), MemoryDaemon(), which.folder) as link:
                await until(lambda link=link, which=which: link.state.shipped == which.seq)

    assert await engine.epochs(HOST) == [1, 2]
    assert [record["seq"] for record in await shipped_records(engine, epoch=1)] == list(range(1, one.seq + 1))
    assert [record["seq"] for record in await shipped_records(engine, epoch=2)] == list(range(1, other.seq + 1))


async def test_what_retention_removed_unshipped_is_counted(
    engine: Engine, record: WrittenRecord, run_link: RunLink
) -> None:
    record.write(3)
    async with run_link():
        await until_shipped(engine, record)
    record.write(4)
    record.rotate()
    record.write(2)
    record.retire(before=8)
    async with run_link():
        found = await until_shipped(engine, record)
        report = await until_reported(engine, lambda report: report.lost and report.shipped == 9)

    assert [one["seq"] for one in found] == [1, 2, 3, 8, 9]
    assert (report.lost, report.epoch) == (4, 1)
    assert "4 to 7" in report.findings[0]


async def test_a_full_engine_keeps_the_records_here_and_shows_it(
    redis: RedisServer,
    engine: Engine,
    record: WrittenRecord,
    publisher: Publisher,
    daemon: MemoryDaemon,
    run_link: RunLink,
) -> None:
    await publisher.push(engine, "one")
    record.write(3)
    async with run_link() as link:
        await until_shipped(engine, record)
        redis.command("CONFIG", "SET", "maxmemory", "1")
        record.write(500)
        await until(lambda: "shipping" in link.state.faults)
        assert daemon.applied is not None  # reading goes on
        assert link.state.shipped == 3
        redis.command("CONFIG", "SET", "maxmemory", "0")
        found = await until_shipped(engine, record)
        await until(lambda: not link.state.faults)

    assert [one["seq"] for one in found] == list(range(1, 504))


async def test_logs_leave_room_for_a_push(
    redis: RedisServer,
    engine: Engine,
    record: WrittenRecord,
    publisher: Publisher,
    daemon: MemoryDaemon,
    run_link: RunLink,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shipping, "MEASURE", 0.0)
    redis.command("CONFIG", "SET", "maxmemory", "12mb")
    for _ in range(300):
        record.write(1, gate=True, verdict="allow", reason=os.urandom(30_000).hex())
    async with run_link(fields=("reason",)) as link:
        await until(lambda: "what is left is for the policy" in link.state.faults.get("shipping", ""))
        version = await publisher.push(engine, os.urandom(100_000).hex())
        await until(lambda: daemon.applied is not None and daemon.applied.version == version)
        assert 0 < link.state.shipped < record.seq
        redis.command("CONFIG", "SET", "maxmemory", "0")
        found = await until_shipped(engine, record)

    assert [one["seq"] for one in found] == list(range(1, 301))


async def test_a_large_backlog_is_shipped_in_small_batches(
    engine: Engine, record: WrittenRecord, run_link: RunLink
) -> None:
    for _ in range(10):
        record.write(2000, gate=True, verdict="allow", reason="x" * 300)
        record.rotate()
    async with run_link() as link:
        await until(lambda: link.state.shipped == record.seq)
    found = await shipped_records(engine)
    batches = await engine.batches(HOST, 1, 0, limit=10_000)

    assert [one["seq"] for one in found] == list(range(1, 20_001))
    assert max(batch.last - batch.first + 1 for batch in batches) <= 1000


async def test_the_gates_are_counted_since_the_bundle_took_effect(
    engine: Engine, record: WrittenRecord, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    await publisher.push(engine, "one")
    record.write(7, gate=True, verdict="deny", cause="crash")
    async with run_link():
        await until(lambda: daemon.applied is not None)
        assert daemon.applied is not None
        record.write(kind="fleet", action="applied", version=1, bundle=daemon.applied.bundle)
        await until_reported(engine, lambda report: report.record and report.record.seq == 8)
    async with run_link():
        record.write(3, gate=True, verdict="deny", cause="crash")
        record.write(2, gate=True, verdict="allow")
        record.write(4, gate=False, verdict="deny", cause="crash")
        report = await until_reported(engine, lambda report: report.gates.decided == 5)

    assert (report.gates.since, report.gates.denied) == (8, {"crash": 3})


async def test_garbage_in_the_engine_is_told_and_gone_around(
    redis: RedisServer, engine: Engine, record: WrittenRecord, run_link: RunLink
) -> None:
    record.write(3)
    redis.command("SADD", f"hooklatch:{FLEET}:log:{HOST}:epochs", "1")
    redis.command("XADD", f"hooklatch:{FLEET}:log:{HOST}:1", "9-0", "f", "9", "a", "1", "d", "garbage")
    async with run_link():
        found = await until_shipped(engine, record, epoch=2)
        report = await until_reported(engine, lambda report: report.findings)

    assert [one["seq"] for one in found] == [1, 2, 3]
    assert "is not valid" in report.findings[0]


async def test_an_engine_that_hangs_is_followed_when_it_goes_on(
    redis: RedisServer, record: WrittenRecord, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    record.write(2)
    async with run_link() as link:
        await until(lambda: link.state.shipped == 2)
        redis.pause()
        record.write(2)
        await until(lambda: "engine" in link.state.faults)
        redis.resume()
        async with open_engine(redis.url, FLEET) as engine:
            await publisher.push(engine, "one")
        await until(lambda: daemon.applied is not None and link.state.shipped == 4)


class Stubborn(MemoryDaemon):
    """A daemon that says yes to everything and does nothing."""

    asked = 0

    async def follow(
        self, manifests: Sequence[str] | None, timestamp: str | None = None, keys: Sequence[str] = ()
    ) -> FollowAnswer:
        self.asked += 1
        await super().follow(None)
        wanted = BundleVersion(1, self.wants)
        return FollowAnswer(wanted, host=self.host, policies={"default": PolicyVersions(wanted)})

    async def apply(self, version: int, bundle: bytes) -> None:
        self.asked += 1

    wants = ""


async def test_a_daemon_that_never_gets_anywhere_does_not_keep_the_link_busy(
    redis: RedisServer, engine: Engine, record: WrittenRecord
) -> None:
    publisher = Publisher()
    daemon = Stubborn(publisher.key)
    record.write(1)
    await publisher.push(engine, "one")
    daemon.wants = msgspec.json.decode(read_envelope(publisher.envelopes[0]).payload)["bundle"]
    async with linked(settings_of(redis.url, publisher.key), daemon, record.folder) as link:
        await until(lambda: {"policy", "bundle"} <= set(link.state.faults))
        asked = daemon.asked

    assert asked < 12


async def test_a_bundle_that_the_engine_lost_is_told_until_it_is_there(
    redis: RedisServer,
    engine: Engine,
    record: WrittenRecord,
    publisher: Publisher,
    daemon: MemoryDaemon,
    run_link: RunLink,
) -> None:
    record.write(1)
    await publisher.push(engine, "one")
    digest = msgspec.json.decode(read_envelope(publisher.envelopes[0]).payload)["bundle"]
    redis.command("DEL", f"hooklatch:{FLEET}:bundle:{digest}")
    async with run_link() as link:
        await until(lambda: "has no bundle" in link.state.faults.get("bundle", ""))
        redis.command("SET", f"hooklatch:{FLEET}:bundle:{digest}", "torn")
        await until(lambda: "cut off or another one" in link.state.faults.get("bundle", ""))
        redis.command("SET", f"hooklatch:{FLEET}:bundle:{digest}", encode_bundle(Bundle({"guards.py": b"one"})))
        await until(lambda: daemon.applied is not None)
        await until(lambda: not link.state.faults)


async def test_a_long_history_is_given_at_once(redis: RedisServer, engine: Engine, record: WrittenRecord) -> None:
    old, publisher = Publisher(), Publisher()
    daemon = MemoryDaemon(publisher.key)
    own, publisher.key = publisher.key, old.key
    for _ in range(230):
        await publisher.push(engine, "one")  # by a key that was revoked since
    publisher.key = own
    await publisher.push(engine, "two")
    async with linked(settings_of(redis.url, publisher.key), daemon, record.folder):
        await until(lambda: daemon.applied is not None)

    assert daemon.head.version == 231
    assert daemon.refusals == []


async def test_a_timestamp_is_asked_for_before_the_versions_and_brought_with_the_contact(
    engine: Engine, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    """A version is there before a timestamp names it: asked the other way, each push would look like a lie."""
    async with run_link(max_staleness=0.2):
        await until(lambda: daemon.contacts > 0)
        await publisher.push(engine, "one")
        stored = await engine.timestamp()
        assert stored is not None
        await until(lambda: daemon.timestamps[-1:] == [stored[1].decode()])

    assert daemon.timestamps[0] is None
    assert daemon.head.version == 1


async def test_an_engine_that_refuses_the_timestamp_brings_versions_all_the_same(
    redis: RedisServer, engine: Engine, publisher: Publisher, daemon: MemoryDaemon, record: WrittenRecord
) -> None:
    """The rights of an older fleet: its hosts follow, and say what is missing."""
    await publisher.push(engine, "one")
    for rule in (("on", "nopass", "~*", "+@all"), ("resetkeys", f"~hooklatch:{FLEET}:[^t]*")):
        redis.command("ACL", "SETUSER", "old", *rule)
    settings = settings_of(redis.url.replace("unix://", "unix://old@"), publisher.key)
    async with linked(settings, daemon, record.folder) as link:
        await until(lambda: daemon.applied is not None and daemon.contacts > 0)
        assert "the engine gives no timestamp, so nothing is contact" in link.state.faults["signed"]


async def test_key_sets_are_brought_with_the_versions_that_may_need_them(
    engine: Engine, publisher: Publisher, daemon: MemoryDaemon, run_link: RunLink
) -> None:
    async with run_link():
        await until(lambda: daemon.contacts > 0)
        await engine.put_key_set(1, b"keys")
        await publisher.push(engine, "one")
        await until(lambda: daemon.head.version == 1)
        assert "keys" in daemon.key_sets
