"""What vanishes stays in force or denies, whatever comes next, until somebody accepts by name or word that it is gone.

Slow as a whole: two daemons start for each row.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooklatch.service.loading.plan import NOTHING
from support.daemons import Client, Daemon, RpcFailure, running_daemon
from support.edited import CONFIG, GUARDS, bash, is_red
from support.packages import install, uninstall

pytestmark = pytest.mark.slow

KEPT = '[[hook]]\nid = "kept"\nevent = "notification"\ncommand = "true"\n'
HOOKS_D = {"hooks.toml": KEPT, "hooks.d/more.py": GUARDS}
TABLE = '[[hook]]\nid = "more:no"\nevent = "pre_tool_use"\nmatch = "Bash"\nrun = "../guards.py:no"\n'


def gone(name: str) -> Callable[[Path], None]:
    """Rename a file or a folder away, as whoever unmounts it or checks out another branch would."""

    def vanish(folder: Path) -> None:
        (folder / name).rename(folder / "away")

    return vanish


def uninstalled(folder: Path) -> None:
    uninstall(folder / "packages", "acme_vanished")
    importlib.invalidate_caches()


async def hang_up(daemon: Daemon, admin: Client) -> None:
    await daemon.parts.administration.reload_all(NOTHING)


async def reload(daemon: Daemon, admin: Client) -> None:
    answer = await admin.call("reload")
    assert (answer["removed"], answer["accepted"]) == ([], [])
    assert answer["diagnostics"]


# What it does without its module, nobody has written to be done now.
AT_THE_TOP = """
from hooklatch import deny, hook
try:
    import lib
except ImportError:
    lib = None

@hook("pre_tool_use", match="Bash")
def no(event):
    return deny("no") if lib is not None else None
"""
IN_A_FUNCTION = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def no(event):
    try:
        import lib
    except ImportError:
        return None
    return deny("no")
"""
OWN = {"hooks.toml": KEPT, ".hooklatch/hooks.d/own.py": GUARDS}
# The files, what takes one of them, and the names that accepting the removal gives; none where it takes another way.
ROWS: dict[str, tuple[dict[str, str], Callable[[Path], None], list[str]]] = {
    "the main file": ({"hooks.toml": CONFIG, "guards.py": GUARDS}, gone("hooks.toml"), ["hooks.toml"]),
    "a Python file of hooks.d": (HOOKS_D, gone("hooks.d/more.py"), ["hooks.d/more.py"]),
    "a table of hooks.d": (
        {"hooks.toml": KEPT, "hooks.d/more.toml": TABLE, "guards.py": GUARDS.replace("@hook", "#")},
        gone("hooks.d/more.toml"), ["hooks.d/more.toml"],
    ),
    "hooks.d itself": (HOOKS_D, gone("hooks.d"), ["hooks.d", "hooks.d/more.py"]),
    "a plugin's package": ({"hooks.toml": KEPT}, uninstalled, ["plugin:acme"]),
    "a source's file": ({"hooks.toml": CONFIG, "guards.py": GUARDS}, gone("guards.py"), []),
    "a module at the top": (
        {"hooks.toml": CONFIG, "guards.py": AT_THE_TOP, "lib.py": ""}, gone("lib.py"), ["lib.py"],
    ),
    "a module in a function": (
        {"hooks.toml": CONFIG, "guards.py": IN_A_FUNCTION, "lib.py": ""}, gone("lib.py"), ["lib.py"],
    ),
    "a project's file": (OWN, gone(".hooklatch/hooks.d/own.py"), []),
    "a project's folder": (OWN, gone(".hooklatch"), []),
}  # fmt: skip


@pytest.mark.parametrize("what", ROWS)
async def test_nothing_but_an_acceptance_takes_away_what_vanished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    files, vanish, accepted = ROWS[what]
    if vanish is uninstalled:
        (tmp_path / "packages").mkdir()
        monkeypatch.syspath_prepend(str(tmp_path / "packages"))
        install(tmp_path / "packages", "acme", "acme_vanished")
    seen: dict[str, tuple[str, str]] = {}

    async def look(word: str, daemon: Daemon, admin: Client) -> None:
        async with daemon.session(cwd=str(tmp_path)) as client:
            seen[word] = ((await bash(client))[0], (await admin.call("status"))["health"])

    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin:
        if ".hooklatch" in str(files):
            await admin.call("trust", folder=str(tmp_path))
        async with daemon.session(cwd=str(tmp_path)):
            await look("before", daemon, admin)
            vanish(tmp_path)
            await daemon.parts.reloader.reload()  # as the watch does
            await look("the watch", daemon, admin)
            for word, step in {"SIGHUP": hang_up, "reload": reload}.items():
                await step(daemon, admin)
                await look(word, daemon, admin)
    async with (
        running_daemon(tmp_path) as daemon,
        daemon.administrator() as admin,
        daemon.session(cwd=str(tmp_path)),
    ):
        await look("a restart", daemon, admin)
        for word, step in {"SIGHUP after a restart": hang_up, "reload after a restart": reload}.items():
            await step(daemon, admin)
            await look(word, daemon, admin)
        answer = await admin.call("reload", accept_removed=True)
        await look("accepted", daemon, admin)
        last = (await admin.call("log", kind="operation"))["records"][-1]

    expected = dict.fromkeys(seen, ("deny", "red")) | {"before": ("deny", "green")}
    assert seen == expected | ({"accepted": ("pass", "green")} if accepted else {})
    places = [name if name.startswith("plugin:") else str(tmp_path / name) for name in accepted]
    assert answer["accepted"] == last["accepted"] == places
    assert last["process"]


