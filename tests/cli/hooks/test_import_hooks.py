"""hooklatch import: one file in, one file out, without losing an existing file.

Slow: each command is a process of its own, and so is a daemon's worker.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from hooklatch.importing import UnreadableFileError, read_hooks
from hooklatch.importing.writing import write_toml
from hooklatch.service.config.configuration import read_config
from support.commands import Place, payload, serving
from support.daemons import Daemon, running_daemon
from support.tables import table

pytestmark = pytest.mark.slow

CLAUDE = json.dumps(
    {
        "permissions": {},
        "hooks": {
            "PreToolUse": [
                {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo not here >&2; exit 2"}]},
            ]
        },
    }
)
PARTLY = CLAUDE.replace('"command": "echo', '"command": "true"}, {"type": "http", "url": "x"}, {"command": "echo')


def refusing(text: str) -> str:
    """Return a guard that refuses if its standard input holds a text."""
    return f"grep -q '{text}' && echo no >&2 && exit 2"


@pytest.fixture
def settings(place: Place) -> Path:
    path = place.folder / "settings.json"
    path.write_text(CLAUDE)
    return path


def target(place: Place, name: str = "claude.toml") -> Path:
    return place.config.parent / "hooks.d" / name


def test_without_a_target_the_file_is_printed(place: Place, settings: Path) -> None:
    done = place.run("import", str(settings))

    assert done.returncode == 0, done.stderr
    (hook,) = read_config("/x.toml", done.stdout.encode()).hooks
    assert hook.id.startswith("claude:PreToolUse:echo:")


def test_what_is_imported_refuses_in_the_daemon_that_runs_already(place: Place, settings: Path) -> None:
    with serving(place):
        assert place.fire_tool("Bash", command="ls").returncode == 0

        done = place.run("import", str(settings), "--to", str(target(place)))
        assert place.run("reload").returncode == 0
        fired = place.fire_tool("Bash", command="ls")

    assert done.returncode == 0, done.stderr
    assert "1 hook" in done.stdout
    assert fired.returncode == 2
    assert "not here" in fired.stdout


def test_the_file_and_its_folder_are_the_users_alone(place: Place, settings: Path) -> None:
    place.run("import", str(settings), "--to", str(target(place)))

    assert target(place).stat().st_mode & 0o777 == 0o600
    assert target(place).parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(target(place).parent) == ["claude.toml"]


def test_a_file_that_is_there_is_left_alone_unless_forced(place: Place, settings: Path) -> None:
    target(place).parent.mkdir(mode=0o700)
    target(place).write_text("# mine\n")

    refused = place.run("import", str(settings), "--to", str(target(place)))
    kept = target(place).read_text()
    forced = place.run("import", str(settings), "--to", str(target(place)), "--force")

    assert (refused.returncode, kept) == (73, "# mine\n")
    assert "--force" in refused.stderr
    assert forced.returncode == 0
    assert 'id = "claude:PreToolUse:echo:' in target(place).read_text()
    assert os.listdir(target(place).parent) == ["claude.toml"]


def test_a_dangling_link_counts_as_there(place: Place, settings: Path) -> None:
    target(place).parent.mkdir(mode=0o700)
    target(place).symlink_to(place.folder / "elsewhere.toml")

    assert place.run("import", str(settings), "--to", str(target(place))).returncode == 73
    assert not (place.folder / "elsewhere.toml").exists()


def test_losses_are_said_and_are_the_exit_code(place: Place, settings: Path) -> None:
    settings.write_text(PARTLY)

    done = place.run("import", str(settings), "--to", str(target(place)))

    assert done.returncode == 1
    assert "PreToolUse[1].hooks[2]: written as a comment: a handler of type 'http'" in done.stderr
    assert "type 'http'" in target(place).read_text()
    assert "2 hooks, 1 hook as a comment, to be fixed" in done.stdout


def test_json_says_the_same_to_programs(place: Place, settings: Path) -> None:
    settings.write_text(PARTLY)

    report = place.json("import", str(settings), code=1)

    assert (report["kind"], report["written"], len(report["hooks"])) == ("claude", None, 3)
    assert [hook["place"] for hook in report["hooks"] if hook["problem"]] == ["PreToolUse[1].hooks[2]"]
    assert len(read_config("/x.toml", report["toml"].encode()).hooks) == 2


def test_standard_input_is_read_for_a_dash(place: Place) -> None:
    done = place.run("import", "-", stdin=CLAUDE)

    assert done.returncode == 0
    assert "Claude Code: standard input" in done.stdout


@pytest.mark.parametrize(
    ("text", "code"),
    [("{", 65), ('{"permissions": {}}', 65), ('{"hooks": {}}', 65), ('{"hooks": {"Nope": [{"command": "x"}]}}', 65)],
)
def test_a_file_without_hooks_writes_nothing(place: Place, settings: Path, text: str, code: int) -> None:
    settings.write_text(text)

    done = place.run("import", str(settings), "--to", str(target(place)))

    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    assert not target(place).exists()


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_what_cannot_be_read_is_no_input(place: Place, name: str) -> None:
    assert place.run("import", name).returncode == 66


@pytest.mark.parametrize("name", ["hooks.txt", ".hidden.toml", "hooks.d"])
def test_a_name_that_the_daemon_would_pass_over_is_misuse(place: Place, settings: Path, name: str) -> None:
    assert place.run("import", str(settings), "--to", name).returncode == 64


def test_explain_takes_the_payload_that_is_piped_in(place: Place) -> None:
    (place.folder / "payload.json").write_text(payload("Bash", command="ls"))
    with serving(place):
        piped = place.run("hooks", "explain", "pre_tool_use", stdin=payload("Bash", command="ls"))
        read = place.shell(
            f"{shlex.quote(sys.executable)} -m hooklatch hooks explain pre_tool_use < payload.json", place.folder
        )
        none = place.run("hooks", "explain", "pre_tool_use")
        bad = place.run("hooks", "explain", "pre_tool_use", stdin="[]")

    assert "guards:judge" in piped.stdout.splitlines()[0]
    assert read.stdout.splitlines()[0] == piped.stdout.splitlines()[0]
    assert none.returncode == 0
    assert none.stdout.splitlines()[0] != piped.stdout.splitlines()[0]
    assert bad.returncode == 65


def imported(data: object, name: str = "settings.json") -> str:
    text = data if isinstance(data, str) else json.dumps({"hooks": data})
    return write_toml(read_hooks(name, text.encode()), origin=name, stem="mine")


async def fire_bash(daemon: Daemon) -> dict[str, Any]:
    assert daemon.parts.reloader.active.diagnostics == []
    async with daemon.session(cwd=str(daemon.folder)) as client:
        return await client.fire_tool("Bash", command="ls")


GROUP = {"matcher": "Bash", "hooks": [{"type": "command", "command": refusing('"hook_event_name":"PreToolUse"')}]}
ENTRY = {"match": "Bash", "command": refusing('"toolName":"Bash"')}
TABLE = f"""
[[hooks]]
name = "a"
type = "before_tool"
script = '''{refusing('"tool_name":"Bash"')}'''
"""


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("settings.json", {"PreToolUse": [GROUP]}),
        ("settings.json", {"PreToolUse": [ENTRY]}),
        ("hooks.toml", TABLE),
    ],
    ids=["claude", "reasonix", "radium"],
)
async def test_an_imported_guard_refuses_in_a_daemon(name: str, data: object, tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.d/mine.toml": imported(data, name)}) as daemon:
        decision = await fire_bash(daemon)

    assert (decision["verdict"], decision["cause"], decision["reason"]) == ("deny", "policy", "no")


async def test_the_table_of_exit_codes_of_an_imported_guard_holds(tmp_path: Path) -> None:
    text = imported({"PreToolUse": [{"command": "test -f .git/MERGE_HEAD && exit 2"}]})

    async with running_daemon(tmp_path, {"hooks.d/mine.toml": text}) as daemon:
        before = await fire_bash(daemon)
        daemon.write(".git/MERGE_HEAD", "")
        after = await fire_bash(daemon)

    assert (before["verdict"], after["verdict"]) == ("pass", "deny")


@table(
    ("name", "data", "said"),
    [
        ("settings.json", b"", "settings.json:1: not JSON"),
        ("settings.json", b'{\n  "hooks": {\n    nope\n', "settings.json:3: not JSON"),
        ("settings.json", b"[" * 100_000, "not JSON"),
        ("settings.json", b'{"n": ' + b"9" * 5000 + b"}", "not JSON"),
        ("settings.json", b'{"hooks": {"Stop": [], "PreToolUse": [], "Stop": []}}', "the key 'Stop' occurs twice"),
        ("settings.json", b'{"permissions": {}}', "has no hooks"),
        ("settings.json", b'{"hooks": 42}', "has no hooks"),
        ("settings.json", b"42", "no table of hooks"),
        ("settings.json", b"[]", "a list, but not of hooks"),
        ("settings.json", b"[1, 2]", "a list, but not of hooks"),
        ("settings.json", b'{"hooks": [{"a": 1}]}', "a list, but not of hooks"),
        ("settings.json", b"\xff\xff\x00", "neither UTF-8 nor GB18030"),
        ("hooks.toml", b"[[hooks]]\nname = \n", "hooks.toml:2: not TOML"),
        ("hooks.toml", b'[[hook]]\nid = "a"\n', "in hooklatch's own format already"),
        ("hooks.toml", b"hooks = 1\n", "has no hooks"),
    ],
)
def test_a_file_of_no_hooks_is_refused_with_its_place(name: str, data: bytes, said: str) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        read_hooks(name, data)

    assert said in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gb18030"])
def test_byte_order_marks_and_gb18030_are_read(encoding: str) -> None:
    data = '{"hooks": {"Stop": [{"command": "echo 完成"}]}}'.encode(encoding)

    found = read_hooks("settings.json", data)

    assert found.hooks[0].settings["command"] == "echo 完成"
    assert any("not UTF-8" in note.text for note in found.notes) == (encoding != "utf-8-sig")


@pytest.mark.parametrize("name", ["-", "hooks"])
@pytest.mark.parametrize(("data", "kind"), [(TABLE, "radium"), (CLAUDE, "claude")])
def test_without_an_ending_the_content_says_what_it_is(name: str, data: str, kind: str) -> None:
    assert read_hooks(name, data.encode()).kind == kind


@pytest.mark.parametrize(
    "command", ["a\nb\tc", "say \"hi\" \\ 'x'", "\x7f\x1b\x85 \u2028 \U0001f600", "# no\n[[hook]]\n", "'''\"\"\"" * 3]
)
def test_any_command_survives_the_way_through_toml(command: str) -> None:
    (hook,) = read_config("/mine.toml", imported({"Stop": [{"command": command}]}).encode()).hooks

    assert hook.shell is not None
    assert hook.shell.command == command


def test_nothing_that_is_noted_can_begin_a_line_of_its_own() -> None:
    event = 'X\n[[hook]]\nid = "evil"\u2028'
    data = json.dumps({"hooks": {event: [{"command": "x"}], "Stop": [{"command": "x", "a\r\nb": 1}]}})

    text = write_toml(read_hooks("-", data.encode()), origin="a\nb", stem="c\nd")

    assert len(read_config("/mine.toml", text.encode()).hooks) == 1
    assert "evil" in text
