"""Everything that can be wrong with a Redis: one error that says what to do, and never a secret."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from hooklatch.fleet.engine.engine import (
    POLICY,
    BehindError,
    Engine,
    EngineError,
    EngineRefusedError,
    RecordBatch,
    UnreachableError,
)
from hooklatch.fleet.engine.opening import open_engine
from support.certificates import DAY, Authority
from support.daemons import nothing_left
from support.engines import versions_after
from support.redis_server import RedisServer, free_port, redis_server
from support.repository import ROOT
from support.scripted_redis import CLOSES, answering, greeting
from support.strangers import bound_by_permissions
from support.tables import table

SECRET = "hunter2-and-more"
TWO_VERSIONS = ["XADD hooklatch:fleet:policy 1-0 d x", "XADD hooklatch:fleet:policy 2-0 d x"]
ERRORS = (EngineRefusedError, UnreachableError)


async def error_of(url: str, **settings: object) -> EngineError:
    """Return what opening an engine ends in."""
    with nothing_left(), pytest.raises(ERRORS) as raised:
        async with open_engine(url, "fleet", **{"timeout": 5.0, **settings}):  # type: ignore[arg-type]
            pass
    assert SECRET not in str(raised.value)
    return raised.value


# -- by the real server's answers --------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server() as one:
        yield one


async def commit(engine: Engine) -> None:
    await engine.commit(1 + await engine.newest_version(), b"manifest")


async def append(engine: Engine) -> None:
    await engine.append("host", 1, RecordBatch(1, 1, b"data"))


async def look(engine: Engine) -> None:
    await engine.versions(0)


@pytest.mark.parametrize(
    ("orders", "act", "kind", "says"),
    [
        (["CONFIG SET maxmemory 1"], append, EngineRefusedError, "its memory is full; raise maxmemory there"),
        (["CONFIG SET maxmemory 1"], commit, EngineRefusedError, "its memory is full"),
        (["CONFIG SET maxmemory-policy allkeys-lru"], commit, EngineRefusedError, "set maxmemory-policy noeviction "
                                                                                  "there"),
        (["CONFIG SET maxmemory-policy allkeys-random"], commit, EngineRefusedError, "set maxmemory-policy "
                                                                                     "noeviction there"),
        (["REPLICAOF 127.0.0.1 1"], append, EngineRefusedError,
        "is a replica, which takes no writes; name the primary"),
        (["CONFIG SET min-replicas-to-write 1"], append, EngineRefusedError, "takes no writes without its replicas"),
        (["SET hooklatch:fleet:policy x"], look, EngineRefusedError, "hooklatch:fleet:policy is not what this "
                                                                     "program keeps"),
        (["XADD hooklatch:fleet:policy 2-0 d x"], look, BehindError, "has no version 1 and has one after it"),
        (["XADD hooklatch:fleet:policy 1-1 d x"], look, BehindError, "has no version 1 and has one after it"),
        (["XADD hooklatch:fleet:policy 2-0 d x"], commit, BehindError, "has 1 versions of the policy, and had 2"),
        (
            [*TWO_VERSIONS, "XDEL hooklatch:fleet:policy 2-0"],
            commit, BehindError, "has 1 versions of the policy, and had 2",
        ),
        (
            [*TWO_VERSIONS, "XTRIM hooklatch:fleet:policy MAXLEN 1"],
            commit, BehindError, "has 1 versions of the policy, and had 2",
        ),
        (["ACL SETUSER default -xadd"], append, EngineRefusedError, "let its user 'default' do XADD "
                                                                    "hooklatch:fleet:log"),
        (["ACL SETUSER default -xread"], look, EngineRefusedError, "examples/fleet/users.acl has the rights"),
        (["ACL SETUSER default -info -config"], commit, None, ""),  # who may not look is not refused
    ],
)  # fmt: skip
async def test_what_the_server_refuses_says_what_to_do(
    server: RedisServer,
    orders: list[str],
    act: Callable[[Engine], Awaitable[None]],
    kind: type[EngineError] | None,
    says: str,
) -> None:
    async with open_engine(server.url, "fleet") as engine:
        await engine.last_batch("host")  # so that both connections are open
        for order in orders:
            assert not server.command(*order.split(" ")).startswith(b"-")
        if kind is None:
            await act(engine)
            return

        with pytest.raises(kind) as raised:
            await act(engine)

        assert says in str(raised.value)
        assert str(server.socket) in str(raised.value)


async def last_of(steps: AsyncIterator[object]) -> EngineError:
    """Return the error that ends the steps, one of which must end in one."""
    try:
        with trio.fail_after(20):
            async for _ in steps:
                pass
    except EngineError as error:
        return error
    raise AssertionError("no step was refused")


async def test_a_version_that_spoils_the_log_can_be_taken_back(server: RedisServer) -> None:
    """As docs/reference/fleet.md says it."""
    async with open_engine(server.url, "fleet") as engine:
        await commit(engine)
        server.command("XADD", "hooklatch:fleet:policy", "7-0", "d", "spoils")
        with pytest.raises(BehindError):
            await commit(engine)

        [script] = re.findall(r'redis-cli EVAL "([^"]*)"', (ROOT / "docs" / "reference" / "fleet.md").read_text())
        policy = "hooklatch:fleet:policy"
        assert not server.command("EVAL", script, 2, policy, f"{policy}-spoilt", "1-0").startswith(b"-")

        await commit(engine)
        assert [number for number, _ in await engine.versions(0)] == [1, 2]


async def test_a_server_that_cannot_save_takes_no_writes(server: RedisServer) -> None:
    async def appended(engine: Engine) -> AsyncIterator[int]:
        for number in range(1, 1_000_000):
            await engine.append("host", 1, RecordBatch(number, number, b""))
            yield number

    (server.folder / "dump.rdb").mkdir()  # so that it cannot be written
    server.command("CONFIG", "SET", "save", "3600 1")
    server.command("BGSAVE")
    async with open_engine(server.url, "fleet") as engine:
        error = await last_of(appended(engine))

    assert isinstance(error, EngineRefusedError)
    assert "takes no writes, since it cannot save to its disk; see its log, and free space there" in str(error)


async def test_a_server_that_runs_a_script_is_tried_again_later(server: RedisServer) -> None:
    async def asked(engine: Engine) -> AsyncIterator[int]:
        while True:
            yield await engine.newest_version()

    server.command("CONFIG", "SET", "busy-reply-threshold", "1")
    async with open_engine(server.url, "fleet") as engine, trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, partial(server.command, "EVAL", "while true do end", 0))
        error = await last_of(asked(engine))
        assert server.command("SCRIPT", "KILL") == b"+OK\r\n"

    assert isinstance(error, UnreachableError)
    assert "is busy with a script; wait, or stop it there with SCRIPT KILL" in str(error)


@pytest.mark.slow
async def test_a_server_that_is_still_loading_is_tried_again_later() -> None:
    """Slow: the server loads its data slowly."""
    with redis_server({"appendonly": "no"}) as server:
        async with open_engine(server.url, "fleet") as engine:
            for number in range(100):
                await engine.put_bundle(f"{number:064}", b"data" * 100)
        assert server.command("SAVE") == b"+OK\r\n"
        server.kill()
        server.settings |= {"key-load-delay": "5000", "loading-process-events-interval-bytes": "1024"}  # µs for a key
        server.start(ready=False)
        texts = set[str]()
        with trio.fail_after(20):
            while True:
                try:
                    async with open_engine(server.url, "fleet") as engine:
                        assert await engine.bundle(f"{99:064}") == b"data" * 100
                        break
                except UnreachableError as error:
                    texts.add(str(error).partition(" ")[2])

    assert any("is still loading its data" in text for text in texts), texts


async def test_who_waits_at_a_server_that_becomes_a_replica_is_told_when_he_writes(server: RedisServer) -> None:
    async with open_engine(server.url, "fleet") as engine:
        assert await versions_after(engine, 0, 0.01) == []
        assert server.command("REPLICAOF", "127.0.0.1", "1") == b"+OK\r\n"
        assert await versions_after(engine, 0, 0.01) == []  # nobody has said so yet

        with pytest.raises(EngineRefusedError, match="is a replica, which takes no writes"):
            await engine.report("host", b"")
        with pytest.raises(EngineRefusedError, match="is a replica, which may be behind"):
            await engine.report("host", b"")
        with pytest.raises(EngineRefusedError, match="is a replica, which may be behind"):
            await engine.wait({POLICY: 0}, 60)


async def test_a_server_with_too_many_clients_says_so(server: RedisServer) -> None:
    async with open_engine(server.url, "fleet"):
        server.command("CONFIG", "SET", "maxclients", "1")

        error = await error_of(server.url)

    assert isinstance(error, UnreachableError)
    assert "has as many clients as it takes; raise maxclients there" in str(error)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"requirepass": SECRET}, "wants a password for its user 'default'; name its file: password_file"),
        ({"cluster-enabled": "yes"}, "is in the mode 'cluster': name a single server instead"),
        ({"replicaof": "127.0.0.1 1"}, "is a replica, which may be behind and takes no writes; name the primary"),
    ],
)
async def test_a_server_that_will_not_do_is_refused_at_once(settings: dict[str, str], says: str) -> None:
    with redis_server(settings) as server:
        error = await error_of(server.url)

    assert isinstance(error, EngineRefusedError)
    assert says in str(error)


@pytest.mark.parametrize("user", ["", "nobody@", "off@"])
async def test_a_wrong_password_is_refused_and_not_shown(user: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with redis_server({"requirepass": "right", "user": "off off nopass ~* +@all"}) as server:
        error = await error_of(f"redis+unix://{user}{server.socket}", password=SECRET)

    assert isinstance(error, EngineRefusedError)
    name = user.removesuffix("@") or "default"
    assert f"does not know the user '{name}' with this password, or has disabled it" in str(error)
    assert SECRET not in caplog.text


async def test_a_password_that_was_not_given_is_not_called_a_wrong_one() -> None:
    with redis_server({"requirepass": "right", "user": "ann on >pass ~* +@all"}) as server:
        error = await error_of(f"redis+unix://ann@{server.socket}")

    assert isinstance(error, EngineRefusedError)
    assert "wants a password for its user 'ann'; name its file: password_file (--password-file" in str(error)


async def test_rights_that_are_taken_away_are_missed_at_once(server: RedisServer) -> None:
    server.command("ACL", "SETUSER", "host", "on", ">pass", "~*", "+@all")
    async with open_engine(server.url_as("host"), "fleet", password="pass") as engine:
        await commit(engine)
        server.command("ACL", "SETUSER", "host", "off", "resetpass")
        server.command("CLIENT", "KILL", "USER", "host")

        with pytest.raises(EngineError):
            await look(engine)
        with pytest.raises(EngineRefusedError, match="does not know the user 'host'"):
            await look(engine)


# -- on the way to the server ------------------------------------------------------------------------------------------


async def test_nobody_listening_is_told_apart_from_no_way_there(tmp_path: Path) -> None:
    port = free_port()
    socket = tmp_path / "redis.sock"

    refused = await error_of(f"redis://127.0.0.1:{port}")
    both = await error_of(f"redis://localhost:{port}")
    missing = await error_of(f"redis+unix://{socket}")
    unknown = await error_of("redis://no-such-host.invalid")

    assert (
        str(refused)
        == f"no server listens at redis://127.0.0.1:{port}; check that it runs, and that it listens on this address"
    )
    assert "no server listens" in str(both)
    assert (
        f"{socket} cannot be reached: No such file or directory; check that the server runs, and as which user"
        in str(missing)
    )
    assert "the host of redis://no-such-host.invalid is not found" in str(unknown)
    assert all(isinstance(error, UnreachableError) for error in (refused, both, missing, unknown))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop its right to open everything")
async def test_a_socket_that_is_not_ours_to_open_is_named(server: RedisServer) -> None:
    os.chmod(server.socket, 0)
    with bound_by_permissions():
        error = await error_of(server.url)

    assert "cannot be reached: Permission denied; check that the server runs, and as which user" in str(error)


@pytest.mark.parametrize(
    ("answers", "kind", "says"),
    [
        ([b"-ERR unknown command 'HELLO'\r\n"], EngineRefusedError, "it must be Redis 7.0 or later, or Valkey"),
        (
            [b"-NOPROTO unsupported protocol version\r\n"],
            EngineRefusedError,
            "it must be Redis 7.0 or later, or Valkey",
        ),
        ([greeting(b"6.2.14")], EngineRefusedError, "is Redis 6.2.14; it must be Redis 7.0 or later, or Valkey"),
        ([greeting(b"")], EngineRefusedError, "it must be Redis 7.0 or later, or Valkey"),
        ([b"-DENIED Redis is running in protected mode because ...\r\n"], EngineRefusedError, "is in protected mode"),
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], EngineRefusedError, "is not a Redis"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], EngineRefusedError, "is not a Redis"),
        ([b"*1\r\n$x\r\n"], EngineRefusedError, "is not a Redis"),
        ([b"-\xff\xfe\r\n"], EngineRefusedError, "is not a Redis"),
        ([b"+OK\r\n"], EngineRefusedError, "is not a Redis"),
        ([b"%1\r\n+a\r\n+b\r\n"], EngineRefusedError, "is not a Redis"),
        ([CLOSES], UnreachableError, "closed the connection before it was open"),
        ([b"-ERR max number of clients reached\r\n", CLOSES], UnreachableError, "as many clients as it takes"),
        ([b"-DENIED Redis is running in protected mode\r\n", CLOSES], EngineRefusedError, "is in protected mode"),
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n", CLOSES], EngineRefusedError, "is not a Redis"),
        ([b"%4\r\n$7\r\nver", CLOSES], UnreachableError, "closed the connection while it greeted"),
        ([b"%4\r\n$7\r\nver"], UnreachableError, "has sent nothing for 300 ms; check that it runs"),
        ([greeting(b"7.0.0"), CLOSES], UnreachableError, "lost"),
        ([greeting(b"7.0.0")], UnreachableError, "has not answered HELLO for 300 ms"),
        ([greeting(b"7.0.0"), b"$-1\r\n$-1\r\n"], EngineRefusedError, "is not a Redis: it answers HELLO with NoneType"),
        ([greeting(b"7.0.0"), b"%0\r\n*2\r\n$1\r\n1\r\n$1\r\n0\r\n"], EngineRefusedError, "is in the mode 'None'"),
        ([greeting(b"7.0.0"), b"%0\r\n*0\r\n"], EngineRefusedError, "is not a Redis: it answers TIME with list"),
    ],
)
async def test_what_is_no_redis_of_today_is_refused(
    tmp_path: Path, answers: list[bytes], kind: type[EngineError], says: str
) -> None:
    async with answering(tmp_path, *answers) as url:
        with pytest.raises(ERRORS) as raised:
            async with open_engine(url, "fleet", password=SECRET, timeout=0.3):
                pass

    assert says in str(raised.value)
    assert type(raised.value) is kind
    assert SECRET not in str(raised.value)


# -- through TLS -------------------------------------------------------------------------------------------------------


class Certified:
    """A server with TLS on a port of loopback, and the authority that has signed its certificate."""

    def __init__(self, server: RedisServer, authority: Authority) -> None:
        self.server = server
        self.port = server.port
        self.ca = str(authority.certificate)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def tls_settings(authority: Authority, name: str, *hosts: str, **more: object) -> dict[str, str]:
    certificate, key = authority.sign(name, *hosts, **more)  # type: ignore[arg-type]
    return {
        "tls-port": str(free_port()),
        "bind": "127.0.0.1",
        "tls-cert-file": str(certificate),
        "tls-key-file": str(key),
        "tls-ca-cert-file": str(authority.certificate),
        "tls-auth-clients": "no",
    }


@pytest.fixture(scope="module")
def certified(authority: Authority) -> Iterator[Certified]:
    with redis_server(tls_settings(authority, "good", "localhost", "127.0.0.1")) as server:
        yield Certified(server, authority)


@table("host", ["localhost", "127.0.0.1"])
def test_a_certificate_that_an_authority_of_ours_signed_is_believed(certified: Certified, host: str) -> None:
    async def use() -> None:
        async with open_engine(f"rediss://{host}:{certified.port}", "fleet", ca=certified.ca) as engine:
            assert await versions_after(engine, 0, 0.01) == []

    trio.run(use)


async def test_a_certificate_of_an_unknown_authority_is_not_believed(certified: Certified, tmp_path: Path) -> None:
    other = Authority(tmp_path)
    url = f"rediss://localhost:{certified.port}"
    for settings in ({}, {"ca": str(other.certificate)}):
        error = await error_of(url, password=SECRET, **settings)

        assert isinstance(error, EngineRefusedError)
        assert f"the certificate of {url} is not believed: " in str(error)
        assert "name the file of the authority that has signed it: [fleet] ca" in str(error)


@pytest.mark.parametrize(
    ("hosts", "ends", "says"),
    [
        (("localhost",), -1, "certificate has expired; renew it, or set this machine's clock"),
        (("engine.example.org",), 1, "name the server as its certificate does, or give it one for this name"),
    ],
)
async def test_a_certificate_that_is_over_or_anothers_is_not_believed(
    authority: Authority, hosts: tuple[str, ...], ends: int, says: str
) -> None:
    with redis_server(tls_settings(authority, f"bad{ends}", *hosts, ends=ends * DAY)) as server:
        error = await error_of(f"rediss://localhost:{server.port}", ca=str(authority.certificate))

    assert isinstance(error, EngineRefusedError)
    assert says in str(error)


async def test_tls_on_one_side_only_is_named(certified: Certified) -> None:
    with redis_server({"port": str(free_port()), "bind": "127.0.0.1"}) as plain:
        without = await error_of(f"rediss://localhost:{plain.port}", ca=certified.ca, timeout=0.5)
    against = await error_of(f"redis://localhost:{certified.port}")

    assert "check that it runs, and has TLS on this port" in str(without)  # Redis waits for the end of a line
    assert "if it wants TLS, write rediss://" in str(against)


async def test_a_server_that_wants_a_certificate_of_ours_is_named(authority: Authority) -> None:
    settings = tls_settings(authority, "mutual", "localhost") | {"tls-auth-clients": "yes"}
    with redis_server(settings) as server:
        error = await error_of(f"rediss://localhost:{server.port}", ca=str(authority.certificate))

    assert "set tls-auth-clients no there" in str(error)


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
async def test_a_file_of_authorities_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_bytes(content)

    error = await error_of("rediss://localhost", ca=str(file))

    assert isinstance(error, EngineRefusedError)
    assert f"the file of certificates '{file}' cannot be read" in str(error)
