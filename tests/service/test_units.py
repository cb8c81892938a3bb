"""The unit files: systemd understands them, and they say what this daemon does."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

import pytest

from hooklatch import paths
from hooklatch.cli.commands import build_command_line
from hooklatch.cli.terminal.parser import Exit
from hooklatch.processes.guardian import STOP_TIMEOUT
from hooklatch.service.folders import SUCCESSION
from hooklatch.service.lifecycle import DRAIN_TIMEOUT, FLUSH_TIMEOUT
from hooklatch.service.socket_activation import FILES
from hooklatch.service.transport.server import BACKLOG
from support.repository import ROOT

UNITS = ROOT / "supervisor/hooklatch/cli/daemon/units"
LINKS = sorted(UNITS.glob("*/*-link*.service"))
TIMERS = sorted(UNITS.glob("*/*.timer"))
SERVICES = sorted({*UNITS.glob("*/*.service")} - {*LINKS} - {path.with_suffix(".service") for path in TIMERS})
SOCKETS = sorted(UNITS.glob("*/*.socket"))
# What would take away from hooks what their user has: JIT compilers, /tmp shared with the agent, projects, sandboxes.
HARMFUL = {
    "MemoryDenyWriteExecute", "PrivateTmp", "ProtectHome", "PrivateNetwork", "PrivateUsers", "RestrictNamespaces",
    "RestrictAddressFamilies", "SystemCallFilter", "SystemCallArchitectures", "DynamicUser", "PrivateDevices",
    "DeviceAllow", "TasksMax", "ReadWritePaths", "InaccessiblePaths", "ProtectProc", "ProcSubset",
}  # fmt: skip


def read(path: Path) -> dict[str, dict[str, str]]:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # systemd's keys have capitals
    parser.read_string(path.read_text())
    return {name: dict(parser[name]) for name in parser.sections()}


def named(paths: list[Path]) -> list[object]:
    return [pytest.param(path, id=path.name) for path in paths]


def test_there_are_units_for_a_person_and_for_a_server() -> None:
    assert [path.name for path in SERVICES] == ["hooklatch@.service", "hooklatch.service"]
    assert [path.name for path in LINKS] == ["hooklatch-link@.service", "hooklatch-link.service"]
    assert [path.name for path in SOCKETS] == ["hooklatch-admin.socket", "hooklatch-agent.socket"]


@pytest.mark.parametrize("path", named(SERVICES))
def test_what_is_started_is_a_command_that_there_is(path: Path) -> None:
    program, *words = shlex.split(read(path)["Service"]["ExecStart"])

    arguments = build_command_line().parse_args(words)

    assert Path(program).name == "hooklatch"
    assert arguments.command == "serve"


@pytest.mark.parametrize("path", named(LINKS))
def test_a_link_is_started_again_whatever_ends_it_and_stands_back_for_agents(path: Path) -> None:
    unit = read(path)

    _, *words = shlex.split(unit["Service"]["ExecStart"])
    assert build_command_line().parse_args(words).command == "link"
    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["Restart"] == "always"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert unit["Service"]["RestartPreventExitStatus"] == str(int(Exit.USAGE))
    assert int(unit["Service"]["Nice"]) > 0
    assert unit["Service"]["NoNewPrivileges"] == "yes"
    assert not {"Requires", "BindsTo", "PartOf"} & set(unit["Unit"])


@pytest.mark.parametrize("path", named(TIMERS))
def test_a_timer_runs_a_command_that_there_is_well_before_what_it_signed_has_expired(path: Path) -> None:
    service = read(path.with_suffix(".service"))["Service"]

    _, *words = shlex.split(service["ExecStart"])
    arguments = build_command_line().parse_args(words)

    assert (arguments.command, arguments.expires) == ("timestamp", 24 * 3600.0)
    assert service["Type"] == "oneshot"
    assert read(path)["Timer"]["OnCalendar"] == "hourly"


@pytest.mark.parametrize("path", named(SERVICES))
def test_the_times_leave_room_for_what_the_daemon_does_in_them(path: Path) -> None:
    service = read(path)["Service"]

    assert float(service["TimeoutStopSec"]) > DRAIN_TIMEOUT + FLUSH_TIMEOUT + STOP_TIMEOUT
    assert float(service["TimeoutStartSec"]) > 2 * SUCCESSION
    assert float(service["WatchdogSec"]) >= 10


@pytest.mark.parametrize("path", named(SERVICES))
def test_a_drain_is_not_cut_short_and_the_daemon_comes_back(path: Path) -> None:
    unit = read(path)

    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["KillMode"] == "mixed"
    assert (unit["Service"]["Restart"], unit["Service"]["RestartSec"]) == ("always", "1")
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert unit["Service"]["RestartPreventExitStatus"] == str(int(Exit.USAGE))
    assert unit["Service"]["OOMPolicy"] == "continue"
    assert unit["Service"]["NoNewPrivileges"] == "yes"


@pytest.mark.parametrize("path", named(SERVICES))
def test_hardening_takes_nothing_from_hooks(path: Path) -> None:
    assert not set(read(path)["Service"]) & HARMFUL


@pytest.mark.parametrize("path", named(SOCKETS))
def test_a_socket_is_where_clients_look_and_as_the_daemon_wants_it(path: Path) -> None:
    socket = read(path)["Socket"]

    file = FILES[socket["FileDescriptorName"]]
    expected = [f"{folder}/{file}" for folder in paths.list_runtime_dirs("%t/hooklatch", {})]
    assert [socket["ListenStream"]] == expected
    assert (socket["SocketMode"], socket["DirectoryMode"]) == ("0600", "0700")
    assert socket["Service"] == "hooklatch.service"
    assert int(socket["Backlog"]) == BACKLOG
    assert socket["RemoveOnStop"] == "yes"


def test_the_service_is_given_both_sockets() -> None:
    unit = read(UNITS / "user" / "hooklatch.service")

    for words in (unit["Service"]["Sockets"], unit["Unit"]["Requires"]):
        assert sorted(words.split()) == [path.name for path in SOCKETS]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize(
    ("manager", "names"),
    [
        ("--user", ["hooklatch-agent.socket", "hooklatch-admin.socket", "hooklatch.service", "hooklatch-link.service"]),
        ("--system", ["hooklatch@root.service", "hooklatch-link@root.service"]),
    ],
)
def test_systemd_finds_no_fault(tmp_path: Path, manager: str, names: list[str]) -> None:
    """Slow: systemd-analyze loads every unit of the machine."""
    for path in (*SERVICES, *LINKS, *SOCKETS):
        text = path.read_text()
        # It looks whether there is such a program.
        (tmp_path / path.name).write_text(re.sub(r"(?<=^ExecStart=)\S+", sys.executable, text, flags=re.MULTILINE))

    done = subprocess.run(
        ["systemd-analyze", manager, "verify", "--man=no", *(str(tmp_path / name) for name in names)],
        capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
    )  # fmt: skip

    ours = [line for line in done.stderr.splitlines() if "hooklatch" in line]
    assert ours == []
    assert done.returncode == 0, done.stderr
