"""One host of a fleet: its daemon, its link and its agents, as real processes in its namespace, with its own clock.

Knows processes and files; chooses nothing and judges nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from chaos.arena import Admin
from support.repository import TESTS

__all__ = ["FAKETIME", "Host"]

FAKETIME = next((str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), "")
PATIENCE = 30.0  # seconds for what takes a moment
HOOKLATCH = [sys.executable, "-m", "hooklatch"]


class Host:
    """`prefix` is what to put before a command that is to run on it, `config` its hooks.toml."""

    def __init__(self, name: str, folder: Path, prefix: Sequence[str], config: str, log: IO[bytes]) -> None:
        self.name = name
        self.folder = folder
        self.prefix = list(prefix)
        self.runtime = folder / "run"
        self.state = folder / "state" / "hooklatch"
        self.skew = ""  # what its wall clock is off by, as faketime has it
        self.daemon: subprocess.Popen[bytes] | None = None
        self.link: subprocess.Popen[bytes] | None = None
        self._agents: subprocess.Popen[bytes] | None = None
        self._log = log
        for part in ("config", "state", "tmp"):
            (folder / part).mkdir(parents=True, mode=0o700)
        self.config = folder / "config" / "hooks.toml"
        self.config.touch(mode=0o600)
        self.config.write_text(config)

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOOKLATCH_TEST_COOKIE")}
        clock = {"LD_PRELOAD": FAKETIME, "FAKETIME": self.skew, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        return {
            **kept,
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "HOOKLATCH_CONFIG": str(self.config),
            "HOOKLATCH_RUNTIME_DIR": str(self.runtime),
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONUTF8": "1",
            **(clock if self.skew else {}),
        }

    # -- its processes ---------------------------------------------------------------------------------------------

    def start_daemon(self) -> None:
        """Start it; come back when it can answer."""
        self.daemon = self._started("serve", "--json", "--log-level", "info")

    def start_link(self) -> None:
        """Start it; come back when it begins to work."""
        self.link = self._started("link")

    def kill_daemon(self) -> None:
        self.daemon = self._kill(self.daemon)

    def kill_link(self) -> None:
        self.link = self._kill(self.link)

    def end(self) -> list[str]:
        """End the link and the daemon well; say what was not well about it."""
        wrong: list[str] = []
        for name, process in (("link", self.link), ("daemon", self.daemon)):
            if process is not None:
                code = process.poll()
                process.send_signal(signal.SIGTERM)
                if code is not None or (code := process.wait(PATIENCE)):
                    wrong.append(f"the {name} of {self.name} ended with {code}")
        self.link = self.daemon = None
        return wrong

    def pause(self, process: subprocess.Popen[bytes] | None, *, is_paused: bool = True) -> None:
        """Stop a process, or let it go on."""
        assert process is not None
        process.send_signal(signal.SIGSTOP if is_paused else signal.SIGCONT)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of hooklatch's commands on this host to its end."""
        return subprocess.run(
            [*self.prefix, *HOOKLATCH, *words], env=self.environment, capture_output=True, text=True, check=False,
            timeout=PATIENCE,
        )  # fmt: skip

    # -- its agents ------------------------------------------------------------------------------------------------

    def start_agents(self, history: Path) -> None:
        history.touch()
        words = [str(TESTS / "fleet" / "system" / "agents.py"), self.name, str(self.runtime / "agent.sock"), history]
        self._agents = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.PIPE, stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def dismiss_agents(self) -> None:
        """Have them end, after the answer that they wait for."""
        if self._agents is not None:
            assert self._agents.stdin is not None
            self._agents.stdin.close()
            code = self._agents.wait(PATIENCE)
            self._agents = None
            assert not code, f"the agents of {self.name} ended with {code}"

    # -- what its daemon says --------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the daemon's status.

        Raises:
            DaemonGoneError: there is none.
        """
        admin = Admin(str(self.runtime / "admin.sock"))
        try:
            return admin.call("status")
        finally:
            admin.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the admin socket."""
        admin = Admin(str(self.runtime / "admin.sock"))
        try:
            return admin.call(method, **params)
        finally:
            admin.close()

    # -- its end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End all that runs of it, whatever state it is in."""
        for process in (self._agents, self.link, self.daemon):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        if self._agents is not None and self._agents.stdin is not None:
            self._agents.stdin.close()

    def _started(self, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*self.prefix, *HOOKLATCH, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log,
            env=self.environment,
        )  # fmt: skip
        assert process.stdout is not None
        with process.stdout as first:
            assert first.readline(), f"hooklatch {' '.join(words)} of {self.name} did not start"
        return process

    def _kill(self, process: subprocess.Popen[bytes] | None) -> None:
        if process is not None:
            process.kill()
            process.wait()
