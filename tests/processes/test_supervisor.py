"""The supervisor's shell: children that fail, return, are cancelled or interrupted.  The clock is trio's own mock."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from hooklatch.core.restarts import Restart, RestartPolicy
from hooklatch.processes.supervisor import ChildSpec, PartFailedError, Supervisor

POLICY = RestartPolicy(intensity=2, period=10.0, waits=(0.0, 1.0, 50.0))


class OddError(Exception):
    """What nobody expects."""


class Part:
    """Does one thing after the other, each time that it is started: raises it, or returns; then it stays."""

    def __init__(self, *ends: BaseException | None) -> None:
        self.ends = list(ends)
        self.started_at: list[float] = []

    async def run(self) -> None:
        self.started_at.append(trio.current_time())
        if not self.ends:
            await trio.sleep_forever()
        end = self.ends.pop(0)
        if end is not None:
            raise end


async def test_a_failed_child_is_started_again_after_its_wait_and_is_a_fault_for_a_period(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    part = Part(OddError("first"), OddError("second"))
    async with Supervisor("all").open() as supervisor:
        await supervisor.start(ChildSpec("part", part.run, policy=POLICY))
        await trio.sleep(0.5)
        (waiting,) = supervisor.faults()
        await trio.sleep(2)
        (lately,) = supervisor.faults()
        (node,) = supervisor.tree()
        await trio.sleep(POLICY.period)

        assert list(supervisor.faults()) == []

    begun = part.started_at[0]
    assert [at - begun for at in part.started_at] == [0.0, 0.0, 1.0]
    assert "'part' failed: OddError: second; it is started again in 0.5 s" in waiting
    assert "it was started again" in lately
    assert (node["state"], node["restarts"], node["fault"]) == ("running", 2, "OddError: second")
    assert "part failed: part" in caplog.text
    assert "OddError: first" in caplog.text
    assert "Traceback" in caplog.text


async def test_one_that_fails_too_often_stays_down_for_the_longest_wait_and_ends_nobody(
    autojump_clock: MockClock,
) -> None:
    part, other = Part(*[OddError("again")] * 5), Part()
    async with Supervisor("all").open() as supervisor:
        await supervisor.start(ChildSpec("other", other.run, policy=POLICY))
        await supervisor.start(ChildSpec("part", part.run, policy=POLICY))
        await trio.sleep(5)
        states = [node["state"] for node in supervisor.tree()]
        await trio.sleep(200)

        assert [node["state"] for node in supervisor.tree()] == ["running", "running"]

    assert states == ["running", "down"]
    assert [at - part.started_at[0] for at in part.started_at] == [0.0, 0.0, 1.0, 51.0, 101.0, 151.0]
    assert len(other.started_at) == 1


@pytest.mark.parametrize(
    ("end", "restart", "starts"),
    [
        (None, Restart.PERMANENT, 2),
        (None, Restart.TRANSIENT, 1),
        (OddError(), Restart.PERMANENT, 2),
        (OddError(), Restart.TRANSIENT, 2),
        (OddError(), Restart.TEMPORARY, 1),
        (ExceptionGroup("both", [OddError(), ValueError()]), Restart.PERMANENT, 2),
    ],
)
async def test_which_ends_call_for_another_start(
    autojump_clock: MockClock, end: BaseException | None, restart: Restart, starts: int
) -> None:
    part = Part(end)
    async with Supervisor("all").open() as supervisor:
        await supervisor.start(ChildSpec("part", part.run, restart, POLICY))
        await trio.sleep(5)

    assert len(part.started_at) == starts


async def test_a_significant_child_ends_its_supervisor() -> None:
    async def wait_for_a_moment() -> None:
        await trio.lowlevel.checkpoint()
        raise OddError("vital")

    with pytest.RaisesGroup(PartFailedError) as caught:
        async with Supervisor("all").open() as supervisor:
            await supervisor.start(ChildSpec("record", wait_for_a_moment, is_significant=True))
            await trio.sleep_forever()

    assert "without its part 'record', which has failed: OddError: vital" in str(caught.value.exceptions[0])


async def test_an_interruption_is_no_failure_and_passes_through() -> None:
    part = Part(SystemExit(3))

    with pytest.RaisesGroup(SystemExit, flatten_subgroups=True):
        async with Supervisor("all").open() as supervisor:
            supervisor.spawn("part", part.run)
            await trio.sleep_forever()

    assert len(part.started_at) == 1


async def test_what_fails_before_it_has_started_is_the_callers_error_and_is_not_kept() -> None:
    async def run(*, task_status: trio.TaskStatus[int]) -> None:
        raise OddError("no")

    async with Supervisor("all").open() as supervisor:
        with pytest.raises(OddError):
            await supervisor.start(ChildSpec("part", run, reports_start=True))

        assert supervisor.tree() == []


async def test_temporary_children_fail_alone_and_are_counted(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor, quiet = Supervisor("fires"), trio.Event()
    assert not supervisor.spawn("too early", quiet.wait)
    async with supervisor.open():
        supervisor.spawn("good", quiet.wait)
        supervisor.spawn("bad", Part(OddError("lost")).run)
        await trio.sleep(1)

        assert supervisor.counts == (1, 1)
        assert "bad failed: OddError: lost" in next(supervisor.faults())
        await trio.sleep(60)
        assert list(supervisor.faults()) == []
    assert not supervisor.spawn("too late", quiet.wait)
    assert "Traceback" in caplog.text


async def test_children_end_in_the_reverse_order_of_their_start() -> None:
    ended: list[str] = []

    async def run(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            ended.append(name)

    async with Supervisor("all").open() as supervisor:
        for name in "abc":
            await supervisor.start(ChildSpec(name, lambda name=name: run(name)))  # type: ignore[misc]

    assert ended == ["c", "b", "a"]


async def test_one_child_can_be_ended_and_started_anew() -> None:
    part = Part()
    async with Supervisor("all").open() as supervisor:
        for _ in range(2):
            await supervisor.start(ChildSpec("part", part.run))
            supervisor.end("part")
            while supervisor.tree():
                await trio.lowlevel.checkpoint()

    assert len(part.started_at) == 2
