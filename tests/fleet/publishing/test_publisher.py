"""Reading and adding versions on a real engine: races, lost replies, and an engine that is not what it was.

Slow: the tests share a server of this process.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.fleet.engine.engine import Engine, EngineError, EngineRefusedError, UnreachableError
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.manifests import Bundle, FleetError, Manifest, PolicyHead, RolloutTarget, encode_bundle
from hooklatch.fleet.publishing.publisher import (
    LastSeenHead,
    LostRaceError,
    Publisher,
    UnknownOutcomeError,
)
from hooklatch.fleet.publishing.versions import HistoryError, NoVersionError, VersionDraft, encode_envelope
from hooklatch.fleet.reports import encode_report
from hooklatch.fleet.roles import LONGEST, KeySet, RoleKeys, read_timestamp, sign_document, sign_timestamp
from hooklatch.fleet.signing import Purpose
from support.publishers import FLEET, KEY, KEYS, OTHER_KEY, LossyEngine, digest_of, history_of, report_of, say
from support.redis_server import RedisServer, needs_redis

pytestmark = [pytest.mark.slow, needs_redis]
ROLE = RoleKeys((KEY.public.text,))


def plan_of(letter: str, percent: float = 100.0) -> VersionDraft:
    return VersionDraft(bundle=digest_of(letter), size=1, rollout=RolloutTarget((), percent))


@pytest.fixture
async def engine(shared_redis: RedisServer) -> AsyncIterator[Engine]:
    """A fleet of its own on the shared server."""
    async with open_engine(shared_redis.url, f"{FLEET}-{uuid.uuid4().hex}") as opened:
        yield opened


def publisher_at(engine: Any, **options: Any) -> Publisher:
    return Publisher(engine, FLEET, KEYS, **options)


async def commit(publisher: Publisher, letter: str, by: str = "ann", percent: float = 100.0) -> Manifest:
    return await publisher.commit(plan_of(letter, percent), KEY, publisher=by, message=f"bundle {letter}")


async def test_versions_are_read_back_as_they_were_committed(engine: Engine) -> None:
    first = publisher_at(engine)
    for letter in "abc":
        await commit(first, letter)

    second = publisher_at(engine)

    assert await second.read() == first.history
    assert [entry.manifest.bundle[0] for entry in second.history.entries] == ["a", "b", "c"]


async def test_more_versions_than_come_at_once_are_read(engine: Engine) -> None:
    history = history_of(*(("ab"[number % 2],) for number in range(130)))
    for entry in history.entries:
        await engine.commit(entry.manifest.version, encode_envelope(entry.envelope))

    assert (await publisher_at(engine).read()).head == history.head


async def test_of_two_publishers_one_is_told_who_was_first_and_what_to_do(engine: Engine) -> None:
    first, second = publisher_at(engine), publisher_at(engine)
    await first.read()
    await second.read()
    await commit(first, "a", by="ann@laptop")

    with pytest.raises(LostRaceError) as caught:
        await commit(second, "b", by="ben@laptop")

    assert str(caught.value) == (
        "version 1 by ann@laptop (bundle a) came first, and yours was not written; look at its changes with"
        " `hooklatch fleet diff 0 1`, and push again"
    )
    await second.read()
    assert (await commit(second, "b")).version == 2


async def test_of_many_racing_publishers_each_wins_a_version_of_its_own(engine: Engine) -> None:
    lost = 0

    async def push(name: str) -> None:
        nonlocal lost
        publisher = publisher_at(engine)
        while True:
            await publisher.read()
            try:
                await commit(publisher, "a", by=name)
            except LostRaceError:
                lost += 1
            else:
                return

    async with trio.open_nursery() as nursery:
        for name in "rstuvw":
            nursery.start_soon(push, name)

    history = await publisher_at(engine).read()
    assert sorted(entry.manifest.publisher for entry in history.entries) == list("rstuvw")
    assert lost


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_lost_reply_is_settled_by_reading_back(engine: Engine, is_done: bool) -> None:
    manifest = await commit(publisher_at(LossyEngine(engine, is_done=is_done)), "a")

    history = await publisher_at(engine).read()
    assert [entry.manifest for entry in history.entries] == [manifest]


async def test_a_lost_request_that_somebody_else_overtook_is_a_lost_race(engine: Engine) -> None:
    mine, other = publisher_at(LossyEngine(engine, is_done=False)), publisher_at(engine)
    await commit(other, "a", by="ben")

    with pytest.raises(LostRaceError, match="version 1 by ben"):
        await commit(mine, "b")


async def test_an_engine_that_stays_away_leaves_the_outcome_unknown_and_says_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooklatch.fleet.publishing.publisher.PAUSES", (0.01,))
    lossy = LossyEngine(engine, lost=2)
    publisher = publisher_at(lossy)
    await publisher.read()
    lossy.is_away = True

    with pytest.raises(UnknownOutcomeError, match=r"version 1 may have been written or not.*fleet history"):
        await commit(publisher, "a")

    with pytest.raises(UnreachableError):
        await publisher.read()
    lossy.is_away = False
    assert (await publisher.read()).head.version == 1


async def test_a_rewritten_version_is_refused(engine: Engine) -> None:
    ours, theirs = history_of(("a",), ("b",)), history_of(("c",), ("d",))
    for entry in (ours.entries[0], theirs.entries[1]):
        await engine.commit(entry.manifest.version, encode_envelope(entry.envelope))

    with pytest.raises(FleetError, match="the history was rewritten"):
        await publisher_at(engine).read()


async def test_a_version_of_an_unknown_key_is_refused_until_that_is_believed(engine: Engine) -> None:
    other = Publisher(engine, FLEET, {OTHER_KEY.public.id: OTHER_KEY.public})
    await other.commit(plan_of("a"), OTHER_KEY, publisher="ben", message="")

    with pytest.raises(FleetError, match=f"signed by the key {OTHER_KEY.public.id}"):
        await publisher_at(engine).read()
    both = {**KEYS, OTHER_KEY.public.id: OTHER_KEY.public}
    assert (await Publisher(engine, FLEET, both).read()).head.version == 1


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[" * 10_000, b'{"payload": 1}', b"x" * 70_000])
async def test_what_is_no_version_is_refused(engine: Engine, data: bytes) -> None:
    await engine.commit(1, data)

    with pytest.raises(FleetError, match="a manifest"):
        await publisher_at(engine).read()


async def test_a_log_that_was_shortened_since_is_found_by_what_this_machine_saw(
    shared_redis: RedisServer, tmp_path: Path
) -> None:
    memory = LastSeenHead(str(tmp_path), FLEET, "here")
    for fleet, letters in ((uuid.uuid4().hex, "abc"), (uuid.uuid4().hex, "ab")):
        async with open_engine(shared_redis.url, fleet) as engine:
            for letter, entry in zip(letters, history_of(*letters).entries, strict=True):
                assert letter == entry.manifest.bundle[0]
                await engine.commit(entry.manifest.version, encode_envelope(entry.envelope))
            if letters == "abc":
                await publisher_at(engine, memory=memory).read()
                continue
            with pytest.raises(HistoryError, match="newest version is 2, but this machine has read version 3"):
                await publisher_at(engine, memory=memory).read()
    assert memory.read_head().version == 3


async def test_what_one_host_says_that_it_has_read_is_noted_and_stops_nobody(engine: Engine) -> None:
    publisher = publisher_at(engine)
    await commit(publisher, "a")
    await say(engine, report_of("web-1", head=PolicyHead(1_000_000_000, "0" * 64)))

    await publisher.read()

    (note,) = publisher.notes
    assert re.search(r"the host web-1 has read version 1000000000.*No other host says so, and it stops nothing", note)
    assert (await commit(publisher, "b")).version == 2


async def test_a_report_from_the_future_is_noted_and_counts_for_nothing(
    engine: Engine, shared_redis: RedisServer
) -> None:
    publisher = publisher_at(engine)
    report = encode_report(report_of("web-1", "a", 1000))
    key = f"hooklatch:{engine._prefix.split(':')[1]}:host:web-1"  # type: ignore[attr-defined]
    shared_redis.command("XADD", key, "4102444800000-0", "d", report)

    assert await publisher.hosts() == {}
    assert "unknown when the host was last seen" in publisher.notes[0]


async def test_heads_of_hosts_beyond_the_log_are_an_error_until_they_are_not_heeded(engine: Engine) -> None:
    await commit(publisher_at(engine), "a")
    await say(engine, report_of("web-1", head=PolicyHead(9, "0" * 64)))
    await say(engine, report_of("web-2", head=PolicyHead(8, "0" * 64)))

    with pytest.raises(HistoryError, match=r"newest version is 1, but the host web-1 has read version 9.*old backup"):
        await publisher_at(engine).read()
    assert (await publisher_at(engine, heeds_hosts=False).read()).head.version == 1


async def test_a_report_that_cannot_be_read_is_noted_and_no_reason_to_stop(engine: Engine) -> None:
    await engine.report("web-1", b"nonsense")
    await engine.report("web-2", b'{"host": "web-3"}')

    publisher = publisher_at(engine)
    await publisher.read()

    assert await publisher.hosts() == {}
    assert [note.partition(":")[0] for note in sorted(publisher.notes)] == [
        "the report of 'web-1' cannot be read",
        "the report of 'web-2' says that it is of 'web-3'",
    ]


async def test_a_bundle_that_is_stored_is_the_one_that_was_given(engine: Engine) -> None:
    data = encode_bundle(Bundle({"guards.py": b"1"}))
    publisher = publisher_at(engine)

    digest = await publisher.put(data)
    assert await publisher.put(data) == digest
    manifest = await publisher.commit(
        VersionDraft(bundle=digest, size=len(data), rollout=RolloutTarget()), KEY, publisher="ann", message=""
    )

    assert (await publisher.bundle(manifest)).files == {"guards.py": b"1"}


async def test_other_bytes_in_the_place_of_a_bundle_are_found_before_a_version_names_it(
    shared_redis: RedisServer,
) -> None:
    fleet, data = uuid.uuid4().hex, encode_bundle(Bundle({"guards.py": b"1"}))
    async with open_engine(shared_redis.url, fleet) as engine:
        digest = await publisher_at(engine).put(data)
        shared_redis.command("SET", f"hooklatch:{fleet}:bundle:{digest}", b"torn")

        with pytest.raises((FleetError, EngineError)):
            await publisher_at(engine).put(data)


async def test_a_bundle_that_is_gone_is_an_error(engine: Engine) -> None:
    publisher = publisher_at(engine)
    manifest = await commit(publisher, "a")

    with pytest.raises(
        FleetError, match="does not have the bundle of version 1; put it back from a machine that has it"
    ):
        await publisher.bundle(manifest)


# -- what this machine saw ---------------------------------------------------------------------------------------------


def test_what_was_seen_is_kept_and_never_goes_back(tmp_path: Path) -> None:
    memory = LastSeenHead(str(tmp_path / "seen"), FLEET, "redis://engine")
    history = history_of(("a",), ("b",), ("c",))
    memory.keep(history)
    memory.keep(history_of(("a",), ("b",)))

    assert LastSeenHead(str(tmp_path / "seen"), FLEET, "redis://engine").read_head() == history.head
    assert LastSeenHead(str(tmp_path / "seen"), FLEET, "redis://other").read_head() == PolicyHead()
    assert sorted(path.name for path in (tmp_path / "seen").iterdir()) == [
        Path(memory.copy).name,
        Path(memory.path).name,
    ]


def test_what_was_seen_outlives_its_file_which_a_text_says_may_be_removed(tmp_path: Path) -> None:
    memory = LastSeenHead(str(tmp_path), FLEET, "redis://engine")
    history = history_of(("a",), ("b",))
    memory.keep(history)
    Path(memory.path).unlink()

    assert memory.read_head() == history.head


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff"])
def test_what_was_seen_and_cannot_be_read_is_not_nothing(tmp_path: Path, data: bytes) -> None:
    memory = LastSeenHead(str(tmp_path), FLEET, "redis://engine")
    Path(memory.path).write_bytes(data)

    with pytest.raises(FleetError, match="cannot be read"):
        memory.read_head()


async def test_each_version_has_a_timestamp_which_moves_on(engine: Engine) -> None:
    publisher = publisher_at(engine)
    found = []
    for letter in "ab":
        await commit(publisher, letter)
        found.append(read_timestamp((await engine.timestamp() or (0, b""))[1], FLEET, ROLE, None, time.time()))
    found.append(await publisher.stamp(KEY, 60.0))

    assert [stamp.version for stamp in found] == [1, 2, 2]
    assert found[2].head == publisher.history.head
    assert [round(stamp.lasts) for stamp in found] == [LONGEST, LONGEST, 60]
    assert found == sorted(found, key=lambda stamp: stamp.issued)
    assert publisher.notes == []


async def test_a_signer_whose_clock_is_behind_signs_a_later_moment_all_the_same(engine: Engine) -> None:
    publisher = publisher_at(engine)
    await commit(publisher, "a")
    ahead = time.time() + 200
    await engine.put_timestamp(sign_timestamp(FLEET, publisher.history.head, KEY, at=ahead, lasts=60.0))

    assert (await publisher.stamp(KEY)).at > ahead


async def test_what_another_signed_for_ever_moves_no_signer(engine: Engine) -> None:
    publisher = publisher_at(engine)
    await commit(publisher, "a")
    await engine.put_timestamp(sign_timestamp(FLEET, publisher.history.head, OTHER_KEY, at=4e9, lasts=60.0))

    assert (await publisher.stamp(KEY)).at < time.time() + 1


async def test_a_timestamp_that_another_push_has_overtaken_is_signed_again(engine: Engine) -> None:
    """Else the older version's would lie there as the newest, until a timer mends it."""
    slow, quick = publisher_at(engine), publisher_at(engine)
    await commit(slow, "a")
    await quick.read()

    class Overtaken:
        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

        async def put_timestamp(self, data: bytes) -> None:
            if quick.history.head.version == 1:
                await commit(quick, "b")
            await engine.put_timestamp(data)

    slow.engine = Overtaken()  # type: ignore[assignment]
    stamp = await slow.stamp(KEY)

    assert stamp.version == 2
    assert (await engine.timestamp()) is not None


