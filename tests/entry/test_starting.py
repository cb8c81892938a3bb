"""The daemon that an entry starts is the operator's, whatever the agent has in its environment: with real processes."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch.cli.hosts.entries import find_entries
from hooklatch.entry import refusals, starting
from hooklatch_worker.sandbox import children
from support.commands import Place, new_place
from support.entries import DOCUMENT, HAS_COMPILER, start
from support.survivors import COOKIE, nobody_survives, wait_until_gone

pytestmark = pytest.mark.slow  # each starts a daemon
INSTALLED = ["python", *(["c"] if HAS_COMPILER else [])]
SITE = """
import os, sys
open({marker!r}, "a").write(repr(sys.orig_argv) + "\\n")
"""
DENY = """
from hooklatch import deny, hook

@hook("pre_tool_use")
def refuse(event):
    return deny("the operator says no")
"""


@pytest.fixture
def place() -> Iterator[Place]:
    with (
        nobody_survives() as word,
        new_place({"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": DENY}) as place,
    ):
        place.environment[COOKIE] = word
        yield place


def installed(place: Place, form: str) -> list[str]:
    """Install as the operator, and return the words that Claude Code starts before a tool call."""
    done = place.run("install", "claude-code", "--start", "--form", form)
    assert done.returncode == 0, done.stderr
    text = (place.folder / ".claude/settings.json").read_text()
    return next(list(entry.words) for entry in find_entries(text) if entry.event == "PreToolUse")


def asked(words: list[str], environ: dict[str, str], folder: Path) -> tuple[int, bytes, bytes]:
    with start(words, environ=environ, cwd=str(folder), umask=0) as entry:
        stdout, stderr = entry.communicate(DOCUMENT)
    return entry.returncode, stdout, stderr


def hostile(place: Place, folder: Path) -> dict[str, str]:
    """Return an agent's environment that names other code, other hooks and another state wherever it can."""
    marker = str(place.folder / "marker")
    for name in ("sitecustomize.py", "usercustomize.py", "re.py", "hooklatch.py", "json.py"):
        (folder / name).write_text(SITE.format(marker=marker))
    (folder / "empty.toml").touch()
    site = folder / ".local/lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    (site / "usercustomize.py").write_text(SITE.format(marker=marker))
    program = folder / "bin/git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho git >>{marker}\n")
    program.chmod(0o755)
    return {
        "PATH": f".:{program.parent}",
        "HOME": str(folder),
        "PYTHONPATH": ".",
        "PYTHONHOME": "",
        "PYTHONSTARTUP": "re.py",
        "LD_LIBRARY_PATH": str(folder),
        "HOOKLATCH_CONFIG": str(folder / "empty.toml"),
        "HOOKLATCH_RUNTIME_DIR": str(folder / "elsewhere"),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_RUNTIME_DIR": str(folder),
    }


@pytest.mark.parametrize("form", INSTALLED)
def test_what_the_agents_environment_says_does_not_choose_the_daemon(form: str, place: Place, tmp_path: Path) -> None:
    words = installed(place, form)

    code, stdout, stderr = asked(words, hostile(place, tmp_path), tmp_path)
    status = place.json("status")
    environ = Path(f"/proc/{status['pid']}/environ").read_bytes().decode().split("\0")
    process = Path(f"/proc/{status['pid']}/status").read_text()
    ended = place.run("stop")

    assert (code, stderr) == (0, b"")
    assert json.loads(stdout)["hookSpecificOutput"]["permissionDecisionReason"].startswith("the operator says no")
    assert not (place.folder / "marker").exists()
    assert status["places"]["config"] == str(place.config)
    assert status["record"]["folder"] == str(place.folder / ".local/state/hooklatch/record")
    assert f"HOME={place.folder}" in environ
    assert f"HOOKLATCH_RUNTIME_DIR={place.runtime}" in environ
    assert f"PATH={place.environment['PATH']}" in environ
    assert not [one for one in environ if one.startswith(("PYTHON", "LD_", "HOOKLATCH_CONFIG")) or str(tmp_path) in one]
    assert not (tmp_path / "state").exists()
    assert "Umask:\t0077" in process
    assert ended.returncode == 0


@pytest.mark.parametrize("form", INSTALLED)
def test_a_start_waits_for_the_lock_no_longer_than_the_entry(form: str, place: Place) -> None:
    words = installed(place, form)
    words[words.index("--wait") + 1] = "0.5"
    folder = place.folder / ".local/state/hooklatch"

    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        code, stdout, _ = asked(words, place.environment, place.folder)
        left = wait_until_gone(place.environment[COOKIE])
    finally:
        os.close(held)

    assert (code, left) == (0, [])
    assert b"Not run" in stdout


@pytest.mark.parametrize("form", INSTALLED)
def test_without_the_operators_variables_nothing_is_started(form: str, place: Place) -> None:
    words = installed(place, form)
    (place.folder / ".local/state/hooklatch" / starting.ENVIRONMENT).unlink()

    code, stdout, _ = asked(words, place.environment, place.folder)
    said = place.run("doctor")

    assert code == 0
    assert b"Not run: hooklatch could not be started" in stdout
    assert not place.runtime.exists()
    assert "its entries cannot start a daemon" in said.stdout
    assert "hooklatch install claude-code --start" in said.stdout


def test_doctor_names_an_entry_that_asks_the_agents_environment(place: Place) -> None:
    installed(place, "python")
    path = place.folder / ".claude/settings.json"
    state = place.folder / ".local/state/hooklatch"
    path.write_text(path.read_text().replace(f" --config {place.config} --state-dir {state}", ""))

    said = place.run("doctor").stdout  # which has the entry try, so that a daemon runs
    ended = place.run("stop")

    assert ended.returncode == 0
    assert f"{path} starts a daemon with the hooks and the state that the agent's environment names" in said
    assert "write it anew: hooklatch install claude-code --start" in said


def test_a_daemon_whose_backlog_is_full_is_one_and_is_not_waited_for(place: Place) -> None:
    place.runtime.mkdir(mode=0o700)
    path = str(place.runtime / "agent.sock")
    with socket.socket(socket.AF_UNIX) as stopped, socket.socket(socket.AF_UNIX) as squatter:
        stopped.bind(path)
        stopped.listen(0)
        squatter.connect(path)

        assert starting.is_listened_to(path)

    assert not starting.is_listened_to(path)


def test_uninstalling_the_last_takes_the_variables_along(place: Place) -> None:
    installed(place, "python")
    variables = place.folder / ".local/state/hooklatch" / starting.ENVIRONMENT
    assert variables.stat().st_mode & 0o777 == 0o600

    place.run("uninstall", "claude-code")

    assert not variables.exists()


def test_an_entry_hands_on_what_a_daemon_may_have() -> None:
    assert set(refusals.HANDED) == children.OWN.names
    assert children.OWN.prefixes == refusals.HANDED_PREFIXES


def test_a_daemon_started_in_a_project_imports_nothing_from_it(place: Place, tmp_path: Path) -> None:
    hostile(place, tmp_path)
    (tmp_path / "hooklatch.py").unlink()  # `-m hooklatch` there is that file: no program can know of another

    done = subprocess.run(
        [sys.executable, "-m", "hooklatch", "health"], cwd=tmp_path, env=place.environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 69, done.stderr
    assert not (place.folder / "marker").exists()