async def test_a_module_goes_with_an_edit_of_what_imports_it_and_comes_back_as_it_was(tmp_path: Path) -> None:
    files = {"hooks.toml": CONFIG, "guards.py": AT_THE_TOP, "lib.py": ""}
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin, daemon.session() as client:
        (tmp_path / "lib.py").rename(tmp_path / "away")
        await daemon.parts.reloader.reload()
        (tmp_path / "away").rename(tmp_path / "lib.py")
        await daemon.parts.reloader.reload()
        assert ((await bash(client))[0], (await admin.call("status"))["health"]) == ("deny", "green")

        (tmp_path / "lib.py").unlink()
        (tmp_path / "guards.py").write_text(AT_THE_TOP.replace("import lib", "lib = True"))
        await daemon.parts.reloader.reload()

        assert ((await bash(client))[0], (await admin.call("status"))["health"]) == ("deny", "green")


async def test_of_a_build_that_is_not_taken_nothing_is_accepted_as_removed(tmp_path: Path) -> None:
    text = f"{AT_THE_TOP}\n@hook('deploy')\ndef deployed(event):\n    pass\n"
    event = '[[event]]\nname = "deploy"\nmodel = "notify"\n'
    files = {"hooks.toml": CONFIG + event, "guards.py": text, "lib.py": ""}
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin, daemon.session() as client:
        (tmp_path / "lib.py").unlink()
        daemon.write("hooks.toml", CONFIG)

        answer = await admin.call("reload", accept_removed=True)

        assert "deploy" in str(answer["diagnostics"])
        assert (answer["accepted"], (await bash(client))[0]) == ([], "deny")


async def test_a_hook_whose_file_vanished_is_removed_by_its_name_and_nothing_else_is(tmp_path: Path) -> None:
    other = GUARDS.replace("Bash", "Read")
    async with (
        running_daemon(tmp_path, {**HOOKS_D, "hooks.d/other.py": other}) as daemon,
        daemon.administrator() as admin,
        daemon.session() as client,
    ):
        gone("hooks.d")(tmp_path)
        await admin.until_status(is_red)
        answer = await admin.call("unregister", scope="global", id="more:no")
        decisions = [(await client.fire_tool(tool))["verdict"] for tool in ("Bash", "Read")]
        last = (await admin.call("log", kind="operation"))["records"][-1]

    assert (answer["removed"], answer["accepted"]) == (["more:no", "more:noted"], [str(tmp_path / "hooks.d/more.py")])
    assert decisions == ["pass", "deny"]
    assert (last["operation"], last["hook"], last["accepted"]) == ("unregister", "more:no", answer["accepted"])


async def test_a_reload_keeps_the_switch_of_a_clients_hook_that_has_the_name_of_one_that_is_gone(
    tmp_path: Path,
) -> None:
    files = {**HOOKS_D, "guards.py": GUARDS}
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin, daemon.session() as client:
        gone("hooks.d")(tmp_path)
        await admin.until_status(is_red)
        await admin.call("unregister", scope="global", id="more:no")
        hook = {"id": "more:no", "event": "pre_tool_use", "run": f"{tmp_path}/guards.py:no"}
        await admin.call("register", scope="global", hooks=[hook])
        await admin.call("disable", scope="global", id="more:no")
        await admin.call("reload")

        assert (await bash(client))[0] == "pass"


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_hook_that_a_file_still_declares_is_removed_in_that_file(tmp_path: Path, is_gone: bool) -> None:
    files = {"hooks.toml": CONFIG, "guards.py": GUARDS}
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin:
        if is_gone:
            gone("guards.py")(tmp_path)
        with pytest.raises(RpcFailure, match="not_permitted") as failure:
            await admin.call("unregister", scope="global", id="guards:no")

    place = f"{tmp_path}/guards.py:4, which {tmp_path}/hooks.toml names; remove it there"
    assert f"'guards:no' is declared in {place}" in failure.value.message


async def test_sighup_does_not_accept_an_emptied_file_and_reload_does(tmp_path: Path) -> None:
    found: list[Any] = []
    async with (
        running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": GUARDS}) as daemon,
        daemon.administrator() as admin,
        daemon.session() as client,
    ):
        daemon.write("hooks.toml", "")
        for step in (hang_up, None):
            await (step(daemon, admin) if step is not None else admin.call("reload"))
            found.append((await bash(client))[0])

    assert found == ["deny", "pass"]
