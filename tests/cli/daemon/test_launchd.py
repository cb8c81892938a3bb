"""service on a Mac: what launchd is told, by a program that answers as launchctl does and starts what a file names.

Slow: it starts real daemons.
"""

from __future__ import annotations

import json
import os
import plistlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hooklatch.cli.commands import build_command_line
from hooklatch.cli.daemon.launchd import Launchd, format_agent, make_agent
from hooklatch.cli.daemon.managers import UNITS
from hooklatch.cli.daemon.service import choose_manager, run_install, run_remove, run_status
from hooklatch.cli.daemon.systemd import Systemd
from hooklatch.cli.hosts.programs import is_service_installed
from hooklatch.cli.terminal.parser import CommandError
from support.commands import Place
from support.survivors import COOKIE, nobody_survives

pytestmark = pytest.mark.slow
DOMAIN = f"gui/{os.getuid()}"
TARGET = f"{DOMAIN}/hooklatch"
# Its answers and codes are those of macOS: 113 and 3 for what is not there, 5 for what is there already.
LAUNCHCTL = """#!{python}
import json, os, plistlib, select, signal, subprocess, sys
words, folder = sys.argv[1:], "{folder}"
with open(folder + "/asked", "a") as asked:
    asked.write(json.dumps(words) + "\\n")
def end(code, text):
    print(text, file=sys.stderr if code else sys.stdout)
    raise SystemExit(code)
def running(target):
    path = folder + "/" + target.rpartition("/")[2] + ".pid"
    return path, int(open(path).read()) if os.path.exists(path) else None
verb, target = words[0], words[1]
if verb == "print" and target.count("/") == 1:
    end(*((125, "Domain does not support specified action") if os.path.exists(folder + "/nobody") else (0, target)))
if verb == "bootstrap":
    agent = plistlib.load(open(words[2], "rb"))
    path, pid = running(agent["Label"])
    if pid is not None:
        end(5, "Bootstrap failed: 5: Input/output error")
    log = open(agent["StandardErrorPath"], "a")
    given = {{"HOME": os.environ["HOME"], "{cookie}": os.environ["{cookie}"], "XPC_SERVICE_NAME": agent["Label"]}}
    child = subprocess.Popen(agent["ProgramArguments"], env={{**given, **agent["EnvironmentVariables"]}},
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, umask=agent["Umask"])
    open(path, "w").write(str(child.pid))
    end(0, "")
path, pid = running(target)
if pid is None:
    name = target.rpartition("/")[2]
    end(*((3, "Boot-out failed: 3: No such process") if verb == "bootout" else
        (113, f'Bad request.\\nCould not find service "{{name}}" in domain for user gui: {{os.getuid()}}')))
if verb == "print":
    end(0, target + " = {{\\n\\tactive count = 1\\n\\tstate = running\\n\\n\\tpid = " + str(pid) + "\\n}}")
if verb == "bootout":
    fd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGTERM)
    select.select([fd], [], [])
    os.unlink(path)
end(0, "")
"""


