"""Plays a portable system: in the tests' own process with all that it starts (`pytest --portable`), or in a command.

A process that plays one has none of the calls that Linux alone has, and the portable modules in the place of Linux's.
What it starts of the daemon has empty folders /proc and /sys.  The tests' own process keeps them, for the tests: there,
only the product's code does not find them.  Two readers are exempt, as macOS answers them in another way:

    psutil          reads of a process what it measures: /proc/PID/{stat,statm,status,smaps_rollup,cmdline}, /proc/stat
    `StandInSystem` reads /proc/PID/{stat,task}, and here the mounts and the boot's id: macOS tells these by calls
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from systems.lean_kernel import hide_folders, refuse_abstract_names, refuse_calls

__all__ = ["begin_run", "choose", "enter_command"]

TESTS = Path(__file__).parents[1]
OPEN_FILES = 10_240  # macOS's OPEN_MAX; without /proc, what a program must not inherit is closed one by one
IMPORT = "from hooklatch_worker.runtime import guardian\n"
PATH = "sys.path[:] = {path}\n"
CHOOSE = """import sys
sys.path.insert(0, {tests!r})
from systems.play import choose
choose({folder!r})
sys.path.remove({tests!r})
"""
HIDDEN = ("/proc", "/sys")
PRODUCT = (str(TESTS.parent / "supervisor"), str(TESTS.parent / "workers"))
EXEMPT = ("psutil", "systems/linux.py", "systems/linux_disks.py")  # the modules of Linux only a test calls


def choose(folder: str, *, has_folders: bool = False) -> None:
    """Put the portable module in the place of Linux's, in a process that has imported no other of ours.

    `folder` holds the socket of a `KernelServer`.  Unless the process keeps its folders, they are hidden.
    """
    if not has_folders and os.path.exists("/proc/self"):
        hide_folders(folder)
    refuse_abstract_names()
    from hooklatch_worker import systems
    from systems.stand_in import RemoteKernel, StandInSystem

    kernel = RemoteKernel(f"{folder}/kernel", "/proc" if has_folders else f"{folder}/proc")
    systems.system = StandInSystem(kernel)  # type: ignore[assignment]


def choose_for_daemon(folder: str, proc: str) -> None:
    """Put the functions for files in the place of Linux's, and have guardians and keepers choose the same."""
    import psutil

    from hooklatch_worker.systems import darwin_disks, disks, linux_disks

    psutil.PROCFS_PATH = proc
    darwin_disks.away_now = partial(list_mounts, proc)
    darwin_disks.read_real_path = linux_disks.read_real_path  # fcntl(2) has no F_GETPATH here
    disks.FileWatches = SilentWatches  # type: ignore[assignment, misc]
    darwin_disks.read_boot_id = lambda: Path(f"{proc}/sys/kernel/random/boot_id").read_text().strip()
    for name in {*disks.__all__} - {"FileWatches"}:
        setattr(disks, name, getattr(darwin_disks, name))
    from hooklatch.environments import interpreter
    from hooklatch.processes import guardian

    assert IMPORT in guardian.GUARDIAN
    guardian.GUARDIAN = guardian.GUARDIAN.replace(IMPORT, make_prelude(folder) + IMPORT)
    assert PATH in interpreter.KEEPER
    interpreter.KEEPER = interpreter.KEEPER.replace(PATH, PATH + make_prelude(folder))


class SilentWatches:
    """Watches of files as macOS has them, where nothing is reported: there is no kqueue here."""

    ITSELF, ENTRIES, CONTENT = 1, 2, 3
    IS_COMPLETE, shortage = False, None

    def __init__(self) -> None:
        self._ends = os.pipe()

    def fileno(self) -> int:
        return self._ends[0]

    def close(self) -> None:
        for end in self._ends:
            os.close(end)

    def replace(self, places: Mapping[str, int]) -> dict[str, int]:
        """Watch nothing."""
        return {}

    def take(self) -> list[tuple[int, str]]:
        """Report nothing."""
        return []


def list_mounts(proc: str) -> dict[str, str]:
    from hooklatch_worker.systems.linux_disks import list_remote_mounts
    from systems.stand_in import descriptors_left

    with descriptors_left():
        return list_remote_mounts(Path(f"{proc}/self/mountinfo").read_text())


def make_prelude(folder: str) -> str:
    """Return the code by which an interpreter chooses."""
    return CHOOSE.format(tests=str(TESTS), folder=folder)


def enter_command(folder: str) -> None:
    """Play a portable system in a process that is about to run a command."""
    lower_limit()
    choose(folder)
    refuse_calls()
    choose_for_daemon(folder, f"{folder}/proc")


def lower_limit() -> None:
    limit = min(OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def begin_run() -> None:
    """Play a portable system in this process of the tests, from now on: before anything of the product is imported."""
    assert "hooklatch_worker.systems.disks" not in sys.modules
    from systems.stand_in import KernelServer

    folder = tempfile.mkdtemp(prefix="hlp-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(KernelServer(f"{folder}/kernel").close)  # before the calls are refused that it answers
    lower_limit()
    choose(folder, has_folders=True)
    refuse_calls()
    choose_for_daemon(folder, "/proc")
    sys.addaudithook(hide_from_product)
    from support import warm_commands, warm_guardians

    warm_guardians.FIRST = make_prelude(folder) + warm_guardians.FIRST
    # Their guardians are started by the product, which has each choose.
    warm_commands.FIRST = f"{make_enter(folder)}{warm_commands.FIRST}DAEMONS.clear()\n"
    warm_commands.PYTHON[1:] = [str(Path(__file__).with_name("start.py")), folder]
    warm_commands.PROGRAM[1:] = [*warm_commands.PYTHON[1:], "-m", "hooklatch"]


def make_enter(folder: str) -> str:
    return make_prelude(folder).replace("choose", "enter_command")


def hide_from_product(event: str, arguments: tuple[object, ...]) -> None:
    """Have a folder that is hidden not be found by the product's code, an audit hook (PEP 578)."""
    if event not in ("open", "os.listdir", "os.scandir") or not arguments or not isinstance(arguments[0], str):
        return
    if not arguments[0].startswith(HIDDEN):
        return
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if any(name in file for name in EXEMPT) or file.startswith(f"{TESTS}/"):
            return
        if file.startswith(PRODUCT):
            raise FileNotFoundError(2, f"hidden from the product ({file}:{frame.f_lineno})", arguments[0])
        frame = frame.f_back
