"""When a host is stale, by trio's clock: denied then if so configured, and served again the moment there is contact."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from hooklatch.fleet.host.contact import ClockReading, EngineContact, FleetContact
from hooklatch.fleet.settings import FleetSettings
from hooklatch.service.config.state_file import StateFile
from support.fleets import PUBLIC

SETTINGS = FleetSettings("acme", "redis://engine", "h1", (PUBLIC,), max_staleness=100.0, when_stale="deny")


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

    @property
    def is_denied(self) -> bool:
        return bool(self.denials) and self.denials[-1] is not None


@asynccontextmanager
async def running(folder: Path, settings: FleetSettings | None = SETTINGS) -> AsyncGenerator[Host]:
    host = Host(folder)
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
    assert 'when_stale = "serve"' in text
    assert age is None
    assert host.notes == ["fleet: stale"]


async def test_contact_lasts_for_max_staleness_and_returns_at_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as host:
        await host.contact.record_contact()
        after_contact = host.is_denied
        await trio.sleep(99)
        before = (host.is_denied, host.contact.is_stale)
        await trio.sleep(2)
        after = (host.is_denied, host.contact.is_stale)
        await host.contact.record_contact()
        again = (host.is_denied, host.contact.is_stale)

    assert not after_contact
    assert (before, after, again) == ((False, False), (True, True), (False, False))
    assert host.notes == ["fleet: stale", "fleet: in contact"] * 2
    assert "was last in contact with its fleet 'acme' at 1970-01-12T13:46:40Z" in str(host.denials[2])


async def test_contact_keeps_it_fresh(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with running(tmp_path) as host:
        for _ in range(20):
            await host.contact.record_contact()
            await trio.sleep(60)

    assert [text is None for text in host.denials] == [False, True]


async def test_a_jump_of_the_wall_clock_changes_nothing(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with running(tmp_path) as host:
        await host.contact.record_contact()
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
        await host.contact.record_contact()
        await trio.sleep(101)
        said = host.contact.problem

    assert host.denials == []
    assert said is not None
    assert host.notes[-1] == "fleet: stale"


async def test_new_settings_hold_at_once(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with running(tmp_path) as host:
        await host.contact.record_contact()
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
        await host.contact.record_contact()
        await trio.sleep(10_000)

    assert (host.denials, host.notes, host.contact.is_stale) == ([], [], False)


async def test_a_restart_knows_the_contact_coarsely_and_never_as_newer(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path) as host:
        for _ in range(50):
            await host.contact.record_contact()
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
        await host.contact.record_contact()
        await trio.testing.wait_all_tasks_blocked()
        await host.state.store()
    again = Host(tmp_path)
    again.boot, again.wall = "b2", again.wall + wall

    again.contact.take(SETTINGS)
    await again.contact.apply_denial()

    assert again.is_denied is is_denied


async def test_another_fleets_contact_is_none(tmp_path: Path) -> None:
    async with running(tmp_path) as host:
        await host.contact.record_contact()
        await host.state.store()
    async with running(tmp_path, msgspec.structs.replace(SETTINGS, name="other")) as again:
        assert again.is_denied


async def test_who_left_the_fleet_and_comes_back_was_never_in_contact(tmp_path: Path) -> None:
    """What was in force is gone with the fleet: an old contact would have gates pass without any of its hooks."""
    async with running(tmp_path) as host:
        await host.contact.record_contact()
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
            await host.contact.record_contact()
        await trio.testing.wait_all_tasks_blocked()
        assert scope.cancelled_caught
        assert not host.is_denied


def test_what_is_kept_is_a_contact_of_the_past(tmp_path: Path) -> None:
    state = StateFile(str(tmp_path))
    state.state.contact = msgspec.to_builtins(EngineContact.of("acme", ClockReading(5.0, "b", 1.0)))

    again = msgspec.json.decode(msgspec.json.encode(state.state), type=type(state.state))

    assert again.contact == state.state.contact