class Mac:
    """A place whose commands find a launchctl."""

    def __init__(self, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = place.folder / "launchd"
        self.file = place.folder / "Library/LaunchAgents/hooklatch.plist"
        self._capsys = capsys
        program = place.folder / "bin" / "launchctl"
        for folder in (self.folder, program.parent):
            folder.mkdir()
        program.write_text(LAUNCHCTL.format(python=sys.executable, folder=self.folder, cookie=COOKIE))
        program.chmod(0o755)
        place.environment["PATH"] = f"{program.parent}:{os.environ['PATH']}"

    def run(self, command: Callable[..., int], *words: str) -> tuple[int, str]:
        arguments = build_command_line().parse_args(["service", *words])
        arguments.daemon_uid = None
        code = command(arguments, choose_manager("darwin"))
        return code, self._capsys.readouterr().out

    def take_asked(self) -> list[list[str]]:
        """Return what launchctl was asked to change since the last time."""
        file = self.folder / "asked"
        asked = [json.loads(line) for line in file.read_text().splitlines()]
        file.unlink()
        return [words for words in asked if words[0] != "print"]


@pytest.fixture
def mac(place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Mac]:
    mac = Mac(place, capsys)
    place.enter(monkeypatch)
    with nobody_survives():
        yield mac


def test_launchd_runs_the_daemon_that_is_installed_until_it_is_removed(mac: Mac) -> None:
    installed = mac.run(run_install, "install")
    first = mac.take_asked()
    written = plistlib.loads(mac.file.read_bytes())
    (unit,) = json.loads(mac.run(run_status, "status", "--json")[1])["units"]
    again, second = mac.run(run_install, "install"), mac.take_asked()
    mac.file.write_bytes(mac.file.read_bytes().replace(b"<integer>1</integer>", b"<integer>2</integer>"))
    changed, third = mac.run(run_install, "install"), mac.take_asked()
    is_there = is_service_installed("darwin")
    removed, last = mac.run(run_remove, "remove"), mac.take_asked()
    after = mac.run(run_status, "status")

    assert installed[0] == again[0] == changed[0] == removed[0] == 0
    assert "launchd runs hooklatch" in installed[1]
    assert written["RunAtLoad"] is written["KeepAlive"] is True
    assert (unit["unit"], unit["enabled"], unit["active"], unit["is_current"]) == (
        "hooklatch.plist", "loaded", "active", True,
    )  # fmt: skip
    assert first == [["bootstrap", DOMAIN, str(mac.file)], ["kickstart", TARGET]]
    assert second == [["kickstart", TARGET]]
    assert third == [["bootout", TARGET], *first]
    assert is_there
    assert last == [["bootout", TARGET]]
    assert "no daemon runs now" in removed[1]
    assert not mac.file.exists()
    assert after == (1, "launchd does not start it; to have that: hooklatch service install\n")


def test_a_changed_file_is_taken_also_where_launchd_runs_something_that_is_no_daemon(mac: Mac) -> None:
    """As where the file that was there before starts what ends at once: launchd would start that again and again."""
    mac.file.parent.mkdir(parents=True)
    mac.file.write_text(format_agent({"Label": "hooklatch", "ProgramArguments": ["/gone"]}))
    with subprocess.Popen(["sleep", "1000"]) as other:
        (mac.folder / "hooklatch.pid").write_text(str(other.pid))  # as launchd has it

        installed = mac.run(run_install, "install")
        asked = mac.take_asked()
        ended = other.wait()
        mac.run(run_remove, "remove")

    assert installed[0] == 0
    assert asked == [["bootout", TARGET], ["bootstrap", DOMAIN, str(mac.file)], ["kickstart", TARGET]]
    assert ended == -signal.SIGTERM


def test_where_there_is_no_login_nothing_is_written(mac: Mac) -> None:
    (mac.folder / "nobody").touch()

    with pytest.raises(CommandError, match=r"Domain does not support specified action.*nothing was written"):
        mac.run(run_install, "install")

    assert not mac.file.exists()


def test_an_agent_of_somebody_else_is_kept(mac: Mac) -> None:
    mac.file.parent.mkdir(parents=True)
    mac.file.write_bytes(plistlib.dumps({"Label": "hooklatch", "ProgramArguments": ["/opt/mine"]}))

    _, said = mac.run(run_remove, "remove")

    assert f"left: {mac.file}" in said
    assert mac.file.exists()


def test_an_agent_says_what_the_unit_says(mac: Mac) -> None:
    unit = (UNITS / "user/hooklatch.service").read_text()

    agent = make_agent("hooklatch", unit, ["--config", "/a b"])

    program, *words = agent["ProgramArguments"]
    assert (Path(program).name, words) == ("hooklatch", ["serve", "--config", "/a b"])
    assert agent["EnvironmentVariables"] == {"PATH": os.environ["PATH"]}
    assert (agent["KeepAlive"], agent["ThrottleInterval"], agent["ExitTimeOut"], agent["Umask"]) == (True, 1, 20, 0o077)
    assert agent["SoftResourceLimits"] == {"Core": 0, "NumberOfFiles": 65536}
    assert (
        agent["StandardErrorPath"]
        == agent["StandardOutPath"]
        == str(mac.file.parents[2] / ".local/state/hooklatch/daemon.log")
    )
    assert make_agent("x", unit.replace("=always", "=on-failure"), [])["KeepAlive"] == {"SuccessfulExit": False}


def test_each_system_has_its_manager() -> None:
    assert isinstance(choose_manager("darwin"), Launchd)
    assert isinstance(choose_manager("linux"), Systemd)