async def test_nothing_is_stamped_where_nothing_was_pushed(engine: Engine) -> None:
    with pytest.raises(NoVersionError, match="nothing was ever pushed"):
        await publisher_at(engine).stamp(KEY)


async def test_an_engine_that_takes_no_timestamp_has_the_version_all_the_same(engine: Engine) -> None:
    class Old:
        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

        async def put_timestamp(self, data: bytes) -> None:
            raise EngineRefusedError("it has no right to XADD")

    publisher = publisher_at(Old())
    await commit(publisher, "a")

    (note,) = publisher.notes
    assert "hosts take version 1 and are not in contact: it has no right to XADD" in note
    assert "hooklatch fleet timestamp --key FILE" in note


async def test_an_engine_that_hides_a_rotation_has_no_key_believed_again(engine: Engine, tmp_path: Path) -> None:
    """The key that was taken away is in the first key set, and the engine shows that one alone."""
    role = RoleKeys((KEY.public.text,))
    fields: dict[str, Any] = {"fleet": FLEET, "expires": datetime(2040, 1, 1, tzinfo=UTC), "root": role}
    both = RoleKeys((KEY.public.text, OTHER_KEY.public.text))
    first = KeySet(version=1, timestamp=role, policies={"*": both}, **fields)
    second = KeySet(version=2, previous=first.digest, timestamp=role, policies={"*": role}, **fields)
    memory = LastSeenHead(str(tmp_path), FLEET, "redis://engine")
    publisher = publisher_at(engine, memory=memory)
    for key_set in (first, second):
        await publisher.put_key_set(sign_document(key_set, Purpose.KEYS, KEY))

    class Hiding:
        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

        async def key_sets(self, after: int) -> Any:
            return (await engine.key_sets(after))[: max(0, 1 - after)]

    await publisher_at(engine, memory=memory).read()
    with pytest.raises(HistoryError, match=r"newest key set is 1, and this machine has seen key set 2"):
        await publisher_at(Hiding(), memory=memory).read()
