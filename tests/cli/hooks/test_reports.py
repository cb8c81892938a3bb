"""reload, sessions and status: what they print, and their exit codes.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.commands import PROGRAM, Daemon, Place, serving
from support.repository import ROOT

pytestmark = pytest.mark.slow


@contextmanager
def session(daemon: Daemon, **params: object) -> Iterator[str]:
    """Open a session, as an agent does; gives its id."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(daemon.ready["agent"])
        hello = {"protocol": 1, "client": {"name": "agent", "version": "7"}, "session": params}
        stream.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": hello}).encode() + b"\n")
        with stream.makefile("rb") as lines:
            yield json.loads(lines.readline())["result"]["session_id"]


def test_green_is_0_and_says_what_runs(shared: Daemon) -> None:
    done, short = shared.place.run("status", "-v"), shared.place.run("status")
    data = shared.place.json("status")

    assert done.returncode == 0
    assert done.stdout.startswith("health      green\n")
    assert f"config      {shared.place.config}\n" in done.stdout
    assert short.stdout.startswith("health      green\n")
    assert len(short.stdout.splitlines()) <= 6
    assert (data["health"], data["pid"]) == ("green", shared.pid)


def test_a_daemon_with_another_configuration_is_pointed_out(shared: Daemon) -> None:
    done = shared.place.run("status", "--config", "/etc/other.toml")

    assert f"this daemon reads {shared.place.config}, not /etc/other.toml" in done.stderr


def test_sessions_are_listed_while_they_live(shared: Daemon) -> None:
    none = shared.place.run("sessions").stdout
    with session(shared, id="s-1", cwd="/srv", host="tests"):
        table = shared.place.run("sessions").stdout
        data = shared.place.json("sessions")
        seen = shared.place.json("hooks", "--session", "s-1")

    assert none.startswith("no sessions")
    assert table.splitlines()[1].split()[:5] == ["s-1", "agent", "7", "tests", "/srv"]
    assert [one["id"] for one in data["sessions"]] == ["s-1"]
    assert [hook["id"] for hook in seen["hooks"]] == ["guards:judge"]


def test_reload_shows_what_changed_and_then_that_nothing_did(place: Place) -> None:
    place.write({"hooks.d/extra.py": 'from hooklatch import hook\n@hook("stop")\ndef extra(event): ...\n'})
    with serving(place):
        extra = place.config.parent / "hooks.d/extra.py"
        extra.unlink()  # which nothing takes but the word for it

        plain, one = place.run("reload"), place.run("reload", str(place.config.parent / "guards.py"))
        first, second = place.run("reload", "--accept-removed"), place.run("reload")
        unknown = place.run("reload", "guards:judg")

    assert (plain.returncode, one.returncode, first.returncode, second.returncode, unknown.returncode) == (
        1,
        1,
        0,
        0,
        66,
    )
    assert "nothing changed\nwrong" in plain.stdout
    assert "nothing changed\nwrong" in one.stdout
    assert "removed     extra\n" in first.stdout
    assert f"accepted    {extra} is gone\n" in first.stdout
    assert second.stdout.endswith("nothing changed\n")
    assert "did you mean 'guards:judge'" in unknown.stderr


def test_reload_of_a_broken_file_is_1_with_file_and_line(place: Place) -> None:
    with serving(place):
        place.write({"guards.py": "def broken(:\n"})
        done = place.run("reload")
        data = place.json("reload", code=1)
        status = place.run("status")

    assert done.returncode == 1
    assert f"wrong       {place.config.parent}/guards.py:1: " in done.stdout
    assert data["diagnostics"][0]["line"] == 1
    assert status.returncode == 1
    assert "\ndo          fix it; a saved file is loaded at once" in status.stdout


def test_status_says_how_a_quarantine_ends(place: Place) -> None:
    place.write(
        {"guards.py": 'import os\nfrom hooklatch import hook\n@hook("pre_compact", priority=200)\ndef well(e): ...\n'
                      '@hook("pre_compact")\ndef dies(e): os._exit(1)\n'}
    )  # fmt: skip
    with serving(place):
        for _ in range(7):
            place.run("fire", "pre_compact")
        status, hooks = place.run("status"), place.run("hooks")

    assert status.returncode == 1
    assert "hooklatch hooks enable global/guards:dies" in status.stdout
    table = hooks.stdout.partition("LAYER")[2].splitlines()
    assert [line.split()[1:4] for line in table[1:3]] == [
        ["guards:dies", "pre_compact", "2"], ["guards:well", "pre_compact", "1"],  # failures first, with their turns
    ]  # fmt: skip
    assert "quarantined failing" in table[1]


def test_a_reader_that_left_is_no_error(shared: Daemon) -> None:
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    done = subprocess.run(
        [*PROGRAM, "events"], stdout=reader.stdin, stderr=subprocess.PIPE, text=True,
        env=shared.place.environment, check=False,
    )  # fmt: skip
    assert reader.stdin is not None
    reader.stdin.close()

    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_an_error(shared: Daemon) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "hooks"], stdout=full, stderr=subprocess.PIPE, text=True,
            env=shared.place.environment, check=False,
        )  # fmt: skip

    assert done.returncode == 74
    assert "No space left" in done.stderr


def test_the_tree_shows_the_daemons_parts_and_who_restarts_them(shared: Daemon) -> None:
    lines = shared.place.run("status", "--tree").stdout.splitlines()
    data = shared.place.json("status", "--tree")

    assert lines[0] == "├─ guardian: permanent, running"
    assert "├─ reader handoff: permanent, running" in lines
    assert any(line.startswith("│  └─ ") and "guards.py (build 1): permanent, running" in line for line in lines)
    assert "│  └─ signals: permanent, running" in lines
    assert lines[-1] == "   └─ requests: permanent, running"
    assert {"zygote", "pools", "agent connections"} <= {node["name"] for node in data["tree"]}
    named = {name for node in data["tree"] for name in (node["name"], *names_below(node))}
    assert named <= documented(), "docs/explanation/design.md has a row for each part"


def names_below(node: dict[str, Any]) -> set[str]:
    """Return the names of what a part supervises; below the pools are sources, which have names of their own."""
    return {child["name"] for child in node["children"]} if node["name"] != "pools" else set()


def documented() -> set[str]:
    """Return the names that the first column of the design's table of parts has."""
    table = (
        (ROOT / "docs" / "explanation" / "design.md")
        .read_text()
        .partition("| part | owned by |")[2]
        .partition("\n\n")[0]
    )
    return {name.strip() for row in table.splitlines()[2:] for name in row.split("|")[1].split(",")}
