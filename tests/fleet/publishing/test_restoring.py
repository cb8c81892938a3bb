"""An engine that lost versions: they are put back from a copy, or given up by a signed version; real engines.

Slow: the tests share a server of this process.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from hooklatch.fleet.engine.archive import ArchiveWriter
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.logs.reading import FleetScan
from hooklatch.fleet.logs.trimming import archive_fleet
from hooklatch.fleet.manifests import (
    Bundle,
    FleetError,
    Manifest,
    PolicyHead,
    RolloutTarget,
    SignedManifest,
    encode_bundle,
)
from hooklatch.fleet.publishing.publisher import LastSeenHead, Publisher
from hooklatch.fleet.publishing.restoring import NoCopyError, RestoreReport, restore_versions
from hooklatch.fleet.publishing.versions import HistoryError, VersionDraft, VersionHistory
from hooklatch.fleet.roles import KeySet, RoleKeys, sign_document, sign_timestamp
from hooklatch.fleet.signing import PrivateKey, Purpose
from hooklatch.fleet.version_copies import VERSIONS, find_following, keep_bundle, keep_versions, read_kept_versions
from support.publishers import FLEET, KEY, KEYS, OTHER_KEY, history_of, report_of, say
from support.redis_server import RedisServer, needs_redis

pytestmark = [pytest.mark.slow, needs_redis]


class CountingEngine:
    """An engine that counts the key sets which are read from it."""

    def __init__(self, engine: Engine) -> None:
        self.key_sets_read = 0
        self._engine = engine

    async def key_sets(self, after: int) -> Sequence[bytes]:
        found = await self._engine.key_sets(after)
        self.key_sets_read += len(found)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@asynccontextmanager
async def anew(server: RedisServer) -> AsyncGenerator[Engine]:
    """Open an empty engine, which knows nothing of the others."""
    async with open_engine(server.url, uuid.uuid4().hex) as engine:
        yield engine


def at(engine: Engine, memory: LastSeenHead | None = None, gives_up: int | None = None) -> Publisher:
    return Publisher(engine, FLEET, KEYS, memory, gives_up=gives_up)


async def push(publisher: Publisher, text: str) -> Manifest:
    await publisher.read()
    data = encode_bundle(Bundle({"guards.py": text.encode()}))
    draft = VersionDraft(bundle=await publisher.put(data), size=len(data), rollout=RolloutTarget())
    return await publisher.commit(draft, KEY, publisher="ann", message=text)


@pytest.fixture
def memory(tmp_path: Path) -> LastSeenHead:
    return LastSeenHead(str(tmp_path / "seen"), FLEET, "here")


@pytest.fixture
async def pushed(shared_redis: RedisServer, memory: LastSeenHead) -> VersionHistory:
    """Return a history of three versions, of which the publisher's machine keeps all."""
    async with anew(shared_redis) as engine:
        publisher = at(engine, memory)
        for text in ("one", "two", "three"):
            await push(publisher, text)
        return publisher.history


async def restore(engine: Engine, *folders: str) -> RestoreReport:
    return await restore_versions(engine, FLEET, KEYS, KEYS, folders)


async def commit_all(engine: Engine, history: VersionHistory, count: int) -> None:
    for entry in history.entries[:count]:
        await at(engine).write(entry.manifest.version, encode(entry.envelope))


def encode(envelope: SignedManifest) -> bytes:
    return msgspec.json.encode(envelope)


@pytest.mark.parametrize("left", [0, 1, 3])
async def test_everything_comes_back_byte_for_byte_and_twice_is_once(
    shared_redis: RedisServer, pushed: VersionHistory, memory: LastSeenHead, left: int
) -> None:
    async with anew(shared_redis) as engine:
        await commit_all(engine, pushed, left)
        if left < 3:
            with pytest.raises(HistoryError, match=r"newest version is .*hooklatch fleet restore.*--give-up VERSION"):
                await at(engine, memory).read()

        report = await restore(engine, memory.copy)
        again = await restore(engine, memory.copy)

        assert report == RestoreReport(3, list(range(left + 1, 4)), 3, [], [])
        assert again == RestoreReport(3, [], 0, [], [])
        assert (await at(engine, memory).read()) == pushed
        assert (await push(at(engine, memory), "four")).version == 4


async def test_the_newest_timestamp_comes_back_too(shared_redis: RedisServer, memory: LastSeenHead) -> None:
    """Hosts are red by one that is older than what they have seen, whatever else was put back."""
    async with anew(shared_redis) as engine:
        publisher = at(engine, memory)
        await push(publisher, "one")
        await publisher.stamp(KEY)
        old = await engine.timestamp()
        await push(publisher, "two")
        newest = await publisher.stamp(KEY)
        assert old is not None
        await engine.put_timestamp(old[1])  # as in a copy of the engine

        await restore(engine, memory.copy)
        restored = await engine.timestamp()
        later = sign_timestamp(FLEET, publisher.history.head, KEY, at=newest.at + 1, lasts=9)
        await engine.put_timestamp(later)
        await restore(engine, memory.copy)

        assert restored is not None
        assert msgspec.json.decode(msgspec.json.decode(restored[1])["payload"])["version"] == 2
        assert (await engine.timestamp() or (0, b""))[1] == later  # and none is put in place of a newer one


