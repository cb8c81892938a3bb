"""When a host is stale, by trio's clock: denied then if so configured, and served again the moment there is contact."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from hooklatch.fleet.host.contact import ClockReading, FleetContact
from hooklatch.fleet.manifests import PolicyHead
from hooklatch.fleet.roles import LONGEST, RoleKeys, read_timestamp, sign_timestamp
from hooklatch.fleet.settings import FleetSettings
from hooklatch.fleet.signing import PrivateKey, Purpose, make_key
from hooklatch.service.config.state_file import StateFile
from support.fleets import PUBLIC

KEY = make_key()
HEAD = PolicyHead(7, "7" * 64)
SETTINGS = FleetSettings(
    name="acme", url="redis://engine", host="h1", keys=(PUBLIC,), max_staleness=100.0, when_stale="deny"
)


class State(StateFile):
    """Written without a thread: trio's clock would go on meanwhile."""

    async def store(self) -> None:
        self._write(msgspec.json.encode(self.state))


class Host:
    """A host's contact, its clocks, what was denied and what was recorded."""

    def __init__(self, folder: Path) -> None:
        self.state = State(str(folder))
        self.state.read()
        self.wall = 1_000_000.0
        self.boot = "b1"
        self.denials: list[str | None] = []
        self.notes: list[str] = []
        self.is_held = False
        self.contact = FleetContact(self.state, self._note, self._commit, lambda: None, self._now)

    def _now(self) -> ClockReading:
        return ClockReading(self.wall + trio.current_time(), self.boot, trio.current_time())

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
        self.notes.append(f"{kind}: {fields['action']}")

    async def _commit(self) -> None:
        await trio.lowlevel.checkpoint()
        self.denials.append(self.contact.denial)

    async def show(
        self,
        *,
        at: float | None = None,
        lasts: float = LONGEST,
        newest: PolicyHead = HEAD,
        key: PrivateKey = KEY,
        read: PolicyHead = HEAD,
        text: str | None = None,
    ) -> str:
        """Bring a timestamp of a version, as of now or of another time, to a host that has read one; return it."""
        at = self.wall + trio.current_time() if at is None else at
        text = text if text is not None else sign_timestamp("acme", newest, key, at=at, lasts=lasts).decode()
        await self.bring(text, read=read)
        return text

    async def bring(self, text: str | None, *, read: PolicyHead = HEAD) -> None:
        role = RoleKeys((KEY.public.text,))
        await self.contact.record_answer(text, role, head=read, is_current=True, is_end=True)

    @property
    def is_denied(self) -> bool:
        return bool(self.denials) and self.denials[-1] is not None


