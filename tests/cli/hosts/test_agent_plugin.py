"""install --plugin and --status-line: what Claude Code and Gemini CLI get besides the entries.

Slow: each command is a process of its own.  tests/real_hosts/test_agent_plugins.py has the real programs take them.
"""

from __future__ import annotations

import json
import tomllib

import pytest

from hooklatch.cli.hosts.agent_plugin import COMMANDS
from support.commands import Place
from support.tables import table

pytestmark = pytest.mark.slow

SETTINGS = ".claude/settings.json"
OWN = '{\n  "model": "opus"\n}\n'
OTHER = '{"statusLine": {"type": "command", "command": "mine.sh"}}\n'


@table("host", ["claude-code", "gemini"])
def test_a_plugin_has_each_command_with_one_line_that_takes_no_word_of_anybody(place: Place, host: str) -> None:
    folder = place.folder / host
    written = place.json("install", host, "--plugin", str(folder))
    again = place.run("install", host, "--plugin", str(folder), "--hooks")

    assert again.returncode == 0, again.stderr
    assert {str(path) for path in folder.rglob("*") if path.is_file()} == {
        *written["files"], str(folder / "hooks/hooks.json")
    }  # fmt: skip
    for name, command in COMMANDS.items():
        path = next(path for path in folder.glob("commands/*") if path.stem == name)
        text = path.read_text()
        prompt = tomllib.loads(text)["prompt"] if host == "gemini" else text.partition("---\n\n")[2]
        mark = "!{" if host == "gemini" else "!`"
        line = next(line for line in prompt.splitlines() if line.startswith(mark))
        assert prompt.count(mark) == 1
        assert line[2:-1].endswith(f"-m hooklatch --runtime-dir {place.runtime} {' '.join(command.words)}")
        assert command.about in text
        assert not any(word in text for word in ("$ARGUMENTS", "$1", "{{args}}", "@"))
    hooks = json.loads((folder / "hooks/hooks.json").read_text())["hooks"]
    assert {"PreToolUse", "BeforeTool"} & hooks.keys()


@table(
    ("name", "added"), [("hooks/hooks.json", " "), ("commands/why.md", "mine\n"), (".claude-plugin/plugin.json", "\n")]
)
def test_a_file_of_a_plugin_that_was_edited_is_not_overwritten(place: Place, name: str, added: str) -> None:
    folder = place.folder / name.replace("/", "-")
    place.run("install", "claude-code", "--plugin", str(folder), "--hooks")
    (folder / name).write_text((folder / name).read_text() + added)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    place_of_other = ("--runtime-dir", str(place.folder / "other"))
    dry = place.run(*place_of_other, "install", "claude-code", "--plugin", str(folder), "--hooks", "--dry-run")
    done = place.run(*place_of_other, "install", "claude-code", "--plugin", str(folder), "--hooks")
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (folder / name).unlink()
    again = place.run(*place_of_other, "install", "claude-code", "--plugin", str(folder), "--hooks")

    assert (dry.returncode, done.returncode, again.returncode) == (73, 73, 0), again.stderr
    assert f"{folder / name} is not as hooklatch wrote it" in done.stderr
    assert "move it away" in done.stderr
    assert after == before
    assert f"--runtime-dir {place.folder}/other" in (folder / "commands/why.md").read_text()


def test_hooks_of_a_plugin_that_is_written_without_them_are_named_and_left(place: Place) -> None:
    folder = place.folder / "plugin"
    hooks = folder / "hooks/hooks.json"
    place.run("install", "claude-code", "--plugin", str(folder))
    hooks.parent.mkdir()
    hooks.write_text('{"hooks": {"PreToolUse": []}}')
    with_hooks = place.run("install", "claude-code", "--plugin", str(folder), "--hooks")
    without = place.run("install", "claude-code", "--plugin", str(folder))
    other = place.run("install", "gemini", "--plugin", str(folder))
    (folder / ".hooklatch.json").write_text("[")
    unread = place.run("install", "claude-code", "--plugin", str(folder))

    assert (with_hooks.returncode, without.returncode, other.returncode, unread.returncode) == (73, 0, 73, 73)
    assert f"{hooks} was left" in without.stderr
    assert hooks.read_text() == '{"hooks": {"PreToolUse": []}}'
    assert ".hooklatch.json is not as hooklatch wrote it" in unread.stderr


