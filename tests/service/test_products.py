"""A product whose code raises, also SystemExit, is a fault of what wants it, and never ends a daemon or a reload."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hooklatch import products
from hooklatch.fleet.host.host import FleetHost
from hooklatch.service.config.configuration import ForeignFile
from support.daemons import Daemon, running_daemon
from support.fleets import fleet_table
from support.guards import FILES

TABLE = """
import msgspec
from hooklatch.service.config.settings import MainTable, TableEffect

class Acme(msgspec.Struct):
    x: int

def read(table, folder):
    {}

TABLE = MainTable(Acme, read)
"""
FAILURES = [
    "raise SystemExit(3)",
    "raise KeyboardInterrupt",
    TABLE.format("raise SystemExit(3)"),
    TABLE.format("raise KeyError('key')"),
    TABLE.format("return None"),
]
LISTENER = '[[hook]]\nid = "first"\nevent = "pre_tool_use"\ncommand = "exit 0"\n'


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder of packages that the daemon finds."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    products.search_anew()
    yield folder
    products.search_anew()


def install(folder: Path, module: str, code: str) -> None:
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[hooklatch.tables]\nacme = {module}:TABLE\n")
    (folder / f"{module}.py").write_text(code)


def replace_module(monkeypatch: pytest.MonkeyPatch, name: str, **content: object) -> None:
    module = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)


async def reload(daemon: Daemon) -> list[Any]:
    async with daemon.administrator() as admin:
        return (await admin.call("reload"))["diagnostics"]


async def verdict_and_health(daemon: Daemon) -> tuple[str, str]:
    async with daemon.session() as client, daemon.administrator() as admin:
        return (await client.fire_tool("Read", path="/a"))["verdict"], (await admin.call("status"))["health"]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("first", [LISTENER, "[acme]\nx = 1\n"])
async def test_a_table_whose_product_fails_is_refused(
    tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch, failure: str, first: str
) -> None:
    install(packages, "acme_table", failure)
    async with running_daemon(tmp_path, {"hooks.toml": first}) as daemon:
        daemon.write("hooks.toml", LISTENER.replace("first", "second") + "[acme]\nx = 1\n")
        [diagnostic] = await reload(daemon)
        verdict, health = await verdict_and_health(daemon)
    monkeypatch.delitem(sys.modules, "acme_table", raising=False)

    assert "[acme] has no effect" in diagnostic["message"]
    assert (verdict, health) == ("pass" if first == LISTENER else "deny", "red")  # what was active stays so


@pytest.mark.parametrize("error", [SystemExit(3), KeyError("key")])
@pytest.mark.parametrize("is_there_at_start", [True, False])
async def test_a_file_whose_reader_fails_denies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, is_there_at_start: bool
) -> None:
    def fail(*_: object) -> Any:
        raise error

    replace_module(monkeypatch, "hooklatch.importing.settings_files", SETTINGS=ForeignFile(fail, fail))
    async with running_daemon(tmp_path, {"hooks.d/other.json": "{}"} if is_there_at_start else {}) as daemon:
        daemon.write("hooks.d/other.json", "{}")
        [diagnostic] = await reload(daemon)

        assert "it is unknown which hooks it holds" in diagnostic["message"]
        assert await verdict_and_health(daemon) == ("deny", "red")


class Unmade(FleetHost):
    def __init__(self, daemon: object) -> None:
        raise SystemExit(3)


class Untaken(FleetHost):
    def take(self, settings: object) -> None:
        raise KeyError("key")


@pytest.mark.parametrize("product", [Unmade, Untaken])
@pytest.mark.parametrize("first", ["", fleet_table()])
async def test_a_part_that_fails_denies_and_is_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, product: type, first: str
) -> None:
    replace_module(monkeypatch, "hooklatch.fleet.host.host", FleetHost=product)
    async with running_daemon(tmp_path, {"hooks.toml": first}) as daemon:
        daemon.write("hooks.toml", fleet_table())
        await reload(daemon)

        assert await verdict_and_health(daemon) == ("deny", "red")


async def test_a_product_that_is_installed_later_is_found_by_a_reload(tmp_path: Path, packages: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": "[acme]\nx = 1\n"}) as daemon:
        [before] = await reload(daemon)
        install(packages, "acme_later", TABLE.format("return TableEffect()"))
        after = await reload(daemon)

    assert "no key 'acme'" in before["message"]
    assert after == []


async def test_a_write_through_a_memory_map_is_found_by_a_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooklatch.path_lookup.TICK_NS", 0)  # each file is at rest once it is written
    path = tmp_path / "hooks.toml"
    path.write_text(LISTENER)
    async with running_daemon(tmp_path, {"guards.py": FILES["guards.py"]}) as daemon:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
            content[:] = bytes(content)  # its first write shows in the file's times, the next one does not
            await reload(daemon)
            before, stamp = await verdict_and_health(daemon), path.stat().st_ctime_ns
            content[:] = LISTENER.replace("exit 0", "exit 2").encode()
            is_unseen = path.stat().st_ctime_ns == stamp
            await reload(daemon)
            after = await verdict_and_health(daemon)

    assert is_unseen
    assert (before, after) == (("pass", "green"), ("deny", "green"))
