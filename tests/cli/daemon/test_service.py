"""service: units with the path of this program, run by a real systemd of a user, and what is said where there is none.

Slow: a systemd of its own, in a mount namespace, which starts real daemons.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch.cli.daemon.systemd import quote_for_systemd
from hooklatch.version import VERSION
from support.commands import CONFIG, GUARDS, PATIENCE, Place, new_place

pytestmark = pytest.mark.slow
MANAGER = "/usr/lib/systemd/systemd"
# As in a machine that systemd has booted, for these processes alone.
BOOTED = f"mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && mkdir -m 700 /run/user && exec {MANAGER} --user"
CAN_RUN = (
    os.geteuid() == 0
    and all(shutil.which(name) for name in ("systemctl", "unshare", "nsenter"))
    and os.path.exists(MANAGER)
    and subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0
)


class Session:
    """A login with a systemd of its own: XDG_RUNTIME_DIR is /run/user in its mount namespace."""

    def __init__(self, place: Place, notify: str) -> None:
        self.place = place
        self.script = place.folder / "bin" / "hooklatch"
        self.script.parent.mkdir()
        self.script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hooklatch "$@"\n')
        self.script.chmod(0o755)
        self.environment = {
            "HOME": str(place.folder), "PATH": f"{self.script.parent}:{os.environ['PATH']}", "PYTHONUTF8": "1",
            "XDG_RUNTIME_DIR": "/run/user",
        }  # fmt: skip
        self.manager = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", BOOTED], env={**self.environment, "NOTIFY_SOCKET": notify},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nsenter", "-t", str(self.manager.pid), "-m", *words], env=self.environment, cwd=self.place.folder,
            capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture
def session() -> Iterator[Session]:
    if not CAN_RUN:
        pytest.skip("no systemd can be run for a user here: root, unshare and systemd are needed")
    with new_place({}) as place, tempfile.TemporaryDirectory() as folder:
        place.config.parent.rmdir()
        hooks = place.folder / ".config/hooklatch"
        hooks.mkdir(parents=True)
        for name, text in (("hooks.toml", CONFIG), ("guards.py", GUARDS)):
            (hooks / name).write_text(text)
        for path in (hooks.parent, hooks):
            path.chmod(0o700)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            notified.bind(f"{folder}/notify")
            notified.settimeout(PATIENCE)
            session = Session(place, f"{folder}/notify")
            try:
                while b"READY=1" not in notified.recv(4096):
                    pass
                yield session
            finally:
                session.manager.terminate()
                session.manager.wait(PATIENCE)


def test_systemd_runs_the_program_that_is_installed_until_it_is_removed(session: Session) -> None:
    shown = session.run("hooklatch", "service", "install", "--dry-run")
    folder = session.place.folder / ".config/systemd/user"
    is_dry = not folder.exists()
    by_hand = json.loads(session.run("hooklatch", "serve", "--detach", "--json").stdout)
    installed = session.run("hooklatch", "service", "install")
    status = json.loads(session.run("hooklatch", "status", "--json").stdout)
    units = json.loads(session.run("hooklatch", "service", "status", "--json").stdout)["units"]
    link = (folder / "default.target.wants" / "hooklatch.service").resolve()
    again = session.run("hooklatch", "service", "install")
    restarted = json.loads(session.run("hooklatch", "restart", "--json").stdout)
    removed = session.run("hooklatch", "service", "remove")
    after = session.run("hooklatch", "health")

    assert is_dry
    assert "[Socket]" in shown.stdout
    assert installed.returncode == 0, installed.stderr
    assert f"systemd runs hooklatch {VERSION} (pid {status['pid']})" in installed.stdout
    assert status["start"]["is_managed"]
    assert status["pid"] != by_hand["pid"]
    assert [(unit["unit"], unit["enabled"], unit["active"], unit["is_current"]) for unit in units] == [
        (name, "enabled", "active", True)
        for name in ("hooklatch-agent.socket", "hooklatch-admin.socket", "hooklatch.service")
    ]
    assert link == folder / "hooklatch.service"
    assert again.returncode == 0, again.stderr
    assert restarted["stopped"] == status["pid"] != restarted["pid"]
    assert removed.returncode == 0, removed.stderr
    assert "no daemon runs now, so every gate is denied until: hooklatch serve --detach" in removed.stdout
    assert list(folder.glob("hooklatch*")) == []
    assert after.returncode == 69


def test_where_systemd_is_not_there_nothing_is_written_and_both_other_ways_are_named(place: Place) -> None:
    done = place.run("service", "install", XDG_RUNTIME_DIR=str(place.folder))
    status = place.run("service", "status", XDG_RUNTIME_DIR=str(place.folder))
    removed = place.run("service", "remove", XDG_RUNTIME_DIR=str(place.folder))

    assert (done.returncode, done.stdout) == (69, "")
    assert "systemctl --user does not work here" in done.stderr
    assert "hooklatch serve --detach" in done.stderr
    assert "hooklatch install HOST --start" in done.stderr
    assert not (place.folder / ".config/systemd").exists()
    assert status.returncode == 1
    assert "hooklatch service install" in status.stdout
    assert (removed.returncode, removed.stdout) == (0, "there is no unit of hooklatch\n")


def test_a_unit_of_somebody_else_is_kept(place: Place) -> None:
    folder = place.folder / ".config/systemd/user"
    folder.mkdir(parents=True)
    (folder / "hooklatch.service").write_text("[Service]\nExecStart=/opt/mine\n")

    done = place.run("service", "remove")

    assert f"left: {folder}/hooklatch.service" in done.stdout
    assert (folder / "hooklatch.service").exists()


def test_a_unit_is_shown_with_the_path_of_this_program(place: Place) -> None:
    text = place.json("service", "show", "hooklatch@.service")["text"]

    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    program, *words = shlex.split(line.removeprefix("ExecStart="))
    assert Path(program).is_file()
    assert words[-3:] == ["serve", "--runtime-dir", "/run/hooklatch-%i"]
    assert f"PATH={os.environ['PATH']}" in text


def test_the_options_that_systemd_would_not_find_are_in_the_unit(place: Place) -> None:
    place.write({"hooks.toml": ""})

    done = place.run("service", "install", "--dry-run")

    assert f" serve --config {place.config}\n" in done.stdout
    assert f"ListenStream={place.runtime}/agent.sock\n" in done.stdout


@pytest.mark.parametrize(
    ("word", "text"),
    [("/a b", '"/a b"'), ("50%", "50%%"), ("$HOME", "$$HOME"), ('"', '"\\""'), ("a\\b", '"a\\\\b"')],
)  # fmt: skip
def test_a_word_stands_in_a_unit_as_systemd_reads_it(word: str, text: str) -> None:
    assert quote_for_systemd(word) == text
