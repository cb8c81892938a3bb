"""A publisher and an auditor: hooklatch's own commands, in the publisher's namespace, and what they were told.

Knows the commands; writes down what it hears in the history.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fleet.network.server import password_of
from fleet.network.wires import PUBLISHER, Wires
from fleet.system.bundles import HALVES, write_guards
from fleet.system.history import Committed, Declined, Pen, now

__all__ = ["Publisher"]

HOOKLATCH = [sys.executable, "-m", "hooklatch"]
PATIENCE = 60.0  # seconds for a command


class Publisher:
    """Signs with a key of its own; `fleet` is the fleet's name."""

    def __init__(self, folder: Path, wires: Wires, fleet: str, pen: Pen) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._wires = wires
        self._fleet = fleet
        self._pen = pen
        self.complaint = ""  # what the last one that was not taken was told
        self.key = folder / "fleet.key"
        made = self._run("fleet", "keygen", "--out", str(self.key), "--json")
        self.public = str(json.loads(made.stdout)["public"])
        for user in ("publisher", "auditor"):
            file = self._folder / f"{user}.password"
            file.touch(mode=0o600)
            file.write_text(password_of(user))

    def push(self, number: int) -> bool:
        """Push guards with this number; return whether they were committed."""
        return self.end(self.begin(number), number, now())

    def begin(self, number: int) -> subprocess.Popen[str]:
        """Begin to push; `end` waits for it."""
        folder = self._folder / f"guards-{number}"
        folder = folder if folder.exists() else write_guards(self._folder, number)
        # Guards of other numbers have other names, so a push takes away those that are active, whichever they are.
        others = [f"{which}:guard_{which}_{other}" for which in HALVES for other in range(number)]
        removes = [word for hook in others for word in ("--removes", hook)]
        words = ("--key", str(self.key), *self._where("publisher"), *removes, "--json")
        return self._popen("fleet", "push", str(folder), *words)

    def end(self, process: subprocess.Popen[str], number: int, since: int) -> bool:
        """Wait for a push, and write down what it was told."""
        told, complaint = process.communicate(timeout=PATIENCE)
        return self._note(process.returncode, told, complaint, number, since)

    def roll_back(self, version: int, number: int) -> bool:
        """Have the guards of an older version in force again."""
        since = now()
        words = ("fleet", "rollback", str(version), "--key", str(self.key), *self._where("publisher"), "--json")
        done = self._run(*words, is_certain=False)
        return self._note(done.returncode, done.stdout, done.stderr, number, since)

    def records(self) -> list[dict[str, Any]]:
        """Return what the sink gives of all hosts."""
        done = self._run("fleet", "log", "-n", "0", *self._where("auditor"), "--json")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def run_audit(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of the auditor's commands to its end."""
        return self._run("fleet", *words, *self._where("auditor"), is_certain=False)

    def _where(self, user: str) -> list[str]:
        url = self._wires.url(PUBLISHER, user)
        return ["--to", url, "--fleet", self._fleet, "--password-file", str(self._folder / f"{user}.password")]

    def _note(self, code: int, told: str, complaint: str, number: int, since: int) -> bool:
        if code:
            self.complaint = complaint.strip()
            self._pen.write(Declined(number, since, now(), self.complaint))
            return False
        answer = json.loads(told)
        self._pen.write(Committed(answer["version"], answer["bundle"], number, since, now()))
        return True

    def _popen(self, *words: str) -> subprocess.Popen[str]:
        environment = {key: value for key, value in os.environ.items() if key in ("PATH", "HOOKLATCH_TEST_COOKIE")}
        return subprocess.Popen(
            [*self._wires.prefix(PUBLISHER), *HOOKLATCH, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**environment, "HOME": str(self._folder), "PYTHONUTF8": "1"},
        )  # fmt: skip

    def _run(self, *words: str, is_certain: bool = True) -> subprocess.CompletedProcess[str]:
        process = self._popen(*words)
        told, complaint = process.communicate(timeout=PATIENCE)
        assert not is_certain or not process.returncode, f"{' '.join(words)}: {told}{complaint}"
        return subprocess.CompletedProcess(process.args, process.returncode, told, complaint)
