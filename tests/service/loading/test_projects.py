"""Hooks of a project: nothing without trust, and nothing but what was trusted."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from support.daemons import Client, Daemon, RpcFailure, child_of, running_daemon
from support.pools import until

GUARDS = """
from helper import REASON
from hooklatch_worker import deny, hook

@hook("pre_tool_use", match="Bash")
def no_bash(event):
    return deny(REASON)
"""
CONFIG = """
[[source]]
path = "guards.py"

[[hook]]
id = "shell"
event = "post_tool_use"
command = "exit 2"
"""
FILES = {"hooks.toml": CONFIG, "guards.py": GUARDS, "helper.py": 'REASON = "project"\n'}


class Project:
    """A folder that an agent works in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = str(folder)
        folder.mkdir()

    def write(self, name: str, text: str) -> None:
        path = self.folder / ".hooklatch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path) as daemon:
        yield daemon


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project")
    for name, text in FILES.items():
        project.write(name, text)
    return project


async def trusted(daemon: Daemon, project: Project) -> dict[str, Any]:
    async with daemon.administrator() as admin:
        return await admin.call("trust", folder=project.path)


async def layers(client: Client) -> list[str]:
    return [f"{hook['layer']}/{hook['id']}" for hook in (await client.call("hooks"))["hooks"]]


async def test_what_nobody_trusts_is_ignored_and_said(daemon: Daemon, project: Project) -> None:
    async with daemon.session(cwd=project.path) as client:
        assert (await client.fire_tool("Bash"))["verdict"] == "pass"
        assert await layers(client) == []
        status = await client.call("status")
        for warnings in (client.hello["warnings"], status["warnings"]):  # type: ignore[attr-defined]
            assert (
                f"is not trusted, its hooks are ignored; look at them, then: hooklatch trust {project.path}"
                in (warnings[0])
            )
        assert status["health"] == "green"


async def test_a_trusted_one_fires_in_the_sessions_that_work_there(daemon: Daemon, project: Project) -> None:
    result = await trusted(daemon, project)

    async with daemon.session(cwd=project.path) as here, daemon.session(cwd="/") as elsewhere:
        decision = await here.fire_tool("Bash")
        assert (decision["layer"], decision["hook"], decision["reason"]) == ("project", "guards:no_bash", "project")
        assert (await elsewhere.fire_tool("Bash"))["verdict"] == "pass"
        assert here.hello["warnings"] == []  # type: ignore[attr-defined]
    assert sorted(result["files"]) == ["guards.py", "helper.py", "hooks.toml"]
    assert {hook["id"] for hook in result["hooks"]} == {"guards:no_bash", "shell"}


async def test_trust_reaches_a_live_session_with_an_announcement(daemon: Daemon, project: Project) -> None:
    async with daemon.session(cwd=project.path) as client:
        await client.call("subscribe", topics=["registry"])

        await trusted(daemon, project)

        assert "guards:no_bash" in (await client.announcement())["added"]
        assert (await client.fire_tool("Bash"))["verdict"] == "deny"
        async with daemon.administrator() as admin:
            await admin.call("untrust", folder=project.path)
        assert (await client.fire_tool("Bash"))["verdict"] == "pass"
        assert "guards:no_bash" in (await client.announcement())["removed"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda folder: (folder / "guards.py").write_text(GUARDS + "#"), "changed guards.py", id="changed"),
        pytest.param(lambda folder: (folder / "helper.py").write_text("import os"), "changed helper.py", id="a helper"),
        pytest.param(lambda folder: (folder / "json.py").write_text(""), "added json.py", id="added"),
        pytest.param(lambda folder: (folder / "helper.py").unlink(), "missing helper.py", id="missing"),
        pytest.param(lambda folder: (folder / "guards.py").chmod(0o666), "writable by others", id="unsafe"),
        pytest.param(lambda folder: (folder / "x").symlink_to("/etc/passwd"), "is a link", id="link"),
        pytest.param(lambda folder: folder.rename(folder.with_name("away")), "missing", id="gone"),
    ],
)
async def test_what_changed_denies_at_the_next_fire(daemon: Daemon, project: Project, change: Any, said: str) -> None:
    await trusted(daemon, project)

    async with daemon.session(cwd=project.path) as client:
        change(project.folder / ".hooklatch")
        decision = await client.fire_tool("Bash")
        other = await client.fire_tool("Read")

        assert (decision["verdict"], decision["cause"], decision["hook"]) == ("deny", "load", "guards:no_bash")
        assert said in decision["reason"]
        assert f"look at it, then: hooklatch trust {project.path}" in decision["reason"]
        assert other["verdict"] == "pass"  # what it guarded is remembered; other tools go on
        assert (await client.call("status"))["health"] == "red"


