"""Rollouts in steps on a real engine, with hosts that are no more than their reports.

Slow: the tests share a server of this process; the pauses between two looks are real.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping

import msgspec
import pytest
import trio

from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.manifests import DEFAULT_POLICY, Manifest, RolloutTarget, select_newest
from hooklatch.fleet.publishing.publisher import LostRaceError, Publisher, ReceivedReport
from hooklatch.fleet.publishing.rollout import Rollout as Ongoing
from hooklatch.fleet.publishing.rollout import RolloutPace, StoppedError, StopThreshold, find_cut, list_present_hosts
from hooklatch.fleet.publishing.versions import VersionDraft, plan_push
from support.publishers import FLEET, KEY, KEYS, digest_of, report_of, say
from support.redis_server import RedisServer, needs_redis

pytestmark = [pytest.mark.slow, needs_redis]
HOSTS = [f"web-{number}" for number in range(10)]
FIRST, SECOND = 7.96, 37.32  # the cuts that have 2 and 6 of these hosts
PACE = RolloutPace(steps=(20, 60, 100), wait=0.1, timeout=0.4, bound=StopThreshold(0.02, 50))


class Hosts:
    """Hosts that have what they should as soon as it is out, and decide gates all the while."""

    def __init__(self, engine: Engine, *, breaks: Mapping[str, str] = {}, labels: tuple[str, ...] = ()) -> None:
        self.quiet: set[str] = set()
        self.refuse: set[str] = set()
        self._publisher = Publisher(engine, FLEET, KEYS, heeds_hosts=False)
        self._breaks = breaks  # the cause with which every tenth decision is denied, by the bundle's letter
        self._labels = labels
        self._decided = 0

    async def live(self) -> None:
        while True:
            await self.report()
            await trio.sleep(0.02)

    async def report(self) -> None:
        history = await self._publisher.read()
        believed = [entry.manifest for entry in history.entries]
        self._decided += 100
        for host in HOSTS:
            if host in self.quiet:
                continue
            wanted = select_newest(believed, host, self._labels).get(DEFAULT_POLICY)
            bundle, problem = wanted.bundle if wanted is not None else digest_of("a"), None
            if host in self.refuse and bundle != digest_of("a"):  # a problem from before it was out is not its own
                bundle, problem = digest_of("a"), "guards.py:3: invalid syntax"
            cause = self._breaks.get(bundle[0])
            denied = {cause: self._decided // 10} if cause is not None else {}
            facts = {"labels": self._labels, "problem": problem, "applied": believed[0].version}
            since = ord(bundle[0])
            await say(
                self._publisher.engine,
                report_of(host, bundle, self._decided, denied, head=history.head, since=since, **facts),
            )


class Stage:
    """A fleet that has the bundle `a`, and a publisher that is about to roll out `b`."""

    def __init__(self, engine: Engine, theirs: Engine, nursery: trio.Nursery) -> None:
        self.engine = engine
        self.theirs = theirs  # the hosts' connection
        self.told: list[str] = []
        self.out = trio.Event()  # the first step is out
        self.publisher = Publisher(engine, FLEET, KEYS)
        self._nursery = nursery

    def hear(self, text: str) -> None:
        self.told.append(text)
        self.out.set()

    async def begin(self, hosts: Hosts | None) -> None:
        first = VersionDraft(bundle=digest_of("a"), size=1, rollout=RolloutTarget())
        await self.publisher.commit(first, KEY, publisher="ann", message="")
        if hosts is not None:
            await hosts.report()
            self._nursery.start_soon(hosts.live)

    async def roll_out(self, pace: RolloutPace = PACE, *labels: str) -> Manifest:
        draft = VersionDraft(bundle=digest_of("b"), size=1, rollout=RolloutTarget(labels, pace.steps[0]))
        plan = plan_push(self.publisher.history, draft, key=KEY.public.id)
        assert isinstance(plan, VersionDraft)
        self.ongoing = Ongoing(self.publisher, KEY, pace, by="ann", message="b", notify=self.hear)
        return await self.ongoing.run(plan)

    async def percents(self) -> list[float]:
        """Return how wide each version of `b` is, in the order in which they went out."""
        history = await Publisher(self.engine, FLEET, KEYS).read()
        return [one.manifest.rollout.percent for one in history.entries if one.manifest.bundle == digest_of("b")]


@pytest.fixture
async def stage(shared_redis: RedisServer) -> AsyncIterator[Stage]:
    fleet = f"{FLEET}-{uuid.uuid4().hex}"
    async with (
        open_engine(shared_redis.url, fleet) as engine,
        open_engine(shared_redis.url, fleet) as theirs,
        trio.open_nursery() as nursery,
    ):
        yield Stage(engine, theirs, nursery)
        nursery.cancel_scope.cancel()


async def test_a_good_version_is_out_everywhere_after_its_steps(stage: Stage) -> None:
    await stage.begin(Hosts(stage.theirs))

    manifest = await stage.roll_out()

    assert manifest.rollout == RolloutTarget((), 100)
    assert await stage.percents() == [FIRST, SECOND, 100]
    assert stage.told[0] == "version 2 is out at 7.96 %, 2 of 10 hosts that report"
    assert stage.told[1].startswith("at 7.96 %: denied because a hook is broken: 0 of ")


@pytest.mark.parametrize("cause", ["crash", "timeout", "load"])
async def test_a_version_that_breaks_stops_at_its_first_step_and_says_why_and_what_to_do(
    stage: Stage, cause: str
) -> None:
    await stage.begin(Hosts(stage.theirs, breaks={"b": cause}))

    with pytest.raises(StoppedError) as caught:
        await stage.roll_out()

    assert await stage.percents() == [FIRST]
    text = str(caught.value)
    assert text.startswith("stopped at version 2, 7.96 %: denied because a hook is broken: ")
    assert f"({cause} " in text
    assert "over the bound of 2.00% more" in text
    assert text.endswith("run: hooklatch fleet rollback; to go on all the same: hooklatch fleet rollout 2 --percent N")


async def test_what_breaks_on_all_hosts_is_not_held_against_the_new_version(stage: Stage) -> None:
    await stage.begin(Hosts(stage.theirs, breaks={"a": "timeout", "b": "timeout"}))

    await stage.roll_out(msgspec.structs.replace(PACE, steps=(20, 60)))

    assert await stage.percents() == [FIRST, SECOND]


async def test_hosts_that_fall_silent_stop_it_and_are_named(stage: Stage) -> None:
    hosts = Hosts(stage.theirs)
    await stage.begin(hosts)
    hosts.quiet = set(HOSTS)

    with pytest.raises(StoppedError) as caught:
        await stage.roll_out()

    inside = [host for host in HOSTS if RolloutTarget((), FIRST).includes(host, ())]
    assert f"have not reported since: {', '.join(inside)}" in str(caught.value)
    assert await stage.percents() == [FIRST]


async def test_a_host_that_refuses_it_stops_it_at_once(stage: Stage) -> None:
    hosts = Hosts(stage.theirs)
    await stage.begin(hosts)
    hosts.refuse = set(HOSTS)

    with pytest.raises(StoppedError, match=r"refuses it: guards.py:3: invalid syntax"):
        await stage.roll_out(msgspec.structs.replace(PACE, wait=2, timeout=60))

    assert await stage.percents() == [FIRST]


async def test_too_few_decisions_stop_it_when_patience_ends(stage: Stage) -> None:
    await stage.begin(Hosts(stage.theirs))

    with pytest.raises(StoppedError, match=r"have decided \d+ gates, of at least 1000000 that a comparison needs"):
        await stage.roll_out(msgspec.structs.replace(PACE, bound=StopThreshold(0.02, 1_000_000)))

    assert stage.told[1].startswith("waiting: hosts with it have decided ")


async def test_a_fleet_that_does_not_report_stops_it(stage: Stage) -> None:
    await stage.begin(None)

    with pytest.raises(StoppedError, match="gates, of at least 50"):
        await stage.roll_out()

    assert await stage.percents() == [20]


async def test_a_step_has_one_host_at_least_and_a_step_with_no_further_host_is_passed(stage: Stage) -> None:
    await stage.begin(Hosts(stage.theirs))

    await stage.roll_out(msgspec.structs.replace(PACE, steps=(0.01, 5, 100)))

    assert stage.told[0] == "version 2 is out at 3.26 %, 1 of 10 hosts that report"
    assert await stage.percents() == [3.26, 100]


async def test_a_version_that_breaks_takes_one_host_of_two(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "HOSTS", ["web-5", "web-3"])
    await stage.begin(Hosts(stage.theirs, breaks={"b": "crash"}, labels=("ci",)))

    with pytest.raises(StoppedError, match=r"on the host web-3 most is denied|denied because a hook is broken"):
        await stage.roll_out(msgspec.structs.replace(PACE, steps=(60, 100)), "ci")

    assert stage.told[0] == "version 2 is out at 3.26 %, 1 of 2 hosts that report"


@pytest.mark.parametrize(
    ("hosts", "percent", "cut"),
    [
        ([], 10, 10),
        (["web-7"], 1, 77.31),
        (["web-7"], 100, 100),
        (["web-3", "web-7"], 60, 3.26),
        (HOSTS, 10, 3.26),
        (HOSTS, 50, 32.34),
        (HOSTS, 99, 57.7),
    ],
)
def test_a_cut_has_the_share_of_hosts_and_one_at_least(hosts: list[str], percent: float, cut: float) -> None:
    assert find_cut(hosts, percent) == cut


def test_hosts_that_have_not_reported_lately_are_not_the_first() -> None:
    old = {"web-3": ReceivedReport(report_of("web-3"), 1), "web-5": ReceivedReport(report_of("web-5"), 10**6)}

    assert list_present_hosts(old, ()) == ["web-5"]


async def test_hosts_without_the_labels_are_not_waited_for(stage: Stage) -> None:
    await stage.begin(Hosts(stage.theirs, labels=("ci",)))

    with pytest.raises(StoppedError):
        await stage.roll_out(PACE, "gpu")
    assert (await stage.roll_out(PACE, "ci")).rollout == RolloutTarget(("ci",), 100)


async def test_a_version_that_somebody_else_pushes_meanwhile_ends_it(stage: Stage) -> None:
    await stage.begin(Hosts(stage.theirs))
    other = Publisher(stage.engine, FLEET, KEYS)

    async def interfere() -> None:
        await stage.out.wait()
        await other.read()
        plan = VersionDraft(bundle=digest_of("c"), size=1, rollout=RolloutTarget())
        await other.commit(plan, KEY, publisher="ben", message="mine")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(interfere)
        with pytest.raises(
            LostRaceError, match=r"version 3 by ben \(mine\) came first, and this rollout ends at version 2, 7.96 %"
        ):
            await stage.roll_out()

    assert await stage.percents() == [FIRST]


async def test_a_version_of_another_policy_meanwhile_does_not_end_it(stage: Stage) -> None:
    await stage.begin(Hosts(stage.theirs))
    other = Publisher(stage.engine, FLEET, KEYS)

    async def push_beside() -> None:
        await stage.out.wait()
        await other.read()
        plan = VersionDraft(bundle=digest_of("c"), size=1, rollout=RolloutTarget(), policy="ci")
        await other.commit(plan, KEY, publisher="ben", message="mine")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(push_beside)
        last = await stage.roll_out()

    assert (last.policy, await stage.percents()) == ("default", [FIRST, SECOND, 100])


async def test_whoever_is_cancelled_leaves_it_where_it_is(stage: Stage) -> None:
    await stage.begin(Hosts(stage.theirs))

    async with trio.open_nursery() as nursery:

        async def interrupt() -> None:
            await stage.out.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(interrupt)
        await stage.roll_out(msgspec.structs.replace(PACE, wait=2, timeout=60))

    assert stage.ongoing.at is not None
    assert stage.ongoing.at.rollout.percent == FIRST
    assert await stage.percents() == [FIRST]
