"""How long a session lives, and who may join it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget
from hooklatch.core.hooks.snapshots import Snapshot
from hooklatch.core.protocol import RpcError
from hooklatch.service.registry.announcing import RegistryChange
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import LINGER, AgentSession, Sessions, SessionTerms, make_session_id
from hooklatch_worker.wire import Source

EMPTY = Snapshot(1, ())
TERMS = SessionTerms(
    dialect=None, host=None, emits=frozenset(), require_handlers=frozenset(), plugins_without_list=None
)


@asynccontextmanager
async def living() -> AsyncGenerator[Sessions]:
    sessions = Sessions(on_end=lambda session, live: None)
    async with trio.open_nursery() as nursery:
        await nursery.start(sessions.timers.run)
        yield sessions
        nursery.cancel_scope.cancel()


async def test_a_session_ends_a_minute_after_its_last_connection(autojump_clock: trio.testing.MockClock) -> None:
    async with living() as sessions:
        session = sessions.open("s", None, EMPTY, TERMS)
        session.connections.update((1, 2))
        sessions.lose_connection(session, 1)
        await trio.sleep(2 * LINGER)
        is_live_while_connected = sessions.get("s") is session
        sessions.lose_connection(session, 2)

        await trio.sleep(LINGER - 1)
        is_live_before = sessions.get("s") is session
        await trio.sleep(2)

        assert (is_live_while_connected, is_live_before, sessions.get("s")) == (True, True, None)


async def test_the_minute_begins_anew_when_a_session_was_resumed(autojump_clock: trio.testing.MockClock) -> None:
    async with living() as sessions:
        session = sessions.open("s", None, EMPTY, TERMS)
        session.connections.add(1)
        sessions.lose_connection(session, 1)
        await trio.sleep(LINGER / 2)
        session.connections.add(2)
        await trio.sleep(LINGER / 4)
        sessions.lose_connection(session, 2)

        await trio.sleep(LINGER - 1)
        is_live_before = sessions.get("s") is session
        await trio.sleep(2)

        assert (is_live_before, sessions.get("s")) == (True, None)


async def test_a_session_that_ended_does_not_end_its_successor_of_the_same_id(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with living() as sessions:
        first = sessions.open("s", None, EMPTY, TERMS)
        first.connections.add(1)
        sessions.lose_connection(first, 1)
        sessions.discard(first)
        second = sessions.open("s", None, EMPTY, TERMS)

        await trio.sleep(2 * LINGER)

        assert (second is not first, sessions.get("s") is second) == (True, True)


async def test_a_connection_may_end_after_the_sessions_have() -> None:
    async with living() as sessions:
        session = sessions.open("s", None, EMPTY, TERMS)

    sessions.lose_connection(session, 1)


def test_a_session_without_an_id_gets_one_nobody_can_guess() -> None:
    ids = {make_session_id() for _ in range(100)}

    assert len(ids) == 100
    assert all(len(one) > 16 for one in ids)


def test_no_term_of_a_session_has_a_default() -> None:
    given = msgspec.structs.asdict(TERMS)

    for name in given:
        with pytest.raises(TypeError, match=name):
            SessionTerms(**{key: value for key, value in given.items() if key != name})


def test_there_are_so_many_sessions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.service.registry.sessions.MAX_SESSIONS", 2)
    sessions = Sessions(on_end=lambda session, live: None)
    for name in ("a", "b"):
        sessions.open(name, None, EMPTY, TERMS)

    with pytest.raises(RpcError, match="2 sessions"):
        sessions.check("c", None)


# -- views -------------------------------------------------------------------------------------------------------


class Nobody:
    """No client asks which events it may skip."""

    def notify(self, session: AgentSession, snapshot: Snapshot, catalogue: Catalogue) -> bool:
        return False

    late = ()

    async def wait_delivered(self) -> None:
        pass


class Office:
    """Registries with sessions, and what they publish."""

    def __init__(self) -> None:
        self.sessions = Sessions(on_end=lambda session, live: None)
        self.published: list[tuple[AgentSession | None, RegistryChange]] = []
        self.is_heard = True
        self.registries = Registries(Catalogue.standard(), self.sessions, self.publish, Nobody(), switches={})

    def publish(self, viewer: AgentSession | None, said: RegistryChange) -> bool:
        self.published.append((viewer, said))
        return self.is_heard

    def reload(self, *new: Hook) -> None:
        self.registries.set_global(declared=[*new], catalogue=self.registries.catalogue, projects={}, personalities={})

    def open(self, name: str) -> AgentSession:
        session = self.sessions.open(name, None, self.registries.view, TERMS)
        self.registries.follow(session)
        return session

    def heard_by(self, viewer: AgentSession | None) -> list[RegistryChange]:
        return [said for one, said in self.published if one is viewer]


@pytest.fixture(autouse=True)
def plenty_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell all subscribers in one turn, also on a machine that pauses for longer than a turn may take."""
    monkeypatch.setattr("hooklatch.service.registry.announcing.SLICE", 60)


def gate(name: str, layer: Layer = Layer.SESSION, build: int = 1) -> Hook:
    target = PythonTarget(Source("file", "/h/guards.py"), build, "no")
    return Hook(id=name, event="pre_tool_use", layer=layer, matcher=compile_matcher(None), target=target)


