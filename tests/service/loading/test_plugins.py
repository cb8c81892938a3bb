"""Hooks that come with installed packages: where they stand, where they fire, and what a broken one does."""

from __future__ import annotations

import importlib
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import Client, child_of, running_daemon
from support.packages import GUARDS, install, uninstall, write_metadata
from support.repository import ROOT

EXAMPLE = ROOT / "examples/hooklatch-example-plugin"
FILE_GUARD = """
from hooklatch_worker import hook

@hook("pre_tool_use", priority=1000)
def last(event):
    return None
"""
MODELS = """
from hooklatch_worker import append, claim, hook

@hook("post_tool_use")
def appended(event):
    return append(__name__)

@hook("message_claim")
def claimed(event):
    return claim({"by": __name__})
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of packages that the daemon finds."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


async def ids(client: Client, **params: Any) -> list[str]:
    return [f"{hook['layer']}/{hook['id']}" for hook in (await client.call("hooks", **params))["hooks"]]


async def test_a_plugins_hooks_stand_before_the_files_and_are_named_after_it(tmp_path: Path, packages: Path) -> None:
    install(packages, "acme", "acme_guards")

    async with running_daemon(tmp_path, {"hooks.d/own.py": FILE_GUARD}) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")

        assert await ids(client) == ["plugin/acme.audit", "plugin/acme.no_bash", "global/own:last"]
        assert (decision["verdict"], decision["layer"], decision["hook"]) == ("deny", "plugin", "acme.no_bash")


async def test_a_plugin_is_never_imported_in_the_daemon(tmp_path: Path, packages: Path) -> None:
    install(packages, "acme", "acme_unseen")

    async with running_daemon(tmp_path):
        assert "acme_unseen" not in sys.modules


@pytest.mark.parametrize(
    ("allowed", "fired"),
    [
        pytest.param(None, ["p1", "p2"], id="ET-06 absent: all"),
        pytest.param([], [], id="ET-07 none"),
        pytest.param(["p1"], ["p1"], id="ET-08 one of two"),
        pytest.param(["p9"], [], id="one that is not there"),
    ],
)
async def test_plugins_fire_where_the_session_allows_them(
    tmp_path: Path, packages: Path, allowed: list[str] | None, fired: list[str]
) -> None:
    for name in ("p1", "p2"):
        install(packages, name, f"{name}_module", MODELS)
    params = {} if allowed is None else {"plugins": allowed}

    async with running_daemon(tmp_path, {"hooks.d/own.py": MODELS}) as daemon, daemon.session(**params) as client:
        decision = await client.fire("post_tool_use", tool_name="Bash", tool_input={})

        by = [outcome["hook"].partition(".")[0] for outcome in decision["outcomes"]]
        assert by == [*fired, "own:appended"]  # ET-09, ET-10: what is no plugin's fires in any case


@pytest.mark.parametrize(
    ("allowed", "verdict"), [pytest.param([], "pass", id="ET-12"), pytest.param(["p1"], "claim", id="ET-13")]
)
async def test_a_plugin_claims_where_it_is_allowed(
    tmp_path: Path, packages: Path, allowed: list[str], verdict: str
) -> None:
    install(packages, "p1", "p1_claims", MODELS)

    async with running_daemon(tmp_path) as daemon, daemon.session(plugins=allowed) as client:
        decision = await client.fire("message_claim", content="hello", platform="x")

        assert decision["verdict"] == verdict


async def test_a_fire_narrows_further(tmp_path: Path, packages: Path) -> None:
    install(packages, "acme", "acme_narrow")

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        payload = {"tool_name": "Bash", "tool_input": {}}
        without = await client.call("fire", event="pre_tool_use", payload=payload, plugins=[])
        with_it = await client.call("fire", event="pre_tool_use", payload=payload, plugins=["acme"])

        assert (without["verdict"], with_it["verdict"]) == ("pass", "deny")


async def test_a_child_session_keeps_the_gates_of_its_parents_plugins(tmp_path: Path, packages: Path) -> None:
    install(packages, "acme", "acme_inherited", GUARDS + MODELS)

    async with (
        running_daemon(tmp_path) as daemon,
        daemon.session(id="above") as parent,
        daemon.session(**child_of(parent), plugins=[]) as child,
    ):
        decision = await child.fire_tool("Bash")
        noted = await child.fire("post_tool_use", tool_name="Bash", tool_input={})

        assert decision["hook"] == "acme.no_bash"
        assert noted.get("outcomes", []) == []  # its other hooks are the child's own affair
        await parent.call("session.update", plugins=[])
        assert (await child.fire_tool("Bash"))["verdict"] == "pass"


async def test_a_definition_may_belong_to_a_plugin(tmp_path: Path) -> None:
    table = {"id": "mine", "event": "pre_tool_use", "run": str(tmp_path / "guards.py:no_bash"), "plugin": "p1"}

    async with running_daemon(tmp_path, {"guards.py": GUARDS}) as daemon, daemon.administrator() as admin:
        await admin.call("register", scope="global", hooks=[table])
        async with daemon.session(plugins=[]) as without, daemon.session(plugins=["p1"]) as with_it:
            assert (await without.fire_tool("Bash"))["verdict"] == "pass"
            assert (await with_it.fire_tool("Bash"))["verdict"] == "deny"


async def test_explain_says_that_a_plugin_is_not_allowed(tmp_path: Path, packages: Path) -> None:
    install(packages, "acme", "acme_explained")

    async with running_daemon(tmp_path) as daemon, daemon.session(plugins=[]) as client:
        result = await client.call("explain", event="pre_tool_use", payload={"tool_name": "Bash"})

        assert {one["why"] for one in result["others"]} == {"this session does not allow the plugin 'acme'"}


async def test_a_broken_plugin_denies_every_gate_where_it_is_allowed(tmp_path: Path, packages: Path) -> None:
    install(packages, "acme", "acme_broken", "raise ValueError('on purpose')")

    async with running_daemon(tmp_path) as daemon, daemon.session() as client, daemon.session(plugins=[]) as other:
        decision = await client.fire_tool("Read")
        status = await client.call("status")

        assert (decision["verdict"], decision["cause"], decision["hook"]) == ("deny", "load", "acme")
        assert "on purpose" in decision["reason"]
        assert status["health"] == "red"
        assert (await other.fire_tool("Read"))["verdict"] == "pass"


async def test_a_plugin_that_broke_denies_by_its_manifest(tmp_path: Path, packages: Path) -> None:
    module = install(packages, "acme", "acme_remembered")
    async with running_daemon(tmp_path):
        pass
    module.write_text("raise ValueError('on purpose')")

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        assert (await client.fire("pre_compact", trigger="manual"))["verdict"] == "pass"
        decision = await client.fire_tool("Bash")
        assert (decision["cause"], decision["hook"]) == ("load", "acme.audit")


async def test_an_uninstalled_plugin_is_an_error_until_somebody_accepts_that(tmp_path: Path, packages: Path) -> None:
    install(packages, "acme", "acme_leaving")
    async with running_daemon(tmp_path):
        pass
    uninstall(packages, "acme_leaving")
    importlib.invalidate_caches()

    async with running_daemon(tmp_path) as daemon, daemon.session() as client, daemon.administrator() as admin:
        assert (await client.fire_tool("Bash"))["cause"] == "load"
        await admin.call("reload")
        assert (await client.fire_tool("Bash"))["cause"] == "load"
        await admin.call("reload", accept_removed=True)
        assert (await client.fire_tool("Bash"))["verdict"] == "pass"
        assert (await admin.call("status"))["health"] == "green"


@pytest.mark.parametrize("value", ["acme_odd:run", "not a module"])
async def test_an_entry_point_that_is_no_module_is_named(tmp_path: Path, packages: Path, value: str) -> None:
    install(packages, "acme", "acme_odd", value=value)

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        assert (await client.fire_tool("Bash"))["cause"] == "load"
        assert "must name a module" in str((await client.call("status"))["problems"])


async def test_two_packages_of_one_plugins_name_are_an_error(tmp_path: Path, packages: Path) -> None:
    install(packages, "acme", "acme_one")
    install(packages, "acme", "acme_two")

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")
        assert decision["cause"] == "load"
        assert "both bring a plugin of this name" in decision["reason"]


async def test_a_whole_plugin_is_switched_by_its_name(tmp_path: Path, packages: Path) -> None:
    install(packages, "acme", "acme_switched")

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        async with daemon.administrator() as admin:
            await admin.call("disable", id="acme")
        assert (await client.fire_tool("Bash"))["verdict"] == "pass"
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        assert {hook["state"] for hook in (await client.call("hooks"))["hooks"]} == {"disabled"}
        async with daemon.administrator() as admin:
            await admin.call("enable", id="acme")
        assert (await client.fire_tool("Bash"))["verdict"] == "deny"


async def test_a_package_that_is_repaired_or_installed_is_found_by_a_reload(
    tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooklatch.path_lookup.TICK_NS", 0)  # each file is at rest once it is written
    install(packages, "acme", "acme_repaired")
    entry_points = packages / "acme_repaired-1.0.dist-info/entry_points.txt"
    text = entry_points.read_text()
    entry_points.write_bytes(b"\xff")
    async with running_daemon(tmp_path) as daemon, daemon.session() as client, daemon.administrator() as admin:
        await admin.call("reload")
        assert (await client.fire_tool("Read"))["cause"] == "load"

        entry_points.write_text(text)
        await admin.call("reload")
        assert (await client.fire_tool("Read"))["verdict"] == "pass"

        install(packages, "more", "acme_more")
        await admin.call("reload")
        assert {hook.partition(".")[0] for hook in await ids(client)} == {"plugin/acme", "plugin/more"}


async def test_a_change_of_a_plugin_is_announced(tmp_path: Path, packages: Path) -> None:
    module = install(packages, "acme", "acme_changing")

    async with running_daemon(tmp_path) as daemon, daemon.session() as client, daemon.administrator() as admin:
        await client.call("subscribe", topics=["registry"])
        module.write_text(GUARDS.replace("no_bash", "no_shell"))
        await admin.call("reload")

        announced = await client.announcement()
        assert (announced["added"], announced["removed"]) == (["acme.no_shell"], ["acme.no_bash"])


async def test_the_example_works(tmp_path: Path, packages: Path) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    (name,) = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    shutil.copytree(EXAMPLE / name, packages / name)
    ((plugin, module),) = project["project"]["entry-points"]["hooklatch.plugins"].items()
    write_metadata(packages, name, plugin, module)

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        refused = await client.fire_tool("Bash", command="curl -H ghp_x")
        started = await client.fire("session_start", source="startup")

        assert refused["hook"] == "example-plugin.no_tokens"
        assert started["warnings"] == ["example-plugin watches this session"]


@pytest.mark.slow
async def test_the_example_installs(tmp_path: Path, packages: Path) -> None:
    """Slow: it builds a wheel."""
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation"]
    await trio.run_process([*command, "--target", str(packages), str(EXAMPLE)], capture_stdout=True)
    importlib.invalidate_caches()

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        assert (await client.fire_tool("Bash", command="curl -H ghp_x"))["hook"] == "example-plugin.no_tokens"