async def test_a_fire_never_takes_what_may_be_half_of_the_operators_change(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooklatch.service.loading.watch.SETTLE", 3600.0)  # the change has no end yet
    two = "".join(f'[[hook]]\nid = "{name}"\nevent = "pre_tool_use"\nrun = "own.py:no"\n' for name in ("a", "b"))
    own = "from hooklatch_worker import deny\ndef no(event):\n    return deny('operator')\n"
    async with running_daemon(tmp_path, {"hooks.toml": two, "own.py": own, "mine.py": own}) as daemon:
        await trusted(daemon, project)
        async with daemon.session(cwd=project.path) as client:
            registered = {"id": "mine", "event": "stop", "run": f"{tmp_path}/mine.py:no"}
            await client.call("register", hooks=[registered])
            daemon.write("hooks.toml", two[: two.index("[[hook]]", 1)])
            daemon.write("own.py", own.replace("deny('operator')", "None"))
            project.write("helper.py", "REASON = 1")
            decision = await client.fire_tool("Read")  # whose agent has written in its own project
            daemon.write("mine.py", f"{own}#")
            await client.call("register", hooks=[registered])

            project.write("helper.py", "REASON = 2")
            async with daemon.session(cwd=project.path):  # its hello loads the project
                hooks = [hook["id"] for hook in (await client.call("hooks"))["hooks"] if hook["layer"] == "global"]
            async with daemon.administrator() as admin:  # another person may be at the files meanwhile
                await admin.call("trust", folder=project.path)
                await admin.call("untrust", folder=project.path)
            hooks += [hook["id"] for hook in (await client.call("hooks"))["hooks"] if hook["layer"] == "global"]

    assert (decision["verdict"], decision["reason"], hooks) == ("deny", "operator", ["a", "b"] * 2)


async def test_a_fire_that_loads_a_project_forgets_no_fault_of_the_operators_files(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(
        tmp_path, {"hooks.toml": CONFIG, "guards.py": GUARDS, "helper.py": "REASON = 1"}
    ) as daemon:
        await trusted(daemon, project)
        async with daemon.session(cwd=project.path) as client, daemon.administrator() as admin:
            daemon.write("guards.py", "x = (")
            before = await admin.call("reload")
            monkeypatch.setattr("hooklatch.service.loading.watch.SETTLE", 3600.0)
            project.write("helper.py", "REASON = 2")
            await client.fire_tool("Read")
            status = await admin.call("status")

    assert "was never closed" in str(before["diagnostics"])
    assert "was never closed" in str(status["problems"])


async def test_the_old_content_lifts_it(daemon: Daemon, project: Project) -> None:
    await trusted(daemon, project)
    async with daemon.session(cwd=project.path) as client:
        project.write("helper.py", "REASON = 1")
        assert (await client.fire_tool("Bash"))["cause"] == "load"

        project.write("helper.py", FILES["helper.py"])

        assert (await client.fire_tool("Bash"))["reason"] == "project"


async def test_trusting_again_takes_the_new_content(daemon: Daemon, project: Project) -> None:
    await trusted(daemon, project)
    async with daemon.session(cwd=project.path) as client:
        assert (await client.fire_tool("Bash"))["reason"] == "project"

        project.write("helper.py", 'REASON = "anew"\n')
        await trusted(daemon, project)

        assert (await client.fire_tool("Bash"))["reason"] == "anew"


async def test_a_change_is_noticed_without_a_fire(daemon: Daemon, project: Project) -> None:
    await trusted(daemon, project)
    async with daemon.session(cwd=project.path) as client:
        await client.call("subscribe", topics=["registry"])

        project.write("added.py", "")

        assert "guards:no_bash" in (await client.announcement())["changed"]


async def test_trust_outlives_the_daemon(tmp_path: Path, project: Project) -> None:
    async with running_daemon(tmp_path) as daemon:
        await trusted(daemon, project)
    project.write("helper.py", "REASON = 1")

    async with running_daemon(tmp_path) as daemon, daemon.session(cwd=project.path) as client:
        assert (await client.fire_tool("Bash"))["cause"] == "load"


async def test_a_project_whose_files_are_broken_denies(daemon: Daemon, project: Project) -> None:
    project.write("hooks.toml", "[[hook]\n")
    result = await trusted(daemon, project)

    async with daemon.session(cwd=project.path) as client:
        assert (await client.fire_tool("Bash"))["cause"] == "load"
    assert "not TOML" in str(result["diagnostics"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[source]]\npath = "../guards.py"\n', "so it is not pinned"),
        ('[[hook]]\nid = "x"\nevent = "stop"\nrun = "/srv/x.py:f"\n', "so it is not pinned"),
        ("[personality.x]\nplugins = []\n", "belongs in the user's main hooks.toml"),
        ('[[event]]\nname = "x"\nmodel = "gate"\n', "belongs in the user's main hooks.toml"),
    ],
)
async def test_a_project_changes_nothing_but_its_own(daemon: Daemon, project: Project, text: str, said: str) -> None:
    project.write("hooks.toml", text)

    assert said in str((await trusted(daemon, project))["diagnostics"])


async def test_sessions_share_a_projects_workers_and_the_last_one_lets_them_go(
    daemon: Daemon, project: Project
) -> None:
    await trusted(daemon, project)
    location = f"{project.path}/.hooklatch/guards.py"

    async with daemon.session(cwd=project.path) as one, daemon.session(cwd=project.path) as two:
        for client in (one, two):
            assert (await client.fire_tool("Bash"))["verdict"] == "deny"
        assert [pool for pool, _ in daemon.parts.sources.pools].count(location) == 1
    async with daemon.administrator() as admin:
        await admin.call("untrust", folder=project.path)
    assert location not in daemon.parts.sources.units


async def test_a_session_that_moves_takes_on_the_hooks_of_where_it_is(daemon: Daemon, project: Project) -> None:
    await trusted(daemon, project)

    async with daemon.session(cwd="/") as client:
        await client.call("session.update", cwd=project.path)
        assert (await client.fire_tool("Bash"))["verdict"] == "deny"
        await client.call("session.update", cwd="/")
        assert (await client.fire_tool("Bash"))["verdict"] == "pass"


async def test_a_child_that_works_elsewhere_keeps_its_parents_project_gates(daemon: Daemon, project: Project) -> None:
    await trusted(daemon, project)

    async with (
        daemon.session(id="above", cwd=project.path) as above,
        daemon.session(**child_of(above), cwd="/") as child,
    ):
        decision = await child.fire_tool("Bash")

        assert (decision["layer"], decision["hook"]) == ("parent", "guards:no_bash")


async def test_a_one_shot_is_guarded_by_the_project_that_it_is_in(daemon: Daemon, project: Project) -> None:
    await trusted(daemon, project)
    below = project.folder / "src"
    below.mkdir()

    for cwd, verdict in ((project.path, "deny"), (str(below), "deny"), ("/", "pass")):
        client = daemon.connect()
        decision = await client.call(
            "fire", event="pre_tool_use", payload={"tool_name": "Bash", "tool_input": {}}, envelope={"cwd": cwd}
        )
        assert decision["verdict"] == verdict
        await client.aclose()


async def test_a_link_to_the_folder_is_the_folder(daemon: Daemon, project: Project) -> None:
    await trusted(daemon, project)
    link = project.folder.with_name("link")
    link.symlink_to(project.folder)

    async with daemon.session(cwd=str(link)) as client:
        assert (await client.fire_tool("Bash"))["verdict"] == "deny"


async def test_a_projects_hook_is_disabled_by_its_id(daemon: Daemon, project: Project) -> None:
    await trusted(daemon, project)

    async with daemon.session(cwd=project.path) as client, daemon.administrator() as admin:
        await admin.call("disable", id="guards:no_bash")

        assert (await client.fire_tool("Bash"))["verdict"] == "pass"


async def test_status_lists_what_is_trusted(daemon: Daemon, project: Project) -> None:
    await trusted(daemon, project)

    async with daemon.session(cwd=project.path), daemon.administrator() as admin:
        (shown,) = (await admin.call("status"))["projects"]

    assert (shown["folder"], shown["state"], shown["files"], shown["sessions"]) == (project.path, "loaded", 3, 1)


@pytest.mark.parametrize(
    ("method", "folder", "name"),
    [("trust", "/no/such", "not_found"), ("trust", "relative", "not_found"), ("trust", "/", "not_found")],
)
async def test_what_cannot_be_trusted_is_refused(daemon: Daemon, method: str, folder: str, name: str) -> None:
    async with daemon.administrator() as admin:
        with pytest.raises(RpcFailure) as caught:
            await admin.call(method, folder=folder)

    assert caught.value.name == name


async def test_only_an_administrator_trusts(daemon: Daemon, project: Project) -> None:
    async with daemon.session(cwd=project.path) as client:
        for method in ("trust", "untrust"):
            with pytest.raises(RpcFailure) as caught:
                await client.call(method, folder=project.path)
            assert caught.value.name == "not_admin"


async def test_a_folder_that_others_can_write_to_is_not_trusted(daemon: Daemon, project: Project) -> None:
    (project.folder / ".hooklatch").chmod(0o777)

    async with daemon.administrator() as admin:
        with pytest.raises(RpcFailure) as caught:
            await admin.call("trust", folder=project.path)

    assert caught.value.name == "not_permitted"
    assert "chmod go-w" in caught.value.message


async def test_a_change_with_its_time_set_back_is_seen(daemon: Daemon, project: Project) -> None:
    await trusted(daemon, project)
    helper = project.folder / ".hooklatch/helper.py"
    before = helper.stat()

    async with daemon.session(cwd=project.path) as client:
        helper.write_text('REASON = "forged!"\n'[: before.st_size])
        os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))

        assert (await client.fire_tool("Bash"))["cause"] == "load"