async def test_each_viewers_announcements_are_a_chain_that_only_grows() -> None:
    office = Office()
    one, two, child = office.open("one"), office.open("two"), office.open("child")
    began = {viewer: office.registries.view_of(viewer).revision for viewer in (None, one, two, child)}
    office.registries.adopt(child, one)
    for round_ in range(5):
        office.registries.register_global([gate(f"g{round_}", Layer.GLOBAL)])
        office.registries.register_own(one, [gate(f"o{round_}")])
        office.registries.register_own(two, [gate("same")])
        office.registries.unregister_own(two, "same")
        office.registries.switch_own(one, f"o{round_}", enabled=False)
        office.registries.unregister_global(f"g{round_ - 1}")

    for viewer, first in began.items():
        chain = office.heard_by(viewer)
        assert [said.previous for said in chain] == [first, *(said.revision for said in chain[:-1])]
        assert all(said.previous < said.revision for said in chain)
        assert chain[-1].digest == office.registries.view_of(viewer).digest


async def test_a_change_of_nothing_is_not_announced() -> None:
    office = Office()
    session = office.open("s")
    office.registries.register_own(session, [gate("a")])
    said = len(office.published)

    office.registries.register_own(session, [gate("a")])
    office.registries.unregister_own(session, "b")
    office.registries.switch_own(session, "a", enabled=True)
    office.reload()

    assert len(office.published) == said


async def test_a_new_build_reaches_all_layers_in_one_revision_of_each_view() -> None:
    office = Office()
    parent, child = office.open("parent"), office.open("child")
    office.registries.register_own(parent, [gate("own")])
    office.registries.adopt(child, parent)
    office.sessions.discard(parent)
    office.registries.register_global([gate("api", Layer.GLOBAL)])
    said = len(office.heard_by(child))

    office.registries.retarget({"/h/guards.py": lambda hook: gate(hook.id, hook.layer, build=2)})
    office.reload(gate("file", Layer.GLOBAL, build=2))

    assert {hook.id: hook.target.build for hook in office.registries.view_of(child).hooks} == {
        "api": 2,
        "own": 2,
        "file": 2,
    }  # type: ignore[union-attr]
    assert [sorted(one.changed) for one in office.heard_by(child)[said:]] == [["api", "own"]]


async def test_a_change_holds_at_once_for_all_and_is_told_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.service.registry.announcing.SLICE", 0)
    office = Office()
    viewers = [office.open(f"s{number}") for number in range(5)]

    office.registries.register_global([gate("g", Layer.GLOBAL)])
    views = {office.registries.view_of(viewer) for viewer in viewers}
    told_at_once = len(office.published)
    monkeypatch.setattr("hooklatch.service.registry.announcing.SLICE", 1)
    await office.registries.announcer.wait_announced()

    assert views == {office.registries.view}
    assert told_at_once == 1  # who looks at the global layers alone
    assert [len(office.heard_by(viewer)) for viewer in viewers] == [1] * 5
    assert len({id(said) for _, said in office.published[1:]}) == 1  # so it is encoded once


async def test_who_joins_while_others_are_told_hears_only_what_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.service.registry.announcing.SLICE", 0)
    office = Office()
    session = office.open("s")
    office.registries.register_global([gate("g", Layer.GLOBAL)])

    began = office.registries.follow(session)

    (said,) = office.heard_by(session)
    assert said.revision == began.revision
    await office.registries.announcer.wait_announced()
    assert len(office.heard_by(session)) == 1


async def test_what_is_told_late_is_one_announcement_of_all_that_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office()
    session = office.open("s")
    began = office.registries.view_of(session).revision
    monkeypatch.setattr("hooklatch.service.registry.announcing.SLICE", 0)
    for name in ("g", "h"):
        office.registries.register_global([gate(name, Layer.GLOBAL)])
    monkeypatch.setattr("hooklatch.service.registry.announcing.SLICE", 1)

    await office.registries.announcer.wait_announced()

    (said,) = office.heard_by(session)
    assert (said.previous, said.added, said.digest) == (began, ["g", "h"], office.registries.view.digest)


async def test_who_unsubscribed_costs_nothing_any_more() -> None:
    office = Office()
    session = office.open("s")
    office.registries.register_global([gate("g", Layer.GLOBAL)])
    office.is_heard = False
    office.registries.register_global([gate("h", Layer.GLOBAL)])
    said = len(office.heard_by(session))

    office.registries.register_global([gate("i", Layer.GLOBAL)])

    assert len(office.heard_by(session)) == said


def test_a_session_that_has_ended_is_not_kept_for_what_it_was_told() -> None:
    office = Office()
    ended = weakref.ref(office.open("s"))

    office.sessions.discard(ended())  # type: ignore[arg-type]  (it is still there)
    gc.collect()

    assert ended() is None


async def test_naming_ever_other_plugins_keeps_only_so_many_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.service.registry.registries.MAX_SHARED", 3)
    office = Office()
    session = office.open("s")
    office.registries.register_global([plugins_gate(str(number)) for number in range(10)])
    before = count_of_snapshots()
    for number in range(10):
        session.plugins = frozenset([str(number)])
        office.registries.refresh(session)

    assert count_of_snapshots() - before <= 3
    assert [hook.id for hook in office.registries.view_of(session).hooks] == ["9"]


def count_of_snapshots() -> int:
    gc.collect()
    return sum(isinstance(one, Snapshot) for one in gc.get_objects())


def plugins_gate(name: str) -> Hook:
    return msgspec.structs.replace(gate(name, Layer.PLUGIN), plugin=name)
