"""Hot reload: what is edited is in force a moment later, and what is broken changes nothing that is.

Slow as a whole: an edit that takes something away, or is broken, waits for 100 ms, and each new version is proven.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio

from support.daemons import Daemon, running_daemon
from support.edited import CONFIG, GUARDS, HOOK, bash, is_green, is_red, reloaded, watching
from support.pools import until

pytestmark = pytest.mark.slow


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": GUARDS}) as daemon:
        yield daemon


# -- what is edited ----------------------------------------------------------------------------------------------


async def test_a_new_version_of_a_file_is_taken(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await watching(client)
        daemon.write("guards.py", GUARDS.replace("one", "two"))

        heard = await reloaded(client)

        assert (heard["changed"], heard["added"]) == (["guards:no", "guards:noted"], [])
        assert await bash(client) == ("deny", "policy", "two")


async def test_a_module_beside_the_file_that_it_imports_is_watched_with_it(tmp_path: Path) -> None:
    files = {
        "hooks.toml": CONFIG,
        "words.py": 'WORD = "one"\n',
        "guards.py": GUARDS.replace('"one"', "words.WORD").replace("from hook", "import words\nfrom hook", 1),
    }
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        await watching(client)
        daemon.write("words.py", 'WORD = "two"\n')

        await reloaded(client)

        assert await bash(client) == ("deny", "policy", "two")


async def test_hooks_toml_is_watched(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await watching(client)
        daemon.write("hooks.toml", CONFIG + HOOK.format(id="more"))
        added = await reloaded(client)
        daemon.write("hooks.toml", CONFIG)

        removed = await reloaded(client)

    assert (added["added"], removed["removed"]) == (["more"], ["more"])
    assert added["revision"] == removed["previous"]


@pytest.mark.parametrize(
    ("name", "text", "hook_id"),
    [
        ("hooks.d/more.py", GUARDS, "more:no"),
        ("hooks.d/more.toml", HOOK.format(id="more").replace("gu", "../gu"), "more"),
    ],
)
async def test_a_file_dropped_into_the_folder_is_live_and_a_change_of_it_too(
    daemon: Daemon, name: str, text: str, hook_id: str
) -> None:
    async with daemon.session() as client:
        await watching(client)
        path = daemon.write(name, text)
        added = await reloaded(client)
        path.write_text(text.replace("pre_tool_use", "permission_request"))

        changed = await reloaded(client)

    assert hook_id in added["added"]
    assert hook_id in changed["changed"]


async def test_a_file_that_goes_stays_in_force_until_somebody_accepts_that(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        await watching(client)
        path = daemon.write("hooks.d/more.py", GUARDS.replace("Bash", "Read").replace("one", "more"))
        await reloaded(client)
        path.unlink()
        status = await admin.until_status(is_red)
        while_gone = await client.fire_tool("Read")

        plain = await admin.call("reload")
        answer = await admin.call("reload", accept_removed=True)

        assert (plain["removed"], plain["accepted"]) == ([], [])
        assert answer["accepted"] == [str(path)]
        assert "it was active and is gone; to accept that: hooklatch reload --accept-removed" in str(status["problems"])
        assert while_gone["reason"] == "more"
        assert answer["removed"] == ["more:no", "more:noted"]
        assert (await client.fire_tool("Read"))["verdict"] == "pass"
        assert is_green(await admin.call("status"))


@pytest.mark.parametrize("text", ["", "# nothing\n"])
@pytest.mark.parametrize("name", ["hooks.toml", "guards.py"])
async def test_a_file_that_is_emptied_stays_in_force_until_somebody_says_reload(
    daemon: Daemon, name: str, text: str
) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        daemon.write(name, text)
        status = await admin.until_status(is_red)
        while_empty = await bash(client)

        await admin.call("reload")

        assert name in str(status["problems"])
        assert while_empty == ("deny", "policy", "one")
        assert (await bash(client))[0] == "pass"
        assert is_green(await admin.call("status"))


async def test_touching_a_file_makes_no_revision(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        revision = (await client.call("hooks"))["revision"]
        os.utime(daemon.folder / "guards.py")
        os.utime(daemon.folder / "hooks.toml")

        answer = await admin.call("reload")

    assert (answer["previous"], answer["revision"]) == (revision, revision)


async def test_a_reload_makes_one_revision_for_those_who_have_hooks_of_their_own_too(daemon: Daemon) -> None:
    hook = {"id": "own", "event": "pre_tool_use", "run": f"{daemon.folder}/guards.py:no"}
    async with daemon.session(hooks=[hook]) as client, daemon.administrator() as admin:
        await watching(client)
        daemon.write("guards.py", GUARDS.replace("one", "two"))

        await admin.call("reload")
        await client.call("ping")

    assert [sorted(one["changed"]) for one in client.announcements] == [["guards:no", "guards:noted", "own"]]


async def test_a_folder_that_is_removed_and_made_anew_is_seen(daemon: Daemon) -> None:
    """No watcher sees this, only the look every 2 s."""
    async with daemon.session() as client, daemon.administrator() as admin:
        await watching(client)
        daemon.write("hooks.d/more.py", GUARDS)
        await reloaded(client)
        shutil.rmtree(daemon.folder / "hooks.d")
        await admin.until_status(is_red)
        daemon.write("hooks.d/more.py", GUARDS.replace("one", "two"))

        await reloaded(client)

        assert is_green(await admin.call("status"))


# -- what is broken ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("guards.py", GUARDS + "x = (\n", "guards.py:11: SyntaxError"),
        ("guards.py", GUARDS + "raise ValueError('no')\n", "guards.py:11: ValueError: no"),
        ("guards.py", GUARDS + "raise SystemExit\n", "guards.py:11: SystemExit"),
        ("guards.py", GUARDS.replace("pre_tool_use", "pre_tool_uze"), "guards.py:4: no: there is no event"),
        ("guards.py", GUARDS + "import os\nos._exit(1)\n", "guards.py: the worker died while importing"),
        ("hooks.toml", CONFIG + "[[hook]\n", "hooks.toml:3: not TOML"),
        ("hooks.toml", CONFIG + '[[hook]]\nevnt = "stop"\n', "hooks.toml:4: a hook has no key 'evnt'"),
        (
            "hooks.toml",
            CONFIG + HOOK.format(id="x").replace("_use", "_uze"),
            "hooks.toml:3: hook 'x': there is no event",
        ),
    ],
)
async def test_a_broken_edit_changes_nothing_in_force_and_is_shown_with_its_place(
    daemon: Daemon, name: str, text: str, place: str
) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        before = await client.call("hooks")
        daemon.write(name, text)
        status = await admin.until_status(is_red)

        problem = status["problems"][0]
        shown = f"{problem['file']}:{problem['line']}: {problem['message']}".replace(":0:", ":")
        assert shown.startswith(f"{daemon.folder}/{place}")
        assert await bash(client) == ("deny", "policy", "one")
        after = await client.call("hooks")
        assert [before[key] for key in ("revision", "digest")] == [after[key] for key in ("revision", "digest")]

        daemon.write(name, {"guards.py": GUARDS, "hooks.toml": CONFIG}[name])
        await admin.until_status(is_green)


async def test_a_broken_module_beside_a_new_version_is_seen_when_it_is_mended(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        await watching(client)
        daemon.write("words.py", "WORD = \n")
        daemon.write("guards.py", GUARDS.replace('"one"', "words.WORD").replace("from", "import words\nfrom", 1))
        status = await admin.until_status(is_red)
        daemon.write("words.py", "WORDS = 1\n")  # the fault is now in guards.py, its mending still here
        await admin.until_status(is_red)

        daemon.write("words.py", 'WORD = "two"\n')
        await reloaded(client)

        assert "words.py" in str(status["problems"])
        assert await bash(client) == ("deny", "policy", "two")
        assert is_green(await admin.call("status"))


async def test_a_version_that_lacks_a_function_which_a_hook_names_is_refused(tmp_path: Path) -> None:
    async with (
        running_daemon(tmp_path, {"hooks.toml": HOOK.format(id="x"), "guards.py": GUARDS}) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        daemon.write("guards.py", GUARDS.replace("def no(", "def nope("))

        told = "the new version lacks no, which hooks name; the last good version"
        await admin.until_status(lambda status: told in str(status["problems"]))

        assert await bash(client) == ("deny", "policy", "one")


async def test_a_version_that_lacks_a_function_which_a_session_names_is_refused(daemon: Daemon) -> None:
    hook = {"id": "own", "event": "pre_tool_use", "run": f"{daemon.folder}/own.py:no"}
    daemon.write("own.py", GUARDS.replace("one", "own"))
    async with daemon.session(hooks=[hook]) as client, daemon.administrator() as admin:
        daemon.write("own.py", "\n")

        status = await admin.until_status(is_red)

        assert "lacks no" in str(status["problems"])
        assert (await bash(client))[2] == "one"


BAD_MATCH = '[[hook]]\nid = "bad"\nevent = "{event}"\nmatch = {{regex = "("}}\nrun = "guards.py:noted"\n'


async def test_a_gate_with_a_bad_matcher_denies_by_itself_and_says_what_to_do(tmp_path: Path) -> None:
    files = {"hooks.toml": CONFIG + BAD_MATCH.format(event="pre_tool_use"), "guards.py": GUARDS}
    async with (
        running_daemon(tmp_path, files) as daemon,
        daemon.session() as client,
        daemon.administrator() as admin,
    ):
        read = await client.fire_tool("Read")
        listed = {hook["id"]: hook["state"] for hook in (await client.call("hooks"))["hooks"]}
        status = await admin.call("status")
        await admin.call("disable", id="bad")
        disabled = await client.fire_tool("Read")

    assert (read["verdict"], read["cause"], read["hook"]) == ("deny", "load", "bad")
    assert f"{daemon.folder}/hooks.toml:3: match: '('" in read["reason"]
    assert read["reason"].endswith("fix it, or: hooklatch hooks disable global/bad")
    assert listed == {"guards:no": "active", "guards:noted": "active", "bad": "inactive"}
    assert is_red(status)
    assert disabled["verdict"] == "pass"


async def test_a_hook_with_a_bad_matcher_on_another_event_is_skipped(tmp_path: Path) -> None:
    files = {"hooks.toml": CONFIG + BAD_MATCH.format(event="notification"), "guards.py": GUARDS}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        decision = await client.fire("notification", notification_type="x")

    assert (decision["verdict"], [one["cause"] for one in decision["outcomes"]]) == ("pass", ["policy", "load"])


async def test_a_marked_function_with_a_bad_matcher_stands_inactive_too(tmp_path: Path) -> None:
    guards = GUARDS.replace('match="Bash"', 'match={"regex": "("}')
    async with (
        running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": guards}) as daemon,
        daemon.session() as client,
    ):
        decision = await client.fire_tool("Read")

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert f"{daemon.folder}/guards.py:4: match: '('" in decision["reason"]


async def test_a_matcher_on_an_event_without_a_field_to_match_is_inactive(tmp_path: Path) -> None:
    config = '[[hook]]\nid = "x"\nevent = "session_end"\nmatch = "a"\nrun = "guards.py:no"\n'
    async with (
        running_daemon(tmp_path, {"hooks.toml": config, "guards.py": GUARDS}) as daemon,
        daemon.session() as client,
    ):
        status = await client.call("status")

    assert "session_end has no field to match on; remove match" in str(status["problems"])


async def test_the_second_hook_of_an_id_denies_and_names_the_first(tmp_path: Path) -> None:
    files = {
        "hooks.toml": HOOK.format(id="x").replace("guards.py:no", "guards.py:noted"),
        "guards.py": GUARDS,
        "hooks.d/more.toml": HOOK.format(id="x").replace("guards.py:no", "../guards.py:noted"),
    }
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Read")

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert f"its id is taken by {daemon.folder}/hooks.toml:1" in decision["reason"]


# -- a broken file at the start ----------------------------------------------------------------------------------


async def test_hooks_of_a_module_of_the_environment_are_loaded(tmp_path: Path) -> None:
    config = '[[hook]]\nid = "x"\nevent = "pre_tool_use"\nrun = "hooklatch_worker:deny"\n'
    async with running_daemon(tmp_path, {"hooks.toml": config}) as daemon, daemon.session() as client:
        with trio.fail_after(10):
            decision = await bash(client)

    assert decision[:2] == ("deny", "crash")
    assert "deny" in str(decision[2])  # it was called, with an event for a reason


async def test_a_module_that_is_not_there_denies(tmp_path: Path) -> None:
    config = '[[source]]\nmodule = "no_such_package.guards"\n'
    async with running_daemon(tmp_path, {"hooks.toml": config}) as daemon, daemon.session() as client:
        with trio.fail_after(10):
            verdict, cause, reason = await bash(client)

    assert (verdict, cause) == ("deny", "load")
    assert "no_such_package" in str(reason)


EVENT = '[[event]]\nname = "deploy_requested"\nmodel = "gate"\nverdicts = ["deny", "ask"]\nmatch = "target"\n'
DEPLOY = '[[hook]]\nid = "frozen"\nevent = "deploy_requested"\nmatch = "production"\nrun = "guards.py:no"\n'


async def test_an_event_of_ones_own_is_fired_like_any_other(tmp_path: Path) -> None:
    async with (
        running_daemon(tmp_path, {"hooks.toml": EVENT + DEPLOY, "guards.py": GUARDS}) as daemon,
        daemon.session() as client,
    ):
        decisions = [await client.fire("deploy_requested", target=target) for target in ("production", "test", 7)]
        events = (await client.call("events"))["events"]

    assert [(one["verdict"], one["cause"]) for one in decisions] == [
        ("deny", "policy"), ("pass", None), ("deny", "payload"),
    ]  # fmt: skip
    assert [(one["name"], one["fails"], one["fired"]) for one in events[-1:]] == [("deploy_requested", "closed", 3)]


async def test_an_event_can_be_added_and_named_by_another_file(daemon: Daemon) -> None:
    async with daemon.session() as client:
        await watching(client)
        daemon.write("hooks.toml", CONFIG + EVENT)
        daemon.write("hooks.d/deploy.toml", DEPLOY.replace("guards.py", "../guards.py"))
        await reloaded(client)

        assert (await client.fire("deploy_requested", target="production"))["reason"] == "one"


async def test_a_file_with_a_bad_event_changes_nothing_in_force(daemon: Daemon) -> None:
    async with daemon.session() as client, daemon.administrator() as admin:
        daemon.write("hooks.toml", EVENT.replace("gate", "gaet"))

        status = await admin.until_status(is_red)

        (problem,) = status["problems"]
        assert (problem["file"], problem["line"]) == (str(daemon.folder / "hooks.toml"), 3)
        assert problem["message"].endswith("not 'gaet'; did you mean 'gate'?")
        assert await bash(client) == ("deny", "policy", "one")


MEETING = """
import os
import time
from hooklatch_worker import hook