def test_a_folder_with_other_files_is_left_alone_and_no_other_agent_has_a_plugin(place: Place) -> None:
    folder = place.folder / "full"
    folder.mkdir()
    (folder / "mine").write_text("")
    odd = place.folder / "a`b"

    done = [
        place.run("install", "claude-code", "--plugin", str(folder)),
        place.run("install", "codex", "--plugin", str(folder)),
        place.run("--runtime-dir", str(odd), "install", "gemini", "--plugin", str(place.folder / "new")),
        place.run("install", "gemini", "--status-line"),
    ]

    assert [one.returncode for one in done] == [73, 64, 73, 64]
    assert "special character" in done[2].stderr
    assert [path.name for path in folder.iterdir()] == ["mine"]
    assert not (place.folder / "new").exists()


@table("before", ["", OWN])
def test_a_status_line_comes_with_the_entries_or_later_and_goes_with_them(place: Place, before: str) -> None:
    path = place.folder / SETTINGS
    if before:
        path.parent.mkdir()
        path.write_text(before)
    place.run("install", "claude-code")
    place.run("install", "claude-code", "--status-line")
    later = path.read_text()
    place.run("install", "claude-code", "--form", "python", "--also", "WorktreeCreate")
    kept = json.loads(path.read_text())
    removed = place.run("uninstall", "claude-code")

    assert json.loads(later)["statusLine"]["command"].endswith("status --line")
    assert kept["statusLine"] == json.loads(later)["statusLine"]
    assert "WorktreeCreate" in kept["hooks"]
    assert removed.returncode == 0
    assert (path.read_text() if path.exists() else "") == before


def test_a_status_line_goes_from_a_file_that_was_edited_since(place: Place) -> None:
    path = place.folder / SETTINGS
    path.parent.mkdir()
    path.write_text(OWN)
    place.run("install", "claude-code", "--status-line")
    path.write_text(path.read_text().replace('"opus"', '"sonnet"'))
    place.run("uninstall", "claude-code")

    assert path.read_text() == OWN.replace("opus", "sonnet")


def test_a_status_line_that_is_there_is_left_and_the_entries_are_written(place: Place) -> None:
    path = place.folder / SETTINGS
    path.parent.mkdir()
    path.write_text(OTHER)
    done = place.run("install", "claude-code", "--status-line")
    settings = json.loads(path.read_text())

    assert done.returncode == 0
    assert "can call: hooklatch status --line" in done.stderr
    assert settings["statusLine"]["command"] == "mine.sh"
    assert "PreToolUse" in settings["hooks"]


OURS = "/opt/p3/bin/python -I -m hooklatch status --line"


@table(
    "command",
    [
        "~/bin/my-prompt.sh; hooklatch status --line", "hooklatch status --line", f"{OURS} && {OURS}", f" {OURS}",
        f"/usr/bin/env {OURS}", f"echo $({OURS}", f"{OURS.replace('python', 'p$(x)')}", f"{OURS}\\n",
        OURS.replace("status", "--runtime-dir /run/h;x status"), OURS.replace("/opt", "A=1"),
    ],
)  # fmt: skip
def test_a_command_that_is_not_all_of_ours_is_the_users_and_kept_as_it_is(place: Place, command: str) -> None:
    path = place.folder / SETTINGS
    path.parent.mkdir(exist_ok=True)
    before = f'{{"statusLine": {{"type": "command", "command": "{command}"}}}}\n'
    path.write_text(before)
    done = place.run("install", "claude-code")
    settings = json.loads(path.read_text())
    path.write_text(path.read_text().replace("{", "{ ", 1))  # so that the entries are taken out one by one
    removed = place.run("uninstall", "claude-code")

    assert (done.returncode, removed.returncode) == (0, 0), done.stderr + removed.stderr
    assert "PreToolUse" in settings["hooks"]
    assert settings["statusLine"] == json.loads(before)["statusLine"]
    assert path.read_text() == before.replace("{", "{ ", 1)


def test_a_line_of_ours_without_the_entries_stays_with_them_and_goes_with_them(place: Place) -> None:
    path = place.folder / SETTINGS
    path.parent.mkdir()
    line = OURS.replace("status", "--runtime-dir /run/h --daemon-uid 7 status")
    path.write_text(f'{{"statusLine": {{"type": "command", "command": "{line}"}}, "model": "opus"}}\n')
    done = place.run("install", "claude-code")
    settings = json.loads(path.read_text())
    place.run("uninstall", "claude-code")

    assert done.returncode == 0, done.stderr
    assert settings["statusLine"]["command"].endswith("status --line")
    assert "PreToolUse" in settings["hooks"]
    assert json.loads(path.read_text()) == {"model": "opus"}
