"""A policy that only observes for a while: what it takes, what ends it, and what it never weakens."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hooklatch.fleet.host.contact import ClockReading
from hooklatch.fleet.host.host import FleetHost
from hooklatch.fleet.roles import format_moment
from hooklatch.fleet.signing import make_key
from support.daemons import Daemon
from support.fleet_hosts import NO_POLICY, decided, health, host, notes
from support.fleets import link_of
from support.pools import until
from support.publishing import DENIES_BASH, Publisher, brought, guard

HOUR = 3600.0
DAY = 24 * HOUR
OWN = "global/no-bash: own"  # what decides where the fleet's hook does not count
ENFORCED = "fleet/no-bash: fleet"


def ends_in(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(time.time() + seconds), UTC)


async def wrong(daemon: Daemon) -> str:
    async with daemon.administrator() as admin:
        return "; ".join(one["what"] for one in (await admin.call("status"))["wrong"])


def fleet_of(daemon: Daemon) -> FleetHost:
    used = daemon.parts.fleet.use()
    assert isinstance(used, FleetHost)
    return used


async def test_it_runs_and_says_what_it_would_have_done_and_status_is_red(tmp_path: Path) -> None:
    publisher, end = Publisher(), ends_in(HOUR)
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        now = await brought(link, publisher.publish(DENIES_BASH, observe_until=end))
        async with daemon.session() as client:
            decision = await client.fire_tool("Bash")

        assert (decision["layer"], decision["reason"]) == ("global", "own")
        assert decision["warnings"] == ["fleet/no-bash (observe) would have said deny: fleet"]
        assert now["policies"]["default"]["observes"] == format_moment(end.timestamp())
        assert await health(daemon) == "red"
        assert f"the fleet's policy 'default' only observes until {format_moment(end.timestamp())}" in await wrong(
            daemon
        )
        (note,) = await notes(daemon, "observing")
        assert (note["policy"], note["until"]) == ("default", format_moment(end.timestamp()))

        await brought(link, publisher.publish(DENIES_BASH, same_as=1))

        assert await decided(daemon) == ENFORCED
        assert await health(daemon) == "ready"
        assert [one["policy"] for one in await notes(daemon, "enforced")] == ["default"]


async def test_of_two_policies_the_other_one_holds(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH))
        reads = {"reads.py": guard("no reads", "Read")}
        await brought(link, publisher.publish(reads, policy="ci", observe_until=ends_in(HOUR)))

        assert (await decided(daemon), await decided(daemon, "Read")) == (ENFORCED, "pass")


async def test_it_ends_by_itself_and_no_clock_or_restart_brings_it_back(tmp_path: Path) -> None:
    shift = passed = 0.0

    def read_clocks() -> ClockReading:
        return ClockReading(time.time() + shift, "boot", time.monotonic() + passed)

    publisher = Publisher()
    async with host(tmp_path, publisher.public, more='max_staleness = "1s"') as daemon, link_of(daemon) as link:
        contact = fleet_of(daemon).contact
        contact._clock = read_clocks
        await brought(link, publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR)))
        assert await decided(daemon) == OWN

        shift = passed = 2 * HOUR
        await contact.apply_denial()
        assert await decided(daemon) == ENFORCED

        await contact._keep()
        shift = -HOUR  # the wall clock alone: that of the boot goes on
        await contact.apply_denial()
        assert await decided(daemon) == ENFORCED

    async with host(tmp_path, publisher.public) as daemon:  # its own clock is hours before the floor
        assert await decided(daemon) == ENFORCED


async def test_its_end_is_noticed_without_a_link(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH, observe_until=ends_in(2)))

        await until(lambda: not fleet_of(daemon).layer.observing)

        assert await decided(daemon) == ENFORCED
        assert len(await notes(daemon, "enforced")) == 1


async def test_the_end_of_a_newer_version_is_noticed_though_its_bundle_is_withheld(tmp_path: Path) -> None:
    publisher, end = Publisher(), ends_in(2)
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR)))
        newer = publisher.publish({"guards.py": guard("next")}, observe_until=end)
        now = await link.call("fleet_follow", manifests=[newer.envelope])
        assert now["policies"]["default"]["observes"] == format_moment(end.timestamp())

        await until(lambda: not fleet_of(daemon).layer.observing)

        assert await decided(daemon) == ENFORCED


async def test_its_end_holds_for_hooks_that_a_reload_has_brought_back(tmp_path: Path) -> None:
    publisher, shift = Publisher(), 0.0
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        contact = fleet_of(daemon).contact
        contact._clock = lambda: ClockReading(time.time() + shift, "boot", time.monotonic() + shift)
        made = await brought(link, publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR)))
        kept = tmp_path / "state" / "fleet" / made["applied"]["bundle"]
        texts = {path: path.read_bytes() for path in (kept / "guards.py", kept.with_suffix(".json"))}
        for path in texts:
            path.chmod(0o600)
            path.write_bytes(b"")
        await daemon.parts.reloader.reload()
        await contact.apply_denial()
        assert not fleet_of(daemon).layer.observing

        for path, data in texts.items():
            path.write_bytes(data)
        await daemon.parts.reloader.reload()
        assert fleet_of(daemon).layer.observing

        shift = 2 * HOUR
        await contact.apply_denial()
        assert await decided(daemon) == ENFORCED


async def test_without_a_signed_moment_it_is_enforced(tmp_path: Path) -> None:
    publisher = Publisher()
    version = publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR))
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await link.call("fleet_follow", manifests=[version.envelope])
        await link.call("fleet_apply", **version.applying)

        assert await decided(daemon) == ENFORCED


async def test_it_stays_over_a_restart_until_its_end(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR)))

    async with host(tmp_path, publisher.public) as daemon:
        assert await decided(daemon) == OWN
        assert await health(daemon) == "red"


async def test_a_withheld_bundle_of_the_version_that_ends_it_does_not_prolong_it(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR)))

        await link.call("fleet_follow", manifests=[publisher.publish({"guards.py": guard("next")}).envelope])

        assert await decided(daemon) == ENFORCED


@pytest.mark.parametrize("is_lost", [False, True])
async def test_no_reset_brings_back_what_a_newer_version_has_ended(tmp_path: Path, is_lost: bool) -> None:
    """Its bundle is withheld, and after the reset its manifest too; the file of the policy may be lost besides."""
    publisher = Publisher()
    observing = publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR))
    ends_it = publisher.publish({"guards.py": guard("next")})
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, observing)
        await link.call("fleet_follow", manifests=[ends_it.envelope])
        assert await decided(daemon) == ENFORCED
    if is_lost:
        (tmp_path / "state" / "fleet" / "policy.json").write_text("{")

    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        async with daemon.administrator() as admin:
            await admin.call("fleet_reset", reason="again")
        if not is_lost:
            assert await decided(daemon) == ENFORCED
        await brought(link, observing)
        assert await decided(daemon) == ENFORCED
        await link.call("fleet_follow", manifests=[ends_it.envelope])
        await brought(link, publisher.publish(DENIES_BASH, same_as=1, observe_until=ends_in(HOUR)))
        assert await decided(daemon) == OWN  # a newer word counts as before


@pytest.mark.parametrize("is_copy", [True, False])
async def test_no_older_policy_file_brings_back_what_a_newer_version_has_ended(tmp_path: Path, is_copy: bool) -> None:
    """It is from before that version; or of a hooklatch that kept no ends, and what was wanted is reset."""
    publisher, path = Publisher(), tmp_path / "state" / "fleet" / "policy.json"
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR)))
        older = path.read_bytes()
        await link.call("fleet_follow", manifests=[publisher.publish({"guards.py": guard("next")}).envelope])
    if is_copy:
        path.write_bytes(older)
    else:
        kept = json.loads(path.read_bytes())
        del kept["ends"]
        path.write_text(json.dumps(kept))

    async with host(tmp_path, publisher.public) as daemon:
        async with daemon.administrator() as admin:
            await admin.call("fleet_reset", reason="again")
        assert await decided(daemon) == ENFORCED


async def test_a_reset_does_not_end_what_nothing_newer_has_ended(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR)))
        async with daemon.administrator() as admin:
            await admin.call("fleet_reset", reason="again")

        assert await decided(daemon) == OWN


@pytest.mark.parametrize(
    ("created", "until", "ends"),
    [
        (0, 400 * DAY, 30 * DAY),
        (-29 * DAY, 400 * DAY, DAY),
        (-31 * DAY, DAY, None),
        (DAY, 2 * DAY, None),  # windows that lie ahead could follow each other for ever
        (None, DAY, None),
    ],
)
async def test_a_window_that_no_tool_bounds_ends_after_30_days(
    tmp_path: Path, created: float | None, until: float, ends: float | None
) -> None:
    publisher, said = Publisher(), "" if created is None else ends_in(created).isoformat()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        now = await brought(link, publisher.publish(DENIES_BASH, created=said, observe_until=ends_in(until)))

        assert await decided(daemon) == (ENFORCED if ends is None else OWN)
        observes = now["policies"]["default"]["observes"]
        near = [format_moment(time.time() + ends + shift) for shift in range(-10, 2)] if ends is not None else [""]
        assert observes in near


async def test_the_word_of_a_key_that_was_taken_away_is_no_leave_to_observe(tmp_path: Path) -> None:
    thief, own = Publisher(), make_key().public.text
    async with host(tmp_path, thief.public) as daemon, link_of(daemon) as link:
        await brought(link, thief.publish(DENIES_BASH, observe_until=ends_in(HOUR)))
        assert await decided(daemon) == OWN

        table = (daemon.folder / "hooks.toml").read_text()
        daemon.write("hooks.toml", table.replace(thief.public, own))
        await daemon.parts.reloader.reload()

        await until(lambda: not fleet_of(daemon).layer.observing)
        assert await decided(daemon) == ENFORCED


async def test_a_stale_host_denies_though_its_policy_only_observes(tmp_path: Path) -> None:
    publisher, more = Publisher(), 'when_stale = "deny"\nmax_staleness = "1s"'
    async with host(tmp_path, publisher.public, more=more) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR)))

        await until(lambda: fleet_of(daemon).layer.denies is not None)

        assert "was last in contact with its fleet" in await decided(daemon, "Read")


async def test_what_is_not_what_was_signed_denies_though_it_was_to_observe(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        made = await brought(link, publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR)))
        kept = tmp_path / "state" / "fleet" / made["applied"]["bundle"]

        for path in (kept / "guards.py", kept.with_suffix(".json")):
            path.chmod(0o600)
            path.write_text("")
        await daemon.parts.reloader.reload()

        assert "the active policy 'default' cannot be proven" in await decided(daemon, "Read")


async def test_a_host_without_a_policy_denies_whatever_is_on_the_way(tmp_path: Path) -> None:
    publisher = Publisher()
    version = publisher.publish(DENIES_BASH, observe_until=ends_in(HOUR))
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await link.call("fleet_follow", manifests=[version.envelope], timestamp=version.timestamp)

        assert await decided(daemon) == NO_POLICY


async def test_a_manifest_that_was_edited_to_observe_is_refused(tmp_path: Path) -> None:
    publisher = Publisher()
    version = publisher.publish(DENIES_BASH)
    moment = format_moment(time.time() + HOUR)
    edited = version.envelope.replace('}","key"', f',\\"observe_until\\":\\"{moment}\\"}}","key"')
    assert edited != version.envelope
    answer: dict[str, Any] = {}
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        with pytest.raises(Exception, match="the signature is not that of the key"):
            answer = await link.call("fleet_follow", manifests=[edited])

        assert answer == {}
        assert await decided(daemon) == NO_POLICY