SLOW = """
import os
import time
from hooklatch_worker import deny, hook

open({began!r}, "w").close()
while not os.path.exists({go!r}):
    time.sleep(0.001)

@hook("pre_tool_use")
def guard(event):
    return deny("project")
"""


async def test_a_fire_waits_for_the_hooks_that_an_earlier_one_is_having_loaded(
    tmp_path: Path, project: Project
) -> None:
    began, go = tmp_path / "began", tmp_path / "go"
    project.write("guards.py", SLOW.format(began=str(began), go=str(go)))
    go.touch()
    async with running_daemon(tmp_path) as daemon:
        await trusted(daemon, project)
    go.unlink()
    began.unlink()
    async with running_daemon(tmp_path) as daemon, daemon.session() as witness:
        clients = [daemon.connect() for _ in range(2)]
        params = {"event": "pre_tool_use", "payload": {"tool_name": "Bash"}, "envelope": {"cwd": project.path}}
        numbers = [await clients[0].send("fire", **params)]
        await until(began.exists)
        numbers.append(await clients[1].send("fire", **params))
        await witness.call("ping")
        go.touch()
        decisions = [await client.answer_to(number) for client, number in zip(clients, numbers, strict=True)]
        for client in clients:
            await client.aclose()

    assert [(one["verdict"], one["reason"]) for one in decisions] == [("deny", "project")] * 2


