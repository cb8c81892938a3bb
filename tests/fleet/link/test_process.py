"""link: a real process beside a real daemon and a real engine, and what it says when something is wrong.

Slow: each test has processes of its own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.fleet.batches import unpack_batch
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.manifests import PolicyHead, read_envelope
from hooklatch.fleet.reports import HostReport, read_report
from support.commands import CONFIG, GUARDS, Place, Started, new_place, serving
from support.link_parts import FLEET, HOST, Publisher
from support.redis_server import RedisServer, needs_redis
from support.survivors import nobody_survives

pytestmark = [pytest.mark.slow, needs_redis]
PATIENCE = 30.0
NO_PUSH = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def no_push(event):
    return deny("the fleet says no, {number}")
"""


def table(url: str, publisher: Publisher, more: str = "") -> str:
    keys = f'keys = ["{publisher.key.public.text}"]'
    return f'{CONFIG}\n[fleet]\nname = "{FLEET}"\nurl = "{url}"\nhost = "{HOST}"\n{keys}\nreconnect = "100ms"\n{more}\n'


@contextmanager
def placed(config: str) -> Iterator[Place]:
    with nobody_survives() as word, new_place({"hooks.toml": config, "guards.py": GUARDS}) as place:
        place.environment["HOOKLATCH_TEST_COOKIE"] = word
        yield place


@contextmanager
def linking(place: Place, *words: str) -> Iterator[Started]:
    """Run a link; it ends cleanly."""
    link = place.begin("link", *words)
    assert "runs (pid" in link.line()
    yield link
    code, err = stopped(link)
    assert code == 0, err


def stopped(link: Started) -> tuple[int, str]:
    """End a link as `systemctl stop` does; return its exit code and its log."""
    if link.process.returncode is None:
        link.signal(signal.SIGTERM)
        link.seen = link.end()[2]
    assert "Traceback" not in link.seen, link.seen
    return link.process.returncode, link.seen


async def push(url: str, publisher: Publisher, text: str) -> int:
    async with open_engine(url, FLEET) as engine:
        return await publisher.push(engine, text)


async def report_of(url: str) -> HostReport | None:
    async with open_engine(url, FLEET) as engine:
        found = [report async for report in engine.reports()]
    return read_report(found[0].data, HOST) if found else None


async def shipped_hashes(url: str, epoch: int = 1) -> list[str]:
    async with open_engine(url, FLEET) as engine:
        return [
            record.hash
            for batch in await engine.batches(HOST, epoch, 0, limit=10_000)
            for record in unpack_batch(batch.data, host=HOST, epoch=epoch, first=batch.first, last=batch.last)
        ]


