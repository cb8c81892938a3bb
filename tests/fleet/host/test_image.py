"""A policy in an image: a host without one begins with it, verified as if a link had brought it, and never goes back.

Slow: real daemons.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import trio

from support.daemons import Daemon
from support.fleet_hosts import NO_POLICY, decided, host
from support.fleets import link_of
from support.publishing import Publisher, brought, guard

FILES, OLD = {"guards.py": guard("of the image")}, {"guards.py": guard("old")}


async def make_image(folder: Path, publisher: Publisher) -> Path:
    """Return what another host keeps of the policy, copied as an image would have it."""
    async with host(folder / "other", publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, *publisher.versions)
    return Path(shutil.copytree(folder / "other" / "state" / "fleet", folder / "image"))


def named(image: Path) -> str:
    return f'image = "{image}"'


async def fault(daemon: Daemon) -> str:
    """Wait until a host says what is wrong with its image; return that."""
    with trio.fail_after(30):
        while True:
            async with daemon.administrator() as admin:
                problems = (await admin.call("status"))["fleet"]["problems"]
            if found := [text for text in problems if "the policy in the image" in text]:
                return str(found[0])


async def active(daemon: Daemon) -> None:
    with trio.fail_after(30):
        while NO_POLICY in await decided(daemon):
            pass


async def test_a_host_without_a_link_begins_with_the_policy_of_its_image(tmp_path: Path) -> None:
    publisher = Publisher()
    publisher.publish(OLD)
    publisher.publish(FILES)
    image = await make_image(tmp_path, publisher)

    async with host(tmp_path / "new", publisher.public, more=named(image)) as daemon:
        await active(daemon)
        assert await decided(daemon) == "fleet/no-bash: of the image"


async def test_what_an_image_carries_of_a_key_that_is_not_listed_is_not_believed(tmp_path: Path) -> None:
    publisher = Publisher()
    publisher.publish(FILES)
    image = await make_image(tmp_path, publisher)

    async with host(tmp_path / "new", Publisher().public, more=named(image)) as daemon:
        assert "[fleet] keys does not list" in await fault(daemon)
        assert await decided(daemon) == NO_POLICY


async def test_a_bundle_that_was_altered_in_an_image_is_not_active(tmp_path: Path) -> None:
    publisher = Publisher()
    bundle = publisher.publish(FILES)
    image = await make_image(tmp_path, publisher)
    (path,) = [path for path in image.glob("*.json") if len(path.stem) == 64]
    path.write_bytes(path.read_bytes()[:-1])

    async with host(tmp_path / "new", publisher.public, more=named(image)) as daemon:
        assert "version 1" in await fault(daemon)
        assert await decided(daemon) == NO_POLICY
        async with link_of(daemon) as link:
            await link.call("fleet_apply", **bundle.applying)
        assert await decided(daemon) == "fleet/no-bash: of the image"
        async with daemon.administrator() as admin:
            assert "image" not in str((await admin.call("status"))["fleet"]["problems"])


async def test_an_image_without_a_policy_is_told_and_denies(tmp_path: Path) -> None:
    async with host(tmp_path / "new", Publisher().public, more=named(tmp_path / "nothing")) as daemon:
        assert "it has no version of the policy" in await fault(daemon)
        assert await decided(daemon) == NO_POLICY


async def test_a_host_that_has_a_policy_does_not_go_back_to_its_image(tmp_path: Path) -> None:
    publisher = Publisher()
    publisher.publish(OLD)
    image = await make_image(tmp_path, publisher)
    publisher.publish(FILES)

    async with host(tmp_path / "new", publisher.public, more=named(image)) as daemon, link_of(daemon) as link:
        await brought(link, *publisher.versions)
    async with host(tmp_path / "new", publisher.public, more=named(image)) as daemon:
        assert await decided(daemon) == "fleet/no-bash: of the image"
