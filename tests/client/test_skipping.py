"""The clients skip what nobody listens to, and nothing else."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import hooklatch
from hooklatch import connect_sync
from hooklatch.client.protocol.exchange import SkippedCounts
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.sync_connection import SyncLink
from support.daemons import Daemon
from support.scripted_daemon import Peer, ScriptedDaemon
from support.shared_daemon import daemon_in_thread


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Daemon]:
    files = {"hooks.toml": "", "guards.py": "def say(event):\n    return None\n"}
    with daemon_in_thread(tmp_path, files) as running:
        yield running


def hook(real: Daemon, event: str = "stop") -> dict[str, Any]:
    return {"id": "g", "event": event, "run": f"{real.folder}/guards.py:say"}


def is_skipped(decision: hooklatch.Decision) -> bool:
    return decision.decision_id.startswith("skipped-")


def test_what_nobody_listens_to_is_answered_without_the_daemon(real: Daemon) -> None:
    with connect_sync(real.agent, skip_idle=True) as s:
        one, two, gate = s.fire("stop"), s.fire("stop", finish_reason="done"), s.fire("pre_tool_use", tool_name="a")

    assert [is_skipped(one), is_skipped(two), is_skipped(gate)] == [True, True, False]
    assert (one.verdict, one.allowed, one.is_local, one.event) == ("pass", True, False, "stop")
    assert one.decision_id != two.decision_id


def test_a_session_that_does_not_ask_for_it_skips_nothing(real: Daemon) -> None:
    with connect_sync(real.agent) as s:
        assert not is_skipped(s.fire("stop"))


@pytest.mark.parametrize(
    "options",
    [
        {"envelope": {"cwd": "/"}}, {"plugins": []}, {"timeout": 1.0}, {"context": {"a": 1}}, {"call_id": "c" * 201},
        {"call_id": 1}, {"payload": {"text": "x" * 9_000_000}},
    ],
)  # fmt: skip
def test_what_may_be_refused_or_select_other_hooks_is_not_skipped(real: Daemon, options: dict[str, Any]) -> None:
    with connect_sync(real.agent, skip_idle=True) as s:
        assert not is_skipped(s.fire("stop", **options))


def test_a_skipped_fire_takes_no_payload_that_the_daemon_would_not(real: Daemon) -> None:
    with connect_sync(real.agent, skip_idle=True) as s:
        assert is_skipped(s.fire("stop", payload={"a": 1}, b=2, call_id="c"))
        with pytest.raises(hooklatch.InvalidPayloadError):
            s.fire("stop", number=float("nan"))
        with pytest.raises(ValueError, match="given twice"):
            s.fire("stop", payload={"a": 1}, a=2)


def test_who_does_not_wait_is_still_told_whether_the_daemon_took_it(real: Daemon) -> None:
    with connect_sync(real.agent, skip_idle=True) as s:
        assert s.fire("stop", wait=False).accepted
        assert s.status()["sessions"] == 1


def test_run_tool_skips_what_nobody_listens_to_and_fires_its_gate(real: Daemon) -> None:
    with connect_sync(real.agent, skip_idle=True) as s, connect_sync(real.admin) as admin:
        run = s.run_tool("Bash", {"command": "ls"}, lambda tool_input: "done", tool_use_id="t1")
        s.close()
        status = admin.status()

    assert (run.allowed, run.result) == (True, "done")
    assert status["skipped"] == {"post_tool_use": 1}
    assert status["verdicts"] == {"pass": 1}


def test_a_hook_of_another_client_is_called_once_it_is_registered(real: Daemon) -> None:
    with connect_sync(real.agent, skip_idle=True) as s, connect_sync(real.admin) as admin:
        before = s.fire("stop")
        registration = admin.register_all([hook(real)], scope="global")[0]
        during = s.fire("stop")
        registration.unregister()
        s.ping()
        after = s.fire("stop")

    assert [is_skipped(one) for one in (before, during, after)] == [True, False, True]
    assert [one.hook for one in during.outcomes] == ["g"]
    assert (after.revision or 0) > registration.revision


async def skip_and_register(real: Daemon) -> list[bool]:
    async with hooklatch.connect(real.agent, skip_idle=True) as s, hooklatch.connect(real.admin) as admin:
        before = await s.fire("stop")
        await admin.register_all([hook(real)], scope="global")
        return [is_skipped(before), is_skipped(await s.fire("stop"))]


def test_the_same_under_trio(real: Daemon) -> None:
    assert trio.run(skip_and_register, real) == [True, False]


def test_the_same_under_asyncio(real: Daemon) -> None:
    assert asyncio.run(skip_and_register(real)) == [True, False]


def test_the_daemon_knows_how_many_when_the_session_has_ended(real: Daemon) -> None:
    with connect_sync(real.admin) as admin:
        with connect_sync(real.agent, skip_idle=True) as s:
            for _ in range(100):
                s.fire("stop")
        status = admin.status()
        counts = {one["name"]: one["fired"] for one in admin.events()["events"]}

    assert status["skipped"] == {"stop": 100}
    assert counts["stop"] == 100


def test_asynchronous_sessions_report_at_their_end_too(real: Daemon) -> None:
    async def skip() -> None:
        async with hooklatch.connect(real.agent, skip_idle=True) as s:
            for _ in range(100):
                await s.fire("stop")

    trio.run(skip)
    asyncio.run(skip())
    with connect_sync(real.admin) as admin:
        assert admin.status()["skipped"] == {"stop": 200}


def test_who_only_skips_gives_other_tasks_a_turn(real: Daemon) -> None:
    async def skip() -> int:
        count = 0
        async with hooklatch.connect(real.agent, skip_idle=True) as s, trio.open_nursery() as nursery:
            other = trio.Event()
            nursery.start_soon(set_later, other)
            while not other.is_set():
                await s.fire("stop")
                count += 1
        return count

    async def set_later(event: trio.Event) -> None:
        event.set()

    assert trio.run(skip) <= 252


def test_listeners_hear_of_changes_and_not_of_permissions(real: Daemon) -> None:
    with connect_sync(real.agent, skip_idle=True) as s, connect_sync(real.admin) as admin:
        announcements = s.announcements()
        s.ensure_subscribed()
        admin.register_all([hook(real)], scope="global")

        first = next(announcements)

    assert (first.topic, first.added) == ("registry", ["g"])


def test_a_closed_session_skips_nothing(real: Daemon) -> None:
    with connect_sync(real.agent, skip_idle=True) as s:
        assert is_skipped(s.fire("stop"))

    with pytest.raises(hooklatch.SessionClosedError):
        s.fire("stop")


def test_nothing_is_skipped_by_the_word_of_a_connection_that_is_over(daemon: ScriptedDaemon, path: Path) -> None:
    is_to_end, is_over = threading.Event(), threading.Event()

    def permit_and_hang_up(peer: Peer) -> None:
        peer.welcome()
        request = peer.read()
        peer.say(method="announce", params={"topic": "idle", "revision": 1, "events": ["stop"]})
        peer.answer(request, {"revision": 1})
        is_to_end.wait()
        peer.__exit__()
        is_over.set()

    daemon.play(permit_and_hang_up)
    with connect_sync(path, skip_idle=True) as s:
        before = s.fire("stop")
        path.unlink()
        is_to_end.set()
        is_over.wait()
        after = s.fire("stop")

    assert (is_skipped(before), is_skipped(after), after.is_local) == (True, False, True)


class Probed(socket.socket):
    """A socket that has somebody look, right after something was read from it and before that was taken."""

    probe: Callable[[bytes], None] = staticmethod(lambda data: None)

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        data = super().recv(size, flags)
        self.probe(data)
        return data


def test_no_thread_skips_while_another_one_has_read_and_not_taken_what_forbids_it() -> None:
    decided: list[hooklatch.Decision | None] = []
    with ExitStack() as stack:
        ours, other = socket.socketpair(socket.AF_UNIX)
        stack.callback(ours.close)
        theirs = Probed(fileno=other.detach())
        theirs.setblocking(False)
        taken, looked = threading.Event(), threading.Event()
        permitted = b'{"jsonrpc":"2.0","method":"announce","params":{"topic":"idle","revision":1,"events":["stop"]}}\n'
        forbidden = b'{"jsonrpc":"2.0","method":"announce","params":{"topic":"idle","revision":2,"events":[]}}\n'
        told = b'{"jsonrpc":"2.0","method":"announce","params":{"topic":"registry","resync":1}}\n'
        link = SyncLink(
            theirs, Liveness(), serve=lambda call: "", announce=lambda one: taken.set(), skipped=SkippedCounts()
        )
        reader = threading.Thread(target=link.run)
        looker = threading.Thread(target=lambda: decided.append(link.skip("stop")))

        def look(data: bytes) -> None:
            if forbidden in data:
                looker.start()
                looker.join(0.1)  # it has to wait for us, so it does not end
                looked.set()

        theirs.probe = look
        reader.start()
        ours.send(permitted + told)
        taken.wait()
        allowed = link.skip("stop")
        ours.send(forbidden)
        looked.wait()
        ours.shutdown(socket.SHUT_RDWR)
        reader.join()
        looker.join()

    assert allowed is not None
    assert decided == [None]


def test_counts_are_reported_once() -> None:
    counts = SkippedCounts()
    numbers = [counts.add("stop"), counts.add("stop"), counts.add("metrics")]

    line = msgspec.json.decode(counts.take())

    assert numbers == [1, 2, 3]
    assert line == {"jsonrpc": "2.0", "method": "skipped", "params": {"events": {"stop": 2, "metrics": 1}}}
    assert (counts.take(), counts.add("stop")) == (b"", 4)


def test_the_end_of_a_connection_stands_in_the_socket_before_it_is_read() -> None:
    """What the barrier rests on: once shutdown or send has returned, the other end's poll says so."""
    from hooklatch.client.sockets import make_poll

    for act in (lambda one: one.send(b"x"), lambda one: one.shutdown(socket.SHUT_RDWR), lambda one: one.close()):
        ours, theirs = socket.socketpair(socket.AF_UNIX)
        poll = make_poll(theirs)
        with ours, theirs:
            assert not poll.poll(0)
            act(ours)
            assert poll.poll(0)
