"""install, uninstall: every program gets entries that work, nothing else changes, and all of it can be undone.

Slow: each command is a process of its own.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from hooklatch.cli.hosts.entries import find_entries
from hooklatch.cli.hosts.layouts import LAYOUTS
from hooklatch.entry.commands import python_form
from hooklatch.hosts.find import find_host
from support.commands import Place, list_own_problems, new_place, serving
from support.entries import HAS_COMPILER
from support.tables import table

pytestmark = pytest.mark.slow

USER = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "copilot": ".copilot/hooks/hooklatch.json",
    "cursor": ".cursor/hooks.json",
    "opencode": ".config/opencode/plugins/hooklatch.js",
    "qwen": ".qwen/settings.json",
    "kimi": ".kimi-code/config.toml",
    "grok": ".grok/hooks/hooklatch.json",
    "letta": ".letta/settings.json",
    "cline": ".cline/hooks/PreToolUse.bash",
    "auggie": ".augment/settings.json",
    "droid": ".factory/settings.json",
    "goose": ".agents/plugins/hooklatch/hooks/hooks.json",
}
PROJECT = {
    "claude-code": ".claude/settings.local.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "copilot": ".github/hooks/hooklatch.json",
    "cursor": ".cursor/hooks.json",
    "opencode": ".opencode/plugins/hooklatch.js",
    "qwen": ".qwen/settings.json",
    "grok": ".grok/hooks/hooklatch.json",
    "letta": ".letta/settings.local.json",
    "cline": ".cline/hooks/PreToolUse.bash",
    "auggie": ".augment/settings.local.json",
    "droid": ".factory/settings.json",
    "goose": ".agents/plugins/hooklatch/hooks/hooks.json",
}  # Kimi Code reads no hooks of a project


def tree(place: Place) -> dict[str, bytes]:
    return {
        str(path.relative_to(place.folder)): path.read_bytes() if path.is_file() else b""
        for path in place.folder.rglob("*")
    }


def program(place: Place, name: str, says: str) -> str:
    """Make a program that says a version and nothing else."""
    path = place.folder / "programs" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


@table("name", list(LAYOUTS))
def test_what_is_installed_comes_out_again_without_a_trace(name: str) -> None:
    with new_place() as place:
        project = place.folder / "project"
        project.mkdir()
        before = tree(place)
        scopes = [("--user", USER), *([("--project", PROJECT)] if name in PROJECT else [])]
        for scope, files in scopes:
            done = place.run("install", name, scope, folder=project)
            assert done.returncode == 0, done.stderr
            base = place.folder if scope == "--user" else project
            assert (base / files[name]).read_bytes().count(b"--kind") > (0 if name == "cline" else 3)
        installed = tree(place)
        again = place.run("install", name, scopes[-1][0], folder=project)
        assert "nothing was changed" in again.stdout
        assert tree(place) == installed

        done = place.run("uninstall", name, folder=project)

        assert done.returncode == 0, done.stderr
        # The program stays: settings that were written by hand may start it, and one that is gone refuses nothing.
        left = {path: content for path, content in tree(place).items() if path not in before and content}
        assert [f"left: {place.folder / path}" in done.stdout for path in left] == [True] * HAS_COMPILER
        assert before.items() <= tree(place).items()


@table(
    ("said", "name"),
    [("claude", "claude-code"), ("Gemini-CLI", "gemini"), ("github-copilot", "copilot"), ("qwen_code", "qwen")],
)
def test_other_spellings_are_understood(said: str, name: str, place: Place) -> None:
    assert place.json("install", said, "--dry-run")["host"] == name


def test_an_unknown_program_is_named_with_those_that_there_are(place: Place) -> None:
    done = place.run("install", "clod")

    assert done.returncode == 64
    assert "unknown host 'clod'" in done.stderr
    assert "claude-code" in done.stderr


def test_a_dry_run_shows_a_diff_and_writes_nothing(place: Place) -> None:
    before = tree(place)

    done = place.run("install", "claude-code", "--dry-run")

    assert tree(place) == before
    assert "+++ " in done.stdout
    assert '"PreToolUse"' in done.stdout
    assert "dry run: nothing was written" in done.stdout


def test_an_installation_is_summed_up_and_says_both_ways_to_have_a_daemon_after_a_reboot(place: Place) -> None:
    done = place.run("install", "claude-code", "--program", program(place, "claude", "2.1.332 (Claude Code)"))
    started = place.run("install", "claude-code", "--start").stdout

    assert len(done.stdout.splitlines()) <= 5, done.stdout
    assert re.search(r"settings.json \(\+2\d\d -0 lines\)$", done.stdout.splitlines()[0])
    assert "hooklatch service install" in done.stdout.splitlines()[-1]
    assert "hooklatch install claude-code --start" in done.stdout.splitlines()[-1]
    assert "after a reboot" not in started


@pytest.mark.parametrize("name", ["claude-code", "opencode", "kimi", "cline"])
def test_what_starts_the_daemon_after_a_reboot_stays_when_one_installs_again(place: Place, name: str) -> None:
    place.run("install", name, "--start", "--form", "python")
    before = tree(place)

    again = place.run("install", name, "--form", "python")
    after = tree(place)
    place.run("uninstall", name)
    place.run("install", name, "--form", "python")

    assert "a daemon that an entry starts has the PATH" in again.stdout
    assert after == before
    assert not any(b"--start" in data for data in tree(place).values())


def entries(place: Place, name: str, *words: str) -> dict[str, dict[str, Any]]:
    done = place.run("install", name, *words)
    assert done.returncode == 0, done.stderr
    return {one.event: one.handler for one in find_entries((place.folder / USER[name]).read_text())}


def test_claude_codes_entries_are_gates_that_block_on_failure(place: Place) -> None:
    found = entries(place, "claude-code", "--program", program(place, "claude", "2.1.332 (Claude Code)"))
    words = [*started(place), "claude-code", "PreToolUse", "--kind", "gate", "--wait", "605", *runtime(place)]

    assert found["PreToolUse"] == {
        "type": "command",
        "command": shlex.join(words),
        "timeout": 610,
        "onFailure": "block",
    }  # fmt: skip
    assert "onFailure" not in found["Stop"]
    assert "WorktreeCreate" not in found
    assert set(found) == {
        event for event, spec in find_host("claude-code").events.items() if spec.event and not spec.alters_host
    }


def started(place: Place) -> list[str]:
    """Return what an entry starts: the program in C where that can be built."""
    return [str(path) for path in (place.folder / ".local/state/hooklatch/entries").glob("*")] or python_form()


def runtime(place: Place) -> list[str]:
    return ["--runtime-dir", str(place.runtime)]


def test_an_older_claude_code_gets_what_it_knows_and_the_difference_is_said(place: Place) -> None:
    old = program(place, "claude", "2.0.14 (Claude Code)")
    found = entries(place, "claude-code", "--program", old)

    assert "onFailure" not in found["PreToolUse"]
    assert "PermissionRequest" not in found
    notes = " ".join(place.json("install", "claude", "--program", old)["notes"])
    assert "Claude Code 2.0.14 has no onFailure (from 2.1.295 on)" in notes
    assert "PermissionRequest" in notes


def test_whose_daemon_to_take_is_in_the_command(place: Place) -> None:
    found = entries(place, "claude-code", "--daemon-uid", "998")

    assert found["PreToolUse"]["command"].endswith(f"{' '.join(runtime(place))} --daemon-uid 998")


def test_an_unknown_version_is_said(place: Place) -> None:
    notes = " ".join(place.json("install", "gemini", "--dry-run", "--program", program(place, "gemini", "?"))["notes"])

    assert "the version is unknown" in notes
    assert "did not print one (exit code 0)" in notes


def test_an_event_that_takes_over_is_added_where_it_is_wanted(place: Place) -> None:
    assert "WorktreeCreate" in entries(place, "claude-code", "--also", "WorktreeCreate")
    assert "no event 'Nonsense'" in place.run("install", "claude-code", "--also", "Nonsense").stderr


def test_times_are_in_the_programs_own_unit(place: Place) -> None:
    assert entries(place, "gemini")["BeforeTool"]["timeout"] == 610_000
    assert entries(place, "qwen")["PreToolUse"]["timeout"] == 610_000
    assert entries(place, "copilot")["preToolUse"]["timeoutSec"] == 610
    assert entries(place, "codex")["SessionEnd"]["timeout"] == 3


def test_cursor_is_told_to_fail_closed(place: Place) -> None:
    found = entries(place, "cursor")

    assert found["preToolUse"]["failClosed"] is True
    assert "failClosed" not in found["stop"]
    assert json.loads((place.folder / USER["cursor"]).read_text())["version"] == 1


def test_a_settings_file_keeps_every_byte_and_names_its_backup(place: Place) -> None:
    path = place.folder / USER["auggie"]
    path.parent.mkdir()
    text = '{\r\n\t// mine\r\n\t"permissions": {"deny": ["Read(.env)"]},\r\n}\r\n'
    path.write_bytes(text.encode())

    done = place.run("install", "auggie")
    after = path.read_bytes().decode()

    head, tail = text.split("\r\n}")
    assert after.startswith(head)
    assert after.endswith(f"\r\n}}{tail}")
    assert "\n" not in after.replace("\r\n", "")
    assert f"backup: {path}.hooklatch-backup" in done.stdout
    assert "NOT ACTIVE" not in done.stdout
    assert place.run("uninstall", "auggie").returncode == 0
    assert path.read_bytes() == text.encode()


def test_what_a_program_was_not_seen_to_read_is_named(place: Place) -> None:
    path = place.folder / USER["cursor"]
    path.parent.mkdir()
    path.write_text("{} // mine\n")

    done = place.run("install", "cursor")

    assert done.returncode == 0
    assert f"note: NOT ACTIVE?: Cursor may not read a comment ({path}:1:" in done.stdout


@pytest.mark.parametrize(
    ("host", "text", "what"),
    [
        ("claude-code", "{\n  // mine\n}\n", "Claude Code does not read a comment (PATH:2:3)"),
        ("codex", '{\n  "a": 1,\n}\n', "Codex does not read a comma before a closing bracket (PATH:2:9)"),
        ("codex", "\ufeff{}\n", "Codex does not read a byte order mark (PATH:1:1)"),
        ("copilot", "{} // mine\n", "Copilot CLI does not read a comment (PATH:1:4)"),
        ("gemini", "\ufeff{}\n", "Gemini CLI does not read a byte order mark (PATH:1:1)"),
    ],
    ids=["a comment", "a comma", "a mark", "a comment for Copilot", "a mark for Gemini"],
)
def test_a_file_that_the_program_itself_cannot_read_is_refused_and_left(
    place: Place, host: str, text: str, what: str
) -> None:
    path = place.folder / USER[host]
    path.parent.mkdir(parents=True)
    path.write_text(text)

    done = place.run("install", host)

    assert done.returncode == 65
    expected = what.replace("PATH", str(path)) + ", and ignores the whole file; nothing was changed: take it out"
    assert expected in done.stderr
    assert path.read_text() == text


def test_what_cannot_be_parsed_is_refused_with_its_place(place: Place) -> None:
    path = place.folder / USER["qwen"]
    path.parent.mkdir()
    path.write_text('{\n  "a": 1\n  "b": 2\n}\n')

    done = place.run("install", "qwen")

    assert done.returncode == 65
    assert f"{path}:3:3: expected ',' or '}}', found '\"'; nothing was changed" in done.stderr
    assert path.read_text() == '{\n  "a": 1\n  "b": 2\n}\n'


def test_uninstalling_where_nothing_is_says_so(place: Place) -> None:
    done = place.run("uninstall", "cursor")

    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing of hooklatch is in " in done.stdout


APP_SERVER = """#!{python}
import hashlib, json, os, sys
if sys.argv[1:] == ["--version"]:
    print("codex-cli 0.169.0"); sys.exit()
