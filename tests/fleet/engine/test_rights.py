"""The engine of examples/fleet: each role can do what it needs, through TLS, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from hooklatch.cli.fleet.status import look_at_hosts, prepare_fleet_page
from hooklatch.fleet.engine.engine import ConflictError, Engine, EngineRefusedError, LogFacts, RecordBatch
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.logs.verifying import verify_hosts
from hooklatch.fleet.reports import HostReport, encode_report
from hooklatch.fleet.signing import make_key
from support.engines import versions_after
from support.example_engine import EXAMPLE, FLEET, ExampleEngine, example_engine
from support.redis_server import redis_server
from support.tables import table

HOST = "host-laptop1"
OTHERS = ("laptop2", "laptop10", "laptop", "LAPTOP1")
BUNDLE = "b" * 64


@pytest.fixture(scope="module")
def example() -> Iterator[ExampleEngine]:
    with example_engine() as engine:
        yield engine


def opened(example: ExampleEngine, user: str) -> AbstractAsyncContextManager[Engine]:
    return open_engine(example.url(user), FLEET, password=example.password(user), ca=example.ca)


def key(*parts: str) -> str:
    return ":".join(("hooklatch", FLEET, *parts))


async def test_each_role_can_do_what_it_needs(example: ExampleEngine) -> None:
    async with opened(example, "publisher") as publisher:
        await publisher.put_bundle(BUNDLE, b"bundle")
        await publisher.put_bundle(BUNDLE, b"bundle")
        await publisher.commit(1 + await publisher.newest_version(), b"manifest")
        await publisher.put_timestamp(b"of a push")
        await publisher.put_key_set(1, b"keys")
        with pytest.raises(ConflictError, match="has a key set 1 already, or a later one"):
            await publisher.put_key_set(1, b"others")
        await publisher.put_key_set(2, b"more keys")
    async with opened(example, "timestamp") as timer:
        assert [data for _, data in await timer.versions(0)] == [b"manifest"]
        before = await timer.timestamp()
        assert before is not None
        assert before[1] == b"of a push"
        assert await timer.key_sets(0) == [b"keys", b"more keys"]
        await timer.put_timestamp(b"timestamp")
        assert await timer.wait({"timestamp": before[0]}, 60) == {"timestamp"}
        stamped = await timer.timestamp()
        assert stamped is not None
    async with opened(example, HOST) as host:
        assert await host.timestamp() == (stamped[0], b"timestamp")
        assert await host.key_sets(1) == [b"more keys"]
        [*_, newest] = await versions_after(host, 0, 60)
        assert newest[1] == b"manifest"
        assert await versions_after(host, newest[0], 0.01) == []
        assert await host.bundle(BUNDLE) == b"bundle"
        assert await host.last_batch("laptop1") is None
        await host.append("laptop1", 1, RecordBatch(1, 10, b"data"))
        await host.report("laptop1", b"report")
        last = await host.last_batch("laptop1")
        assert last is not None
        assert (last[0], last[1].last) == (1, 10)
        assert len(await host.batches("laptop1", 1, 0)) == 1
        assert (await host.facts())["evicts"] == "noeviction"
        assert 0 < (await host.fullness() or 0) < 1
    for role in ("publisher", "auditor", "operator"):
        async with opened(example, role) as reader:
            assert await reader.newest_version() == newest[0]
            assert await reader.versions(0) != []
            assert await reader.bundle(BUNDLE) == b"bundle"
            assert [(report.host, report.data) async for report in reader.reports()] == [("laptop1", b"report")]
            assert await reader.epochs("laptop1") == [1]
            assert [log async for log in reader.logs()] == [("laptop1", 1)]
            assert await reader.log_facts("laptop1", 1) == LogFacts(10, 1, 1)
            assert await reader.batches_before("laptop1", 1, 11) == [last[1]]
            assert await reader.notes("laptop1") == {}
            assert await reader.last_batch("laptop1") == last
            assert [batch.data for batch in await reader.batches("laptop1", 1, 0)] == [b"data"]
            facts = await reader.facts()
            assert (facts["evicts"], facts["appendonly"], facts["appendfsync"]) == ("noeviction", "yes", "unknown")


async def test_a_host_verifies_its_own_log(example: ExampleEngine) -> None:
    async with opened(example, HOST) as host:
        await host.report("laptop1", b"report")

        (verified,) = await verify_hosts(host, ["laptop1"])

    assert verified.host == "laptop1"
    assert verified.findings[0].what == "report"
    assert "whether it is enrolled cannot be read with the rights of a host" in verified.notes


async def test_a_host_sees_the_status_of_itself_alone(example: ExampleEngine) -> None:
    async with opened(example, HOST) as host:
        await host.report("laptop1", encode_report(HostReport(host="laptop1", health="ready")))

        with pytest.raises(EngineRefusedError):
            await look_at_hosts(host, fleet=FLEET)
        found = await look_at_hosts(host, fleet=FLEET, names=["laptop1"])

    assert [(one.host, one.health) for one in found.hosts] == [("laptop1", "ready")]
    assert not found.enrolments  # it must not say that nobody is


async def test_the_page_of_a_fleet_says_that_a_host_sees_itself_alone(example: ExampleEngine, tmp_path: Path) -> None:
    async with opened(example, HOST) as host:
        await host.report("laptop1", encode_report(HostReport(host="laptop1", health="ready")))
    config = tmp_path / "hooks.toml"
    config.write_text(
        f'[fleet]\nname = "{FLEET}"\nhost = "laptop1"\nurl = "{example.url(HOST)}"\nca = "{example.ca}"\n'
        f'password_file = "{example.folder}/{HOST}.password"\nkeys = ["{make_key().public.text}"]\n'
    )
    config.chmod(0o600)

    look = prepare_fleet_page(str(config))
    assert look is not None
    found, says = await look()

    assert found is not None, says
    assert [one.host for one in found.hosts] == ["laptop1"]
    assert "this machine sees itself alone" in says


async def test_a_trimmed_log_of_a_host_still_tells_it_how_far_it_was(example: ExampleEngine) -> None:
    async with opened(example, "host-laptop2") as host:
        await host.append("laptop2", 1, RecordBatch(1, 10, b"data"))
        assert example.command("host-laptop2", "XADD", key("log", "laptop2", "1"), "MAXLEN", 0, "11-0", "d", "") != b""

        assert await host.last_batch("laptop2") == (1, RecordBatch(11, 11, b""))


async def test_an_operator_trims_and_nobody_else_does(example: ExampleEngine) -> None:
    for user in ("host-laptop2", "publisher", "auditor"):
        async with opened(example, user) as other:
            with pytest.raises(EngineRefusedError, match=r"does not let .* HSET hooklatch:acme:trimmed:laptop2"):
                await other.trim("laptop2", 1, 11, b"forged")
    async with opened(example, "operator") as operator:
        assert await operator.trim("laptop2", 1, 11, b"note") == 0
        assert await operator.notes("laptop2") == {1: b"note"}
        with pytest.raises(EngineRefusedError, match="does not let"):
            await operator.append("laptop2", 1, RecordBatch(12, 12, b"forged"))
        with pytest.raises(EngineRefusedError, match="does not let"):
            await operator.commit(1 + await operator.newest_version(), b"forged")


async def test_users_that_the_server_cannot_keep_are_told(tmp_path: Path) -> None:
    """One that was taken away would be back after its next start."""
    users = tmp_path / "users.acl"
    users.touch()
    with redis_server({"aclfile": str(users)}) as server:
        users.unlink()
        (users / "in the way").mkdir(parents=True)
        async with open_engine(server.url, FLEET) as engine:
            with pytest.raises(EngineRefusedError, match="refuses ACL SAVE"):
                await engine.dismiss("laptop1")


async def test_who_signs_timestamps_does_nothing_else(example: ExampleEngine) -> None:
    async with opened(example, "timestamp") as timer:
        for attempt in (
            lambda: timer.commit(1, b"forged"),
            lambda: timer.put_key_set(9, b"forged"),
            lambda: timer.put_bundle("c" * 64, b"forged"),
            lambda: timer.bundle(BUNDLE),
            lambda: timer.report("laptop1", b"forged"),
            lambda: timer.epochs("laptop1"),
        ):
            with pytest.raises((EngineRefusedError, ConflictError), match=r"does not let|cannot be published"):
                await attempt()
    for user in (HOST, "auditor", "operator"):
        async with opened(example, user) as other:
            with pytest.raises(EngineRefusedError, match="does not let"):
                await other.put_timestamp(b"forged")
            with pytest.raises(EngineRefusedError, match="does not let"):
                await other.put_key_set(9, b"forged")


async def test_a_host_cannot_publish(example: ExampleEngine) -> None:
    async with opened(example, HOST) as host:
        with pytest.raises(EngineRefusedError, match=f"does not let its user '{HOST}' do XADD hooklatch:acme:policy"):
            await host.commit(1 + await host.newest_version(), b"forged")
        with pytest.raises(EngineRefusedError, match=r"does not let .* SETNX"):
            await host.put_bundle("c" * 64, b"forged")


@pytest.mark.parametrize("other", OTHERS)
async def test_a_host_cannot_read_or_touch_what_is_anothers(example: ExampleEngine, other: str) -> None:
    async with opened(example, HOST) as host:
        for attempt in (
            lambda: host.append(other, 1, RecordBatch(1, 10, b"forged")),
            lambda: host.report(other, b"forged"),
            lambda: host.last_batch(other),
            lambda: host.batches(other, 1, 0),
            lambda: host.epochs(other),
        ):
            with pytest.raises(EngineRefusedError, match=f"hooklatch:acme:(log|host):{other}"):
                await attempt()
        with pytest.raises(EngineRefusedError, match="SCAN"):
            _ = [report async for report in host.reports()]


async def test_a_publisher_writes_no_records_and_no_reports(example: ExampleEngine) -> None:
    async with opened(example, "publisher") as publisher:
        with pytest.raises(EngineRefusedError, match="does not let"):
            await publisher.append("laptop1", 2, RecordBatch(1, 10, b"forged"))
        with pytest.raises(EngineRefusedError, match="does not let"):
            await publisher.report("laptop1", b"forged")


async def test_an_auditor_writes_nothing(example: ExampleEngine) -> None:
    async with opened(example, "auditor") as auditor:
        newest = await auditor.newest_version()
        with pytest.raises(EngineRefusedError, match="does not let"):
            await auditor.commit(newest + 1, b"forged")
        with pytest.raises(EngineRefusedError, match="does not let"):
            await auditor.put_bundle("c" * 64, b"forged")
        with pytest.raises(EngineRefusedError, match="does not let"):
            await auditor.append("laptop1", 2, RecordBatch(1, 10, b"forged"))
        with pytest.raises(EngineRefusedError, match="does not let"):
            await auditor.report("laptop1", b"forged")


OWN = (key("log", "laptop1", "1"), key("host", "laptop1"), key("log", "laptop1", "epochs"))
SHARED = (key("policy"), key("bundle", BUNDLE))
DESTROYING = [
    "DEL {}", "UNLINK {}", "EXPIRE {} 1", "PEXPIREAT {} 1", "RENAME {} x", "COPY {} x", "MOVE {} 1", "RESTORE {} 0 x",
    "SET {} x", "GETDEL {}", "GETEX {} EX 1", "APPEND {} x", "SETRANGE {} 0 x", "XTRIM {} MAXLEN 0", "XDEL {} 1-0",
    "XSETID {} 9999-0", "XGROUP CREATE {} g 0", "SREM {} 1", "SPOP {}", "MIGRATE h 1 {} 0 1", "DUMP {}",
    "OBJECT FREQ {}", "SORT {} STORE x",
]  # fmt: skip
ADMINISTERING = [
    "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "SELECT 1", "KEYS *", "RANDOMKEY", "DBSIZE", "CONFIG GET *", "CONFIG REWRITE",
    "CONFIG SET dir /tmp", "ACL LIST", "ACL WHOAMI", "ACL SETUSER x", "ACL LOAD", "CLIENT LIST", "CLIENT NO-EVICT on",
    "CLIENT KILL TYPE normal", "CLIENT PAUSE 1000", "DEBUG SLEEP 0", "EVAL return 0", "EVALSHA x 0", "FCALL f 0",
    "FUNCTION LIST", "SCRIPT FLUSH", "MODULE LIST", "MONITOR", "SYNC", "PSYNC ? -1", "REPLICAOF NO ONE", "FAILOVER",
    "SAVE", "BGSAVE", "BGREWRITEAOF", "SHUTDOWN NOSAVE", "SLOWLOG GET", "LATENCY RESET", "MEMORY DOCTOR", "MULTI",
    "PUBLISH c m", "SUBSCRIBE c", "WAIT 0 0", "CLUSTER RESET",
]  # fmt: skip
REFUSED = [*ADMINISTERING, *(command.format(name) for command in DESTROYING for name in (*OWN, *SHARED))]


@table("user", [HOST, "publisher", "auditor", "operator"])
def test_no_role_can_destroy_or_administer(example: ExampleEngine, user: str) -> None:
    refusals = b"-NOPERM", b"-ERR DEBUG command not allowed"
    trims = [f"XTRIM {name} MAXLEN 0" for name in OWN] if user == "operator" else []
    let = [
        word
        for word in REFUSED
        if word not in trims and not example.command(user, *word.split(" ")).startswith(refusals)
    ]

    assert let == []


@table(
    "user, command",
    [
        (HOST, f"XADD {key('policy')} 999-0 d forged"),
        (HOST, "XADD hooklatch:other:log:laptop1:1 999-0 d forged"),
        (HOST, f"GET hooklatch:other:bundle:{BUNDLE}"),
        (HOST, f"XREAD STREAMS {key('policy')} {key('log', 'laptop2', '1')} 0 0"),
        (HOST, f"XADD {key('log', 'laptop1')} 1-0 d x"),
        (HOST, "SCAN 0"),
        (HOST, "INFO"),
        ("publisher", f"SETNX {key('policy')}2 x"),
        ("publisher", f"SET {key('bundle', BUNDLE)} x"),
        ("publisher", "XADD hooklatch:other:policy 1-0 d x"),
        ("auditor", "XRANGE hooklatch:other:policy - +"),
        ("operator", f"XTRIM {key('policy')} MAXLEN 0"),
        ("operator", f"HSET {key('policy')}2 a b"),
        ("operator", f"XADD {key('log', 'laptop1', '1')} 999-0 d x"),
        ("auditor", f"SADD {key('log', 'laptop1', 'epochs')} 7"),
    ],
)
def test_no_role_reaches_further_than_its_keys(example: ExampleEngine, user: str, command: str) -> None:
    assert example.command(user, *command.split(" ")).startswith(b"-NOPERM")


def test_nobody_comes_in_without_a_password(example: ExampleEngine) -> None:
    assert example.server.command("GET", "x").startswith(b"-NOAUTH")
    assert example.server.command("GET", "x", user="default", password="x").startswith(b"-WRONGPASS")
    assert example.server.command("GET", "x", user=HOST, password="").startswith(b"-WRONGPASS")


def test_the_file_of_users_does_not_load_before_it_is_filled_in() -> None:
    settings = {"aclfile": str(EXAMPLE / "users.acl")}
    with redis_server(settings, start=False) as server, pytest.raises(AssertionError, match="ACL errors"):
        server.start()


def test_a_host_that_is_added_comes_in_after_a_restart(example: ExampleEngine) -> None:
    users = example.folder / "etc" / "users.acl"
    [line] = [line for line in users.read_text().splitlines() if line.startswith("user host-laptop2 ")]
    users.write_text(f"{users.read_text()}{line.replace('laptop2', 'laptop3')}\n")

    example.server.restart()

    password = example.password("host-laptop2")
    answer = example.server.command(
        "XADD", key("host", "laptop3"), "*", "d", "x", user="host-laptop3", password=password
    )
    assert answer.startswith(b"$")
