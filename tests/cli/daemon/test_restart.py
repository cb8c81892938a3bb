"""An upgrade under a daemon that runs: every command says it, and restart runs what is installed.

Slow: a copy of the program is upgraded, and each test has daemons of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from select import select

import pytest

from hooklatch.version import VERSION
from support.commands import CONFIG, GUARDS, PATIENCE, Place, new_place, serving
from support.repository import ROOT

pytestmark = pytest.mark.slow
NEWER = "99.1.2"


class Installed:
    """A place whose program is an installation of its own, which a test may upgrade."""

    def __init__(self, place: Place) -> None:
        self.place, self.site = place, place.folder / "site"
        self.environment = {**place.environment, "PYTHONPATH": str(self.site), "PYTHONDONTWRITEBYTECODE": "1"}
        for source in (ROOT / "supervisor/hooklatch", ROOT / "workers/hooklatch_worker"):
            shutil.copytree(source, self.site / source.name, ignore=shutil.ignore_patterns("__pycache__"))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hooklatch", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE, check=False, cwd=self.place.folder, env=self.environment,
        )  # fmt: skip

    def replace(self, name: str, old: str, new: str) -> None:
        file = self.site / "hooklatch" / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def upgrade(self) -> None:
        self.replace("version.py", f'"{VERSION}"', f'"{NEWER}"')


@contextmanager
def ending(pid: int) -> Iterator[int]:
    """Watch the end of a daemon, and see to it."""
    end = os.pidfd_open(pid)
    try:
        yield end
    finally:
        if not select([end], [], [], 0)[0]:
            signal.pidfd_send_signal(end, signal.SIGTERM)
            assert select([end], [], [], PATIENCE)[0], "a daemon outlived its test"
        os.close(end)


@pytest.fixture
def installed() -> Iterator[Installed]:
    with new_place({"hooks.toml": CONFIG, "guards.py": GUARDS}) as place:
        yield Installed(place)


def test_an_upgrade_is_said_everywhere_and_restart_runs_it_with_the_same_options(installed: Installed) -> None:
    config, state = installed.place.folder / "other.toml", installed.place.folder / "kept"
    config.write_text(CONFIG.replace("guards.py", str(installed.place.config.parent / "guards.py")))
    options = ["--config", str(config), "--state-dir", str(state), "--log-level", "debug"]
    first = json.loads(installed.run("serve", "--detach", "--json", *options).stdout)
    with ending(first["pid"]) as end:
        installed.upgrade()
        status, health = installed.run("status"), installed.run("health")
        again, doctor = installed.run("serve", "--detach", *options), installed.run("doctor")
        done = installed.run("restart", "--json")
        is_gone = bool(select([end], [], [], 0)[0])
        restarted = json.loads(done.stdout)
    with ending(restarted["pid"]):
        after = json.loads(installed.run("status", "--json").stdout)
        same = installed.run("serve", "--detach", *options)
        installed.run("stop")

    said = f"{VERSION} runs, and {NEWER} is installed"
    assert status.returncode == 0
    assert said in status.stdout
    assert "hooklatch restart" in status.stdout
    assert (health.returncode, health.stdout) == (0, f"ready; {said}: hooklatch restart\n")
    assert (again.returncode, again.stdout.partition(",")[0]) == (0, f"runs already (pid {first['pid']}")
    assert f"{said}; to run what is installed: hooklatch restart" in again.stderr
    assert f"hint   {said}" in doctor.stdout
    assert done.returncode == 0, done.stderr
    assert (restarted["stopped"], restarted["was"], restarted["version"]) == (first["pid"], VERSION, NEWER)
    assert is_gone
    assert after["start"] == {
        "config": str(config), "is_config_named": True, "runtime_dir": str(installed.place.runtime), "admin_dir": None,
        "state_dir": str(state), "log_level": "debug", "log_format": "human", "is_detached": True, "is_managed": False,
    }  # fmt: skip
    assert after["version"] == NEWER
    assert "version" not in [warning["reason"] for warning in after["warned"]]
    assert (same.returncode, same.stderr) == (0, "")


def test_what_cannot_start_is_said_with_what_gates_do_now(installed: Installed) -> None:
    first = json.loads(installed.run("serve", "--detach", "--json").stdout)
    with ending(first["pid"]):
        installed.replace("service/daemon.py", "import logging\n", 'raise RuntimeError("half an upgrade")\n')
        done = installed.run("restart")
        fired = installed.run("fire", "pre_tool_use")

    assert done.returncode == 70
    assert f"{VERSION} was stopped (pid {first['pid']}), and the next one does not run" in done.stderr
    assert "every gate is denied: mend that, then: hooklatch serve --detach" in done.stderr
    assert "no_daemon" in fired.stdout


def test_an_installation_that_is_gone_is_said(installed: Installed) -> None:
    first = json.loads(installed.run("serve", "--detach", "--json").stdout)
    with ending(first["pid"]):
        (installed.site / "hooklatch/version.py").rename(installed.place.folder / "away.py")
        status = installed.place.run("status")

    assert f"{VERSION} runs, and what is installed in its place cannot be read: " in status.stdout


def test_a_command_of_another_installation_says_that_the_daemon_is_not_its_own(installed: Installed) -> None:
    installed.upgrade()
    first = json.loads(installed.run("serve", "--detach", "--json").stdout)
    with ending(first["pid"]):
        status = installed.place.run("status")

    assert f"{NEWER} runs, of another installation, and this command is {VERSION}" in status.stdout


def test_without_a_daemon_there_is_nothing_to_restart(place: Place) -> None:
    done = place.run("restart")

    assert (done.returncode, done.stdout) == (69, "")


def test_a_daemon_of_a_terminal_goes_on_in_the_background(place: Place) -> None:
    with serving(place) as daemon:
        done = place.run("restart")
        assert daemon.process.wait(PATIENCE) == 0
    pid = place.json("status")["pid"]
    with ending(pid):
        stopped = place.run("stop")

    assert done.stdout.startswith(f"hooklatch {VERSION} runs (pid {pid}), the same version as before; it runs in the ")
    assert stopped.returncode == 0


def test_daemons_that_two_terminals_start_at_once_are_one(place: Place) -> None:
    both = [place.begin("serve", "--detach") for _ in range(2)]
    ends = [one.end() for one in both]
    pid = place.json("status")["pid"]
    with ending(pid):
        other = place.run("serve", "--detach", HOOKLATCH_CONFIG=str(place.folder / "none" / "hooks.toml"))
        foreground = place.run("serve")
        place.run("stop")

    assert [code for code, _, _ in ends] == [0, 0], ends
    assert sum(f"runs already (pid {pid}" in out for _, out, _ in ends) == 1
    assert other.returncode != 0
    assert (foreground.returncode, foreground.stdout) == (69, "")