async def test_an_archive_is_a_copy_too(shared_redis: RedisServer, memory: LastSeenHead, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    async with anew(shared_redis) as engine:
        await push(at(engine), "one")
        await archive_fleet(engine, ArchiveWriter(str(archive), FLEET), FleetScan([], []))
    async with anew(shared_redis) as engine:
        assert await restore(engine, str(archive / FLEET)) == RestoreReport(1, [1], 1, [], [])


async def test_another_version_of_that_number_is_left_and_named(
    shared_redis: RedisServer, pushed: VersionHistory, memory: LastSeenHead
) -> None:
    async with anew(shared_redis) as engine:
        await commit_all(engine, pushed, 1)
        await push(at(engine), "another two")

        report = await restore(engine, memory.copy)

        assert (report.version, report.versions) == (2, [])
        assert "version 2 in the engine is another one than in the copies, and is left as it is" in report.findings[0]


async def test_what_no_listed_key_signed_or_was_altered_or_is_missing_is_not_put_back(
    shared_redis: RedisServer, pushed: VersionHistory, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    lines = [encode(entry.envelope) for entry in pushed.entries]

    def copy_of(*rows: bytes) -> str:
        folder.mkdir(exist_ok=True)
        (folder / VERSIONS).write_bytes(b"\n".join(rows) + b"\n")
        return str(folder)

    async with anew(shared_redis) as engine:
        with pytest.raises(FleetError, match="version 2: the signature is not that of the key"):
            await restore(engine, copy_of(lines[0], lines[1].replace(b"ann", b"eve"), lines[2]))
        assert await engine.newest_version() == 0
    async with anew(shared_redis) as engine:
        report = await restore(engine, copy_of(lines[0], lines[2], lines[1][:50]))
        assert report.versions == [1]
        assert any("the copies have version 3, and not all from 2 on" in text for text in report.findings)
        assert any("the bundle" in text and "is in no copy here" in text for text in report.findings)
    async with anew(shared_redis) as engine:
        thief = Publisher(engine, FLEET, {OTHER_KEY.public.id: OTHER_KEY.public})
        data = encode_bundle(Bundle({}))
        await thief.commit(
            VersionDraft(bundle=await thief.put(data), size=len(data), rollout=RolloutTarget()), OTHER_KEY,
            publisher="eve", message="",
        )  # fmt: skip
        stolen = encode(thief.history.entries[0].envelope)
    async with anew(shared_redis) as engine:
        assert (await restore(engine, copy_of(stolen))).versions == []
        with pytest.raises(NoCopyError, match="no copy of the versions of the fleet"):
            await restore(engine, str(tmp_path / "nothing"))


async def test_a_bundle_with_other_bytes_is_not_put_back(
    shared_redis: RedisServer, pushed: VersionHistory, memory: LastSeenHead
) -> None:
    digest = pushed.entries[0].manifest.bundle
    (Path(memory.copy) / f"{digest}.json").write_bytes(b"{}")
    async with anew(shared_redis) as engine:
        report = await restore(engine, memory.copy)

        assert report.bundles == 2
        assert await engine.bundle(digest) is None
        assert f"the bundle {digest[:12]} of version 1 is in no copy here" in report.findings[0]


async def test_versions_that_nobody_has_are_given_up_by_their_number(
    shared_redis: RedisServer, pushed: VersionHistory, memory: LastSeenHead
) -> None:
    async with anew(shared_redis) as engine:
        await commit_all(engine, pushed, 1)
        for wrong in (1, 2, 4):
            with pytest.raises(HistoryError, match="so there is nothing to give up"):
                await at(engine, memory, wrong).read()

        publisher = at(engine, memory, 3)
        manifest = await push(publisher, "anew")

        assert (manifest.version, manifest.gives_up) == (4, pushed.head)
        assert [one.manifest.gives_up for one in publisher.history.entries] == [None, *[pushed.head] * 3]
        assert "all hosts give up version 3" in publisher.notes[-1]
        assert (await push(at(engine, memory), "next")).gives_up is None  # by this machine, which had read them


async def test_a_beginning_that_was_cut_short_is_gone_on_with(
    shared_redis: RedisServer, pushed: VersionHistory, memory: LastSeenHead
) -> None:
    async with anew(shared_redis) as engine:
        publisher = at(engine, memory, 3)
        await publisher.read()
        cut = VersionHistory(FLEET, (), pushed.head)
        publisher.history = cut
        data = encode_bundle(Bundle({}))
        draft = VersionDraft(bundle=await publisher.put(data), size=len(data), rollout=RolloutTarget())
        async with anew(shared_redis) as other:
            whole = at(other, memory, 3)
            await whole.read()
            await whole.commit(draft, KEY, publisher="ann", message="")
        await commit_all(engine, whole.history, 2)
        fresh = LastSeenHead(str(Path(memory.path).parent / "other"), FLEET, "here")
        fresh.keep(pushed)

        with pytest.raises(HistoryError, match="--give-up VERSION"):
            await at(engine, fresh).read()
        manifest = await push(at(engine, fresh, 3), "anew")

        assert (manifest.version, manifest.gives_up) == (4, pushed.head)


async def test_hosts_that_agree_are_enough_and_one_that_lies_of_many_versions_is_not(
    shared_redis: RedisServer, pushed: VersionHistory
) -> None:
    async with anew(shared_redis) as engine:
        for host in ("web-1", "web-2"):
            await say(engine, report_of(host, head=pushed.head))
        await say(engine, report_of("liar", head=PolicyHead(1_000_000_000, "0" * 64)))

        with pytest.raises(HistoryError, match="is 0, but the host liar has read version 1000000000"):
            await at(engine).read()
        with pytest.raises(HistoryError, match="1000000000 versions would be given up, and the most is 10000"):
            await at(engine, gives_up=1_000_000_000).read()
        assert (await push(at(engine, gives_up=3), "anew")).version == 4
        assert (await at(engine).read()).head.version == 4  # what one host alone says stops nobody


async def test_key_sets_come_back_too_and_say_whose_versions_do(
    shared_redis: RedisServer, memory: LastSeenHead
) -> None:
    def key_set(version: int, previous: str, signs: PrivateKey) -> KeySet:
        keys, ends = RoleKeys((KEY.public.text,)), datetime.now(UTC) + timedelta(days=30)
        policies = {"*": RoleKeys((signs.public.text,))}
        return KeySet(
            fleet=FLEET, version=version, previous=previous, expires=ends, root=keys, timestamp=keys, policies=policies
        )  # fmt: skip

    first = key_set(1, "", KEY)
    second = key_set(2, first.digest, OTHER_KEY)
    stored = [sign_document(one, Purpose.KEYS, KEY) for one in (first, second)]
    async with anew(shared_redis) as engine:
        await push(at(engine, memory), "one")
        publisher = at(engine, memory)
        for data in stored:
            await publisher.put_key_set(data)
        publisher = at(engine, memory)
        await publisher.read()
        draft = VersionDraft(bundle=publisher.history.entries[0].manifest.bundle, size=1, rollout=RolloutTarget())
        await publisher.commit(draft, OTHER_KEY, publisher="ben", message="")
        whole = publisher.history

    async with anew(shared_redis) as engine:
        report = await restore(engine, memory.copy)

        assert (report.key_sets, report.versions, report.findings) == ([1, 2], [1, 2], [])
        assert await engine.key_sets(0) == stored
        assert (await at(engine, memory).read()).head == whole.head
        counting = CountingEngine(engine)
        await restore(cast("Engine", counting), memory.copy)
        assert counting.key_sets_read == 2  # each once
    async with anew(shared_redis) as engine:
        await engine.put_key_set(1, sign_document(key_set(1, "", OTHER_KEY), Purpose.KEYS, KEY))
        report = await restore(engine, memory.copy)
        assert "the key set 2 of the copies is not put back: " in report.findings[1]


# -- the copy ----------------------------------------------------------------------------------------------------------


def test_a_copy_that_was_torn_is_completed_and_nothing_is_added_twice(tmp_path: Path) -> None:
    envelopes = [entry.envelope for entry in history_of(("a",), ("b",), ("c",)).entries]
    path = tmp_path / "copy" / VERSIONS
    keep_versions(str(path.parent), envelopes[:2])
    path.write_bytes(path.read_bytes()[:-20])

    for _ in range(2):
        keep_versions(str(path.parent), envelopes)

    assert find_following(PolicyHead(), read_kept_versions(str(path.parent))) == envelopes
    assert len(path.read_bytes().splitlines()) == 4
    assert path.stat().st_mode & 0o777 == 0o600


def test_of_two_histories_the_longer_one_follows_and_each_from_its_own_head(tmp_path: Path) -> None:
    long, short = history_of(("a",), ("b",), ("c",)), history_of(("d",), ("e",))
    kept = [entry.envelope for entry in (*short.entries, *long.entries)]

    assert find_following(PolicyHead(), kept) == [entry.envelope for entry in long.entries]
    assert find_following(short.entries[0].head, kept) == [short.entries[1].envelope]
    assert find_following(long.head, kept) == []


def test_a_publishers_machine_keeps_the_newest_bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.fleet.version_copies.MOST_BUNDLES", 2)

    for name in "abc":
        keep_bundle(str(tmp_path), name, name.encode())
        (tmp_path / f"{name}.json").touch()

    assert len(list(tmp_path.iterdir())) == 2
    assert (tmp_path / "c.json").exists()
