"""Pools with real workers: readiness, recycling, order in the queue, and the moments at which two things happen."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.core.messages import CallOutcome
from hooklatch.processes.pool import Pool
from hooklatch.processes.worker import SourceLoadError
from hooklatch.processes.zygote import open_zygote
from hooklatch_worker import wire
from support.calls import LoneFire, call_of
from support.daemons import callbacks, nothing_left
from support.pools import Workers, is_busy, running_pool, until
from support.survivors import nobody_survives

WORKADAY = callbacks("workaday.py")

pytestmark = pytest.mark.slow  # each test starts a zygote: 0.15 s and more


class Calls:
    """Calls under way, and their replies in the order in which they came."""

    def __init__(self, workers: Workers, nursery: trio.Nursery) -> None:
        self._workers = workers
        self._nursery = nursery
        self.replies: list[tuple[str, CallOutcome]] = []

    def start(self, name: str, function: str = "wait", **options: Any) -> trio.CancelScope:
        scope = trio.CancelScope()

        async def call() -> None:
            with scope:
                self.replies.append((name, await self._workers.call(function, **options)))

        self._nursery.start_soon(call)
        return scope

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.replies]


async def test_a_spare_is_ready_when_a_worker_crashes(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=3) as workers:
        async with trio.open_nursery() as nursery:
            Calls(workers, nursery).start("first")
            await until(lambda: workers.began and workers.pool.status()["idle"] == 1)
            ready = set(workers.pool.status()["pids"])
            os.kill(workers.began[0], signal.SIGKILL)
        answered_by = await workers.said("pid")

        assert answered_by in ready


async def test_a_worker_is_used_again(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY) as workers:
        pids = {await workers.said("pid") for _ in range(5)}

    assert len(pids) == 1


async def test_a_worker_has_no_module_that_only_some_sources_use_until_one_does(tmp_path: Path) -> None:
    text = f"""{WORKADAY}
def loaded(event):
    return tell(sorted({{"typing_extensions", "inspect", "ast"}} & set(sys.modules)))

def use(event):
    import typing_extensions
    return tell(typing_extensions.__name__)