import tomllib
home = os.path.expanduser("~/.codex")
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") != "hooks/list":
        continue
    config = home + "/config.toml"
    state = tomllib.load(open(config, "rb")).get("hooks", {{}}).get("state", {{}}) if os.path.exists(config) else {{}}
    hooks, path = [], home + "/hooks.json"
    for event, groups in json.load(open(path))["hooks"].items():
        for number, group in enumerate(groups):
            for place, one in enumerate(group["hooks"]):
                key = f"{{path}}:{{event}}:{{number}}:{{place}}"
                value = "sha256:" + hashlib.sha256(json.dumps(one).encode()).hexdigest()
                is_trusted = state.get(key, {{}}).get("trusted_hash") == value
                hooks.append({{"key": key, "command": one["command"], "sourcePath": path, "enabled": True,
                    "currentHash": value, "trustStatus": "trusted" if is_trusted else "untrusted"}})
    print(json.dumps({{"method": "noise"}}))
    print(json.dumps({{"id": asked["id"], "result": {{"data": [{{"cwd": "/", "hooks": hooks}}]}}}}), flush=True)
"""


def codex(place: Place) -> str:
    """Make a stand-in for Codex's app server, which keeps trust where Codex does."""
    path = Path(program(place, "codex", ""))
    path.write_text(APP_SERVER.format(python=sys.executable))
    return str(path)


