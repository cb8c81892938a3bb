"""The fleet is a product that is loaded where it is wanted; one that cannot be loaded denies, and is red."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch import products
from support.daemons import Daemon, running_daemon
from support.fleets import fleet_table, link_of
from support.guards import FILES
from support.publishing import Publisher

PART, TABLE = "hooklatch.fleet.host.host", "hooklatch.fleet.settings"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Search the installed packages anew, before and after."""
    products.search_anew()
    yield
    products.search_anew()


def break_module(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # so that its import fails


async def verdict_and_health(daemon: Daemon) -> tuple[str, str, list[str]]:
    async with daemon.session() as client, daemon.administrator() as admin:
        decision, status = await client.fire_tool("Read"), await admin.call("status")
    return decision["verdict"], status["health"], [*status["problems"], *status["faults"]]


async def test_a_host_without_a_fleet_loads_none(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.administrator() as admin:
        await admin.call("status")

        assert daemon.parts.fleet.loaded is None


@pytest.mark.parametrize("module", [PART, TABLE])
async def test_a_fleet_that_cannot_be_loaded_denies_and_is_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    break_module(monkeypatch, module)
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon:
        verdict, health, problems = await verdict_and_health(daemon)

    assert (verdict, health) == ("deny", "red")
    assert any("cannot be loaded" in str(problem) and "fleet" in str(problem) for problem in problems)


async def test_a_policy_that_was_active_denies_while_its_product_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher()
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table(publisher.public)}) as daemon:
        async with link_of(daemon) as link:
            version = publisher.publish({"guards.py": "# hooklatch: no hooks\n"})
            await link.call("fleet_follow", manifests=[version.envelope])
            await link.call("fleet_apply", **version.applying)
        before = (await verdict_and_health(daemon))[0]
    with monkeypatch.context() as broken:
        break_module(broken, PART)
        async with running_daemon(tmp_path, {"hooks.toml": ""}) as daemon:
            verdict, health, _ = await verdict_and_health(daemon)
    async with running_daemon(tmp_path, {}) as daemon:
        after = (await verdict_and_health(daemon))[0]

    assert (before, verdict, health, after) == ("pass", "deny", "red", "pass")


async def test_two_packages_with_one_name_deny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "packages" / "acme-1.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[hooklatch.daemon]\nfleet = acme:Fleet\n")
    monkeypatch.syspath_prepend(other.parent)
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon:
        verdict, health, problems = await verdict_and_health(daemon)

    assert (verdict, health) == ("deny", "red")
    assert any("several packages" in str(problem) for problem in problems)