open({mine!r}, "w").close()
while not os.path.exists({other!r}):
    time.sleep(0.01)

@hook("pre_tool_use")
def no(event):
    return None
"""


async def test_sources_that_have_changed_are_built_at_once(daemon: Daemon) -> None:
    started = {name: f"{daemon.folder}/{name}.started" for name in ("one", "two")}
    for mine, other in (("one", "two"), ("two", "one")):  # neither is imported before the other one is
        daemon.write(f"hooks.d/{mine}.py", MEETING.format(mine=started[mine], other=started[other]))

    async with daemon.administrator() as admin:
        with trio.fail_after(30):
            found = await admin.call("reload")
        hooks = await admin.call("hooks")

    assert {"one:no", "two:no"} <= {one["id"] for one in hooks["hooks"]}
    assert found["diagnostics"] == []


IMPORTING = """
import os
import time
import helper
from hooklatch_worker import deny, hook

open({began!r}, "w").close()
while not os.path.exists({go!r}):
    time.sleep(0.002)

@hook("pre_tool_use")
def no(event):
    return deny(helper.REASON)
"""


@pytest.mark.parametrize("is_moved", [False, True])
async def test_a_module_that_changes_while_its_source_is_imported_is_imported_again(
    tmp_path: Path, is_moved: bool
) -> None:
    began, go = tmp_path / "began", tmp_path / "go"
    async with running_daemon(tmp_path) as daemon, daemon.administrator() as admin, daemon.session() as client:
        prepared = daemon.write("prepared", 'REASON = "new"\n')
        daemon.write("helper.py", 'REASON = "old"\n')
        daemon.write("guards.py", IMPORTING.format(began=str(began), go=str(go)))
        daemon.write("hooks.toml", CONFIG)
        await until(began.exists)
        if is_moved:  # with the time of an earlier day
            os.utime(prepared, (1, 1))
            prepared.rename(tmp_path / "helper.py")
        else:
            daemon.write("helper.py", 'REASON = "new"\n')
        go.touch()

        await admin.call("reload")  # waits for the one that builds
        (unit,) = daemon.parts.sources.units.values()
        built = unit.build
        assert (await client.fire_tool("Bash"))["reason"] == "new"

        with trio.fail_after(30):
            # If it began within a tick of the kernel's clock after the change, it may have been too early as well.
            while unit.read_newer() is not None:
                await admin.call("reload")
                (unit,) = daemon.parts.sources.units.values()
        assert built == 2
        assert (await client.fire_tool("Bash"))["reason"] == "new"


RESTLESS = """
from pathlib import Path
from hooklatch_worker import deny

VERSION = 0
mine = Path({path!r})
if VERSION < 9 and f"VERSION = {{VERSION}}\\n" in mine.read_text():
    mine.write_text(mine.read_text().replace(f"VERSION = {{VERSION}}\\n", f"VERSION = {{VERSION + 1}}\\n"))

def no(event):
    return deny("no")
"""


async def test_a_source_that_changes_under_each_build_leaves_no_hook_on_a_build_that_is_gone(tmp_path: Path) -> None:
    path = str(tmp_path / "restless.py")
    files = {"hooks.toml": "", "restless.py": RESTLESS.format(path=path)}
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin:
        for name in ("one", "two"):
            hook = {"id": name, "event": "pre_tool_use", "run": f"{path}:no"}
            await admin.call("register", scope="global", hooks=[hook])

            builds = [hook.target.build for hook in daemon.parts.registries.api_hooks]  # type: ignore[union-attr]
            assert set(builds) == {daemon.parts.sources.units[path].build}
