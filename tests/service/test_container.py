"""What the container recipe stands on: the daemon as process 1, its health check, sockets in two folders.

The image itself needs an engine and is not built here; what it says is held against the command line.
Slow: daemons as programs of their own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hooklatch.cli.commands import build_command_line
from hooklatch_worker.systems import linux
from support.commands import PROGRAM, Place, Started, new_place, serving
from support.repository import ROOT

FOLDER = ROOT / "packaging" / "container"
RECIPE = (FOLDER / "Containerfile").read_text()
LONE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def can_be_process_one() -> bool:
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    return subprocess.run([*LONE, "true"], capture_output=True, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(not can_be_process_one(), reason="only root can be process 1 of a namespace")


def instruction(name: str) -> list[str]:
    found = re.findall(rf"^(?:{name}|HEALTHCHECK .*{name}) (\[.*\])$", RECIPE, re.MULTILINE)
    return list(json.loads(found[0]))


@contextmanager
def process_one(place: Place, *words: str) -> Generator[tuple[Started, int]]:
    """Run a daemon as process 1 of a namespace; give it, and its pid out here."""
    process = subprocess.Popen(
        [*LONE, *PROGRAM, "serve", "--json", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, cwd=place.folder, env=place.environment,
    )  # fmt: skip
    place.begun.append(process)
    started = Started(process)
    ready = json.loads(started.line())
    assert ready["pid"] == 1
    (pid,) = linux.list_children(started.pid)
    yield started, pid
    os.kill(pid, signal.SIGTERM)
    code, _, err = started.end()
    assert code == 0, err
    assert "Traceback" not in err


def zombies(pid: int) -> list[int]:
    return [
        one for one in linux.list_children(pid) if Path(f"/proc/{one}/stat").read_text().rpartition(")")[2][1] == "Z"
    ]


@pytest.mark.slow
@needs_namespaces
def test_as_process_one_it_decides_and_obeys_sigterm() -> None:
    with new_place() as place, process_one(place):
        denied = place.fire_tool("Bash", command="rm x")

    assert denied.returncode == 2


@pytest.mark.slow
@needs_namespaces
def test_as_process_one_it_reaps_what_others_leave_behind() -> None:
    with new_place() as place, process_one(place) as (_, pid):
        inside = ["nsenter", "--target", str(pid), "--pid", "--mount"]
        leave = "for i in 1 2 3 4 5; do (sleep 0.05 & exec true) & done; wait"
        subprocess.run([*inside, "/bin/sh", "-c", leave], check=True)
        before = set(linux.list_children(pid))
        fired = place.fire_tool("Bash", command="ls")
        while strangers := [one for one in linux.list_children(pid) if command(one) == "sleep"]:
            assert set(strangers) <= before
        left = zombies(pid)

    assert fired.returncode == 0
    assert left == []


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@pytest.mark.slow
@needs_namespaces
def test_process_one_takes_sigterm_before_it_listens_for_it() -> None:
    with new_place({"hooks.toml": ""}) as place:
        process = subprocess.Popen([*LONE, *PROGRAM, "serve"], stdout=subprocess.PIPE, env=place.environment)
        place.begun.append(process)  # type: ignore[arg-type]
        while not (children := linux.list_children(process.pid)):
            continue
        while not catches_sigterm(children[0]):
            continue
        os.kill(children[0], signal.SIGTERM)
        process.communicate(timeout=20)

    assert process.returncode == 0


def catches_sigterm(pid: int) -> bool:
    """Whether the kernel would deliver it: process 1 gets only what it has a handler for (pid_namespaces(7))."""
    caught = re.search(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.slow
def test_the_admin_socket_may_be_where_agents_do_not_see_it() -> None:
    with new_place() as place, serving(place, "--admin-dir", str(place.folder / "command")) as daemon:
        here = sorted(path.name for path in place.runtime.glob("*.sock"))
        there = place.run("status", "--runtime-dir", str(place.folder / "command"))
        unseen = place.run("status")
        health = place.run("health")
        mode = (place.folder / "command").stat().st_mode & 0o777
        assert daemon.ready["admin"] == f"{place.folder}/command/admin.sock"

    assert (here, mode) == (["agent.sock"], 0o700)
    assert (there.returncode, unseen.returncode, health.returncode) == (0, 69, 0)
    assert not (place.folder / "command" / "admin.sock").exists()


@pytest.mark.parametrize("words", [instruction("CMD"), json.loads('["health"]')], ids=["serve", "health"])
def test_the_commands_of_the_recipe_are_commands(words: list[str]) -> None:
    assert instruction("ENTRYPOINT") == ["hooklatch"]
    assert build_command_line().parse_args(words).command == words[0]


def test_the_link_of_the_compose_example_is_a_command_on_what_the_daemon_shares() -> None:
    compose = (FOLDER / "compose.yaml").read_text()
    link = compose.partition("\n  link:\n")[2].partition("\nvolumes:\n")[0]
    found = re.search(r"command: \[(.*)\]", link)

    assert found is not None
    arguments = build_command_line().parse_args(found[1].split(", "))
    assert (arguments.command, arguments.admin_dir) == ("link", "/run/hooklatch-admin")
    assert "/source[metrics,fleet]" in RECIPE, "without cryptography the daemon believes no version"


def test_the_health_check_is_the_command_for_it() -> None:
    check = re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", RECIPE, re.MULTILINE)

    assert check is not None
    assert json.loads(check[1]) == ["hooklatch", "health"]


def test_every_line_of_the_recipe_is_an_instruction() -> None:
    joined = re.sub(r"\\\n", " ", RECIPE)
    known = {"FROM", "COPY", "RUN", "ARG", "USER", "ENV", "ENTRYPOINT", "CMD", "STOPSIGNAL", "HEALTHCHECK"}

    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]

    assert {line.split()[0] for line in lines} == known
    assert lines.index("USER agent") < next(place for place, line in enumerate(lines) if line.startswith("ENTRYPOINT"))
    assert all(Path(FOLDER.parents[1] / name).exists() for name in ("pyproject.toml", "packaging/container"))
