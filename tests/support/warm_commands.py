"""Runs commands of hooklatch in processes that a warm interpreter forks: what one imported, the next finds loaded.

What tells an interpreter how to start (`PYTHONPATH` and the like) has the command be started anew, as have the tests of
`python -m hooklatch`, of examples in pages, of terminals and of service managers.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hooklatch
from support.warm_interpreters import CLONE, WarmInterpreter

__all__ = ["PROGRAM", "PYTHON", "start_command"]

PROGRAM = [sys.executable, "-m", "hooklatch"]
PYTHON = [sys.executable]  # that runs a test's own program, by -c or of a file, which imports what is under test
FIRST = f"""del sys.path[:]
sys.path += {[entry for entry in sys.path if entry and not Path(entry).is_relative_to(Path(__file__).parents[1])]!r}
import atexit, importlib, threading
import hooklatch.cli.commands
LEARNT, TOLD = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
LEARNT.setblocking(False)
TOLD.setblocking(False)

def import_what_was_told():
    while True:
        try:
            names = json.loads(LEARNT.recv({2**18}))
        except BlockingIOError:
            return
        for name in names:
            try:
                importlib.import_module(name)
            except Exception:
                pass  # a test's own file, say
        gc.collect()
        gc.freeze()

def tell(known):
    try:
        TOLD.send(json.dumps([name for name in sys.modules if name not in known]).encode())
    except OSError:
        pass  # closed by the command, or too many of them: another one will tell
"""
THEN = f"""LEARNT.close()
known = {{*sys.modules}}
# Not those of the warm interpreter, which asked at its start whether one can seek in them.
sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
sys.stderr = sys.__stderr__ = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
sys.argv[:] = [{str(Path(hooklatch.__file__).with_name("__main__.py"))!r}, *asked["command"]]
from hooklatch.cli import main
code = main()
# As an interpreter ends, but what the warm one has loaded is not taken apart module by module.
threading._shutdown()
atexit._run_exitfuncs()
tell(known)
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)"""
LOCK = threading.Lock()
SERVERS: list[WarmInterpreter] = []


def start_command(words: Sequence[str], *, cwd: Path, env: Mapping[str, str], **options: Any) -> subprocess.Popen[str]:
    """Start `hooklatch WORDS`, with the standard streams as text; `options` are others of `subprocess.Popen`."""
    started_anew = CLONE is None or any(
        name.startswith(("PYTHON", "LC_", "LANG")) and (name, value) != ("PYTHONUTF8", "1")
        for name, value in env.items()
    )
    kind = subprocess.Popen if started_anew else WarmCommand
    return kind([*PROGRAM, *words], cwd=cwd, env=env, text=True, **options)


class WarmCommand(subprocess.Popen[str]):
    """A command that is forked, where the parent class would fork and execute."""

    def _execute_child(self, args: list[str], *others: Any) -> None:
        cwd, env = others[4:6]
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = others[9:15]
        with LOCK:
            if not SERVERS:
                path = {name: value for name, value in env.items() if name in {"PATH", "PYTHONUTF8"}}
                SERVERS.append(WarmInterpreter(path, first=FIRST, before="import_what_was_told()", then=THEN))
        streams = [given if given != -1 else own for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        try:
            self.pid = SERVERS[0].fork(env, streams, str(cwd), command=args[len(PROGRAM) :])
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]
