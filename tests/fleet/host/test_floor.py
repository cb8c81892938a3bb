"""The floor of a host: the newest version that was ever in force there, below which only a signature leads.

Slow: each test has a daemon of its own.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hooklatch.fleet.manifests import PolicyHead
from hooklatch.fleet.signing import make_key
from hooklatch.metrics import measure_daemon
from support.daemons import Client, Daemon, RpcFailure
from support.fleet_hosts import decided, health, host, notes
from support.fleets import link_of
from support.publishing import Published, Publisher, brought, guard

pytestmark = pytest.mark.slow
STRICT, LOST = "fleet/no-bash: strict", "version 2 was in force here: versions were lost, and nothing older is applied"
WEAK = {"guards.py": "# lets everything pass\n"}


def fleet_of(*texts: str) -> Publisher:
    publisher = Publisher()
    publisher.publish(WEAK)
    for text in texts or ("strict",):
        publisher.publish({"guards.py": guard(text)})
    return publisher


async def follow(link: Client, *versions: Published) -> dict[str, Any]:
    return await link.call("fleet_follow", manifests=[version.envelope for version in versions])


async def bring_all(link: Client, publisher: Publisher) -> dict[str, Any]:
    return await brought(link, *publisher.versions)


async def reset(daemon: Daemon) -> dict[str, Any]:
    async with daemon.administrator() as admin:
        return await admin.call("fleet_reset", reason="the engine was put back")


async def accept(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        assert (await admin.call("accept_state"))["fault"] is not None


async def contact(daemon: Daemon) -> float | None:
    async with daemon.administrator() as admin:
        return (await admin.call("status"))["fleet"]["contact_at"]


async def refuses(link: Client, publisher: Publisher, text: str, after: int = 0) -> None:
    with pytest.raises(RpcFailure, match=text):
        await follow(link, *publisher.versions[after:])


async def test_a_reset_brings_nothing_older_into_force_whatever_the_engine_shows(tmp_path: Path) -> None:
    publisher = fleet_of()
    weak, strict = publisher.versions
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await bring_all(link, publisher)
        before = await contact(daemon)
        answer = await reset(daemon)
        assert (answer["head"]["version"], answer["applied"]["version"], answer["wanted"]["version"]) == (0, 2, 2)

        await follow(link, weak)
        with pytest.raises(RpcFailure, match="wants version 2, not version 1"):
            await link.call("fleet_apply", **weak.applying)
        answer = await follow(link)

        assert LOST in answer["problem"]
        assert "hooklatch fleet restore" in answer["problem"]
        assert (await health(daemon), await contact(daemon)) == ("red", before)
        assert await decided(daemon) == STRICT

    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        assert LOST in (await follow(link))["problem"]
        assert await decided(daemon) == STRICT
        await follow(link, strict)  # it was put back
        answer = await link.call("fleet_follow", manifests=[], timestamp=publisher.timestamp())
        assert (answer["problem"], answer["applied"]["version"]) == (None, 2)
        assert await contact(daemon) != before
        assert [one["reason"] for one in await notes(daemon, "reset")] == ["the engine was put back"]


async def test_the_floor_outlives_a_policy_file_that_cannot_be_read(tmp_path: Path) -> None:
    publisher = fleet_of()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await bring_all(link, publisher)
    (tmp_path / "state" / "fleet" / "policy.json").write_text("{")

    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await reset(daemon)
        await follow(link, publisher.versions[0])
        with pytest.raises(RpcFailure, match=LOST):
            await link.call("fleet_apply", **publisher.versions[0].applying)
        assert "unknown since a reset" in await decided(daemon)
        await brought(link, publisher.versions[1])
        assert await decided(daemon) == STRICT


async def put_older_copy_back(tmp_path: Path, publisher: Publisher) -> None:
    """Have a host apply two versions, and put what it kept of the first in place of the second."""
    folder = tmp_path / "state" / "fleet"
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.versions[0])
        shutil.copytree(folder, tmp_path / "copy")
        await brought(link, publisher.versions[1])
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)


async def test_an_older_copy_of_the_policy_file_is_not_believed(tmp_path: Path) -> None:
    publisher = fleet_of()
    await put_older_copy_back(tmp_path, publisher)

    async with host(tmp_path, publisher.public) as daemon:
        assert "is an older copy: it is from before version 2, which was active" in await decided(daemon)


async def test_an_accepted_state_file_keeps_the_floor(tmp_path: Path) -> None:
    """Its witness is gone, and the policy on the disk is yesterday's: the one floor that is left is in it."""
    publisher = fleet_of()
    await put_older_copy_back(tmp_path, publisher)
    (tmp_path / "state" / "state.witness").unlink()

    async with host(tmp_path, publisher.public) as daemon:
        await accept(daemon)
        assert "is an older copy: it is from before version 2, which was active" in await decided(daemon)


async def test_a_state_that_was_edited_can_be_accepted(tmp_path: Path) -> None:
    publisher = fleet_of()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await bring_all(link, publisher)
    path = tmp_path / "state" / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fleet_floor": {"version": "x"}, "contact": 3}))

    async with host(tmp_path, publisher.public) as daemon:
        await accept(daemon)
        assert await decided(daemon) == STRICT


async def test_a_policy_file_from_before_the_host_came_to_this_fleet_is_not_believed(tmp_path: Path) -> None:
    publisher, other = fleet_of(), Publisher("other")
    other.publish(WEAK)
    folder = tmp_path / "state" / "fleet"
    async with host(tmp_path, other.public, name="other") as daemon, link_of(daemon) as link:
        await bring_all(link, other)
    shutil.copytree(folder, tmp_path / "copy")
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await bring_all(link, publisher)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)

    async with host(tmp_path, publisher.public) as daemon:
        assert "is an older copy: it is from before version 2, which was active" in await decided(daemon)