def until(ask: Callable[[], Any]) -> Any:
    """Ask until the answer is true; give it."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := ask()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
    return answer


def until_reason(place: Place, text: str) -> None:
    until(lambda: text in place.fire_tool("Bash", command="rm x").stdout)


def local_entries(place: Place) -> list[dict[str, Any]]:
    done = place.run("log", "-n", "0", "--json")
    return [json.loads(line) for line in done.stdout.splitlines()]


def local_hashes(place: Place) -> list[str]:
    return [entry["hash"] for entry in local_entries(place)]


def test_a_guard_is_pushed_denies_and_its_decisions_arrive(redis: RedisServer) -> None:
    publisher = Publisher()
    with placed(table(redis.url, publisher)) as place, serving(place), linking(place):
        trio.run(push, redis.url, publisher, NO_PUSH.format(number=1))
        until_reason(place, "the fleet says no, 1")
        trio.run(push, redis.url, publisher, NO_PUSH.format(number=2))
        until_reason(place, "the fleet says no, 2")
        hashes = local_hashes(place)
        until(lambda: set(hashes) <= set(trio.run(shipped_hashes, redis.url)))
        report = until(lambda: (found := trio.run(report_of, redis.url)) and found.applied == 2 and found)

    assert report.health == "ready"
    assert report.problem is None


def test_a_link_signs_with_a_key_of_its_own_which_proves_an_enrolled_host(redis: RedisServer) -> None:
    with placed(table(redis.url, Publisher())) as place, serving(place), linking(place):
        place.fire_tool("Bash", command="rm x")
        hashes = local_hashes(place)
        until(lambda: set(hashes) <= set(trio.run(shipped_hashes, redis.url)))
        report = until(lambda: trio.run(report_of, redis.url))
        assert (place.folder / ".local/state/hooklatch/host.key").stat().st_mode & 0o777 == 0o600
        assert place.run("fleet", "enroll", HOST, "--host-key", report.key).returncode == 0

        (verified,) = place.json("fleet", "verify")["hosts"]

    assert verified["proven"], verified


def test_a_host_that_cannot_sign_says_so_in_its_report(redis: RedisServer) -> None:
    with placed(table(redis.url, Publisher())) as place, serving(place):
        (place.folder / ".local/state/hooklatch/host.key").write_text("torn")
        with linking(place):
            report = until(lambda: trio.run(report_of, redis.url))

    assert "what this host reports and ships is not signed" in report.findings[0]


def test_kills_at_any_moment_lose_and_double_nothing(redis: RedisServer) -> None:
    publisher = Publisher()
    with placed(table(redis.url, publisher)) as place, serving(place):
        for number in range(1, 4):
            link = place.begin("link", "--log-level", "error")
            link.line()
            trio.run(push, redis.url, publisher, NO_PUSH.format(number=number))
            for _ in range(3):
                place.fire_tool("Bash", command="rm x")
            if number % 2:
                until_reason(place, f"no, {number}")
            link.signal(signal.SIGKILL)
            link.end()
        with linking(place):
            until_reason(place, "no, 3")
            hashes = local_hashes(place)
            until(lambda: set(hashes) <= set(trio.run(shipped_hashes, redis.url)))
            shipped = trio.run(shipped_hashes, redis.url)

    assert shipped[: len(hashes)] == hashes
    assert len(set(shipped)) == len(shipped)


def test_a_daemon_and_an_engine_that_come_and_go(redis: RedisServer) -> None:
    publisher = Publisher()
    with placed(table(redis.url, publisher)) as place:
        redis.kill()
        with linking(place):  # with neither
            with serving(place):
                assert "no policy of the fleet" in place.fire_tool("Bash", command="rm x").stdout
                redis.start()
                trio.run(push, redis.url, publisher, NO_PUSH.format(number=1))
                until_reason(place, "no, 1")
            trio.run(push, redis.url, publisher, NO_PUSH.format(number=2))
            with serving(place) as daemon:  # with a new token
                until_reason(place, "no, 2")
                daemon.process.kill()
                daemon.process.wait()
            redis.restart()
            trio.run(push, redis.url, publisher, NO_PUSH.format(number=3))
            with serving(place):
                until_reason(place, "no, 3")
                hashes = local_hashes(place)
                until(lambda: set(hashes) <= set(trio.run(shipped_hashes, redis.url)))
    assert place


def test_it_tells_a_service_manager_and_feeds_the_watchdog(redis: RedisServer) -> None:
    with placed(table(redis.url, Publisher())) as place, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        address = str(place.folder / "notify")
        told.bind(address)
        told.settimeout(PATIENCE)
        place.environment |= {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"}
        with linking(place):
            words = [told.recv(4096).decode() for _ in range(4)]
        while "STOPPING=1" not in (last := told.recv(4096).decode()):
            continue

    assert any("READY=1" in one and HOST in one for one in words)
    assert any("WATCHDOG=1" in one for one in words)
    assert last


def test_a_change_of_the_table_takes_effect_and_without_it_nothing_leaves(redis: RedisServer) -> None:
    publisher = Publisher()
    with placed(table(redis.url, publisher, 'fields = ["verdict"]')) as place, serving(place), linking(place) as link:
        place.fire_tool("Bash", command="rm x")
        until(lambda: trio.run(shipped_hashes, redis.url))
        place.config.write_text(CONFIG)
        link.signal(signal.SIGHUP)
        link.wait_for("is gone from")
        before = trio.run(shipped_hashes, redis.url)
        place.fire_tool("Bash", command="rm x")
        place.config.write_text(table(redis.url, publisher))
        link.signal(signal.SIGHUP)
        until(lambda: len(trio.run(shipped_hashes, redis.url)) > len(before))


@pytest.mark.parametrize("order", ["link first", "daemon first"])
def test_a_host_that_leaves_ships_its_last_record_and_says_so_whatever_the_order(
    redis: RedisServer, order: str
) -> None:
    publisher = Publisher()
    with placed(table(redis.url, publisher)) as place, serving(place), linking(place) as link:
        trio.run(push, redis.url, publisher, NO_PUSH.format(number=1))
        until_reason(place, "the fleet says no, 1")
        place.config.write_text(CONFIG)
        if order == "link first":
            link.signal(signal.SIGHUP)
            link.wait_for("is gone from")
            assert "the fleet says no, 1" in place.fire_tool("Bash", command="rm x").stdout
        assert place.run("reload").returncode == 0
        if order == "daemon first":
            link.signal(signal.SIGHUP)
        link.wait_for("the last report is sent")
        report = trio.run(report_of, redis.url)
        shipped = trio.run(shipped_hashes, redis.url)
        place.fire_tool("Bash", command="rm x")

        (left,) = [one for one in local_entries(place) if one.get("action") == "left"]
        assert left["hash"] in shipped
        assert report is not None
        assert (report.health, report.problem, report.unshipped) == ("left", None, 0)
        assert report.shipped >= left["seq"]
        assert trio.run(shipped_hashes, redis.url) == shipped


def test_what_no_further_attempt_mends_is_one_clear_error(tmp_path: Path) -> None:
    publisher = Publisher()
    errors: dict[str, tuple[int, str]] = {
        CONFIG: (66, "has no [fleet] table"),
        "[fleet\n": (65, "hooks.toml"),
        table("kafka://engine:1", publisher): (65, "there is no engine 'kafka'"),
        table("redis://engine:1", publisher, 'password_file = "absent"'): (66, "password file"),
        table("redis://u:secret@engine:1", publisher): (65, "password"),
    }
    for config, (code, text) in errors.items():
        with placed(config) as place:
            done = place.run("link")
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert text in done.stderr
        assert "secret" not in done.stderr
        assert len(done.stderr.splitlines()) == 1
    with placed(CONFIG) as place:
        place.config.unlink()
        assert place.run("link").returncode == 66
    with placed(table("redis://engine:1", publisher)) as place:
        place.config.chmod(0o666)
        assert place.run("link").returncode == 77


def test_a_second_link_is_one_too_many(redis: RedisServer) -> None:
    with placed(table(redis.url, Publisher())) as place, linking(place) as link:
        second = place.run("link")

    assert second.returncode == 69
    assert f"pid {link.pid}" in second.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_also_with_nothing_there(number: signal.Signals) -> None:
    with placed(table("redis://127.0.0.1:1", Publisher())) as place:
        link = place.begin("link")
        link.line()
        link.signal(number)
        code, out, err = link.end()

    assert (code, out) == (0, ""), err


def test_it_says_once_what_is_wrong_and_opens_no_more_and_more(redis: RedisServer) -> None:
    with placed(table(redis.url, Publisher())) as place, linking(place) as link:
        redis.kill()
        counts = [len(os.listdir(f"/proc/{link.pid}/fd"))]
        for _ in range(3):
            redis.start()
            until(lambda: trio.run(report_of, redis.url))
            redis.kill()
            counts.append(len(os.listdir(f"/proc/{link.pid}/fd")))
        _, err = stopped(link)

    assert max(counts) <= min(counts) + 4
    assert err.count("no daemon takes a link") == 1


def test_an_engine_that_stands_still_closes_a_host_that_is_to_deny_and_the_next_timestamp_opens_it(
    redis: RedisServer,
) -> None:
    """It answers each question all the while: without a signed moment that was contact for ever."""
    publisher = Publisher()
    config = table(redis.url, publisher, 'when_stale = "deny"\nmax_staleness = "2s"')
    with placed(config) as place, serving(place), linking(place):

        def verdict() -> str:
            return place.fire_tool("Read", file_path="x").stdout

        trio.run(push, redis.url, publisher, NO_PUSH.format(number=1))
        until(lambda: "in contact" not in verdict())
        until(lambda: "its engine shows no newer timestamp" in verdict())
        report = until(lambda: (found := trio.run(report_of, redis.url)) and (found.stale_s or 0) > 2 and found)
        trio.run(stamp, redis.url, publisher)
        until(lambda: "in contact" not in verdict())

    assert (report.applied, report.health) == (1, "red")


async def stamp(url: str, publisher: Publisher) -> None:
    """Sign that the version that the engine has is the newest."""
    async with open_engine(url, FLEET) as engine:
        (number, data), *_ = reversed(await engine.versions(0))
        await engine.put_timestamp(publisher.timestamp(PolicyHead(number, read_envelope(data).digest)))
