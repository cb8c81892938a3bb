"""What is kept of a policy on the disk: tampered with, torn, unreadable, gone.  The unknown denies at every gate."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hooklatch.fleet.manifests import RolloutTarget
from support.daemons import Daemon, RpcFailure
from support.fleet_hosts import NO_POLICY, decided, health, host, notes
from support.fleets import link_of
from support.pools import replace_workers, until
from support.publishing import Publisher, brought, guard
from support.records import needs_root, tiny_disk

FILES = {
    "guards.py": "from helper import REASON\n" + guard("x").replace("'x'", "REASON"),
    "helper.py": "REASON = 'fleet'\n",
    "data/words.txt": "words\n",
}


async def applied(folder: Path, publisher: Publisher) -> None:
    """Have a host apply a policy, and stop it."""
    async with host(folder, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(FILES))
        assert await decided(daemon) == "fleet/no-bash: fleet"


def rewrite(path: Path, text: str) -> None:
    path.chmod(0o600)
    path.write_text(text)


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "policy.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_kept(folder: Path, **changes: Any) -> None:
    kept = json.loads((folder / "policy.json").read_text())["policies"]["default"]
    merged = {
        name: {**kept[name], **change} if isinstance(change, dict) else change for name, change in changes.items()
    }
    edit(folder, policies={"default": {**kept, **merged}})


def bundle(folder: Path) -> Path:
    (found,) = [path for path in folder.iterdir() if path.is_dir()]
    return found


def linked(path: Path, to: str) -> None:
    path.unlink()
    path.symlink_to(to)


def forged(folder: Path) -> None:
    """Have it name a bundle that nobody has signed."""
    path = folder / "policy.json"
    text = path.read_text().replace(bundle(folder).name, "0" * 64)
    path.write_text(text)


def rename_policy(folder: Path) -> None:
    edit(folder, policies={"other": json.loads((folder / "policy.json").read_text())["policies"]["default"]})


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a guard that was changed": lambda folder: rewrite(bundle(folder) / "guards.py", "# nothing\n"),
    "a helper that was changed": lambda folder: rewrite(bundle(folder) / "helper.py", "REASON = 'own'\n"),
    "a file that no hook loads": lambda folder: rewrite(bundle(folder) / "data" / "words.txt", "other\n"),
    "a guard that is gone": lambda folder: (bundle(folder) / "guards.py").unlink(),
    "a guard that was added": lambda folder: (bundle(folder) / "more.py").write_text("raise SystemExit\n"),
    "a file that is torn": lambda folder: rewrite(bundle(folder) / "guards.py", ""),
    "a file that is a link": lambda folder: linked(bundle(folder) / "helper.py", "/"),
    "a file that others may write": lambda folder: (bundle(folder) / "helper.py").chmod(0o666),
    "no folder": lambda folder: shutil.rmtree(bundle(folder)),
    "no bundle": lambda folder: Path(f"{bundle(folder)}.json").unlink(),
    "a torn bundle": lambda folder: rewrite(Path(f"{bundle(folder)}.json"), "{"),
    "an empty policy": lambda folder: (folder / "policy.json").write_text(""),
    "a torn policy": lambda folder: (folder / "policy.json").write_bytes((folder / "policy.json").read_bytes()[:99]),
    "a policy of another form": lambda folder: edit(folder, version=3),
    "a policy with an unknown key": lambda folder: edit(folder, more=1),
    "a policy that nobody signed": lambda folder: forged(folder),
    "a policy without a signature": lambda folder: edit_kept(folder, applied={"signature": ""}),
    "a policy whose version is no version": lambda folder: edit_kept(folder, applied={"payload": "\ud800{"}),
    "a wanted version that is none": lambda folder: edit_kept(folder, wanted={"payload": "{}"}),
    "a policy under another's name": lambda folder: rename_policy(folder),
    "a policy that is a folder": lambda folder: ((folder / "policy.json").unlink(), (folder / "policy.json").mkdir()),
    "a policy that others may write": lambda folder: (folder / "policy.json").chmod(0o666),
    "a link that leads nowhere": lambda folder: linked(folder / "policy.json", "none"),
    "a policy of before it was applied": lambda folder: edit_kept(folder, applied=None, key=""),
    "a policy of before anything was read": lambda folder: (folder / "policy.json").write_text("{}"),
    "no policy": lambda folder: (folder / "policy.json").unlink(),
    "nothing": lambda folder: shutil.rmtree(folder),
    "a file in its place": lambda folder: (shutil.rmtree(folder), folder.write_text("")),
}  # fmt: skip


@pytest.mark.slow  # a daemon for each of them
async def test_what_cannot_be_proven_at_a_start_denies_at_every_gate(tmp_path: Path) -> None:
    publisher = Publisher()
    await applied(tmp_path, publisher)
    shutil.copytree(tmp_path / "state" / "fleet", tmp_path / "kept")
    for damage in DAMAGES.values():
        damage(tmp_path / "state" / "fleet")
        await denies_everything(tmp_path, publisher)
        remove(tmp_path / "state" / "fleet")
        shutil.copytree(tmp_path / "kept", tmp_path / "state" / "fleet")


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


async def denies_everything(tmp_path: Path, publisher: Publisher) -> None:

    async with host(tmp_path, publisher.public) as daemon:
        async with daemon.session() as client:
            for tool in ("Bash", "Read"):
                decision = await client.fire_tool(tool)
                assert (decision["verdict"], decision["cause"], decision["layer"]) == ("deny", "load", "fleet")
            assert (await client.fire("user_prompt_submit", prompt="p"))["verdict"] == "deny"
        assert await health(daemon) == "red"
        async with link_of(daemon) as link:
            now = await state_of(link)
            assert now is None or now["applied"] is None


async def state_of(link: Any) -> dict[str, Any] | None:
    """Return where the host stands; None if it refuses to say, since nothing is known."""
    try:
        return await link.call("fleet_follow", manifests=[])
    except RpcFailure:
        return None


OF_FILES = ("a guard", "a helper", "a file that", "no folder", "no bundle", "a torn bundle")


async def test_what_is_changed_in_a_running_daemon_denies_and_is_mended_by_the_link(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        version = publisher.publish(FILES)
        await brought(link, version)

        for damage in (damage for what, damage in DAMAGES.items() if what.startswith(OF_FILES)):
            damage(tmp_path / "state" / "fleet")
            await daemon.parts.reloader.reload()

            assert "fleet/policy" in await decided(daemon, "Read")
            now = await link.call("fleet_follow", manifests=[])
            assert (now["applied"], now["wanted"]["version"]) == (None, 1)
            await link.call("fleet_apply", **version.applying)
            assert await decided(daemon) == "fleet/no-bash: fleet"
            assert (await decided(daemon, "Read"), await health(daemon)) == ("pass", "ready")


async def test_the_watch_notices_a_change_by_itself(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(FILES))

        rewrite(bundle(tmp_path / "state" / "fleet") / "helper.py", "REASON = 'own'\n")

        await until_denied(daemon)


LAZY = """
from hooklatch import allow, deny, hook

