"""A start with broken files: gates deny where they stood, or everywhere; manifests remember.

Slow as a whole: each starts a daemon, some twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from hooklatch.service.loading import build
from hooklatch.service.loading.build import prepare_version
from hooklatch.service.loading.plan import ReloadPlan
from hooklatch.service.loading.sources import SourceVersion
from support.daemons import Daemon, running_daemon
from support.edited import CONFIG, GUARDS, bash, is_green, is_red, reloaded, watching

pytestmark = pytest.mark.slow


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": GUARDS}) as daemon:
        yield daemon


# -- what is edited ----------------------------------------------------------------------------------------------


BROKEN = {"guards.py": "x = (\n", "hooks.toml": "[[hook]\n"}


@pytest.mark.parametrize("name", ["guards.py", "hooks.toml"])
async def test_without_a_manifest_every_gate_denies_until_the_file_is_mended(tmp_path: Path, name: str) -> None:
    good = {"hooks.toml": CONFIG, "guards.py": GUARDS}
    async with (
        running_daemon(tmp_path, good | {name: BROKEN[name]}) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        await watching(client)
        gates = [await client.fire_tool("Read"), await client.fire("user_prompt_submit", prompt="x")]
        notified = await client.fire("notification", notification_type="x")
        status = await admin.call("status")
        daemon.write(name, good[name])
        await reloaded(client)

        assert [(one["verdict"], one["cause"]) for one in gates] == [("deny", "load")] * 2
        assert f"{tmp_path}/{name}" in gates[0]["reason"]
        assert gates[0]["reason"].endswith(f"hooklatch hooks disable global/{name}")
        assert (notified["verdict"], is_red(status)) == ("pass", True)
        assert (await client.fire_tool("Read"))["verdict"] == "pass"
        assert await bash(client) == ("deny", "policy", "one")
        assert is_green(await admin.call("status"))


async def test_a_runtime_that_cannot_be_imported_is_said(tmp_path: Path) -> None:
    text = GUARDS.replace("def no", "async def no") + "import sys\nsys.modules['trio'] = None\n"
    files = {"hooks.toml": CONFIG, "guards.py": text}
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin:
        status = await admin.call("status")

    assert "it has a hook that needs trio, which cannot be imported: import of trio halted" in str(status["problems"])


async def test_disabling_a_broken_file_lets_gates_through(tmp_path: Path) -> None:
    async with (
        running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": "x = (\n"}) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        await admin.call("disable", id="guards.py")

        assert (await bash(client))[0] == "pass"
        status = await admin.call("status")
        assert is_green(status)  # it denies nothing
        said = f"global/guards.py: disabled, and broken: {tmp_path}/guards.py"
        assert any(said in str(one) for one in status["warnings"])


@pytest.mark.parametrize("name", ["guards.py", "hooks.toml"])
async def test_with_a_manifest_a_broken_file_denies_where_its_gates_stood(tmp_path: Path, name: str) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": GUARDS}):
        pass

    async with running_daemon(tmp_path, {name: BROKEN[name]}) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")
        elsewhere = [await client.fire_tool("Read"), await client.fire("user_prompt_submit", prompt="x")]

    assert (decision["verdict"], decision["cause"], decision["hook"]) == ("deny", "load", "guards:no")
    assert [one["verdict"] for one in elsewhere] == ["pass", "pass"]


async def test_a_manifest_survives_several_starts_with_the_broken_file(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": GUARDS}):
        pass

    for _ in range(2):
        async with running_daemon(tmp_path, {"guards.py": "x = (\n"}) as daemon, daemon.session() as client:
            decisions = [await client.fire_tool(tool) for tool in ("Bash", "Read")]

            assert [one["verdict"] for one in decisions] == ["deny", "pass"]


async def test_a_source_that_is_empty_at_the_start_denies_where_its_gates_stood(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": GUARDS}):
        pass
    (tmp_path / "guards.py").write_text("")
    async with running_daemon(tmp_path) as daemon, daemon.session() as client, daemon.administrator() as admin:
        denied = await bash(client)
        status = await admin.call("status")
        await admin.call("reload")
        accepted = await client.fire_tool("Bash", command="ls")

    assert denied[:2] == ("deny", "load")
    assert is_red(status)
    assert accepted["verdict"] == "pass"


async def test_a_file_that_held_hooks_and_is_gone_at_the_start_denies_by_its_manifest(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": "", "hooks.d/more.py": GUARDS}):
        pass
    (tmp_path / "hooks.d/more.py").unlink()

    async with running_daemon(tmp_path) as daemon, daemon.session() as client, daemon.administrator() as admin:
        denied = await bash(client)
        await admin.call("reload", accept_removed=True)

        assert denied[:2] == ("deny", "load")
        assert (await bash(client))[0] == "pass"


@pytest.mark.parametrize("mark", ["enabled=False", "observe=True", "optional=True"])
async def test_what_a_hook_was_allowed_to_let_through_its_manifest_lets_through_too(tmp_path: Path, mark: str) -> None:
    guards = GUARDS.replace('match="Bash"', f'match="Bash", {mark}')
    async with running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": guards}):
        pass

    async with running_daemon(tmp_path, {"guards.py": "x = (\n"}) as daemon, daemon.session() as client:
        assert (await bash(client))[0] == "pass"


# -- sources and events ------------------------------------------------------------------------------------------


async def test_a_defect_of_ours_that_one_file_shows_is_the_fault_of_that_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(version: SourceVersion, taken: ReloadPlan) -> SourceVersion:
        if b"odd" in version.code:
            raise RecursionError("too deep")
        return prepare_version(version, taken)

    monkeypatch.setattr(build, "prepare_version", prepare)
    files = {"hooks.toml": CONFIG + CONFIG.replace("guards", "other"), "guards.py": GUARDS, "other.py": "# nothing\n"}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client, daemon.administrator() as admin:
        daemon.write("other.py", "x = 'odd'\n")
        daemon.write("guards.py", GUARDS.replace("one", "two"))
        status = await admin.until_status(is_red)

        assert "hooklatch failed with RecursionError: too deep" in str(status["problems"])
        assert await bash(client) == ("deny", "policy", "two")


async def test_a_file_that_was_never_good_and_is_gone_says_how_to_accept_that(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        path = daemon.write("hooks.d/never.py", "x = (\n")
        await admin.until_status(is_red)
        path.unlink()
        await admin.until_status(lambda status: "it was active and is gone" in str(status["problems"]))

        refused = await client.fire_tool("Read")
        await admin.call("reload", accept_removed=True)

        assert "to accept that: hooklatch reload --accept-removed" in refused["reason"]
        assert (await client.fire_tool("Read"))["verdict"] == "pass"


async def test_a_guard_that_takes_the_name_of_one_that_is_gone_is_not_off_as_that_was(tmp_path: Path) -> None:
    guard = GUARDS.replace("Bash", "Read").replace("one", "more")
    async with (
        running_daemon(tmp_path, {"hooks.d/more.py": guard}) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        await admin.call("disable", id="more:no")
        await admin.call("reload")
        is_off = (await client.fire_tool("Read"))["verdict"]
        (daemon.folder / "hooks.d/more.py").unlink()
        await admin.call("reload", accept_removed=True)
    async with running_daemon(tmp_path, {"hooks.d/more.py": guard}) as daemon, daemon.session() as client:
        is_on = await client.fire_tool("Read")

    assert is_off == "pass"
    assert (is_on["verdict"], is_on["reason"]) == ("deny", "more")


async def test_a_guard_that_left_with_a_saved_file_is_forgotten_when_that_is_accepted_later(tmp_path: Path) -> None:
    kept = '[[hook]]\nid = "kept"\nevent = "notification"\ncommand = "true"\n'
    async with (
        running_daemon(tmp_path, {"hooks.toml": kept + CONFIG, "guards.py": GUARDS}) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        await admin.call("disable", id="guards:no")
        before = await bash(client)
        await watching(admin)
        daemon.write("hooks.toml", kept)
        await reloaded(admin)
        await admin.call("reload")
        daemon.write("hooks.toml", kept + CONFIG)
        await reloaded(admin)
        after = await bash(client)

    assert (before[0], after[0]) == ("pass", "deny")