WAITING = """
# hooklatch: no hooks
import os, time

open({began!r}, "w").close()
while not os.path.exists({go!r}):
    time.sleep(0.002)
"""


async def test_trusting_a_project_again_while_something_is_built_fails_no_reload(
    daemon: Daemon, project: Project, tmp_path: Path
) -> None:
    began, go = tmp_path / "began", tmp_path / "go"
    await trusted(daemon, project)
    async with (
        daemon.administrator() as admin,
        daemon.administrator() as other,
        daemon.session(cwd=project.path) as client,
    ):
        daemon.write("hooks.d/slow.py", WAITING.format(began=str(began), go=str(go)))
        building = await admin.send("reload")
        await until(began.exists)
        trusting = await other.send("trust", folder=project.path)
        await other.call("ping")  # it has been begun
        go.touch()

        await admin.answer_to(building)
        await other.answer_to(trusting)

        assert (await client.fire_tool("Bash"))["reason"] == "project"
        assert (await admin.call("status"))["health"] == "green"


async def test_where_the_projects_cannot_be_told_a_gate_denies_whatever_other_hooks_say(
    tmp_path: Path, project: Project
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    passing = '[[hook]]\nid = "passing"\nevent = "pre_tool_use"\ncommand = "true"\n'
    fire = {"event": "pre_tool_use", "payload": {"tool_name": "Bash", "tool_input": {"command": "ls"}}}
    async with running_daemon(tmp_path, {"hooks.toml": passing}) as daemon, daemon.session(cwd="/") as client:
        await trusted(daemon, project)

        known = await client.call("fire", **fire, envelope={"cwd": "/"})
        unknown = await client.call("fire", **fire, envelope={"cwd": str(loop)})

    assert (known["verdict"], unknown["verdict"], unknown["cause"]) == ("pass", "deny", "load")
    assert "cannot determine which project" in unknown["reason"]