@asynccontextmanager
async def running(
    folder: Path, settings: FleetSettings | None = SETTINGS, *, boot: str = "b1", put_back: float = 0.0
) -> AsyncGenerator[Host]:
    host = Host(folder)
    host.boot, host.wall = boot, host.wall - put_back
    host.contact.take(settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(host.contact.run)
        await trio.testing.wait_all_tasks_blocked()
        yield host
        nursery.cancel_scope.cancel()


async def test_who_was_never_in_contact_is_denied_from_the_start(tmp_path: Path) -> None:
    async with running(tmp_path) as host:
        (text,) = host.denials
        age = host.contact.age

    assert text is not None
    assert "not in contact with its fleet 'acme', and never was" in text
    assert "make sure that `hooklatch link` runs" in text
    assert age is None
    assert host.notes == ["fleet: stale"]


async def test_contact_lasts_for_max_staleness_and_returns_at_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as host:
        await host.show()
        after_contact = host.is_denied
        await trio.sleep(99)
        before = (host.is_denied, host.contact.is_stale)
        await trio.sleep(2)
        after = (host.is_denied, host.contact.is_stale)
        await host.show()
        again = (host.is_denied, host.contact.is_stale)

    assert not after_contact
    assert (before, after, again) == ((False, False), (True, True), (False, False))
    assert host.notes == ["fleet: stale", "fleet: in contact"] * 2
    assert "was last in contact with its fleet 'acme' at 1970-01-12T13:46:40Z" in str(host.denials[2])


async def test_contact_keeps_it_fresh(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with running(tmp_path) as host:
        for _ in range(20):
            await host.show()
            await trio.sleep(60)

    assert [text is None for text in host.denials] == [False, True]


async def test_a_jump_of_the_wall_clock_changes_nothing(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with running(tmp_path) as host:
        await host.show()
        for jump in (10_000.0, -20_000.0):
            host.wall += jump
            await trio.sleep(40)
            assert not host.is_denied
        await trio.sleep(21)
        assert host.is_denied


async def test_where_stale_is_served_it_is_said_and_nothing_denied(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    settings = msgspec.structs.replace(SETTINGS, when_stale="serve")

    async with running(tmp_path, settings) as host:
        await host.show()
        await trio.sleep(101)
        said = host.contact.problem

    assert host.denials == []
    assert said is not None
    assert host.notes[-1] == "fleet: stale"


async def test_new_settings_hold_at_once(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with running(tmp_path) as host:
        await host.show()
        await trio.sleep(50)
        found = []
        for changes in ({"max_staleness": 49.0}, {"when_stale": "serve"}, {"when_stale": "deny"}, {"name": "other"}):
            host.contact.take(msgspec.structs.replace(SETTINGS, **changes))
            await trio.testing.wait_all_tasks_blocked()
            found.append(host.is_denied)
        host.contact.take(None)
        await trio.testing.wait_all_tasks_blocked()
        found.append(host.is_denied)

    assert found == [True, False, False, True, False]


async def test_without_a_fleet_nothing_is_stale(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with running(tmp_path, None) as host:
        await host.show()
        await trio.sleep(10_000)

    assert (host.denials, host.notes, host.contact.is_stale) == ([], [], False)


async def test_a_restart_knows_the_contact_coarsely_and_never_as_newer(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as host:
        for _ in range(50):
            await host.show()
            await trio.sleep(1)
        truth = host.contact.age
        stored = host.state.state.contact
    async with running(tmp_path) as again:
        age = again.contact.age

    assert truth is not None
    assert age is not None
    assert stored is not None
    assert truth <= age <= truth + 10 + 1
    assert again.denials == []


@pytest.mark.parametrize(("wall", "is_denied"), [(50.0, False), (150.0, True), (-3600.0, True)])
async def test_a_boot_leaves_the_wall_clock_to_tell(tmp_path: Path, wall: float, is_denied: bool) -> None:
    async with running(tmp_path) as host:
        await host.show()
        await trio.testing.wait_all_tasks_blocked()
        await host.state.store()
    again = Host(tmp_path)
    again.boot, again.wall = "b2", again.wall + wall

    again.contact.take(SETTINGS)
    await again.contact.apply_denial()

    assert again.is_denied is is_denied


async def test_another_fleets_contact_is_none(tmp_path: Path) -> None:
    async with running(tmp_path) as host:
        await host.show()
        await host.state.store()
    async with running(tmp_path, msgspec.structs.replace(SETTINGS, name="other")) as again:
        assert again.is_denied


async def test_who_left_the_fleet_and_comes_back_was_never_in_contact(tmp_path: Path) -> None:
    """What was in force is gone with the fleet: an old contact would have gates pass without any of its hooks."""
    async with running(tmp_path) as host:
        await host.show()
        await trio.testing.wait_all_tasks_blocked()  # it is kept for the next start
        host.contact.take(None)
        await trio.testing.wait_all_tasks_blocked()
        left_denied = host.is_denied
        host.contact.take(SETTINGS)
        await trio.testing.wait_all_tasks_blocked()
        back_denied, age = host.is_denied, host.contact.age
    async with running(tmp_path) as again:
        again_denied = again.is_denied

    assert (left_denied, back_denied, again_denied) == (False, True, True)
    assert age is None


async def test_who_says_so_and_leaves_at_once_is_believed(tmp_path: Path) -> None:
    """The link may be killed between its word and our answer."""
    async with running(tmp_path) as host:
        with trio.CancelScope() as scope:
            scope.cancel()
            await host.show()
        await trio.testing.wait_all_tasks_blocked()
        assert scope.cancelled_caught
        assert not host.is_denied


def test_a_timestamp_may_last_as_long_as_allowed_whenever_it_is_signed() -> None:
    """The publisher signs for the longest time: that a sum of numbers is rounded must not be one second more."""
    for moment in range(300):
        at = 1_000_000 + moment * 0.737083
        data = sign_timestamp("acme", HEAD, KEY, at=at, lasts=LONGEST)

        stamp = read_timestamp(data, "acme", RoleKeys((KEY.public.text,)), None, at)

        assert stamp.lasts == LONGEST


async def test_what_is_kept_is_a_contact_of_the_past(tmp_path: Path) -> None:
    async with running(tmp_path) as host:
        await host.show()
        state = host.state.state

    again = msgspec.json.decode(msgspec.json.encode(state), type=type(state))

    assert again.contact == state.contact is not None


# -- an engine that lies -----------------------------------------------------------------------------------------------
# Each is an attack of The Update Framework's list.  `when_stale` is "deny", and 100 s make a host stale.

OTHER_KEY = make_key()
AHEAD, FORKED, BEHIND = PolicyHead(8, "8" * 64), PolicyHead(7, "f" * 64), PolicyHead(6, "6" * 64)


async def test_an_engine_that_stands_still_is_no_contact(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Freeze: it answers each question, and what it shows was signed; it is the same one each time."""
    async with running(tmp_path) as host:
        text = await host.show()
        for _ in range(11):
            await trio.sleep(10)
            await host.show(text=text)
        denied, reason = host.is_denied, host.denials[-1]
        await host.show()
        assert not host.is_denied

    assert denied
    assert "its engine shows no newer timestamp, so nobody has signed that it has the newest version" in str(reason)
    assert "hooklatch fleet timestamp" in str(reason)


async def test_frozen_for_ten_years_by_who_has_the_timestamps_key(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Whoever signs for ten years is not believed at all, and by 8 days he must sign again."""
    settings = msgspec.structs.replace(SETTINGS, max_staleness=20 * 365 * 86400.0)
    async with running(tmp_path, settings) as host:
        await host.show(lasts=10 * 365 * 86400.0)
        never = (host.is_denied, host.contact.at, host.contact.fault)
        text = await host.show(lasts=LONGEST)
        begun = host.is_denied
        autojump_clock.jump(LONGEST + 1)  # at once, as a machine that slept: awake it would sync each minute of 8 days
        await host.show(text=text)
        ended = host.is_denied

    assert never[:2] == (True, None)
    assert "8 days at most" in str(never[2])
    assert (begun, ended) == (False, True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"at": 999_000.0}, "is older than that of"),  # rollback: an old one
        ({"newest": AHEAD, "at": 1_000_000.0}, "two different timestamps of"),  # one moment, two documents
        ({"at": 4_102_444_800.0}, "yet to come here"),  # fast-forward: of the year 2100
        ({"at": 1_000_000.0 + 400}, "yet to come here: check both clocks"),
        ({"key": OTHER_KEY}, "signed by 0 of the keys that may sign it here, and 1 must"),
        ({"lasts": 0.0}, "8 days at most"),
        ({"lasts": LONGEST + 1}, "8 days at most"),
        ({"newest": AHEAD}, "withholds versions: 8 was the newest at .* and it shows none after 7"),
        ({"newest": PolicyHead(2**52, "8" * 64)}, "withholds versions: 4503599627370496 was the newest"),
        ({"newest": FORKED}, "shows another version 7 than the one that was the newest"),
    ],
)
async def test_what_is_no_contact_and_is_named(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, change: dict[str, Any], why: str
) -> None:
    async with running(tmp_path) as host:
        await host.show()
        before = host.contact.at
        await trio.sleep(50)
        await host.show(**change)
        fault = host.contact.fault
        await trio.sleep(51)
        denied, reason = host.is_denied, host.denials[-1]
        await host.show()
        mended = (host.is_denied, host.contact.fault)

    assert re.search(why, str(fault))
    assert denied
    assert re.search(why, str(reason))
    assert host.contact.at != before
    assert mended == (False, None)
    assert "fleet: refused" in host.notes


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (b"", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"nested", "cannot be read"),
        (b"endless", "the most is 65536"),
        (b"twice", "not in the one form"),
        (b"spaced", "not in the one form"),
        (b"outside", "cannot be read"),
        (b"manifest", "signed by 0 of the keys"),
        (b"fleet", "of the fleet 'other'"),
        (b"key", "signed by 0 of the keys"),
    ],
)
async def test_bytes_that_are_no_timestamp(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, what: bytes, why: str
) -> None:
    async with running(tmp_path) as host:
        good = sign_timestamp("acme", HEAD, KEY, at=host.wall, lasts=LONGEST)
        match what:
            case b"twice":  # a name twice: other bytes, and the same signature
                data = good.replace(b'{"payload":', b'{"payload":"","payload":', 1)
            case b"nested":
                data = b"[" * 60_000
            case b"endless":
                data = good + b" " * 100 * 2**20
            case b"spaced":
                data = good.replace(b'{"payload":', b'{ "payload":', 1)
            case b"outside":
                data = good.replace(b'{"payload":', b'{"more":1,"payload":', 1)
            case b"manifest":  # signed as what it is not
                payload = msgspec.json.decode(good)["payload"]
                signature = KEY.sign(payload.encode(), Purpose.MANIFEST)
                data = msgspec.json.encode({"payload": payload, "signatures": {KEY.public.id: signature}})
            case b"fleet":
                data = sign_timestamp("other", HEAD, KEY, at=host.wall, lasts=LONGEST)
            case b"key":  # another's signature under the key's name
                payload = msgspec.json.decode(good)["payload"]
                signature = OTHER_KEY.sign(payload.encode(), Purpose.TIMESTAMP)
                data = msgspec.json.encode({"payload": payload, "signatures": {KEY.public.id: signature}})
            case _:
                data = what
        await host.bring(data.decode("utf-8", "surrogateescape"))
        assert host.is_denied
        assert why in str(host.contact.fault)


async def test_a_timestamp_of_an_older_version_is_no_contact(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """It comes so for a moment with each push; a signer that is shown an old engine goes on so."""
    async with running(tmp_path) as host:
        await host.show()
        await trio.sleep(90)
        await host.show(newest=BEHIND)
        await trio.sleep(11)
        assert host.is_denied
        assert host.contact.fault is None


async def test_an_engine_without_a_timestamp_is_said_and_denied_only_if_so_chosen(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as host:
        await host.bring(None)
        denied = str(host.denials[-1])
        host.contact.take(msgspec.structs.replace(SETTINGS, when_stale="serve"))
        await trio.testing.wait_all_tasks_blocked()
        assert not host.is_denied
        problem = host.contact.problem

    for text in (denied, str(problem)):
        assert "never was: its engine shows no newer timestamp" in text
        assert "hooklatch fleet timestamp" in text


@pytest.mark.parametrize("elapsed", [50.0, 150.0])
async def test_a_clock_put_back_makes_nothing_newer(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, elapsed: float
) -> None:
    """Within a boot the boot's clock counts, and a clock before what was signed is no clock."""
    async with running(tmp_path) as host:
        text = await host.show()
        await trio.sleep(elapsed)
        host.wall -= 26 * 3600
        await host.show(text=text)
        assert host.is_denied is (elapsed > 100)
        assert "this host's clock is at" in str(host.contact.fault)


async def test_no_old_timestamp_is_taken_after_a_restart(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Rollback: what was seen is on the disk before anything depends on it."""
    async with running(tmp_path) as host:
        old = await host.show()
        await trio.sleep(1)
        await host.show()
    async with running(tmp_path) as again:
        await again.show(text=old)
        assert "is older than that of" in str(again.contact.fault)


async def test_the_floor_of_the_clock_outlives_boots_but_for_the_time_switched_off(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A machine that runs for long, and whose clock is put back each time that it boots, is stale all the same."""
    settings = msgspec.structs.replace(SETTINGS, max_staleness=1000.0)
    async with running(tmp_path, settings) as host:
        text = await host.show()
        await trio.sleep(600)
    denied = []
    for boot in range(2, 5):
        async with running(tmp_path, settings, boot=f"b{boot}", put_back=trio.current_time()) as again:
            await again.show(text=text)
            denied.append(again.is_denied)
            await trio.sleep(300)
            denied.append(again.is_denied)

    assert denied[-3:] == [True, True, True]


async def test_a_clock_behind_what_was_signed_is_named_after_a_boot(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as host:
        text = await host.show()
    async with running(tmp_path, boot="b2", put_back=3600.0) as again:
        await again.show(text=text)
        assert again.is_denied
        assert "this host's clock is at" in str(again.denials[-1])
        again.wall += 3600.0
        await again.show(text=text)
        assert not again.is_denied


async def test_a_first_one_that_has_expired_opens_nothing_and_binds_all_the_same(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as host:
        await host.show(at=host.wall - 20, lasts=10)
        assert host.is_denied
        await host.show(at=host.wall - 30)
        assert "is older than that of" in str(host.contact.fault)
        assert host.is_denied


async def test_an_expired_one_is_stale_before_max_staleness(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as host:
        await host.show(lasts=10)
        begun = host.is_denied
        await trio.sleep(11)
        assert (begun, host.is_denied) == (False, True)


async def test_one_that_was_held_back_counts_from_when_it_was_issued(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as host:
        await host.show(at=host.wall - 90)
        begun = host.is_denied
        await trio.sleep(11)
        assert (begun, host.is_denied) == (False, True)