"""
    async with running_pool(tmp_path, text, is_fresh=True) as workers:
        assert await workers.said("loaded") == []
        assert await workers.said("use") == "typing_extensions"


async def test_a_worker_is_recycled_after_its_calls(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, calls=3) as workers:
        pids = [await workers.said("pid") for _ in range(12)]
        status = workers.pool.status()

    assert len(set(pids)) >= 3
    assert status["recycled"] >= 2
    assert status["lost"] == 0


async def test_a_worker_is_recycled_for_its_age(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, age=0.0) as workers:
        pids = [await workers.said("pid") for _ in range(4)]

    assert len(set(pids)) == 4


async def test_an_idle_worker_over_its_memory_is_recycled_and_no_call_meets_it(tmp_path: Path) -> None:
    """Slow: idle workers that have threads are measured every 0.5 s."""
    async with running_pool(tmp_path, WORKADAY, is_watched=True, resident_bytes=100 * 2**20) as workers:
        fat = await workers.said("grow_later", mib=150)
        await until(lambda: workers.pool.status()["recycled"])

        assert fat not in workers.pool.status()["pids"]
        assert await workers.said("pid") != fat


async def test_a_busy_worker_over_its_memory_is_a_crash_that_says_so(tmp_path: Path) -> None:
    text = WORKADAY + "\n\ndef swell(event):\n    grow(event)\n    time.sleep(60)\n"
    async with running_pool(tmp_path, text, is_watched=True, resident_bytes=100 * 2**20) as workers:
        reply = await workers.call("swell", mib=150)

    assert (reply.cause, reply.is_lost) == ("crash", True)
    assert "over the limit of 100 MiB" in reply.message


async def test_notifications_never_take_the_last_worker(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=3) as workers, trio.open_nursery() as nursery:
        calls = Calls(workers, nursery)
        for _ in range(5):
            calls.start("notification", is_gate=False)
        await until(lambda: len(workers.began) == 2 and workers.pool.status()["idle"] == 1)

        answered_by = await workers.said("pid")

        assert answered_by not in workers.began
        assert workers.pool.status()["waiting"] == 3
        workers.let_go()


async def test_gates_go_before_notifications_that_waited_longer(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=2) as workers:
        async with trio.open_nursery() as nursery:
            calls = Calls(workers, nursery)
            calls.start("running", go=str(tmp_path / "go first"))
            calls.start("running")
            await until(lambda: len(workers.began) == 2)
            calls.start("notification", "pid", is_gate=False)
            await until(lambda: workers.pool.status()["waiting"] == 1)
            calls.start("gate", "pid")
            await until(lambda: workers.pool.status()["waiting"] == 2)
            (tmp_path / "go first").touch()
            await until(lambda: len(calls.names) == 3)
            workers.let_go()

        assert calls.names == ["running", "gate", "notification", "running"]


async def test_a_full_queue_is_overload_and_notifications_do_not_fill_it_for_gates(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=2, queue=2) as workers, trio.open_nursery() as nursery:
        calls = Calls(workers, nursery)
        calls.start("running")
        calls.start("running")
        await until(lambda: len(workers.began) == 2)
        for _ in range(2):
            calls.start("notification", is_gate=False)
        await until(lambda: workers.pool.status()["waiting"] == 2)
        notification = await workers.call("pid", is_gate=False)
        for _ in range(2):
            calls.start("gate")
        await until(lambda: workers.pool.status()["waiting"] == 4)
        gate = await workers.call("pid")
        workers.let_go()

    assert (notification.cause, gate.cause) == ("overload", "overload")
    assert {reply.cause for _, reply in calls.replies} == {"policy"}


async def test_a_session_that_fills_the_queue_makes_room_for_another(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=2, queue=3) as workers, trio.open_nursery() as nursery:
        calls = Calls(workers, nursery)
        for _ in range(2):
            calls.start("runs", queue_key="flood")
        await until(lambda: len(workers.began) == 2)
        for number, name in enumerate(("waits first", "waits second", "waits third")):
            calls.start(name, queue_key="flood")
            await until(lambda number=number: workers.pool.status()["waiting"] == number + 1)  # type: ignore[misc]
        calls.start("other", queue_key="other")
        await until(lambda: calls.names)
        refused = [*calls.names], calls.replies[0][1]
        workers.let_go()

    assert refused[0] == ["waits third"]
    assert (refused[1].cause, refused[1].message) == (
        "overload", "3 calls wait for a worker of its source already, 2 of its own session",
    )  # fmt: skip
    assert {reply.cause for name, reply in calls.replies if name != "waits third"} == {"policy"}


async def test_the_last_worker_is_kept_for_a_session_that_has_none(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=3) as workers, trio.open_nursery() as nursery:
        await workers.call("pid", queue_key="other")
        calls = Calls(workers, nursery)
        for _ in range(5):
            calls.start("call", queue_key="flood")
        await until(lambda: len(workers.began) == 2 and workers.pool.status()["idle"] == 1)

        for _ in range(3):
            reply = await workers.call("pid", queue_key="other")
            assert reply.cause == "policy"
        assert (len(workers.began), workers.pool.status()["waiting"]) == (2, 3)
        workers.let_go()


async def test_a_session_that_is_alone_has_every_worker(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=3) as workers, trio.open_nursery() as nursery:
        calls = Calls(workers, nursery)
        for _ in range(5):
            calls.start("call", queue_key="alone")

        await until(lambda: len(workers.began) == 3)
        workers.let_go()


async def test_sessions_take_turns_whatever_each_of_them_offers(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=2) as workers, trio.open_nursery() as nursery:
        calls = Calls(workers, nursery)
        calls.start("held", queue_key="flood", go=str(tmp_path / "never"), timeout=2.0)
        await until(lambda: len(workers.began) == 1)
        calls.start("first", queue_key="flood")
        await until(lambda: len(workers.began) == 2)
        for _ in range(20):
            calls.start("flood", "pid", queue_key="flood")
        await until(lambda: workers.pool.status()["waiting"] == 20)
        for name in "abc":
            for _ in range(2):
                calls.start(name, "pid", queue_key=name)
        await until(lambda: workers.pool.status()["waiting"] == 26)
        workers.let_go()

    order = [name for name in calls.names if name not in ("held", "first")]
    assert order.count("flood") == 20
    assert set(order[:12]) >= {"a", "b", "c"}
    assert all(order[:16].count(name) == 2 for name in "abc")


async def test_a_call_whose_turn_cannot_come_in_time_is_refused_at_once(tmp_path: Path) -> None:
    """Slow: the pool learns from 64 calls how long one takes."""
    text = WORKADAY + "\n\ndef nap(event):\n    time.sleep(0.02)\n"
    async with running_pool(tmp_path, text, workers=2) as workers, trio.open_nursery() as nursery:
        for _ in range(32):
            async with trio.open_nursery() as pair:
                pair.start_soon(workers.call, "nap")
                pair.start_soon(workers.call, "nap")
        calls = Calls(workers, nursery)
        for _ in range(202):
            calls.start("call", timeout=60.0)
        await until(lambda: workers.pool.status()["waiting"] == 200)

        hopeless = await workers.call("pid", timeout=0.5)
        waiting = workers.pool.status()["waiting"]
        workers.let_go()

    assert hopeless.cause == "overload"
    assert "past its deadline" in hopeless.message
    assert waiting == 200
    assert {reply.cause for _, reply in calls.replies} == {"policy"}


async def test_a_callback_is_not_blamed_for_time_that_its_call_spent_waiting(tmp_path: Path) -> None:
    """Slow: a call waits for most of its second, and runs for the rest."""
    async with running_pool(tmp_path, WORKADAY, workers=2) as workers, trio.open_nursery() as nursery:
        calls = Calls(workers, nursery)
        calls.start("first")
        calls.start("second")
        await until(lambda: len(workers.began) == 2)
        started = trio.current_time()
        calls.start("late", go=str(tmp_path / "never"), timeout=1.0)
        await until(lambda: trio.current_time() > started + 0.7)
        workers.let_go()
        await until(lambda: "late" in calls.names)
        blamed = await workers.call("wait", go=str(tmp_path / "never"), timeout=0.1)

    late = dict(calls.replies)["late"]
    assert (late.cause, late.is_lost, late.is_orphaned) == ("timeout", True, True)
    assert (blamed.cause, blamed.is_lost, blamed.is_orphaned) == ("timeout", True, False)


async def test_there_are_never_more_workers_than_allowed(tmp_path: Path) -> None:
    most = 0
    async with running_pool(tmp_path, WORKADAY, workers=3) as workers:
        async with trio.open_nursery() as nursery:
            calls = Calls(workers, nursery)
            for number in range(30):
                calls.start("call", "die" if number % 5 == 0 else "pid", is_gate=number % 3 != 0)
            while len(calls.replies) < 30:
                status = workers.pool.status()
                most = max(most, status["idle"] + status["busy"] + status["starting"])
                await trio.lowlevel.checkpoint()
        await until(lambda: not workers.pool.status()["condemned"])
        status = workers.pool.status()

    assert most <= 3
    assert status["lost"] == 6
    assert status["busy"] == status["waiting"] == 0


async def test_a_worker_that_died_between_two_calls_costs_the_next_one_nothing(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY) as workers:
        for _ in range(20):
            dead = await workers.said("pid")
            os.kill(dead, signal.SIGKILL)
            while not is_gone(dead):  # no checkpoint: the pool cannot have heard of it
                pass

            assert await workers.said("pid") != dead


def is_gone(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


async def test_a_call_cancelled_while_it_waits_gives_its_worker_to_the_next(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=2) as workers:
        async with trio.open_nursery() as nursery:
            calls = Calls(workers, nursery)
            calls.start("running")
            calls.start("running")
            await until(lambda: len(workers.began) == 2)
            waiting = calls.start("cancelled", "pid")
            await until(lambda: workers.pool.status()["waiting"] == 1)
            calls.start("next", "pid")
            await until(lambda: workers.pool.status()["waiting"] == 2)
            waiting.cancel()
            workers.let_go()

        assert calls.names.count("next") == 1
        assert "cancelled" not in calls.names
        assert workers.pool.status()["busy"] == 0


async def test_a_waiter_cancelled_at_the_moment_it_is_served_loses_no_worker(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=2) as workers:
        for _ in range(50):
            async with trio.open_nursery() as nursery:
                calls = Calls(workers, nursery)
                scopes = [calls.start("call", "pid") for _ in range(6)]
                await trio.lowlevel.checkpoint()
                for scope in scopes[::2]:
                    await trio.lowlevel.checkpoint()
                    scope.cancel()
        await until(lambda: not is_busy(workers.pool))

        assert workers.pool.status()["lost"] == 0
        await workers.said("pid")


async def test_an_abandoned_big_call_does_not_hold_its_worker_until_the_deadline(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=1) as workers:
        stopped = await workers.said("pid")
        os.kill(stopped, signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            scope = Calls(workers, nursery).start("big", "pid", timeout=60.0, text="x" * 2**22)
            await until(lambda: workers.pool.status()["busy"])
            scope.cancel()

        await until(lambda: stopped not in workers.pool.status()["pids"])


async def test_a_call_to_a_pool_that_closes_ends_at_once(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY, workers=2) as workers, trio.open_nursery() as nursery:
        calls = Calls(workers, nursery)
        for _ in range(4):
            calls.start("call", timeout=600.0)
        await until(lambda: len(workers.began) == 2)
        assert workers.pool.workers._nursery is not None
        workers.pool.workers._nursery.cancel_scope.cancel()
        await until(lambda: len(calls.replies) == 4)
        late = await workers.call("pid", timeout=600.0)

    assert sorted(reply.cause for _, reply in calls.replies) == ["crash", "crash", "overload", "overload"]
    assert late.cause == "overload"


async def test_a_worker_that_ends_after_its_answer_is_replaced(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY) as workers:
        for count in (1, 2, 3):
            go = tmp_path / f"go{count}"
            ending = await workers.said("die_later", go=str(go))
            go.touch()
            await until(lambda ending=ending: ending not in workers.pool.status()["pids"])  # type: ignore[misc]

            assert workers.pool.status()["lost"] == count


async def refused(folder: Path, text: str, **limits: Any) -> str:
    with pytest.raises(BaseExceptionGroup) as caught:
        async with running_pool(folder, text, **limits):
            raise AssertionError("it was accepted")
    found = caught.value.split(SourceLoadError)[0]
    assert found is not None
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return str(found)


async def test_an_import_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    text = await refused(tmp_path, "import time\ntime.sleep(3600)\n", load_timeout=0.3)

    assert "did not finish importing" in text


async def test_an_import_that_forks_and_dies_is_noticed(tmp_path: Path) -> None:
    text = await refused(tmp_path, "import os, time\nif os.fork() == 0:\n    time.sleep(3600)\nos._exit(4)\n")

    assert "died while importing: the worker exited with code 4" in text


async def test_an_import_that_forges_its_answer_is_noticed(tmp_path: Path) -> None:
    forged = "import os\nfrom hooklatch_worker import wire\n"
    forged += "os.write(3, wire.encode_frame(wire.SourceLoaded(999, [], ['pid'], {})))\n"

    assert "sent an unexpected message" in await refused(tmp_path, forged)


async def test_a_source_that_stops_loading_fails_the_calls_that_wait(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    text = f"import os\nif os.path.exists({str(marker)!r}):\n    raise ValueError('not again')\n" + WORKADAY
    async with running_pool(tmp_path, text, workers=2) as workers:
        await until(lambda: workers.pool.status()["idle"] == 1)
        marker.touch()
        while (reply := await workers.call("die")).cause == "crash":
            await trio.lowlevel.checkpoint()

    assert reply.cause == "load"
    assert "ValueError: not again" in reply.message


async def test_the_callback_is_told_what_the_file_held_when_it_was_checked(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY) as workers:
        (tmp_path / "source.py").write_text("raise ValueError\n")
        for _ in range(3):
            await workers.call("die")

        assert await workers.said("pid")


async def test_pools_of_one_zygote_share_no_fate(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    async with running_pool(tmp_path / "a", WORKADAY) as workers, trio.open_nursery() as nursery:
        other = Pool(
            workers.pool.source, 2, workers.zygote, workers.pool.limits,
            wire.LoadCode(WORKADAY.encode(), str(tmp_path)), on_busy=str,
        )  # fmt: skip
        await nursery.start(other.run)
        before = set(other.status()["pids"])
        for _ in range(5):
            await workers.call("die")

        assert before <= set(other.status()["pids"])
        nursery.cancel_scope.cancel()


async def test_a_zygote_can_be_opened_and_left_at_once() -> None:
    with nobody_survives(), nothing_left():
        async with open_zygote():
            pass


async def test_a_fault_of_our_own_during_a_call_loses_no_worker(tmp_path: Path) -> None:
    def break_down(*_: object) -> None:
        raise ZeroDivisionError

    async with running_pool(tmp_path, callbacks("workaday.py"), workers=2) as workers:
        fire = LoneFire()
        fire.prepare_record = break_down  # type: ignore[method-assign]
        for _ in range(4):
            with pytest.raises(ZeroDivisionError):
                await workers.pool.call(call_of("pid"), fire, trio.current_time() + 0.2)
            await until(lambda: not is_busy(workers.pool))

        assert await workers.said("pid")