def test_codex_is_said_not_to_trust_and_trusts_where_the_person_says_so(place: Place) -> None:
    stand_in = codex(place)
    config = place.folder / ".codex/config.toml"
    config.parent.mkdir()
    config.write_text("# mine\n")

    first = place.run("install", "codex", "--program", stand_in)
    trusted = place.run("install", "codex", "--program", stand_in, "--trust")
    later = place.run("install", "codex", "--program", stand_in)

    assert "NOT TRUSTED YET: Codex runs none of " in first.stdout
    assert "your trust in these " in trusted.stdout
    assert f"backup: {config}.hooklatch-backup" in trusted.stdout
    assert "Codex trusts these entries" in later.stdout
    assert place.run("uninstall", "codex").returncode == 0
    assert config.read_text() == "# mine\n"
    assert [path.name for path in config.parent.iterdir()] == ["config.toml"]


def test_a_codex_that_does_not_answer_is_not_believed_to_trust(place: Place) -> None:
    done = place.run("install", "codex", "--program", program(place, "codex", "codex-cli 0.169.0"))

    assert "NOT TRUSTED, as far as is known: codex app-server" in done.stdout


def test_installing_without_a_daemon_says_that_everything_will_be_refused(place: Place) -> None:
    said = place.run("install", "claude-code").stdout
    started = place.run("install", "claude-code", "--start").stdout

    assert "NO DAEMON RUNS: until one does, Claude Code is refused every tool call: hooklatch serve --detach" in said
    assert "NO DAEMON" not in started


