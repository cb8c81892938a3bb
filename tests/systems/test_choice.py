"""One place asks which system this is, and what it chooses from has the same names and parameters."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hooklatch_worker.sandbox import isolation
from hooklatch_worker.systems import (
    darwin,
    darwin_disks,
    darwin_watches,
    disks,
    linux,
    linux_disks,
    linux_watches,
    portable,
    system,
)
from hooklatch_worker.wire import Isolation, Source
from support.repository import ROOT
from support.tables import table
from systems.fake_darwin import FakeSelect

ASKING = re.compile(r"sys\.platform|platform\.system\(|os\.uname\(\)\.sysname|os\.name\b|from sys import .*platform")
MAY_ASK = re.compile(r"platform|uname|\bos\s*\.\s*name\b")  # without which no text is worth parsing
ROOM = ("systems/__init__.py", "systems/disks.py")


def asks(text: str) -> bool:
    """Return whether code asks for its system, in whatever string it is too."""
    return MAY_ASK.search(text) is not None and ASKING.search(ast.unparse(ast.parse(text))) is not None


def test_which_system_this_is_is_asked_in_one_place() -> None:
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("supervisor", "workers")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if asks(path.read_text())
    ]

    assert found == [f"workers/hooklatch_worker/{name}" for name in ROOM]
    assert asks("import sys\nif sys.platform == 'darwin': ...")


def test_files_reach_the_disk_by_the_functions_of_this_system_alone() -> None:
    """fsync(2) of macOS leaves them in the disk's cache: what is flushed before it is renamed has to be there."""
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("supervisor", "workers")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "sync(" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in ("fsync", "fdatasync")
    }

    own = {f"workers/hooklatch_worker/systems/{name}_disks.py" for name in ("darwin", "linux")}
    assert found == {*own, "supervisor/hooklatch/entry/building.py"}  # a program that is lost is built anew


def parameters(function: object) -> list[str]:
    """Return the parameters, as they are named, ordered and defaulted."""
    assert callable(function)
    found = inspect.signature(function).parameters.values()
    return [f"{one.name} {one.kind.description} {one.default}" for one in found]


@table("name", linux.__all__)
def test_each_name_of_linux_is_there_on_others(name: str) -> None:
    assert system is linux
    here, other = getattr(linux, name), getattr(darwin.system, name)

    if name == "EventSet":
        made = [here(), other(FakeSelect())]
        names = [name for name in vars(portable.WatchedDescriptors) if not name.startswith("_")]
        assert len(names) == 6
        assert [(type(one).__name__, name) for one in made for name in names if not hasattr(one, name)] == []
        made[0].close()
    elif callable(here):
        assert parameters(here) == parameters(other)


@pytest.mark.parametrize("name", disks.__all__)
def test_each_name_for_disks_is_there_on_others(name: str) -> None:
    if name == "FileWatches":
        here, other = disks.FileWatches, darwin_watches.DarwinWatches
        names = [name for name in vars(here) if not name.startswith("_") and name != "MASKS"]
        assert here is linux_watches.FileWatches
        assert len(names) == 6
        assert [name for name in names if not hasattr(other, name)] == []
        return
    assert getattr(disks, name) == getattr(linux_disks, name)
    assert parameters(getattr(linux_disks, name)) == parameters(getattr(darwin_disks, name))


def test_a_fire_looks_at_paths_by_a_function_that_was_chosen_before() -> None:
    assert disks.is_plain is linux_disks.is_plain


@pytest.mark.parametrize("module", ["", ".disks"])
def test_another_system_is_chosen_where_this_is_one(module: str) -> None:
    """As far as an import goes: of what is there no call is made."""
    code = (
        "import sys; sys.platform = 'darwin'; "
        f"import hooklatch_worker.systems{module} as room; print(sorted(n for n in sys.modules if '.systems.' in n))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path("/"))

    assert ".systems.darwin" in done.stdout
    assert ".systems.linux" not in done.stdout


LINUX_ALONE = """
import ctypes, importlib, os, pkgutil, sys
import psutil, trio  # of which others are for each system
import fcntl, resource, select, signal, socket, time, _socket, posix
OURS = {
    os: ["O_PATH", "pidfd_open", "memfd_create", "pipe2", "fdatasync", "waitid", "sched_getaffinity", "O_TMPFILE"],
    select: ["epoll"], signal: ["pidfd_send_signal", "SIGPWR", "SIGSTKFLT", "SIGRTMIN", "SIGRTMAX"],
    socket: ["SO_PEERCRED", "MSG_CMSG_CLOEXEC"], _socket: ["SO_PEERCRED"], time: ["CLOCK_BOOTTIME"],
    fcntl: ["F_ADD_SEALS", "F_SEAL_GROW", "F_SEAL_SHRINK"], resource: ["prlimit"], posix: ["O_PATH", "pidfd_open"],
}
for module, names in OURS.items():
    for name in names:
        vars(module).pop(name, None)
for name in [name for name in vars(os) if name.startswith("MFD_")] + [name for name in vars(select) if "EPOLL" in name]:
    vars(os).pop(name, None), vars(select).pop(name, None)
sys.platform = "darwin"
import hooklatch, hooklatch_worker
LEFT_OUT = ("hooklatch.bridges", "hooklatch.cli.hosts", "hooklatch.guards.gallery", "hooklatch.__main__")
for package in (hooklatch, hooklatch_worker):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.startswith(LEFT_OUT) and ".systems.linux" not in found.name:
            importlib.import_module(found.name)
assert not [name for name in sys.modules if ".systems.linux" in name]
from hooklatch_worker.systems import system
print(type(system).__name__)
"""


def test_every_module_can_be_imported_where_what_linux_alone_has_is_not_there() -> None:
    done = subprocess.run([sys.executable, "-c", LINUX_ALONE], capture_output=True, text=True, check=False)

    assert (done.stdout, done.returncode) == ("DarwinSystem\n", 0), done.stderr[-2000:]


def test_levels_that_need_a_kernel_of_linux_are_refused_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "system", darwin.system)

    for level in ("restricted", "strict"):
        wanted = Isolation(level=level)
        with pytest.raises(isolation.IsolationError, match=r"Linux 6[.]12 or later with Landlock"):
            isolation.confine_process(wanted, Source("module", "json"), "1")
        effective = isolation.find_effective_isolation(isolation.detect_kernel(), wanted)
        assert effective.level == "standard"
        assert "refusing writes (Landlock, Linux 5.13)" in effective.missing
    assert isolation.find_effective_isolation(isolation.detect_kernel(), Isolation()).missing == []
