"""Several policies on one host: all that are for it hold together, and no one of them takes another away."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hooklatch.fleet.manifests import RolloutTarget
from support.daemons import Client, Daemon, RpcFailure
from support.fleet_hosts import NO_POLICY, decided, health, host, notes
from support.fleets import link_of
from support.publishing import Published, Publisher, guard

CI = {"policy": "ci", "rollout": RolloutTarget(("ci",))}
LABELS = 'labels = ["ci"]'


def denies(tool: str, reason: str = "no") -> dict[str, str]:
    return {f"{tool}.py": guard(reason).replace("Bash", tool).replace("no-bash", f"no-{tool.lower()}")}


async def bring(link: Client, *versions: Published) -> dict[str, Any]:
    """Bring versions, and the bundles of all that the host wants; return where it stands then."""
    answer = await link.call("fleet_follow", manifests=[one.envelope for one in versions])
    for policy in answer["policies"].values():
        if policy["wanted"] != policy["applied"]:
            await link.call(
                "fleet_apply", **next(one for one in versions if one.version == policy["wanted"]["version"]).applying
            )
    return await link.call("fleet_follow", manifests=[])


async def both(daemon: Daemon) -> list[str]:
    return [await decided(daemon, "Bash"), await decided(daemon, "Read")]


def numbers(answer: dict[str, Any]) -> dict[str, int | None]:
    return {name: of["applied"] and of["applied"]["version"] for name, of in answer["policies"].items()}


async def test_a_version_for_a_label_adds_to_the_base_and_the_next_base_takes_nothing_away(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public, more=LABELS) as daemon, link_of(daemon) as link:
        await bring(link, publisher.publish(denies("Bash")))
        answer = await bring(link, publisher.publish(denies("Read"), **CI))
        assert await both(daemon) == ["fleet/no-bash: no", "fleet/no-read: no"]
        assert (answer["wanted"], answer["applied"]) == (answer["policies"]["ci"]["wanted"],) * 2

        answer = await bring(link, publisher.publish(denies("Bash", "still no")))

        assert await both(daemon) == ["fleet/no-bash: still no", "fleet/no-read: no"]
        assert (numbers(answer), answer["applied"]["version"]) == ({"ci": 2, "default": 3}, 3)
        assert [one["policy"] for one in await notes(daemon, "applied")] == ["default", "ci", "default"]

    async with host(tmp_path, publisher.public, more=LABELS) as daemon:
        assert await both(daemon) == ["fleet/no-bash: still no", "fleet/no-read: no"]


async def test_one_policy_is_retired_by_an_empty_bundle_and_the_others_stay(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public, more=LABELS) as daemon, link_of(daemon) as link:
        await bring(link, publisher.publish(denies("Bash")), publisher.publish(denies("Read"), **CI))

        await bring(link, publisher.publish({}, **CI))
        assert await both(daemon) == ["fleet/no-bash: no", "pass"]
        await bring(link, publisher.publish({}))

        assert await both(daemon) == ["global/no-bash: own", "pass"]
        assert await health(daemon) == "ready"


async def test_policies_with_equal_hooks_or_an_equal_bundle_hold_both(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public, more=LABELS) as daemon, link_of(daemon) as link:
        same = publisher.publish(denies("Bash"))
        await bring(link, same, publisher.publish(denies("Bash"), **CI))
        assert await decided(daemon) == "fleet/no-bash: no"

        await bring(link, publisher.publish({}, policy="default"))
        assert await decided(daemon) == "fleet/no-bash: no"
        await bring(link, publisher.publish(denies("Bash", "base")))

        ids = {hook.id for hook in daemon.parts.registries.view.hooks if hook.layer.label == "fleet"}
        assert ids == {"no-bash", "no-bash#default"}
        assert await health(daemon) == "ready"


async def test_one_that_cannot_be_proven_denies_and_holds_up_no_other(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public, more=LABELS) as daemon, link_of(daemon) as link:
        base, ci = publisher.publish(denies("Bash")), publisher.publish(denies("Read"), **CI)
        await bring(link, base, ci)
    shutil.rmtree(tmp_path / "state" / "fleet" / ci.digest)

    async with host(tmp_path, publisher.public, more=LABELS) as daemon, link_of(daemon) as link:
        assert "fleet/policy" in await decided(daemon, "Glob")
        newer = publisher.publish(denies("Bash", "newer"))
        answer = await link.call("fleet_follow", manifests=[newer.envelope])
        assert numbers(answer) == {"ci": None, "default": 1}
        await link.call("fleet_apply", **newer.applying)
        assert "fleet/policy" in await decided(daemon, "Glob")

        await link.call("fleet_apply", **ci.applying)

        assert await both(daemon) == ["fleet/no-bash: newer", "fleet/no-read: no"]
        assert await decided(daemon, "Glob") == "pass"


async def test_a_bundle_that_does_not_load_is_refused_alone(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public, more=LABELS) as daemon, link_of(daemon) as link:
        await bring(link, publisher.publish(denies("Bash")))
        bad = publisher.publish({"guards.py": "import nothing_of_this_name\n"}, **CI)
        good = publisher.publish(denies("Bash", "newer"))
        await link.call("fleet_follow", manifests=[bad.envelope, good.envelope])
        with pytest.raises(RpcFailure, match="nothing_of_this_name"):
            await link.call("fleet_apply", **bad.applying)
        await link.call("fleet_apply", **good.applying)

        assert await both(daemon) == ["fleet/no-bash: newer", "pass"]
        assert (await link.call("fleet_follow", manifests=[]))["policies"]["ci"]["applied"] is None


async def test_a_new_host_passes_nothing_before_it_has_all_of_its_policies(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public, more=LABELS) as daemon, link_of(daemon) as link:
        base, ci = publisher.publish(denies("Bash")), publisher.publish(denies("Read"), **CI)
        await link.call("fleet_follow", manifests=[base.envelope, ci.envelope])
        await link.call("fleet_apply", **base.applying)
        assert await decided(daemon, "Glob") == NO_POLICY

        await link.call("fleet_apply", **ci.applying)

        assert await decided(daemon, "Glob") == "pass"


async def test_what_is_lost_denies_until_every_policy_is_there_again(tmp_path: Path) -> None:
    publisher = Publisher()
    base, ci = publisher.publish(denies("Bash")), publisher.publish(denies("Read"), **CI)
    async with host(tmp_path, publisher.public, more=LABELS) as daemon, link_of(daemon) as link:
        await bring(link, base, ci)
    (tmp_path / "state" / "fleet" / "policy.json").write_text("{")

    async with (
        host(tmp_path, publisher.public, more=LABELS) as daemon,
        link_of(daemon) as link,
        daemon.administrator() as admin,
    ):
        await admin.call("fleet_reset", reason="a torn disk")
        await link.call("fleet_follow", manifests=[base.envelope, ci.envelope])
        await link.call("fleet_apply", **base.applying)
        assert "a torn disk" in await decided(daemon, "Glob")
        await link.call("fleet_apply", **ci.applying)

        assert await decided(daemon, "Glob") == "pass"
        assert await both(daemon) == ["fleet/no-bash: no", "fleet/no-read: no"]


async def test_another_fleets_policies_end_with_the_last_of_this_fleet(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public, more=LABELS) as daemon, link_of(daemon) as link:
        await bring(link, publisher.publish(denies("Bash")), publisher.publish(denies("Read"), **CI))
    other = Publisher("other", publisher.key)
    base, gpu = other.publish(denies("Bash", "other")), other.publish(denies("Glob"), policy="gpu")
    (tmp_path / "hooks.toml").unlink()

    async with host(tmp_path, publisher.public, more=LABELS, name="other") as daemon, link_of(daemon) as link:
        await link.call("fleet_follow", manifests=[base.envelope, gpu.envelope])
        await link.call("fleet_apply", **base.applying)
        assert {hook.id for hook in daemon.parts.registries.view.hooks} >= {"no-bash", "no-read"}
        assert "no policy of the fleet 'other'" in await decided(daemon, "Read")  # as on a new host
        await link.call("fleet_apply", **gpu.applying)

        assert [await decided(daemon, tool) for tool in ("Bash", "Read", "Glob")] == [
            "fleet/no-bash: other", "pass", "fleet/no-glob: no",
        ]  # fmt: skip