@pytest.mark.parametrize("length", [1, 2, 5])
async def test_a_publisher_who_goes_on_from_a_copy_is_refused_at_any_length(tmp_path: Path, length: int) -> None:
    publisher = fleet_of("lost", "strict")
    fork = publisher.restored(1)
    for number in range(length):
        fork.publish({"guards.py": guard(f"fork {number}")})
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await bring_all(link, publisher)
        await refuses(link, fork, "cannot follow|another one")
        if length > 2:
            await refuses(link, fork, "does not follow the version 3", after=3)
        await reset(daemon)
        if length > 1:
            await refuses(link, fork, "version 3 is another one than was read or in force before")
        else:
            assert "versions were lost" in (await follow(link, *fork.versions))["problem"]
        assert await decided(daemon) == STRICT
        assert (await follow(link, *publisher.versions))["problem"] is None  # the right ones were put back


def given_up(publisher: Publisher, count: int, *, lost: PolicyHead | None = None, text: str = "anew") -> Publisher:
    """Return a publisher whose engine has the first versions, and then begins anew as `fleet push --give-up` does."""
    anew, lost = publisher.restored(count), lost or publisher.head
    while len(anew.versions) <= lost.version:
        anew.publish({"guards.py": guard(text)}, gives_up=lost)
    return anew


@pytest.mark.parametrize("read", [2, 3])
@pytest.mark.parametrize("kept", [0, 1])
async def test_a_history_that_gives_up_what_was_read_is_followed_without_a_command(
    tmp_path: Path, read: int, kept: int
) -> None:
    publisher = fleet_of("strict", "stricter")
    anew = given_up(publisher, kept)
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, *publisher.versions[:read])
        await follow(link, *anew.versions)
        await link.call("fleet_apply", **anew.versions[-1].applying)
        answer = await follow(link)

        assert (answer["applied"]["version"], answer["head"]["version"], answer["problem"]) == (4, 4, None)
        assert await decided(daemon) == "fleet/no-bash: anew"
        await reset(daemon)
        assert (await bring_all(link, anew))["problem"] is None


async def test_giving_up_too_little_or_another_history_is_refused(tmp_path: Path) -> None:
    publisher = fleet_of("strict", "stricter")
    others = {
        "less than was read": given_up(publisher, 1, lost=publisher.restored(2).head),
        "another version of that number": given_up(publisher, 1, lost=PolicyHead(3, "0" * 64)),
    }
    half = given_up(publisher, 1)
    half.versions = half.versions[:3]
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await bring_all(link, publisher)
        for anew in others.values():
            anew.publish({"guards.py": guard("anew")})
            await refuses(link, anew, "is another one than was read or in force before")
        await refuses(link, half, "cannot follow")
        assert await decided(daemon) == "fleet/no-bash: stricter"


async def test_neither_a_stranger_nor_a_key_that_is_not_listed_any_more_gives_up_anything(tmp_path: Path) -> None:
    publisher = fleet_of()
    thief, listed = publisher.restored(1), publisher.key
    thief.key = make_key()
    stolen = given_up(thief, 1, lost=publisher.head)
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await bring_all(link, publisher)
        await refuses(link, stolen, "another one")
        stolen.key = listed  # a good version after it vouches for the chain, and for nothing in it
        stolen.publish({"guards.py": guard("later")})
        await refuses(link, stolen, "version 2 is another one than was read or in force before")
        await reset(daemon)
        await refuses(link, stolen, "version 2 is another one than was read or in force before")
        assert await decided(daemon) == STRICT


async def test_a_history_that_gave_up_versions_brings_no_host_back_once_it_has_gone_on(tmp_path: Path) -> None:
    """The engine is put back to the moment after the beginning: what was given up then has lower numbers."""
    publisher = fleet_of("strict", "stricter")
    anew = given_up(publisher, 1, text="weaker")
    later = anew.restored(4)
    later.publish({"guards.py": guard("now")})
    again = given_up(later, 4, text="later")
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await bring_all(link, publisher)
        await bring_all(link, again)
        for old in (publisher, anew, later):
            await refuses(link, old, "cannot follow")
        await reset(daemon)
        assert "version 6 was in force here" in (await follow(link, *anew.versions))["problem"]
        assert await decided(daemon) == "fleet/no-bash: later"


async def test_status_health_and_metrics_say_at_once_what_the_link_finds_wrong_with_the_engine(tmp_path: Path) -> None:
    publisher = fleet_of()

    def faults_of(daemon: Daemon) -> dict[str, float]:
        families = {family.name: family for family in measure_daemon(daemon.parts.status)}
        samples = families["hooklatch_fleet_engine_fault"].samples
        return {sample.labels["kind"]: sample.value for sample in samples}

    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await bring_all(link, publisher)
        assert await health(daemon) == "ready"
        fault = {"kind": "behind", "text": "it lost version 2"}
        assert (await link.call("fleet_follow", engine=fault))["engine"] == fault

        async with daemon.administrator() as admin:
            status = await admin.call("status")
        assert status["fleet"]["engine"] == fault
        assert "the fleet's engine: it lost version 2" in status["fleet"]["problems"]
        assert await health(daemon) == "red"
        assert {kind for kind, value in faults_of(daemon).items() if value} == {"behind"}
        with pytest.raises(RpcFailure):
            await link.call("fleet_follow", engine={"kind": "odd", "text": ""})
        assert (await link.call("fleet_follow"))["engine"] == fault  # until the link says otherwise
        assert (await link.call("fleet_follow", engine=None))["engine"] is None
        assert await health(daemon) == "ready"
        assert not any(faults_of(daemon).values())