@hook("pre_tool_use", match="Bash", id="no-bash")
def guard(event):
    import helper
    return deny(helper.REASON) if helper.REASON else allow()
"""


@pytest.mark.parametrize("guards", [FILES["guards.py"], LAZY], ids=["at the start", "in a call"])
async def test_a_worker_imports_nothing_but_what_was_signed_before_anybody_looks(tmp_path: Path, guards: str) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link, daemon.session() as client:
        await brought(link, publisher.publish({**FILES, "guards.py": guards}))
        async with daemon.parts.reloader._lock:  # no reload looks at the files meanwhile
            for damage in ("REASON = ''\n", "REASON = 'own'\n"):
                rewrite(bundle(tmp_path / "state" / "fleet") / "helper.py", damage)
                await replace_workers(daemon)

                decision = await client.fire_tool("Bash")

                assert (decision["verdict"], decision["reason"]) == ("deny", "fleet")


async def until_denied(daemon: Daemon) -> None:
    await until(lambda: any(hook.id == "policy" for hook in daemon.parts.registries.view.hooks))


async def test_an_operator_has_a_bundle_written_anew(tmp_path: Path) -> None:
    publisher = Publisher()
    await applied(tmp_path, publisher)
    shutil.rmtree(bundle(tmp_path / "state" / "fleet"))

    async with host(tmp_path, publisher.public) as daemon, daemon.administrator() as admin:
        assert "fleet/policy" in await decided(daemon)
        await admin.call("reload")
        assert await decided(daemon) == "fleet/no-bash: fleet"
        assert await health(daemon) == "ready"


async def test_a_policy_that_is_readable_again_is_in_force_again(tmp_path: Path) -> None:
    publisher = Publisher()
    await applied(tmp_path, publisher)
    path = tmp_path / "state" / "fleet" / "policy.json"
    path.rename(path.with_name("away"))

    async with host(tmp_path, publisher.public) as daemon, daemon.administrator() as admin:
        path.with_name("away").rename(path)
        await admin.call("reload")
        assert await decided(daemon) == "fleet/no-bash: fleet"


async def test_after_a_reset_of_what_is_unreadable_gates_are_denied_until_the_link_brings_it(tmp_path: Path) -> None:
    publisher = Publisher()
    await applied(tmp_path, publisher)
    (tmp_path / "state" / "fleet" / "policy.json").write_text("{")

    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link, daemon.administrator() as admin:
        with pytest.raises(RpcFailure, match="fleet reset"):
            await link.call("fleet_follow", manifests=[publisher.versions[0].envelope])
        await admin.call("fleet_reset", reason="a torn disk")
        assert "a torn disk" in await decided(daemon, "Read")

    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        assert "a torn disk" in await decided(daemon, "Read")
        await brought(link, publisher.versions[0])
        assert (await decided(daemon), await decided(daemon, "Read")) == ("fleet/no-bash: fleet", "pass")


async def test_a_reset_that_found_nothing_to_apply_allows_no_older_version_later(tmp_path: Path) -> None:
    publisher = Publisher()
    old = publisher.publish({"guards.py": guard("old")}, rollout=RolloutTarget(("ci",)))
    new = publisher.publish({"guards.py": guard("new")}, rollout=RolloutTarget(("linux",)))
    texts = [old.envelope, new.envelope]
    async with (
        host(tmp_path, publisher.public, more='labels = ["linux"]') as daemon,
        link_of(daemon) as link,
        daemon.administrator() as admin,
    ):
        await brought(link, old, new)
        await admin.call("fleet_reset", reason="a new engine")
        await link.call("fleet_follow", manifests=texts)
        await link.call("fleet_follow", manifests=[])

    async with host(tmp_path, publisher.public, more='labels = ["ci"]') as daemon, link_of(daemon) as link:
        assert (await link.call("fleet_follow", manifests=texts))["wanted"]["version"] == 2
        assert await decided(daemon) == "fleet/no-bash: new"


async def test_without_a_reset_no_history_makes_a_host_go_back(tmp_path: Path) -> None:
    publisher = Publisher()
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, *[publisher.publish({"guards.py": guard(str(number))}) for number in range(3)])
        for version in publisher.versions[:2]:
            with pytest.raises(RpcFailure):
                await link.call("fleet_follow", manifests=[version.envelope])
            with pytest.raises(RpcFailure, match="wants version 3"):
                await link.call("fleet_apply", **version.applying)
        assert await decided(daemon) == "fleet/no-bash: 2"


async def test_a_revoked_key_leaves_in_force_what_it_has_signed_and_is_red(tmp_path: Path) -> None:
    old, new = Publisher(), Publisher()
    await applied(tmp_path, old)

    async with host(tmp_path, new.public) as daemon, link_of(daemon) as link:
        assert await decided(daemon) == "fleet/no-bash: fleet"
        assert await health(daemon) == "red"
        now = await link.call("fleet_follow", manifests=[])
        assert "may not sign the policy 'default' any more" in now["problem"]
        with pytest.raises(RpcFailure, match="does not list"):
            await link.call("fleet_follow", manifests=[old.publish({}).envelope])
        old.key = new.key
        now = await brought(link, *old.versions[1:], old.publish({"guards.py": guard("new")}))
        assert (now["problem"], await decided(daemon)) == (None, "fleet/no-bash: new")


async def test_a_key_that_is_revoked_while_a_bundle_is_built_is_noticed(tmp_path: Path) -> None:
    old, new = Publisher(), Publisher()
    slow = guard("slow").replace("deny, hook", "deny, hook\nimport os, time") + (
        "\nopen({!r}, 'w').close()\nwhile not os.path.exists({!r}):\n    time.sleep(0.002)\n"
    ).format(str(tmp_path / "begun"), str(tmp_path / "go"))
    async with host(tmp_path, old.public) as daemon, link_of(daemon) as link:
        version = old.publish({"guards.py": slow})
        await link.call("fleet_follow", manifests=[version.envelope])
        number = await link.send("fleet_apply", **version.applying)
        await until(lambda: (tmp_path / "begun").exists())

        layer = daemon.parts.fleet.use().layer
        layer.take(msgspec.structs.replace(layer.settings, keys=(new.public,)))
        (tmp_path / "go").touch()

        with pytest.raises(RpcFailure, match="has changed while it was built"):
            await link.answer_to(number)
        assert await decided(daemon) == NO_POLICY


async def test_without_the_library_nothing_can_be_proven_and_every_gate_is_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher()
    await applied(tmp_path, publisher)
    version = publisher.publish({})
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)

    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        assert "hooklatch[fleet]" in await decided(daemon, "Read")
        with pytest.raises(RpcFailure, match="cryptography is not installed"):
            await link.call("fleet_follow", manifests=[version.envelope])


async def test_what_was_wanted_is_not_applied_once_its_key_is_revoked(tmp_path: Path) -> None:
    old, new = Publisher(), Publisher()
    version = old.publish(FILES)
    async with host(tmp_path, old.public) as daemon, link_of(daemon) as link:
        await link.call("fleet_follow", manifests=[version.envelope])

    async with host(tmp_path, new.public) as daemon, link_of(daemon) as link:
        with pytest.raises(RpcFailure, match="does not list"):
            await link.call("fleet_apply", **version.applying)
        assert await decided(daemon) == NO_POLICY


async def test_another_fleets_policy_stays_until_there_is_one_of_this_fleet(tmp_path: Path) -> None:
    publisher = Publisher()
    await applied(tmp_path, publisher)
    other = Publisher("other", publisher.key)
    (tmp_path / "hooks.toml").unlink()

    async with host(tmp_path, publisher.public, name="other") as daemon, link_of(daemon) as link:
        assert await decided(daemon) == "fleet/no-bash: fleet"
        now = await link.call("fleet_follow", manifests=[])
        assert (now["head"]["version"], now["wanted"]) == (0, None)
        assert "fleet 'acme'" in now["problem"]
        assert (await brought(link, other.publish({"guards.py": guard("other")})))["problem"] is None
        assert await decided(daemon) == "fleet/no-bash: other"


async def test_a_host_leaves_its_fleet_only_by_an_explicit_reload(tmp_path: Path) -> None:
    publisher = Publisher()
    await applied(tmp_path, publisher)

    async with host(tmp_path, files={"hooks.toml": ""}) as daemon, daemon.administrator() as admin:
        assert await decided(daemon) == "fleet/no-bash: fleet"
        assert await health(daemon) == "red"
        daemon.write("hooks.toml", "= broken")
        await admin.call("reload")
        assert await decided(daemon) == "fleet/no-bash: fleet"
        daemon.write("hooks.toml", "")
        await admin.call("reload")
        assert await decided(daemon) == "global/no-bash: own"
        assert await health(daemon) == "ready"
        assert len(await notes(daemon, "left")) == 1

    async with host(tmp_path, files={"hooks.toml": ""}) as daemon:
        assert (await decided(daemon), await health(daemon)) == ("global/no-bash: own", "ready")
        assert os.listdir(tmp_path / "state" / "fleet") == []


@needs_root
async def test_on_a_full_disk_nothing_is_taken_and_what_was_in_force_stays(tmp_path: Path) -> None:
    publisher = Publisher()
    kept = tmp_path / "state" / "fleet"
    kept.parent.mkdir(mode=0o700)
    with tiny_disk(kept, 96):
        async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
            await brought(link, publisher.publish(FILES))
            large = publisher.publish({"guards.py": guard("large"), "words": "word " * 10_000})
            await link.call("fleet_follow", manifests=[large.envelope])

            with pytest.raises(RpcFailure, match="No space left"):
                await link.call("fleet_apply", **large.applying)

            assert (await decided(daemon), await health(daemon)) == ("fleet/no-bash: fleet", "red")
            small = publisher.publish({"guards.py": guard("small")})
            assert (await brought(link, small))["problem"] is None
            assert await decided(daemon) == "fleet/no-bash: small"


@needs_root
async def test_on_a_full_disk_the_head_stays_where_it_was(tmp_path: Path) -> None:
    publisher = Publisher()
    kept = tmp_path / "state" / "fleet"
    kept.parent.mkdir(mode=0o700)
    with tiny_disk(kept, 128):
        async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
            (kept / "ballast").write_bytes(b"x" * 124 * 1024)
            version = publisher.publish(FILES, message="m" * 8_000)

            with pytest.raises(RpcFailure, match="No space left"):
                await link.call("fleet_follow", manifests=[version.envelope])

            assert (await link.call("fleet_follow", manifests=[]))["head"]["version"] == 0
            (kept / "ballast").unlink()
            assert (await brought(link, version))["applied"]["version"] == 1
