"""Where the chaos happens: a folder, a daemon that is started again and again, clients as processes, an admin's line.

Knows processes and files; chooses nothing and judges nothing, but says what was left behind.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from chaos import policies
from chaos.load import Settings
from hooklatch_worker.systems import linux
from support.repository import TESTS
from support.survivors import COOKIE, knowing, wait_until_gone

__all__ = ["AdminRefusedError", "Arena", "DaemonGoneError", "wait_until"]

PATIENCE = 30.0  # seconds for what takes a moment; only something that is wrong takes that long
CONFIG = "[record]\nsegment_mib = 0.25\n"  # small, so that it rotates while it is killed


class DaemonGoneError(Exception):
    """The daemon died before it answered."""


class AdminRefusedError(Exception):
    """The daemon answered with an error."""


class Admin:
    """A connection to the admin socket; one request at a time."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._count = 0
        try:
            self._socket.settimeout(PATIENCE)
            self._socket.connect(path)
            self._lines = self._socket.makefile("rb")
            self.call("hello", protocol=1)
        except (OSError, DaemonGoneError):
            self._socket.close()
            raise DaemonGoneError from None

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.send(method, **params)
        return self.receive()

    def send(self, method: str, **params: Any) -> None:
        self._count += 1
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except TimeoutError:
            raise
        except OSError:
            raise DaemonGoneError from None

    def receive(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except TimeoutError:
            raise
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise DaemonGoneError
        answer = json.loads(line)
        if "error" in answer:
            raise AdminRefusedError(answer["error"]["message"])
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        if hasattr(self, "_lines"):
            self._lines.close()
        self._socket.close()


class Arena:
    """One folder with all that runs in it; `close` ends what still does."""

    def __init__(self, seed: int) -> None:
        # Not tmp_path: a socket's path may have 107 bytes and no more.
        self.folder = Path(tempfile.mkdtemp(prefix="hl-"))
        self.seed = seed
        self.config = self.folder / "config" / "hooks.toml"
        self.policy = self.folder / "config" / "hooks.d" / "policy.py"
        self.silent = self.folder / "silent.py"
        self.project = self.folder / "project"
        self.guard = self.project / ".hooklatch" / "hooks.d" / "guard.py"
        self.runtime = self.folder / "run"
        self.state = self.folder / "home" / "hooklatch"
        self.temporary = self.folder / "tmp"
        self.histories = self.folder / "histories"
        for path in (self.policy.parent, self.guard.parent, self.temporary, self.histories, self.state.parent):
            path.mkdir(parents=True, mode=0o700)
        self.process: subprocess.Popen[bytes] | None = None
        self.clients: dict[str, subprocess.Popen[bytes]] = {}
        self.words: list[str] = []
        self.log = (self.folder / "log").open("ab")
        self._admin: Admin | None = None
        self._kinds: dict[str, str] = {}

    # -- the daemon ------------------------------------------------------------------------------------------------

    @property
    def daemon(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process

    def start(self) -> None:
        """Start a daemon that is known by a word of its own; come back when it can answer."""
        self.words.append(uuid.uuid4().hex)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.state.parent),
            "HOOKLATCH_CONFIG": str(self.config),
            "HOOKLATCH_RUNTIME_DIR": str(self.runtime),
            "TMPDIR": str(self.temporary),
            COOKIE: self.words[-1],
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hooklatch", "serve", "--json", "--log-level", "info"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        self.process.stdout.close()
        assert first, f"the daemon did not start: {self.last_words()}"

    def kill(self) -> list[int]:
        """SIGKILL the daemon; give the processes that outlived it."""
        self.daemon.send_signal(signal.SIGKILL)
        return self._gone()

    def terminate(self) -> tuple[int, list[int], list[str]]:
        """Have the daemon end well; give its exit code, the processes that outlived it and the sockets that it left."""
        self.daemon.send_signal(signal.SIGTERM)
        left = self._gone()
        return self.daemon.returncode, left, [path.name for path in self.runtime.glob("*.sock")]

    def _gone(self) -> list[int]:
        try:
            self.daemon.wait(PATIENCE)
        finally:
            self.hang_up()
        left = wait_until_gone(self.words[-1])
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return left

    @property
    def admin(self) -> Admin:
        """The line to the present daemon.

        Raises:
            DaemonGoneError: there is none.
        """
        if self._admin is None:
            self._admin = Admin(str(self.runtime / "admin.sock"))
        return self._admin

    def hang_up(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def guardians(self) -> list[int]:
        """List the processes that watch over a zygote."""
        return [pid for pid in linux.list_children(self.daemon.pid) if is_guardian(pid)]

    def zygotes(self) -> list[int]:
        return below(self.guardians())

    def workers(self) -> list[int]:
        return below(self.zygotes())

    def commands(self) -> list[int]:
        """List what workers started: the commands of shell hooks."""
        return [pid for worker in self.workers() for pid in linux.list_descendants(worker)]

    # -- clients ---------------------------------------------------------------------------------------------------

    def add_client(self, kind: str) -> str:
        name = f"c{len(self._kinds) + 1}"
        self._kinds[name] = kind
        settings = Settings(
            kind=kind, name=name, seed=self.seed, socket=str(self.runtime / "agent.sock"),
            history=str(self.histories / f"{name}.jsonl"), project=str(self.project), silent=str(self.silent),
        )  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(TESTS), "HOME": str(self.folder)}
        self.clients[name] = subprocess.Popen(
            [sys.executable, str(TESTS / "chaos" / "load.py"), json.dumps(vars_of(settings))],
            stdin=subprocess.PIPE, stdout=self.log, stderr=self.log, env=environment,
        )  # fmt: skip
        return name

    def end_client(self, name: str) -> str:
        """SIGKILL a client; give its kind."""
        process = self.clients.pop(name)
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
        return self._kinds[name]

    def dismiss_clients(self) -> list[int]:
        """Have every client end by the end of its input; give their exit codes."""
        for process in self.clients.values():
            assert process.stdin is not None
            process.stdin.close()
        codes = [process.wait(PATIENCE) for process in self.clients.values()]
        self.clients.clear()
        return codes

    def record_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self.state / "record").glob("*.jsonl"))

    # -- files -----------------------------------------------------------------------------------------------------

    def replace(self, path: Path, text: str) -> None:
        """Write a file as careful editors do: nobody ever sees a part of it."""
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(text)
        temporary.chmod(0o600)
        temporary.replace(path)

    def write_config(self, version: int) -> None:
        self.replace(self.config, CONFIG + policies.config(version))

    # -- its end ---------------------------------------------------------------------------------------------------

    def leftovers(self) -> list[str]:
        """Return what is there that should not be, after a clean end of everything."""
        found = [f"process {pid}" for word in self.words for pid in knowing(word)]
        found += [f"socket {path.name}" for path in self.runtime.iterdir() if path.name != "daemon.lock"]
        found += [f"temporary {path.relative_to(self.folder)}" for path in self.temporary.rglob("*")]
        for path in self.state.rglob("*"):
            if path.name.endswith((".new", ".tmp")):
                found.append(f"file {path.relative_to(self.folder)}")
        return found

    def last_words(self) -> str:
        self.log.flush()
        return "".join((self.folder / "log").read_text(errors="replace").splitlines(keepends=True)[-60:])

    def close(self, *, move_to: Path | None = None) -> None:
        """End all that runs, whatever state it is in, and remove the folder, or move it."""
        self.hang_up()
        for name in list(self.clients):
            self.end_client(name)
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for word in self.words:
            for pid in wait_until_gone(word):
                os.kill(pid, signal.SIGKILL)
        self.log.close()
        if move_to is not None:
            move_to.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(self.folder, move_to)
        else:
            shutil.rmtree(self.folder)


def vars_of(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


def below(parents: Iterable[int]) -> list[int]:
    return [child for parent in parents for child in linux.list_children(parent)]


def is_guardian(pid: int) -> bool:
    """Return whether a process runs what the daemon starts as its guardian."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"guardian.run_guardian" in file.read()
    except OSError:
        return False


def wait_until(is_so: Callable[[], object], line_timeouts: float = PATIENCE, *, pause: float = 0.01) -> bool:
    """Wait until something is so that tells nobody when it changes; say whether it came to be."""
    deadline = time.monotonic() + line_timeouts
    while not is_so():
        if time.monotonic() > deadline:
            return False
        select.select([], [], [], pause)
    return True
