"""What looks like a guard and guards nothing is named; what stands beside guards in ordinary use is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from hooklatch.service.loading.unread import marks_at, marks_by
from support.daemons import Daemon, running_daemon

pytestmark = pytest.mark.slow  # a daemon: 0.5 s; many entries are tried on one

GUARD = 'from hooklatch import deny, hook\n\n@hook("pre_tool_use")\ndef guard(event):\n    return deny("guarded")\n'
BELOW = (
    GUARD.replace("\n@", "\nif __name__ == '__main__':\n    @")
    .replace("\ndef", "\n    def")
    .replace("\n    re", "\n        re")
)
SCRIPT = "#!/bin/sh\nexit 2\n"
MEANT = "# hooklatch: no hooks\n"
USES = '[[hook]]\nevent = "stop"\n{}\nrun_in = "file"\n'

RED = {
    "guard.sh": SCRIPT, "g.js": "", "bare": SCRIPT, "g.tml": "", "g.yaml": "hooks: []\n", "g.jsonc": "{}",
    "g.PY": GUARD, "g.Toml": "", "sub/guard.py": GUARD, "deep/er/g.py": "", "g.pyc": "",
}  # fmt: skip
HOOKLESS = {
    "plain.py": "x = 1\n", "below.py": BELOW,
    "optional.py": "try:\n    import nothing_of_that_name\n    from hooklatch import hook\n"
    '    @hook("stop")\n    def guard(event): ...\nexcept ImportError:\n    pass\n',
    "unmade.py": 'def make():\n    from hooklatch import hook\n    @hook("stop")\n    def guard(event): ...\n',
}  # fmt: skip
BARE = {
    "empty.py": "", "emptied.py": "# nothing\n", "empty.toml": "", "noted.toml": "# [[hook]]\n",
    "none.toml": "hook = []\n", "none.json": '{"hooks": {}}', "entry.json": '{"hooks": {"PreToolUse": []}}',
}  # fmt: skip
WARNED = {"notes.txt": "", "data.yaml": "rules: []\n", "cases.jsonl": "", "rules/allowed.txt": "", **BARE}
KNOWN = {
    "README": "", "README.md": "", "readme.sh": SCRIPT, ".hidden.sh": SCRIPT, ".git/config": "",
    "policy-tests/a.jsonl": "",
    "__pycache__/g.cpython-311.pyc": "", ".mypy_cache/x.py": "", "g.py~": "", "g.py.bak": "",
    ".g.py.swp": "", "g.toml.orig": "", "#g.py#": "", "empty/.keep": "", "venv/pyvenv.cfg": "", "venv/lib/x.py": "",
    "__init__.py": "", "workers.toml": "[workers]\ncalls = 9\n", "meant.py": MEANT + "x = 1\n",
}  # fmt: skip
USED = {
    "good.py": GUARD.replace("\n\n@hook(", "\nimport helper, package.part\n\n@hook(", 1)
    .replace('"pre_tool_use")', '"pre_tool_use", files=["words.txt"])'),
    "helper.py": "x = 1\n", "package/__init__.py": "", "package/part.py": "", "package/other.py": "x = 1\n",
    "words.txt": "rm\n", "script.sh": SCRIPT, "scripts/other.sh": SCRIPT, "named/guards.py": GUARD,
    "uses.toml": USES.format('id = "a"\ncommand = "./script.sh -x"')
    + USES.format('id = "b"\nargv = ["sh", "scripts/other.sh"]') + '[[source]]\npath = "named/guards.py"\n',
}  # fmt: skip


def put(daemon: Daemon, files: dict[str, str]) -> None:
    for name, text in files.items():
        daemon.write(f"hooks.d/{name}", text)


def names(*groups: dict[str, str]) -> set[str]:
    return {name.partition("/")[0] for group in groups for name in group}


async def told(daemon: Daemon) -> tuple[dict[str, str], dict[str, str]]:
    """Have the daemon read its files; return what is red, and what is a warning, by the name in hooks.d."""
    async with daemon.administrator() as admin:
        await admin.call("reload")
        status = await admin.call("status")
    folder = f"{daemon.folder}/hooks.d/"
    red = [one["what"] for one in status["wrong"]]
    warned = [one["what"] for one in status["warned"] if one["reason"] == "files"]
    red, warned = (
        {what.removeprefix(folder).partition(":")[0].partition("/")[0]: what for what in found}
        for found in (red, warned)
    )
    return red, warned


async def test_each_entry_is_read_or_known_to_be_none_or_named(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": ""}) as daemon:
        put(daemon, {**KNOWN, **USED})
        assert await told(daemon) == ({}, {})

        put(daemon, {**RED, **HOOKLESS, **WARNED, "run": ""})
        (tmp_path / "hooks.d" / "run").chmod(0o755)
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "hooks.d" / "linked").symlink_to(tmp_path / "elsewhere")
        red, warned = await told(daemon)

    assert red.keys() == {*names(RED, HOOKLESS), "run", "linked"}
    assert warned.keys() == names(WARNED)
    assert {warned[name].partition(": ")[2].partition(",")[0] for name in BARE} == {"it declares no hook"}
    assert "its ending is not one of .toml, .py, .json" in red["g.tml"]
    assert "in the command or argv of a [[hook]]" in red["guard.sh"]
    assert "the @hook in line 4 did not run when it was loaded" in red["below.py"]
    assert "it marks no function with @hook, so it guards nothing" in red["plain.py"]


async def test_a_file_that_declares_no_hook_is_taken_away_as_its_warning_says(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": ""}) as daemon:
        put(daemon, {**BARE, "guard.py": GUARD})
        before = await told(daemon)
        for name in (*BARE, "guard.py"):
            (tmp_path / "hooks.d" / name).unlink()
        await daemon.parts.reloader.reload()  # as the watch does
        async with daemon.administrator() as admin:
            wrong = [one["what"] for one in (await admin.call("status"))["wrong"]]

    assert before[1].keys() == BARE.keys()
    assert [what.partition(": ")[0].rpartition("/")[2] for what in wrong] == ["guard.py"]


@pytest.mark.parametrize(
    ("name", "text"), [("empty.py", f"{GUARD}("), ("empty.toml", "[[hook]"), ("none.json", "{"), ("none.toml", None)]
)
async def test_a_broken_file_is_not_taken_away_for_what_it_did_not_declare_before(
    tmp_path: Path, name: str, text: str | None
) -> None:
    path = tmp_path / "hooks.d" / name
    async with running_daemon(tmp_path, {"hooks.toml": ""}) as daemon:
        put(daemon, {name: BARE[name]})
        await told(daemon)
        if text is not None:
            path.write_text(text)
        else:
            path.unlink()
            path.symlink_to("nowhere")
        red, warned = await told(daemon)
        path.unlink()
        await daemon.parts.reloader.reload()  # as the watch does
        async with daemon.administrator() as admin:
            wrong = [one["what"] for one in (await admin.call("status"))["wrong"]]

    assert ([key.partition(" ")[0] for key in red], warned) == ([name], {})
    assert wrong == [f"{path}: it was active and is gone; to accept that: hooklatch reload --accept-removed"]


async def test_a_red_entry_is_green_again_when_it_is_used_or_says_what_it_is(tmp_path: Path) -> None:
    async with running_daemon(
        tmp_path, {"hooks.toml": "", "hooks.d/guard.sh": SCRIPT, "hooks.d/x.py": "x = 1\n"}
    ) as daemon:
        before = await told(daemon)
        put(daemon, {"x.py": MEANT, "use.toml": USES.format('id = "a"\ncommand = "./guard.sh"')})
        after = await told(daemon)

    assert before[0].keys() == {"guard.sh", "x.py"}
    assert after == ({}, {})


async def test_a_guard_in_a_package_that_is_used_in_part_is_named(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": ""}) as daemon:
        put(daemon, {**USED, "package/forgotten.py": GUARD, "scripts/forgotten.py": GUARD})
        async with daemon.administrator() as admin:
            red = (await admin.call("reload"))["diagnostics"]

    assert [one["file"].rpartition("hooks.d/")[2] for one in red] == ["package/forgotten.py", "scripts/forgotten.py"]
    assert {one["line"] for one in red} == {3}


@pytest.mark.parametrize("name", ["hooklatch.py", "hooklatch_worker.py", "msgspec.py", "hooklatch/__init__.py"])
async def test_a_module_that_takes_the_place_of_ours_is_red_by_its_name(tmp_path: Path, name: str) -> None:
    files = {
        "hooks.toml": '[[source]]\npath = "team/g.py"\n',
        "team/g.py": GUARD,
        f"team/{name}": "hook = deny = print\n",
    }
    async with running_daemon(tmp_path, files) as daemon:
        red, _ = await told(daemon)

    assert any(f"team/{name}" in text and "in place of the package" in text for text in red.values()), red


def test_a_file_beside_a_source_is_read_anew_only_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "g.py"
    path.write_text(GUARD)

    assert [marks_at(str(path)), marks_at(str(path))] == [3, 3]
    read = marks_by.cache_info().misses
    assert marks_at(str(path)) == 3
    assert marks_by.cache_info().misses == read
    path.write_text(MEANT + GUARD)
    assert marks_at(str(path)) == 0
    path.unlink()
    assert marks_at(str(path)) == 0
    assert marks_at("g\0.py") == 0


async def test_a_file_of_hooks_beside_a_source_is_a_note_and_whatever_else_is_there_is_not(tmp_path: Path) -> None:
    files = {
        "hooks.toml": '[[source]]\npath = "g.py"\n', "g.py": GUARD, "forgotten.py": GUARD,
        "deploy.sh": SCRIPT, "x.py": "", "meant.py": MEANT + GUARD,
    }  # fmt: skip
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as admin:
        status = await admin.call("status")

    assert status["health"] == "green"
    assert [one["what"].partition(": ")[0] for one in status["warned"]] == [f"{tmp_path}/forgotten.py:3"]


async def test_what_a_broken_source_may_import_is_not_told_to_be_unused(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": ""}) as daemon:
        put(daemon, USED | {"good.py": USED["good.py"].replace("import helper", "import nothing_of_that_name, helper")})
        red, warned = await told(daemon)

    assert (red.keys(), warned) == ({"good.py"}, {})


async def test_a_file_that_becomes_executable_is_not_passed_over(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": "", "hooks.d/guard": "exit 2\n"}) as daemon:
        before = await told(daemon)
        (tmp_path / "hooks.d" / "guard").chmod(0o755)
        after = await told(daemon)

    assert (before[0], before[1].keys()) == ({}, {"guard"})
    assert (after[0].keys(), after[1]) == ({"guard"}, {})
