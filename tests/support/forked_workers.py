"""Forks the processes of pytest-xdist from the one that hands out the tests, which has imported them all before.

Each would else import them for itself: ten seconds, and thirty in a fresh checkout, for each of six.  A fork is as any
other process of pytest-xdist from its first line on, and finds in `sys.modules` what it imports.  One that takes the
place of a process that crashed is started anew.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest
from execnet import gateway_io
from execnet.gateway_base import Popen2IO

__all__ = ["ForkedWorkers"]

READY: list[ForkedWorker] = []


class ForkedWorker:
    """What execnet needs of a process that it has started."""

    def __init__(self) -> None:
        read_by_it, to_it = os.pipe()
        from_it, written_by_it = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for other in READY:  # else they would never see that their input ends
                other.stdin.close()
                other.stdout.close()
            os.close(to_it)
            os.close(from_it)
            be_worker(read_by_it, written_by_it)
        os.close(read_by_it)
        os.close(written_by_it)
        self.stdin, self.stdout = open(to_it, "wb"), open(from_it, "rb")  # noqa: SIM115  (until the process ends)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


class ForkedIO(gateway_io.Popen2IOMaster):
    """The streams of a process, which is there already."""

    def __init__(self, args: Any, execmodel: Any) -> None:
        if not READY:
            super().__init__(args, execmodel)
            return
        self.popen: Any = READY.pop(0)
        Popen2IO.__init__(self, self.popen.stdin, self.popen.stdout, execmodel)


class ForkedWorkers:
    """A plugin for the process that hands out the tests."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config, specs: list[Any]) -> None:
        import_tests(config)
        gc.collect()
        gc.freeze()
        if threading.active_count() == 1:  # a lock that another thread holds would stay locked in a fork
            for _ in specs:
                READY.append(ForkedWorker())  # noqa: PERF401  (each closes what those before it have)
            gateway_io.Popen2IOMaster = ForkedIO  # type: ignore[misc]


def import_tests(config: pytest.Config) -> None:
    """Import the files of tests that this run is about, as its processes will."""
    from _pytest.pathlib import ImportMode, import_path

    for argument in config.args:
        place = Path(config.invocation_params.dir, argument.partition("::")[0])
        patterns = config.getini("python_files")
        found = [place] if place.is_file() else sorted({path for each in patterns for path in place.rglob(each)})
        for path in found:
            try:
                import_path(path, mode=ImportMode.importlib, root=config.rootpath, consider_namespace_packages=False)
            except (Exception, pytest.skip.Exception):
                # Each process shall try it, and tell why not: half a module would look like one without tests.
                for name in [name for name, module in sys.modules.items() if is_of(module, path)]:
                    del sys.modules[name]


def is_of(module: object, path: Path) -> bool:
    return getattr(module, "__file__", None) == str(path)


def be_worker(read: int, written: int) -> None:
    """Be what execnet starts with `python -u -c LINE`; end with it."""
    atexit._clear()
    for own, fd in enumerate((read, written)):
        os.dup2(fd, own)
        os.close(fd)
    # For as long as the process lives, so no block ends them.
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.argv[:] = ["-c"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    code = 1
    try:
        exec(gateway_io.popen_bootstrapline, vars(main))
        code = 0
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # as an interpreter ends
        atexit._run_exitfuncs()
        os._exit(code)
