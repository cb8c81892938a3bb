"""The layer that only root can write, who could change it, and what doctor says of layers.

Slow: a daemon, and commands in a mount namespace with an /etc of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from hooklatch.cli.hosts.layouts import LAYOUTS
from hooklatch.cli.hosts.managed import find_foreign_owner
from support.commands import Place, list_own_problems, new_place, serving
from support.warm_commands import MOUNT

pytestmark = pytest.mark.slow

NAMES = [name for name, each in LAYOUTS.items() if each.managed and (name != "opencode" or shutil.which("node"))]


class Machine:
    """A place with an /etc of its own."""

    def __init__(self, place: Place, etc: Path) -> None:
        self.place = place
        self.etc = etc

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.place.run(*words, etc=str(self.etc))

    def doctor(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.run("doctor", "--json").stdout)
        return said

    def path(self, name: str) -> Path:
        return self.etc / Path(name).relative_to("/etc")

    def tree(self) -> dict[str, int]:
        return {str(path): path.lstat().st_mode for path in self.etc.rglob("*")}


@pytest.fixture
def machine() -> Iterator[Machine]:
    with TemporaryDirectory() as folder, new_place() as place:
        etc = Path(folder, "etc")
        etc.mkdir(mode=0o755)
        for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache", "localtime"):
            if Path("/etc", name).exists():
                shutil.copy(Path("/etc", name), etc)
        if Path("/etc/alternatives").is_dir():  # `cc` is a link into it, without which an entry would be in Python
            shutil.copytree("/etc/alternatives", etc / "alternatives", symlinks=True)
        machine = Machine(place, etc)
        if subprocess.run([*MOUNT, str(etc), "true"], capture_output=True, check=False).returncode:
            pytest.skip("no mount namespace")
        with serving(place):
            yield machine


@pytest.mark.parametrize("name", NAMES)
def test_a_managed_install_answers_the_canary_and_comes_out_without_a_trace(name: str, machine: Machine) -> None:
    before = machine.tree()

    installed = machine.run("install", name, "--managed")
    said = machine.doctor()
    modes = {path: oct(machine.path(path).stat().st_mode & 0o777) for path in (LAYOUTS[name].managed,)}
    again = machine.run("install", name, "--managed")
    undone = machine.run("uninstall", name, "--managed")

    assert installed.returncode == 0, installed.stderr
    assert modes == {LAYOUTS[name].managed: "0o644"}
    assert [(one["canary"], one["without_daemon"]) for one in said["hosts"]] == [("refused by the daemon", "refused")]
    assert list_own_problems(said) == []
    assert any("in the managed layer" in one["what"] for one in said["hints"])
    assert "nothing was changed" in again.stdout
    assert undone.returncode == 0, undone.stderr
    assert machine.tree() == before


@pytest.mark.parametrize("name", NAMES)
def test_a_managed_file_of_somebody_else_is_named_and_untouched(name: str, machine: Machine) -> None:
    path = machine.path(LAYOUTS[name].managed)
    path.parent.mkdir(parents=True)
    path.write_text('{"theirs": true}\n' if path.suffix == ".json" else "theirs = true\n")
    before = path.read_bytes()

    refused = machine.run("install", name, "--managed")
    left = machine.run("uninstall", name, "--managed")

    assert refused.returncode == 73
    assert f"{LAYOUTS[name].managed} is somebody else's" in refused.stderr
    assert "left: " in left.stdout
    assert path.read_bytes() == before
    assert not machine.path(LAYOUTS["opencode"].managed_files[0]).exists()


@pytest.mark.parametrize("name", [name for name in NAMES if not LAYOUTS[name].is_plugin])
def test_the_owner_of_a_managed_file_is_shown_what_to_put_in_and_that_is_enough(name: str, machine: Machine) -> None:
    path = machine.path(LAYOUTS[name].managed)
    path.parent.mkdir(parents=True)
    path.write_text('{"theirs": true}\n' if path.suffix == ".json" else "theirs = true\n")

    shown = machine.run("install", name, "--managed", "--dry-run")
    head, _, text = shown.stdout.partition("\n\n")
    joined = f"theirs = true\n{text}" if path.suffix == ".toml" else json.dumps({"theirs": True, **json.loads(text)})
    path.write_text(joined)
    installed = machine.run("install", name, "--managed")

    assert shown.returncode == 73
    assert f"what its owner puts into {LAYOUTS[name].managed}:" in head
    assert installed.returncode == 0, installed.stderr
    assert path.read_text() == joined


def test_what_the_owner_of_a_managed_file_has_put_in_is_enough(machine: Machine) -> None:
    path = machine.path(LAYOUTS["copilot"].machine.beside)
    path.parent.mkdir(parents=True)
    path.write_text('{"theirs": 1}')
    refused = machine.run("install", "copilot", "--managed")
    path.write_text('{"theirs": 1, "allowManagedHooksOnly": true}')
    installed = machine.run("install", "copilot", "--managed")
    machine.run("uninstall", "copilot", "--managed")

    assert f"{LAYOUTS['copilot'].machine.beside} is somebody else's" in refused.stderr
    assert installed.returncode == 0, installed.stderr
    assert [str(each) for each in path.parent.rglob("*")] == [str(path)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("claude-code", '{"allowManagedHooksOnly": true}'),
        ("claude-code", '{"strictPluginOnlyCustomization": ["hooks"]}'),
        ("copilot", '{"allowManagedHooksOnly": true}'),
        ("copilot", '{"strictPluginOnlyCustomization": true}'),
    ],
)
def test_managed_settings_of_somebody_else_that_leave_ours_out_are_a_problem(
    name: str, text: str, machine: Machine
) -> None:
    machine.run("install", name)
    path = machine.path(LAYOUTS[name].managed_files[-1])
    path.parent.mkdir(parents=True)
    path.write_text(text)

    problems = [one["what"] for one in machine.doctor()["problems"]]

    assert any("managed settings let managed hooks alone run" in what for what in problems)


def test_a_user_install_is_a_hint_that_names_what_can_leave_it_out(machine: Machine) -> None:
    machine.run("install", "claude-code")

    said = machine.doctor()

    (hint,) = [one for one in said["hints"] if "can leave them out" in one["what"]]
    assert "in the user settings" in hint["what"]
    assert "its own guard of mods is not seated" in hint["what"]
    assert hint["do"] == "as root: hooklatch install claude-code --managed"
    assert list_own_problems(said) == []


@pytest.mark.parametrize(
    ("name", "file", "text", "what"),
    [
        ("claude-code", ".claude/settings.local.json", '{"disableAllHooks": true}', "says disableAllHooks"),
        ("claude-code", ".claude/settings.local.json", '{"env": {"CLAUDE_CODE_SIMPLE": "1"}}', "CLAUDE_CODE_SIMPLE"),
        ("codex", ".codex/config.toml", "[features]\nhooks = false\n", "turns hooks off ([features] hooks)"),
        ("copilot", ".copilot/settings.json", '{"disabledHooks": ["a1"]}', "turns hooks off by their digests"),
        ("claude-code", ".claude/settings.local.json", '{"env": {"HOOKLATCH_RUNTIME_DIR": "/x"}}', "HOOKLATCH_RUNTIME"),
        ("gemini", ".gemini/.env", "XDG_RUNTIME_DIR=/x", "XDG_RUNTIME_DIR"),
    ],
)
def test_a_switch_in_another_file_is_a_problem_for_a_user_install_and_not_for_a_managed_one(
    name: str, file: str, text: str, what: str, machine: Machine
) -> None:
    machine.run("install", name)
    (machine.place.folder / file).write_text(text)
    found = [one["what"] for one in machine.doctor()["problems"] if what in one["what"]]
    machine.run("install", name, "--managed")
    machine.run("uninstall", name, "--user")

    found_then = [one["what"] for one in machine.doctor()["problems"] if what in one["what"]]

    assert len(found) == 1
    assert found_then == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("claude-code", ["claude", "--bare", "-p", "x"]), ("codex", ["codex", "exec", "-cfeatures.hooks=false", "x"])],
)
def test_an_agent_that_runs_with_a_flag_that_leaves_hooks_out_is_named(
    name: str, words: list[str], machine: Machine
) -> None:
    machine.run("install", name)
    program = machine.place.folder / words[0]
    program.write_text("#!/bin/sh\nread line\n")
    program.chmod(0o755)

    with subprocess.Popen([program, *words[1:]], stdin=subprocess.PIPE) as agent:
        problems = [one["what"] for one in machine.doctor()["problems"]]
        agent.communicate(b"\n")
    after = [one["what"] for one in machine.doctor()["problems"]]

    flag = next(word for word in words if word.startswith("-"))
    assert any(f"process {agent.pid} runs with {flag}" in what for what in problems)
    assert not any("runs with" in what for what in after)


@pytest.mark.parametrize("layer", ["--user", "--managed"])
def test_a_program_that_serves_its_tools_is_named_in_any_layer(layer: str, machine: Machine) -> None:
    machine.run("install", "claude-code", layer)
    program = machine.place.folder / "claude"
    program.write_text("#!/bin/sh\nread line\n")
    program.chmod(0o755)

    with subprocess.Popen([program, "--debug", "mcp", "serve"], stdin=subprocess.PIPE) as agent:
        said = machine.doctor()
        agent.communicate(b"\n")

    named = f"process {agent.pid} is claude mcp serve: what its clients have it run by themselves asks no guard"
    assert any(named in one["what"] for one in said["hints"])
    assert not any(str(agent.pid) in one["what"] for one in said["problems"])


def test_two_programs_of_one_agent_are_named(machine: Machine) -> None:
    for folder in ("one", "two"):
        program = machine.place.folder / folder / "codex"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\necho codex 0.169.0\n")
        program.chmod(0o755)
    first, second = (str(machine.place.folder / folder) for folder in ("one", "two"))
    machine.place.environment["PATH"] = f"{first}:{second}:{machine.place.environment['PATH']}"

    said = machine.run("install", "codex", "--dry-run").stdout

    assert f"{first}/codex was asked for its version, and {second}/codex not" in " ".join(said.split())


def test_a_path_that_others_could_change_is_found_with_the_folders_above(tmp_path: Path) -> None:
    file = tmp_path / "open" / "below" / "file"
    file.parent.mkdir(parents=True)
    file.write_text("")
    file.parents[1].chmod(0o777)

    assert find_foreign_owner("/usr/bin/env") == ""
    assert find_foreign_owner(str(file)) in {str(each) for each in (file, *file.parents)}
    assert find_foreign_owner("/no/such/file").startswith("/no/such/file (")