def diagnose(place: Place) -> dict[str, Any]:
    """Return what doctor finds, and nothing that is wrong but for agents of this machine."""
    said: dict[str, Any] = json.loads(place.run("doctor", "--json").stdout)
    assert list_own_problems(said) == []
    return said


@pytest.mark.skipif(not HAS_COMPILER, reason="there is no compiler")
def test_the_c_form_is_built_and_named_and_a_dry_run_builds_nothing(place: Place) -> None:
    before = tree(place)
    dry = place.run("install", "claude-code", "--dry-run")
    assert tree(place) == before

    done = place.run("install", "claude-code", "--diff")
    with serving(place):
        (host,) = diagnose(place)["hosts"]
    gone = place.run("uninstall", "claude-code")

    (program,) = (place.folder / ".local/state/hooklatch/entries").iterdir()
    assert f'"command": "{program} claude-code PreToolUse --kind gate' in dry.stdout
    assert f'"command": "{program} claude-code PreToolUse --kind gate' in done.stdout
    assert "Python form" not in done.stdout
    assert (host["canary"], host["without_daemon"], host["form"]) == ("refused by the daemon", "refused", "c")
    assert f"left: {program}, the entry as a C program" in gone.stdout


@table("words", [[], ["--form", "python"]])
def test_without_a_compiler_or_where_it_is_asked_for_the_entry_is_python_and_doctor_says_it(words: list[str]) -> None:
    with new_place() as place:
        place.environment["PATH"] = str(place.folder)
        dry = place.run("install", "claude-code", "--dry-run", *words)
        done = place.run("install", "claude-code", "--diff", *words)
        with serving(place):
            (host,) = diagnose(place)["hosts"]
            said = place.run("doctor").stdout
        refused = place.run("install", "claude-code", "--form", "c")

        line = shlex.join([*python_form(), "claude-code", "PreToolUse", "--kind", "gate"])
        why = (
            "the entry is the Python form, so each event starts an interpreter; the C form cannot be had: there is no C"
        )
        for one in (dry, done):
            assert f'"command": "{line}' in one.stdout
            assert (why in one.stdout) is (not words)
        assert (host["canary"], host["form"]) == ("refused by the daemon", "python")
        assert "; the entry is the Python form, so each event starts an interpreter" in said
        assert (refused.returncode, "there is no C compiler" in refused.stderr) == (73, True)


def test_a_program_folder_that_cannot_be_read_is_the_python_form_and_says_why(place: Place) -> None:
    (place.folder / ".local/state/hooklatch").mkdir(parents=True)
    (place.folder / ".local/state/hooklatch/entries").write_text("in the way")

    done = place.run("install", "claude-code", "--diff")

    assert done.returncode == 0, done.stderr
    assert f'"command": "{shlex.join(python_form())} claude-code PreToolUse' in done.stdout
    assert "entries: File exists" in done.stdout


def test_copilots_entries_of_a_project_go_where_it_reads_them_at_the_root_of_the_repository() -> None:
    with new_place() as place:
        below = place.folder / "work/below"
        below.mkdir(parents=True)
        (place.folder / "work/.git").mkdir()

        done = place.run("install", "copilot", "--project", folder=below)
        undone = place.run("uninstall", "copilot", "--project", "--dry-run", folder=below)

        assert done.returncode == 0, done.stderr
        assert (place.folder / "work/.github/hooks/hooklatch.json").is_file()
        assert list(below.iterdir()) == []
        assert "work/.github/hooks/hooklatch.json" in undone.stdout
