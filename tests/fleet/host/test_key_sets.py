"""A host with a key set: what it believes then, over restarts and rotations, with a real daemon.

The engine is the test: it shows what it likes.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hooklatch.fleet.roles import KeySet, RoleKeys, sign_document
from hooklatch.fleet.signing import PrivateKey, Purpose, make_key
from support.daemons import Client, Daemon, RpcFailure, running_daemon
from support.fleets import fleet_table, link_of
from support.publishing import DENIES_BASH, Published, Publisher, guard

ROOT, NEXT_ROOT, TIMER, THIEF = (make_key() for _ in range(4))
FAR = datetime(2040, 1, 1, tzinfo=UTC)


class Fleet:
    """A fleet's publisher and its key sets: hosts list the publisher's key alone."""

    def __init__(self) -> None:
        self.publisher = Publisher()
        self.sets: list[KeySet] = []
        self.texts: list[str] = []

    def rotate(self, *signers: PrivateKey, **changes: Any) -> str:
        """Add a key set: by default the publisher has all roles."""
        own = RoleKeys((self.publisher.public,))
        if self.sets:
            before = self.sets[-1]
            changes = {"previous": before.digest, "version": before.version + 1, **changes}
            key_set = msgspec.structs.replace(before, **changes)
        else:
            fields = {"expires": FAR, "root": own, "timestamp": own, "policies": {"*": own}, **changes}
            key_set = KeySet(fleet="acme", version=1, **fields)
        self.sets.append(key_set)
        self.texts.append(sign_document(key_set, Purpose.KEYS, *(signers or (self.publisher.key,))).decode())
        return self.texts[-1]

    def files(self, more: str = "") -> dict[str, str]:
        return {"hooks.toml": fleet_table(self.publisher.public, more=more)}


def keys(*private: PrivateKey) -> RoleKeys:
    return RoleKeys(tuple(key.public.text for key in private))


async def show(link: Client, *versions: Published, **more: Any) -> dict[str, Any]:
    answer = await link.call("fleet_follow", manifests=[one.envelope for one in versions], **more)
    if versions:
        await link.call("fleet_apply", **versions[-1].applying)
    return answer


async def fleet_of(daemon: Daemon) -> dict[str, Any]:
    async with daemon.administrator() as admin:
        fleet: dict[str, Any] = (await admin.call("status"))["fleet"]
    return fleet


def take_key_away() -> tuple[Fleet, PrivateKey, Published, Published]:
    """Return a fleet whose key sets give its policies another key, that key, and two versions by the one before."""
    fleet, new = Fleet(), make_key()
    fleet.rotate()
    fleet.rotate(fleet.publisher.key, NEXT_ROOT, root=keys(NEXT_ROOT), timestamp=keys(TIMER), policies={"*": keys(new)})
    first = fleet.publisher.publish(DENIES_BASH)
    stolen = fleet.publisher.publish({"guards.py": guard("thief")})
    return fleet, new, first, stolen


async def test_a_key_set_binds_over_a_restart_and_lists_count_no_more(tmp_path: Path) -> None:
    """The thief's key is still in the host's file: it was taken from the key set, and no file was edited."""
    fleet, new, first, stolen = take_key_away()
    async with running_daemon(tmp_path, fleet.files()) as daemon, link_of(daemon) as link:
        await show(link, first, timestamp=first.timestamp)
        answer = await show(link, keys=fleet.texts)
        with pytest.raises(RpcFailure, match="does not list"):
            await show(link, stolen)
    async with running_daemon(tmp_path, fleet.files()) as daemon, link_of(daemon) as link:
        with pytest.raises(RpcFailure, match="does not list"):
            await show(link, stolen)
        await show(link, timestamp=fleet.publisher.timestamp())
        fault = (await fleet_of(daemon))["problems"]
        applied = (await fleet_of(daemon))["applied"]
        fleet.publisher.key = new
        good = fleet.publisher.publish({"guards.py": guard("new")})
        await show(link, stolen, good)
        after = await fleet_of(daemon)

    assert (answer["key_set"], after["key_set"]["version"]) == (2, 2)
    assert applied["version"] == 1  # what was active stays
    assert any("signed by 0 of the keys that may sign it here" in text for text in fault)  # no more its timestamps
    assert after["applied"]["version"] == 3


async def test_who_has_only_the_timestamps_key_publishes_nothing_and_signs_no_keys(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.rotate(timestamp=keys(TIMER))
    version = fleet.publisher.publish(DENIES_BASH)
    async with running_daemon(tmp_path, fleet.files()) as daemon, link_of(daemon) as link:
        await show(link, version, keys=fleet.texts)
        thief = Publisher(key=TIMER)
        thief.versions, thief._previous = list(fleet.publisher.versions), fleet.publisher._previous
        with pytest.raises(RpcFailure, match="does not list"):
            await show(link, thief.publish({"guards.py": guard("thief")}))
        await show(link, keys=[fleet.rotate(TIMER, root=keys(TIMER), policies={"*": keys(TIMER)})])
        after = await fleet_of(daemon)
        signed = Publisher(key=TIMER)
        signed.versions, signed._previous = [version], fleet.publisher._previous
        answer = await show(link, timestamp=signed.timestamp())

    assert after["key_set"]["version"] == 1
    assert any("the key set 2 is signed by 0 of the keys" in text for text in after["problems"])
    assert answer["stale_s"] is not None  # its own work it does


async def test_a_key_of_one_policy_signs_no_other(tmp_path: Path) -> None:
    """It is passed over, and the next good version goes on from there."""
    fleet, ci = Fleet(), make_key()
    fleet.rotate(policies={"*": keys(fleet.publisher.key), "ci": keys(ci)})
    own = fleet.publisher.key
    one = fleet.publisher.publish(DENIES_BASH)
    fleet.publisher.key = ci
    forged = fleet.publisher.publish({"guards.py": guard("ci's")})
    fleet.publisher.key = own
    two = fleet.publisher.publish({"guards.py": guard("two")})
    async with running_daemon(tmp_path, fleet.files()) as daemon, link_of(daemon) as link:
        await show(link, one, keys=fleet.texts)
        with pytest.raises(RpcFailure):
            await show(link, forged)
        applied = (await fleet_of(daemon))["applied"]
        await show(link, forged, two)
        after = (await fleet_of(daemon))["applied"]

    assert (applied["version"], after["version"]) == (1, 3)


async def test_a_policy_whose_key_was_rotated_is_not_missed_in_silence(tmp_path: Path) -> None:
    """A host that has it keeps it, and a new one lacks its guard: both say so until it is pushed again."""
    fleet, ci = Fleet(), make_key()
    own = fleet.publisher.key
    policy = fleet.publisher.publish({"guards.py": guard("ci", "Read")}, policy="ci")
    base = fleet.publisher.publish(DENIES_BASH)
    fleet.rotate(policies={"*": keys(own), "ci": keys(ci)})
    async with running_daemon(tmp_path / "old", fleet.files()) as daemon, link_of(daemon) as link:
        await show(link, policy)
        await show(link, base)
        await show(link, keys=fleet.texts)
        old = (await fleet_of(daemon))["problems"]
    async with running_daemon(tmp_path / "new", fleet.files()) as daemon, link_of(daemon) as link:
        await show(link, policy, base, keys=fleet.texts)
        new = (await fleet_of(daemon))["problems"]
        fleet.publisher.key = ci
        await show(link, fleet.publisher.publish({"guards.py": guard("ci", "Read")}, policy="ci"))
        after = (await fleet_of(daemon))["problems"]

    assert "may not sign the policy 'ci' any more" in old[0]
    assert "version 1 of the policy 'ci' is for this host, and the key that signed it may not sign it" in new[0]
    assert not any("'ci'" in text for text in after)


async def test_a_rotated_timestamps_key_ends_what_a_thief_has_signed(tmp_path: Path) -> None:
    """Fast-forward: the newest that he could sign is minutes ahead, and even that floor ends with his key."""
    fleet = Fleet()
    fleet.rotate(timestamp=keys(THIEF))
    version = fleet.publisher.publish(DENIES_BASH)
    thief = Publisher(key=THIEF)
    thief.versions, thief._previous = [version], fleet.publisher._previous
    async with running_daemon(tmp_path, fleet.files()) as daemon, link_of(daemon) as link:
        await show(link, version, keys=fleet.texts)
        await show(link, timestamp=thief.timestamp(at=time.time() + 280))
        fleet.rotate(timestamp=keys(TIMER))
        signed = Publisher(key=TIMER)
        signed.versions, signed._previous = thief.versions, thief._previous
        await show(link, keys=[fleet.texts[-1]], timestamp=signed.timestamp())
        after = await fleet_of(daemon)

    assert after["problems"] == []
    assert after["is_stale"] is False


async def test_an_expired_key_set_keeps_what_is_active_and_takes_nothing_new(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.rotate()
    fleet.rotate(expires=datetime(2001, 1, 1, tzinfo=UTC))
    version = fleet.publisher.publish(DENIES_BASH)
    newer = fleet.publisher.publish({"guards.py": guard("newer")})
    async with running_daemon(tmp_path, fleet.files('when_stale = "deny"')) as daemon, link_of(daemon) as link:
        await show(link, version, keys=fleet.texts[:1], timestamp=version.timestamp)
        await show(link, timestamp=version.timestamp)
        before = await fleet_of(daemon)
        await show(link, keys=fleet.texts[1:], timestamp=version.timestamp)
        expired = await fleet_of(daemon)
        with pytest.raises(RpcFailure, match="expired at 2001-01-01T00:00:00Z: what is active stays"):
            await show(link, newer)
        fleet.rotate(expires=FAR)
        await show(link, newer, keys=fleet.texts[2:])
        await show(link, timestamp=fleet.publisher.timestamp())
        after = await fleet_of(daemon)

    assert (before["is_stale"], expired["is_stale"], after["is_stale"]) == (False, True, False)
    assert expired["applied"]["version"] == 1
    assert "hooklatch fleet keys rotate" in expired["denies"]
    assert (after["applied"]["version"], after["denies"]) == (2, None)


async def test_a_lost_state_file_brings_no_key_back_that_a_key_set_took_away(tmp_path: Path) -> None:
    """The thief's key is still in the host's file, and the engine shows no key set any more."""
    fleet, _, first, stolen = take_key_away()
    async with running_daemon(tmp_path, fleet.files()) as daemon, link_of(daemon) as link:
        await show(link, first, timestamp=first.timestamp)
        await show(link, keys=fleet.texts)
    (tmp_path / "state" / "state.json").unlink()

    async with running_daemon(tmp_path, fleet.files()) as daemon, link_of(daemon) as link:
        async with daemon.administrator() as admin:
            await admin.call("accept_state")
        with pytest.raises(RpcFailure, match="does not list"):
            await show(link, stolen)
        after = await fleet_of(daemon)

    assert (after["applied"]["version"], after["key_set"]["version"]) == (1, 2)


async def test_an_accepted_state_file_keeps_its_key_set_and_its_timestamp(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.rotate()
    version = fleet.publisher.publish(DENIES_BASH)
    older = fleet.publisher.timestamp(at=time.time() - 3600)
    async with running_daemon(tmp_path, fleet.files()) as daemon, link_of(daemon) as link:
        await show(link, version, keys=fleet.texts)
        await show(link, timestamp=version.timestamp)
        before = (await fleet_of(daemon))["timestamp"]
    (tmp_path / "state" / "state.witness").unlink()

    async with running_daemon(tmp_path, fleet.files()) as daemon, link_of(daemon) as link:
        with pytest.raises(RpcFailure, match="nothing is taken while the state is unknown"):
            await show(link, timestamp=older)
        async with daemon.administrator() as admin:
            await admin.call("accept_state")
        after = await fleet_of(daemon)
        await show(link, timestamp=older)
        refused = (await fleet_of(daemon))["problems"]

    assert (after["timestamp"], after["key_set"]["version"]) == (before, 1)
    assert any("is older than that of" in text for text in refused)


async def test_who_leaves_and_joins_again_is_bound_by_the_first_key_set_that_is_shown(tmp_path: Path) -> None:
    """Root's keys may all be lost; no policy was active here, of which more would be removed."""
    fleet, again = Fleet(), Fleet()
    again.publisher.key = fleet.publisher.key
    fleet.rotate(fleet.publisher.key, ROOT, root=keys(ROOT))
    again.rotate(expires=datetime(2039, 1, 1, tzinfo=UTC))
    config = tmp_path / "hooks.toml"
    async with running_daemon(tmp_path, fleet.files()) as daemon, daemon.administrator() as admin:
        async with link_of(daemon) as link:
            await show(link, keys=fleet.texts)
        table = config.read_text()
        config.write_text("")
        await admin.call("reload", accept_removed=True)
        config.write_text(table)
        await admin.call("reload")
        async with link_of(daemon) as link:
            await show(link, keys=again.texts)
        after = await fleet_of(daemon)

    assert after["key_set"] == {"version": 1, "expires": "2039-01-01T00:00:00Z"}


async def test_a_kept_key_set_that_cannot_be_read_leaves_no_key_that_is_believed(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.rotate()
    one, two = fleet.publisher.publish(DENIES_BASH), fleet.publisher.publish({"guards.py": guard("two")})
    async with running_daemon(tmp_path, fleet.files()) as daemon, link_of(daemon) as link:
        await show(link, one, keys=fleet.texts)
        daemon.parts.state.state.key_set = "torn"
        await daemon.parts.state.store()
    async with running_daemon(tmp_path, fleet.files()) as daemon, link_of(daemon) as link:
        with pytest.raises(RpcFailure, match="does not list"):
            await show(link, two, keys=fleet.texts)
        after = await fleet_of(daemon)

    assert after["applied"]["version"] == 1
    assert any("no signature is believed" in text for text in after["problems"])
