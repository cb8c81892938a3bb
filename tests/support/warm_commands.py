"""Runs commands of hooklatch in processes that a warm interpreter forks: what one imported, the next finds loaded.

The guardian of a daemon in such a command is forked too, with nothing loaded but what a guardian loads; the next one,
after its death, is started as the product does.

What tells an interpreter how to start (`PYTHONPATH` and the like) has the command be started anew, as have the tests of
`python -m hooklatch`, of examples in pages and of service managers.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSCTTY
from typing import Any

import hooklatch
from support.warm_interpreters import CLONE, WarmInterpreter

__all__ = ["MOUNT", "PROGRAM", "PYTHON", "start_command"]

PROGRAM = [sys.executable, "-m", "hooklatch"]
MOUNT = ["unshare", "--mount", "/bin/sh", "-c", 'mount --bind "$0" /etc && exec "$@"']
PYTHON = [sys.executable]  # that runs a test's own program, by -c or of a file, which imports what is under test
FIRST = f"""del sys.path[:]
sys.path += {[entry for entry in sys.path if entry and not Path(entry).is_relative_to(Path(__file__).parents[1])]!r}
import atexit, importlib, threading
sys.modules.setdefault("typing_extensions", None)  # as in a guardian
from hooklatch_worker.runtime import guardian
sys.modules["typing_extensions"] or sys.modules.pop("typing_extensions")
OF_A_GUARDIAN = {{*sys.modules}}
# How many daemons a command runs in its own process.
DAEMONS = {{"serve": 1, "check": 1, "test": 1, "replay": 1, "suggest": 2, "guards add": 1, "guards test": 1}}
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

def await_order(orders):
    data, fds, _, _ = socket.recv_fds(orders, {2**16}, 1)
    if not data:
        os._exit(0)  # a daemon that has come to nothing
    order = json.loads(data)
    os.dup2(fds[0], 3)
    os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.setsid()
    os.chdir(order["folder"])
    resource.setrlimit(resource.RLIMIT_NOFILE, order["descriptors"])
    os.environ.clear()
    os.environ.update(order["environ"])
    sys.argv[:] = ["-c"]
    sys.path[:] = order["path"]
    for name in sys.modules.keys() - OF_A_GUARDIAN:
        del sys.modules[name]
    gc.disable()  # as a guardian does
    guardian.run_guardian(3, order["daemon"])

class Forked:
    def __init__(self, pid):
        self.pid = pid

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def wait(self):
        return os.waitpid(self.pid, 0)[1]

def have_guardians_wait(count):
    if not count:
        return
    # Forked now, while there is neither a thread nor a descriptor that they may not have.
    waiting = []
    for _ in range(count):
        orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if not pid:
            TOLD.close()
            for line, _ in [(orders, 0), *waiting]:
                line.close()
            await_order(theirs)
        theirs.close()
        waiting.append((orders, pid))
    from hooklatch.processes import guardian as product
    start_anew = product.start_guardian

    def start_guardian(socket_fd, interpreter):
        if interpreter is not None or not waiting:
            return start_anew(socket_fd, interpreter)
        orders, pid = waiting.pop()
        order = {{
            "folder": os.getcwd(), "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE), "daemon": os.getpid(),
            "environ": product.children.OWN.of(os.environ),
            "path": [os.fspath(entry) or os.getcwd() for entry in sys.path],
        }}
        with orders:
            socket.send_fds(orders, [json.dumps(order).encode()], [socket_fd])
        return Forked(pid), product.system.watch_process(pid)

    product.start_guardian = start_guardian
"""
THEN = f"""LEARNT.close()
if asked["etc"]:
    libc = ctypes.CDLL(None, use_errno=True)
    NEW_MOUNTS, PRIVATE, BIND = 0x20000, 0x44000, 0x1000  # CLONE_NEWNS; MS_REC | MS_PRIVATE; MS_BIND
    if (
        libc.unshare(NEW_MOUNTS)
        or libc.mount(b"none", b"/", None, PRIVATE, None)
        or libc.mount(os.fsencode(asked["etc"]), b"/etc", None, BIND, None)
    ):
        raise OSError(ctypes.get_errno(), "no mount namespace")
if asked["terminal"]:
    import fcntl, termios
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
known = {{*sys.modules}}
# Not those of the warm interpreter, which asked at its start whether one can seek in them.
sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
sys.stderr = sys.__stderr__ = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
sys.argv[:] = [{str(Path(hooklatch.__file__).with_name("__main__.py"))!r}, *asked["command"]]
if not {{"--detach", "--help"}} & {{*asked["command"]}}:
    names = [" ".join(asked["command"][:count]) for count in (1, 2)]
    have_guardians_wait(sum(DAEMONS.get(name, 0) for name in names))
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


def start_command(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], etc: str = "", terminal: bool = False, **options: Any
) -> subprocess.Popen[str]:
    """Start `hooklatch WORDS`, with the standard streams as text; `options` are others of `subprocess.Popen`.

    With `etc` that folder is its /etc, in a mount namespace of its own; with `terminal` its standard input is the
    terminal of a session of its own.
    """
    started_anew = CLONE is None or any(
        name.startswith(("PYTHON", "LC_", "LANG")) and (name, value) != ("PYTHONUTF8", "1")
        for name, value in env.items()
    )
    options.update(cwd=cwd, env=env, text=True)
    if started_anew:
        if terminal:
            options.update(start_new_session=True, preexec_fn=lambda: ioctl(0, TIOCSCTTY, 0))
        return subprocess.Popen([*([*MOUNT, etc] if etc else []), *PROGRAM, *words], **options)
    return WarmCommand([*PROGRAM, *words], {"etc": etc, "terminal": terminal}, **options)


class WarmCommand(subprocess.Popen[str]):
    """A command that is forked, where the parent class would fork and execute."""

    def __init__(self, args: list[str], asked: Mapping[str, object], **options: Any) -> None:
        self._asked = asked
        super().__init__(args, **options)

    def _execute_child(self, args: list[str], *others: Any) -> None:
        cwd, env = others[4:6]
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = others[9:15]
        with LOCK:
            if not SERVERS:
                path = {name: value for name, value in env.items() if name in {"PATH", "PYTHONUTF8"}}
                SERVERS.append(WarmInterpreter(path, first=FIRST, before="import_what_was_told()", then=THEN))
        streams = [given if given != -1 else own for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        try:
            self.pid = SERVERS[0].fork(env, streams, str(cwd), command=args[len(PROGRAM) :], **self._asked)
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]
