"""The fleet's policy on a host: what is applied, what is refused, and what is in force after a restart."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hooklatch.fleet.manifests import RolloutTarget
from support.daemons import Daemon, RpcFailure
from support.fleet_hosts import NO_POLICY, decided, health, host, notes
from support.fleets import link_of
from support.pools import until
from support.publishing import DENIES_BASH, Published, Publisher, brought, guard


@pytest.fixture
def publisher() -> Publisher:
    return Publisher()


def kept(daemon: Daemon) -> Path:
    return daemon.folder / "state" / "fleet"


async def test_a_version_is_applied_and_fires_before_the_users_own_guards(tmp_path: Path, publisher: Publisher) -> None:
    version = publisher.publish(DENIES_BASH)
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        assert await decided(daemon) == NO_POLICY

        now = await brought(link, version)

        assert await decided(daemon) == "fleet/no-bash: fleet"
        assert now["wanted"] == now["applied"] == {"version": 1, "bundle": version.digest}
        assert (now["head"]["version"], now["problem"], now["health"]) == (1, None, "ready")
        assert [one["version"] for one in await notes(daemon, "applied")] == [1]


async def test_it_is_one_revision_and_announced(tmp_path: Path, publisher: Publisher) -> None:
    version = publisher.publish({"a.py": guard("a", "Read"), "b.py": guard("b", "Write")})
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link, daemon.session() as client:
        await client.call("subscribe", topics=["registry"])

        await brought(link, version)

        announcement = await client.announcement()
        assert (sorted(announcement["added"]), announcement["removed"]) == (["no-read", "no-write"], ["contact"])
        assert client.announcements == []


async def test_sessions_see_it_whatever_plugins_and_scopes_they_name(tmp_path: Path, publisher: Publisher) -> None:
    personality = "[personality.bare]\nplugins = []\n"
    async with host(tmp_path, publisher.public, more=personality) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH))

        for params in ({"plugins": []}, {"personality": "bare"}, {"cwd": "/"}):
            async with daemon.session(**params) as client:
                fire = await client.call("fire", event="pre_tool_use", payload={"tool_name": "Bash"}, plugins=[])
                assert fire["layer"] == "fleet"


@pytest.mark.parametrize("dialect", ["radium", "reasonix", "ethos"])
async def test_it_comes_first_in_each_dialect(tmp_path: Path, publisher: Publisher, dialect: str) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH))
        async with daemon.administrator() as admin:
            names = [one["name"] for one in (await admin.call("hooks"))["hooks"]]

    assert names[0] == "fleet/no-bash"


async def test_it_is_in_force_after_a_restart_without_a_link(tmp_path: Path, publisher: Publisher) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH))

    async with host(tmp_path, publisher.public) as daemon:
        assert await decided(daemon) == "fleet/no-bash: fleet"
        assert await health(daemon) == "ready"
        async with link_of(daemon) as link:
            now = await link.call("fleet_follow", manifests=[])
            assert now["applied"] == now["wanted"] != None  # noqa: E711
            assert now["head"]["version"] == 1


async def test_an_older_bundle_is_rolled_back_to_by_a_newer_version(tmp_path: Path, publisher: Publisher) -> None:
    first, second = publisher.publish(DENIES_BASH), publisher.publish({"guards.py": guard("second")})
    third = publisher.publish(DENIES_BASH, same_as=1)
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        reasons: list[str] = []
        for version in (first, second, third):
            await brought(link, version)
            reasons.append(await decided(daemon))
        await until(
            lambda: (
                sorted(os.listdir(kept(daemon)))
                == sorted([first.digest, f"{first.digest}.json", "policy.json", "timestamp.json", "versions.jsonl"])
            )
        )

    assert reasons == ["fleet/no-bash: fleet", "fleet/no-bash: second", "fleet/no-bash: fleet"]


async def test_what_a_hook_remembers_is_kept_from_version_to_version(tmp_path: Path, publisher: Publisher) -> None:
    counting = (
        "from hooklatch import deny, hook\n\n"
        '@hook("pre_tool_use", match="Read")\n'
        "def guard(event):\n"
        '    if (count := event.state.session.increment("reads")) > 2:\n'
        '        return deny(f"read number {count}")\n'
    )
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link, daemon.session() as client:
        await brought(link, publisher.publish({"guards.py": counting}))
        for _ in range(2):
            assert (await client.fire_tool("Read"))["verdict"] == "pass"

        await brought(link, publisher.publish({"guards.py": counting, "more.py": ""}))

        assert (await client.fire_tool("Read"))["reason"] == "read number 3"


async def test_an_empty_bundle_is_a_policy_without_hooks(tmp_path: Path, publisher: Publisher) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH))
        now = await brought(link, publisher.publish({}))

        assert now["applied"]["version"] == 2
        assert await decided(daemon) == "global/no-bash: own"
        assert now["problem"] is None


async def test_a_wider_rollout_of_the_same_bundle_builds_nothing_anew(tmp_path: Path, publisher: Publisher) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH, rollout=RolloutTarget(percent=100)))
        pools = set(daemon.parts.sources.pools)
        revision = daemon.parts.registries.view.revision

        now = await brought(link, publisher.publish(DENIES_BASH, same_as=1))

        assert now["applied"]["version"] == 2
        assert (set(daemon.parts.sources.pools), now["revision"]) == (pools, revision)


async def test_what_is_for_other_hosts_is_read_and_not_wanted(tmp_path: Path, publisher: Publisher) -> None:
    mine = publisher.publish(DENIES_BASH)
    theirs = publisher.publish({"guards.py": guard("theirs")}, rollout=RolloutTarget(labels=("canary",)))
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        now = await link.call("fleet_follow", manifests=[mine.envelope, theirs.envelope])

        assert (now["head"]["version"], now["wanted"]["version"]) == (2, 1)


async def test_with_other_labels_the_host_reads_the_versions_anew(tmp_path: Path, publisher: Publisher) -> None:
    mine = publisher.publish(DENIES_BASH)
    theirs = publisher.publish({"guards.py": guard("canary")}, rollout=RolloutTarget(labels=("canary",)))
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await link.call("fleet_follow", manifests=[mine.envelope, theirs.envelope])
        await link.call("fleet_apply", **mine.applying)

    async with host(tmp_path, publisher.public, more='labels = ["canary"]') as daemon, link_of(daemon) as link:
        now = await link.call("fleet_follow", manifests=[])
        assert (now["head"]["version"], now["applied"]["version"]) == (0, 1)
        assert await decided(daemon) == "fleet/no-bash: fleet"
        now = await link.call("fleet_follow", manifests=[mine.envelope])
        assert now["wanted"]["version"] == 1
        now = await brought(link, theirs)
        assert (now["wanted"], await decided(daemon)) == (now["applied"], "fleet/no-bash: canary")


# -- what is refused ---------------------------------------------------------------------------------------------------

STRANGER, OTHER = Publisher().publish(DENIES_BASH), Publisher("other").publish(DENIES_BASH)
REFUSED_MANIFESTS: dict[str, Any] = {
    "no manifest": lambda one, two: ["{}"],
    "not JSON": lambda one, two: ["}"],
    "half of a character": lambda one, two: [changed(one, payload="\ud800")],
    "one left out": lambda one, two: [two.envelope],
    "the wrong order": lambda one, two: [two.envelope, one.envelope],
    "one twice": lambda one, two: [one.envelope, one.envelope],
    "another signature": lambda one, two: [changed(one, signature="AAAA")],
    "no signature": lambda one, two: [changed(one, signature="")],
    "another text": lambda one, two: [
        changed(one, payload=json.loads(one.envelope)["payload"].replace("acme", "evil"))
    ],
    "another key": lambda one, two: [STRANGER.envelope],
    "another fleet": lambda one, two: [OTHER.envelope],
    "a broken one after a good one": lambda one, two: [one.envelope, changed(two, signature="AAAA")],
}


def changed(version: Published, **changes: str) -> str:
    return json.dumps({**json.loads(version.envelope), **changes})


async def test_manifests_that_cannot_be_believed_move_nothing(tmp_path: Path, publisher: Publisher) -> None:
    one, two = publisher.publish(DENIES_BASH), publisher.publish({})
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        for number, manifests in enumerate(REFUSED_MANIFESTS.values(), 1):
            for _ in range(2):
                with pytest.raises(RpcFailure, match="invalid_params"):
                    await link.call("fleet_follow", manifests=manifests(one, two))
            assert len(await notes(daemon, "refused")) == number
            now = await link.call("fleet_follow", manifests=[])
            assert (now["head"]["version"], now["wanted"], now["applied"]) == (0, None, None)


REFUSED_BUNDLES: dict[str, tuple[dict[str, str], str]] = {
    "a source with a syntax error": ({"good.py": guard("good"), "bad.py": "def ("}, "bad.py:1"),
    "a source that raises": ({"good.py": guard("good"), "bad.py": "1 / 0"}, "ZeroDivisionError"),
    "a source that ends its process": ({"bad.py": "import os; os._exit(1)"}, "died while importing"),
    "a missing function": ({"a.toml": '[[hook]]\nevent="stop"\nrun="g.py:f"\n', "g.py": ""}, "no function 'f'"),
    "a missing file": ({"a.toml": '[[source]]\npath="none.py"\n'}, "there is no such file"),
    "a file of the host": ({"a.toml": '[[source]]\npath="/etc/x.py"\n'}, "is not below"),
    "a file above": ({"a.toml": '[[source]]\npath="../x.py"\n'}, "is not below"),
    "a module of the host": ({"a.toml": '[[source]]\nmodule="json"\n'}, "no signature covers"),
    "a function of a module": ({"a.toml": '[[hook]]\nevent="stop"\nrun="json:loads"\n'}, "no signature covers"),
    "an unknown event": ({"a.toml": '[[hook]]\nid="a"\nevent="none"\ncommand="true"\n'}, "'none'"),
    "an unknown event of a mark": ({"a.py": 'from hooklatch import hook\n@hook("none")\ndef f(e): ...'}, "'none'"),
    "an unknown key": ({"a.toml": '[[hook]]\nid="a"\nevent="stop"\ncommand="true"\nname="x"\n'}, "'name'"),
    "a setting of a daemon": ({"a.toml": "[isolation]\n"}, "isolation"),
    "no TOML": ({"a.toml": "="}, "a.toml:1"),
    "an id twice": (
        {"a.toml": '[[hook]]\nid="a"\nevent="stop"\ncommand="true"\n[[hook]]\nid="a"\nevent="stop"\ncommand="true"\n'},
        "the id is taken",
    ),
    "an id in two files": ({"a.py": guard("a"), "b.py": guard("b")}, "the id is taken"),
    "a bad pattern": ({"a.toml": '[[hook]]\nid="a"\nevent="stop"\ncommand="true"\nmatch={regex="["}\n'}, "match"),
    "a plugin": ({"a.toml": '[[hook]]\nid="a"\nevent="stop"\ncommand="true"\nplugin="p"\n'}, "no plugin"),
    "a mark that nothing calls": (
        {"a.toml": '[[hook]]\nevent="stop"\nrun="sub/g.py:f"\n', "sub/g.py": guard("g") + "\ndef f(event): ...\n"},
        "nothing calls it",
    ),
}


async def test_a_bundle_with_anything_wrong_is_refused_as_a_whole(tmp_path: Path, publisher: Publisher) -> None:
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await brought(link, publisher.publish(DENIES_BASH))
        workers, revision = set(daemon.worker_pids), daemon.parts.registries.view.revision
        for number, (files, said) in enumerate(REFUSED_BUNDLES.values(), 1):
            bad = publisher.publish(files)
            await link.call("fleet_follow", manifests=[bad.envelope])

            for _ in range(2):
                with pytest.raises(RpcFailure, match="load_failed") as failure:
                    await link.call("fleet_apply", **bad.applying)
                assert said in failure.value.message

            now = await link.call("fleet_follow", manifests=[])
            assert (now["applied"]["version"], now["wanted"]["version"]) == (1, bad.version)
            assert (now["health"], now["revision"]) == ("red", revision)
            assert said in now["problem"]
            assert await decided(daemon) == "fleet/no-bash: fleet"
            assert workers <= set(daemon.worker_pids)
            assert len(await notes(daemon, "refused")) == number
        better = publisher.publish({"guards.py": guard("better")})
        assert (await brought(link, better))["problem"] is None

    async with host(tmp_path, publisher.public) as daemon:
        assert await decided(daemon) == "fleet/no-bash: better"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: {"bundle": one.applying["bundle"][:-8]}, "cut off or another one"),
        (lambda one: {"bundle": "!"}, "not base64"),
        (lambda one: {"version": 2}, "wants version 1, not version 2"),
        (lambda one: {"version": 0}, "wants version 1, not version 0"),
    ],
    ids=["torn", "no base64", "another version", "an older version"],
)
async def test_another_bundle_than_the_wanted_one_is_refused(tmp_path: Path, change: Any, said: str) -> None:
    publisher = Publisher()
    version = publisher.publish(DENIES_BASH)
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await link.call("fleet_follow", manifests=[version.envelope])

        with pytest.raises(RpcFailure, match=said):
            await link.call("fleet_apply", **{**version.applying, **change(version)})

        assert await decided(daemon) == NO_POLICY


async def test_a_bundle_before_its_manifest_is_refused(tmp_path: Path, publisher: Publisher) -> None:
    version = publisher.publish(DENIES_BASH)
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        with pytest.raises(RpcFailure, match="wants none"):
            await link.call("fleet_apply", **version.applying)


async def test_a_bundle_that_is_no_bundle_is_refused(tmp_path: Path, publisher: Publisher) -> None:
    bundles = [
        b"",
        b"{}",
        b'{"files": {"../x.py": ""}}',
        b'{"files": {"a": "", "a/b": ""}}',
        b'{"files": {"a.py": "!"}}',
    ]
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        for bundle in bundles:
            version = publisher.publish({}, bundle=bundle)
            await link.call("fleet_follow", manifests=[version.envelope])
            with pytest.raises(RpcFailure, match="load_failed"):
                await link.call("fleet_apply", **version.applying)
        assert await notes(daemon, "applied") == []
    assert not (tmp_path / "state" / "x.py").exists()


async def test_what_was_followed_is_kept_across_a_restart(tmp_path: Path, publisher: Publisher) -> None:
    version = publisher.publish(DENIES_BASH)
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        await link.call("fleet_follow", manifests=[version.envelope])

    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        assert (await link.call("fleet_follow", manifests=[]))["wanted"]["version"] == 1
        await link.call("fleet_apply", **version.applying)
        assert await decided(daemon) == "fleet/no-bash: fleet"
