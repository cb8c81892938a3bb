"""What is reported about a kernel with fewer features; nothing missing is ever ignored.

Slow where a daemon runs as a separate program, under a filter that hides features of the kernel.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hooklatch_worker.sandbox.isolation import KernelFeatures, detect_kernel, find_effective_isolation
from hooklatch_worker.wire import Isolation
from support.commands import PROGRAM, Daemon, Place, new_place
from support.tables import table

LACKING = Path(__file__).parent / "lacking.py"
GUARDS = """
import os, socket
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def judge(event):
    return deny("by the guard")

@hook("pre_tool_use", match="Try")
def attempt(event):
    found = []
    for name, run in {"write": lambda: os.mkdir(event.tool_input["path"]), "socket": socket.socket}.items():
        try:
            run()
        except PermissionError:
            found.append(name)
    return deny("refused: " + ", ".join(found))
"""
SOURCE = '[[source]]\npath = "guards.py"\n'
can_filter = pytest.mark.skipif(not detect_kernel().has_filters, reason="this kernel takes no filters")


@table(
    ("level", "network", "kernel", "in_force", "lacks"),
    [
        ("standard", False, KernelFeatures(0, False), "standard", []),
        ("strict", False, KernelFeatures(6, True), "strict", []),
        ("strict", False, KernelFeatures(9, True), "strict", []),
        ("restricted", False, KernelFeatures(6, True), "restricted", []),
        ("strict", False, KernelFeatures(6, False), "standard", ["sockets", "limit", "dangerous"]),
        ("strict", True, KernelFeatures(6, False), "standard", ["sockets", "limit", "dangerous"]),
        ("restricted", True, KernelFeatures(6, False), "standard", ["limit"]),
        ("restricted", True, KernelFeatures(5, True), "standard", ["signals", "abstract"]),
        ("restricted", False, KernelFeatures(5, True), "standard", ["signals"]),
        ("restricted", False, KernelFeatures(2, True), "standard", ["short", "signals"]),
        ("restricted", False, KernelFeatures(0, True), "standard", ["writes", "memory", "short", "signals"]),
        ("strict", False, KernelFeatures(0, True), "standard", ["writes", "memory", "reads", "short", "signals"]),
    ],
)
def test_what_a_kernel_can_hold_a_worker_to(
    level: str, network: bool, kernel: KernelFeatures, in_force: str, lacks: list[str]
) -> None:
    held = find_effective_isolation(kernel, Isolation(level, network=network))

    assert held.level == in_force
    assert len(held.missing) == len(lacks)
    assert all(word in text for word, text in zip(lacks, held.missing, strict=True))


@contextmanager
def serving_without(what: str, place: Place) -> Iterator[Daemon]:
    """Run a daemon where the kernel lacks something."""
    process = subprocess.Popen(
        [sys.executable, str(LACKING), what, *PROGRAM, "serve", "--json"], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place.folder, env=place.environment,
    )  # fmt: skip
    place.begun.append(process)
    daemon = Daemon(process, place)
    try:
        yield daemon
    finally:
        daemon.stop()


def table(level: str, if_unavailable: str = "refuse") -> str:
    return f'[isolation]\nlevel = "{level}"\nif_unavailable = "{if_unavailable}"\n'


def place_with(config: str) -> dict[str, str]:
    return {"hooks.toml": config + SOURCE, "guards.py": GUARDS}


def decision(place: Place, tool: str, **tool_input: str) -> tuple[str, str, str]:
    found = json.loads(place.fire_tool(tool, "--json", **tool_input).stdout)
    return found["verdict"], found["cause"], found["reason"]


def fire_compact(place: Place) -> tuple[str, str, str]:
    found = json.loads(
        place.run("fire", "pre_compact", "--payload", "-", "--json", stdin='{"trigger": "manual"}').stdout
    )
    return found["verdict"], found["cause"], found["reason"]


@can_filter
@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "level", "lacks"), [("landlock", "restricted", "refusing writes"), ("seccomp", "strict", "sockets")]
)
def test_where_isolation_is_required_and_cannot_be_had_gates_deny_and_say_how_to_go_on(
    what: str, level: str, lacks: str
) -> None:
    with new_place(place_with(table(level))) as place, serving_without(what, place):
        verdict, cause, reason = decision(place, "Bash")
        status = place.json("status", code=1)
        shown = place.run("status")

        assert (verdict, cause) == ("deny", "load")
        assert f"{level} isolation is not available here" in reason
        assert lacks in reason
        assert "Linux 6.12" in reason
        assert 'if_unavailable = "report"' in reason
        assert status["health"] == "red"
        assert "is not available here" in shown.stdout


@can_filter
@pytest.mark.slow
def test_where_it_is_not_required_hooks_run_with_what_there_is_and_the_status_is_red() -> None:
    with new_place(place_with(table("strict", "report"))) as place, serving_without("landlock", place):
        answer = decision(place, "Bash")
        status = place.json("status", code=1)
        attempt = decision(place, "Try", path=str(place.folder / "made"))
        shown, advice = place.run("status", "-v").stdout, place.run("doctor").stdout

        assert answer == ("deny", "policy", "by the guard")
        assert status["health"] == "red"
        [problem] = status["problems"]
        assert problem["file"] == str(place.config.parent / "guards.py")
        assert "should be strict, but only standard is fully active" in problem["message"]
        [source] = status["sources"]
        assert (source["isolation"]["configured"], source["isolation"]["in_force"]) == ("strict", "standard")
        assert len(source["isolation"]["missing"]) == 5
        assert "WEAKER than strict: no refusing writes (Landlock" in shown
        assert "should be strict" in advice
        assert attempt[2] == "refused: socket"


@can_filter
@pytest.mark.slow
def test_a_change_to_what_cannot_be_had_leaves_nothing_weaker_in_force() -> None:
    with new_place(place_with(table("standard"))) as place, serving_without("landlock", place):
        place.json("hooks", "add", "pre_compact", "--id", "api", "--run", f"{place.config.parent}/guards.py:judge")
        before = decision(place, "Bash")
        place.write({"hooks.toml": table("strict") + SOURCE})
        place.run("reload")
        during = decision(place, "Bash")
        of_api = fire_compact(place)
        pools = place.json("status", code=1)["sources"]
        place.write({"hooks.toml": table("standard") + SOURCE})
        place.run("reload")
        after = decision(place, "Bash")
        again = fire_compact(place)

        assert before == after == ("deny", "policy", "by the guard")
        assert during[:2] == ("deny", "load")
        assert of_api[:2] == ("deny", "load")
        assert again == ("deny", "policy", "by the guard")
        assert pools == []


LOOKING = """
import os
from hooklatch import deny, hook

@hook("pre_tool_use", match="Look")
def look(event):
    closed = []
    for pid in (event.tool_input["pid"], "self"):
        for name in ("mem", "environ", "maps"):
            try:
                open(f"/proc/{pid}/{name}", "rb").close()
            except PermissionError:
                closed.append(name)
        closed.append("|")
    return deny(" ".join(closed))
"""


@pytest.mark.slow
def test_the_daemons_own_memory_is_closed_to_its_workers_at_every_level() -> None:
    files = {"hooks.toml": SOURCE, "guards.py": LOOKING}
    with new_place(files) as place, serving_without("capabilities", place) as daemon:
        _, _, closed = decision(place, "Look", pid=str(daemon.pid))

        assert closed == "mem environ maps | |"
