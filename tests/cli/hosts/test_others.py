"""Hooks beside ours that may change what was judged: found wherever a host reads them, and named."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from hooklatch.cli.hosts.effective import EffectiveSettings, judge_layers
from hooklatch.cli.hosts.layouts import LAYOUTS
from hooklatch.cli.hosts.others import Document, OtherHook, list_other_hooks, list_result_hooks, read_documents
from hooklatch.hosts.find import find_host
from support.commands import Place, new_place, serving
from support.tables import table

LINE = "rtk hook"


def grouped(event: str, command: str = LINE) -> dict[str, Any]:
    return {"hooks": {event: [{"matcher": "*", "hooks": [{"type": "command", "command": command}]}]}}


def others_of(name: str, home: Path, here: str = "project") -> list[OtherHook]:
    layout = LAYOUTS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        documents = read_documents(layout, {}, str(home / here))
    return list(list_other_hooks(find_host(name), documents))


def write(path: Path, value: Mapping[str, Any] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


HEADED = "---\nname: x\nhooks:\n  PreToolUse:\n    - hooks: []\n---\nDo it.\n"
COPILOT = {"version": 1, "hooks": {"preToolUse": [{"type": "command", "bash": LINE}]}}
EXTENSION = "await joinSession({ hooks: { onPreToolUse: async () => ({}) } });"
PLUGIN = 'export const Other = async () => ({ "tool.execute.before": async () => {} })'
TOML = f'[[hooks.PreToolUse]]\nmatcher = ".*"\n[[hooks.PreToolUse.hooks]]\ntype = "command"\ncommand = "{LINE}"\n'


@table(
    ("name", "path", "value"),
    [
        ("claude-code", ".claude/settings.json", grouped("PreToolUse")),
        ("claude-code", "project/.claude/settings.json", grouped("PermissionRequest")),
        ("claude-code", "project/.claude/settings.local.json", grouped("PreToolUse")),
        ("claude-code", ".claude/skills/x/SKILL.md", HEADED),
        ("claude-code", ".claude/agents/team/x.md", HEADED.replace("hooks:", '"ho\\u006fks":')),
        ("claude-code", "project/.claude/commands/x.md", HEADED),
        ("codex", ".codex/hooks.json", grouped("PreToolUse")),
        ("codex", ".codex/config.toml", TOML),
        ("codex", "project/.codex/hooks.json", grouped("PreToolUse")),
        ("codex", ".codex/work.config.toml", TOML),
        ("codex", ".codex/plugins/cache/acme/rtk/1.0/hooks/hooks.json", grouped("PreToolUse")),
        ("gemini", ".gemini/settings.json", grouped("BeforeTool")),
        ("gemini", "project/.gemini/settings.json", grouped("BeforeTool")),
        ("gemini", ".gemini/extensions/rtk/hooks/hooks.json", grouped("BeforeTool")),
        ("copilot", ".copilot/hooks/first.json", COPILOT),
        ("copilot", "project/.github/hooks/first.json", COPILOT),
        ("copilot", "project/.claude/settings.json", grouped("PreToolUse")),
        ("copilot", ".copilot/extensions/x/extension.mjs", EXTENSION),
        ("copilot", "project/.github/extensions/x/extension.mjs", EXTENSION),
        ("copilot", ".copilot/agents/x.agent.md", HEADED),
        ("copilot", "project/.github/agents/x.md", HEADED.replace("PreToolUse", "preToolUse")),
        ("opencode", ".config/opencode/plugins/other.js", PLUGIN),
        ("opencode", "project/.opencode/plugin/other.ts", PLUGIN),
        ("opencode", ".opencode/plugins/other.ts", PLUGIN),
        (
            "opencode",
            "project/.opencode/plugin/other.js",
            "export const A = async () => ({ tool: { bash: tool({}) } })",
        ),
        ("opencode", "project/.opencode/tool/bash.ts", "export default tool({})"),
    ],
)
def test_a_hook_that_may_rewrite_is_found_in_every_place(name: str, path: str, value: Mapping[str, Any] | str) -> None:
    with TemporaryDirectory() as home:
        file = write(Path(home, path), value)

        (other,) = others_of(name, Path(home))

    code = "a plugin" if name == "opencode" else "an extension"
    what = {".md": f"a hook in the head of {file.name}", ".json": LINE, ".toml": LINE}.get(file.suffix, code)
    assert (other.file, other.what) == (str(file), what)


@table(
    ("name", "path", "value"),
    [
        ("claude-code", ".claude/skills/x/SKILL.md", HEADED),
        ("claude-code", ".claude/settings.local.json", grouped("PreToolUse")),
        ("codex", ".codex/hooks.json", grouped("PreToolUse")),
        ("copilot", ".github/agents/x.md", HEADED),
        ("copilot", ".github/hooks/x.json", COPILOT),
        ("opencode", ".opencode/plugin/other.ts", PLUGIN),
    ],
)
def test_a_hook_of_a_folder_above_is_found_as_far_as_the_repository_goes(
    name: str, path: str, value: Mapping[str, Any] | str
) -> None:
    with TemporaryDirectory() as home:
        file = write(Path(home, "work/above", path), value)
        Path(home, "work/above/project").mkdir()
        without = others_of(name, Path(home), "work/above/project")
        Path(home, "work/above/.git").mkdir()
        (other,) = others_of(name, Path(home), "work/above/project")
        beyond = others_of(name, Path(home), "work")

    assert (without, beyond) == ([], [])
    assert (other.file, other.document.project) == (str(file), f"{home}/work/above")


def test_of_copilot_the_root_of_the_repository_counts_and_the_folders_that_its_settings_name() -> None:
    with TemporaryDirectory() as home:
        root = Path(home, "work")
        for where in ("more/x.json", "project/.github/hooks/x.json", "project/more/x.json"):
            write(root / where, COPILOT)
        write(root / ".github/copilot/settings.json", {"hookDirectories": ["more", 7]})
        (root / ".git").mkdir()

        (other,) = others_of("copilot", Path(home), "work/project")

    assert (other.file, other.document.project) == (f"{root}/more/x.json", str(root))


def test_local_settings_of_the_main_worktree_count_in_the_others() -> None:
    with TemporaryDirectory() as home:
        git = ["git", "-C", home, "-c", "user.name=a", "-c", "user.email=a@b"]
        file = write(Path(home, "work/.claude/settings.local.json"), grouped("PreToolUse"))
        write(Path(home, "work/.claude/settings.json"), grouped("PreToolUse"))
        subprocess.run([*git, "init", "-q", "work"], check=True)
        subprocess.run([*git, "-C", "work", "commit", "-q", "--allow-empty", "-m", "x"], check=True)
        subprocess.run([*git, "-C", "work", "worktree", "add", "-q", "../other"], check=True, capture_output=True)

        (other,) = others_of("claude-code", Path(home), "other")

    assert other.file == str(file)


def faults_of(name: str, home: Path) -> list[str]:
    documents = read_documents(LAYOUTS[name], {"HOME": str(home)}, str(home / "project"))
    return [document.fault for document in documents if document.fault and document.layer == "project"]


def test_what_names_the_main_worktree_is_read_for_claude_code_alone_and_a_fault_where_that_cannot_be(
    tmp_path: Path,
) -> None:
    link = write(tmp_path / "project/.git", "gitdir: a\0b\n")
    without = faults_of("cursor", tmp_path)
    (strange,) = faults_of("claude-code", tmp_path)
    link.unlink()
    os.mkfifo(link)
    (no_file,) = faults_of("claude-code", tmp_path)

    assert without == []
    assert "cannot be read: embedded null byte" in strange
    assert no_file == f"{link} is not a regular file"


def test_a_folder_that_none_can_be_is_a_fault_of_the_settings_that_name_it(tmp_path: Path) -> None:
    path = write(tmp_path / "project/.github/copilot/settings.json", {"hookDirectories": ["a\0b", "\ud800"]})

    found = faults_of("copilot", tmp_path)

    assert path.exists()
    assert [text.partition(":")[0] for text in found] == [
        "hookDirectories has 'a\\x00b'", "hookDirectories has '\\ud800'",
    ]  # fmt: skip


@pytest.mark.parametrize("folder", [".claude/skills", "project/.claude/skills"])
def test_a_plugin_in_a_folder_of_skills_is_read(folder: str) -> None:
    with TemporaryDirectory() as home:
        file = write(Path(home, folder, "x/hooks/hooks.json"), grouped("PreToolUse"))
        without = others_of("claude-code", Path(home))
        write(Path(home, folder, "x/.claude-plugin/plugin.json"), {"name": "x"})
        (other,) = others_of("claude-code", Path(home))
        write(Path(home, ".claude/settings.json"), {"enabledPlugins": {"x@skills-dir": False}})
        off = others_of("claude-code", Path(home))

    assert (without, other.file, other.document.layer) == ([], str(file), "plugin")
    assert off == []


@table(
    ("name", "path", "text"),
    [
        ("claude-code", ".claude/settings.json", '{"env": {"CLAUDE_CODE_SHELL_PREFIX": "HERE/run.sh"}}'),
        ("claude-code", "project/.claude/settings.local.json", '{"env": {"BASH_ENV": "HERE/run.sh", "A": "b"}}'),
        ("claude-code", ".claude/settings.json", '{"env": {"CLAUDE_ENV_FILE": "HERE/run.sh", "SHELL": "/bin/sh"}}'),
        ("codex", ".codex/config.toml", '[shell_environment_policy]\nset = { BASH_ENV = "HERE/run.sh" }\n'),
        ("gemini", "project/.gemini/.env", "# of ours\nA=b\nexport BASH_ENV='HERE/run.sh'\n"),
        ("gemini", "project/.env", "BASH_ENV=HERE/run.sh\n"),
        ("qwen", ".env", "BASH_ENV = HERE/run.sh\n"),
    ],
)
def test_a_script_that_settings_have_run_with_each_command_is_found(name: str, path: str, text: str) -> None:
    with TemporaryDirectory() as home:
        file, script = write(Path(home, path), text.replace("HERE", home)), write(Path(home, "run.sh"), "ls")

        (other,) = others_of(name, Path(home))
        write(script, "ls -l")
        (changed,) = others_of(name, Path(home))

    assert (other.file, other.event) == (str(file), "env")
    assert changed.digest != other.digest


@table(
    ("name", "path", "value"),
    [
        ("claude-code", ".claude/settings.json", grouped("PostToolUse")),
        ("claude-code", ".claude/settings.json", grouped("SessionStart")),
        ("claude-code", ".claude/agents/x.md", HEADED.replace("PreToolUse", "PostToolUse")),
        ("claude-code", ".claude/agents/x.md", f"---\nname: x\n---\n{HEADED}"),
        ("codex", ".codex/hooks.json", grouped("Stop")),
        ("qwen", ".qwen/settings.json", grouped("PreToolUse")),  # Qwen Code takes no changed input
        ("opencode", ".config/opencode/plugins/other.js", "export const Other = async () => ({})"),
    ],
)
def test_a_hook_that_cannot_change_an_input_is_not_named(name: str, path: str, value: Mapping[str, Any] | str) -> None:
    with TemporaryDirectory() as home:
        write(Path(home, path), value)

        assert others_of(name, Path(home)) == []


def test_our_names_are_found_where_a_project_turns_them_off() -> None:
    turned_off = {"hooksConfig": {"disabled": ["hooklatch-BeforeTool"]}}
    documents = [Document("project", "/project/.gemini/settings.json", turned_off)]
    settings = EffectiveSettings(find_host("gemini"), LAYOUTS["gemini"], documents, frozenset({"user"}))

    found = [each for each in judge_layers(settings) if "turns off hooklatch-BeforeTool" in each.what]

    assert [each.is_problem for each in found] == [True]


def test_a_hook_that_may_answer_after_a_guard_of_results_is_found(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(home / ".claude/settings.json", grouped("PostToolUse"))
    write(home / "project/.gemini/settings.json", grouped("AfterTool"))
    write(home / ".qwen/settings.json", grouped("PostToolUse"))  # Qwen Code takes no other result
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        found = {
            name: list(list_result_hooks(find_host(name), read_documents(LAYOUTS[name], {}, str(home / "project"))))
            for name in ("claude-code", "gemini", "qwen")
        }

    assert found == {
        "claude-code": [f"{LINE} (PostToolUse in {home}/.claude/settings.json)"],
        "gemini": [f"{LINE} (AfterTool in {home}/project/.gemini/settings.json)"],
        "qwen": [],
    }


def test_mods_of_plugins_are_found_by_variable_by_name_and_as_drafts(tmp_path: Path) -> None:
    mod = {"modules": ["./register.ts"]}
    named, listed, draft = (tmp_path / "named", tmp_path / "listed", tmp_path / ".claude/dev-mods/session/first")
    for folder in (named, listed, draft):
        write(folder / "hooks/hooks.json", mod)
    settings = {"env": {"CLAUDE_CODE_PLUGIN_DIRS": str(named)}, "enabledPlugins": {"acme@shop": True}}
    write(tmp_path / ".claude/settings.json", settings)
    write(
        tmp_path / ".claude/plugins/installed_plugins.json", {"plugins": {"acme@shop": [{"installPath": str(listed)}]}}
    )

    found = {Path(other.file).parents[1] for other in others_of("claude-code", tmp_path)}

    assert found == {named, listed, draft}


def test_a_digest_changes_with_the_settings_and_with_the_files_that_they_name(tmp_path: Path) -> None:
    script = write(tmp_path / "rewrite.sh", "#!/bin/sh\n")
    settings = tmp_path / ".claude/settings.json"
    write(settings, grouped("PreToolUse", f"sh {script}"))
    (first,) = others_of("claude-code", tmp_path)

    script.write_text("#!/bin/sh\ntrue\n")
    (second,) = others_of("claude-code", tmp_path)
    write(settings, grouped("PreToolUse", f"sh {script} -x"))
    (third,) = others_of("claude-code", tmp_path)

    assert len({first.digest, second.digest, third.digest}) == 3


def found(place: Place) -> tuple[list[str], list[str]]:
    said = json.loads(place.run("doctor", "--json").stdout)
    problems, hints = ([one["what"] for one in said[kind]] for kind in ("problems", "hints"))
    return [what for what in problems if LINE in what], [what for what in hints if LINE in what]


@pytest.mark.slow
def test_doctor_is_red_until_the_hook_is_accepted_and_again_once_it_changes() -> None:
    with new_place() as place, serving(place):
        write(place.folder / ".codex/hooks.json", grouped("PreToolUse"))
        note = next(line for line in place.run("install", "codex").stdout.splitlines() if "NOT THE ONLY" in line)
        before = found(place)

        done = place.run("install", "codex", "--accept", note.split("--accept ")[1].split()[0])

        accepted = found(place)
        place.run("uninstall", "codex")
        write(place.folder / ".codex/hooks.json", grouped("PreToolUse", f"{LINE} --more"))
        place.run("install", "codex")
        changed = found(place)
        unknown = place.run("install", "codex", "--accept", "0123")

    assert done.returncode == 0, done.stderr
    assert (len(before[0]), len(before[1])) == (1, 0)
    assert (len(accepted[0]), len(accepted[1])) == (0, 1)
    assert (len(changed[0]), len(changed[1])) == (1, 0)
    assert "no hook with the digest 0123" in unknown.stderr


@pytest.mark.slow
def test_settings_that_cannot_be_parsed_are_named_and_untouched() -> None:
    with new_place() as place, serving(place):
        broken = write(place.folder / ".claude/settings.json", "{ broken")
        project = write(place.folder / ".codex/config.toml", "[broken")

        refused = place.run("install", "claude-code")
        installed = place.run("install", "codex")
        said = place.run("doctor").stdout

        assert refused.returncode == 65
        assert "settings.json:1:3" in refused.stderr
        assert broken.read_text() == "{ broken"
        assert project.read_text() == "[broken"
        assert installed.returncode == 0, installed.stderr
        assert f"{project}: " in said
        assert "so nothing is known of its hooks" in said
