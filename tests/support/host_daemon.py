"""A daemon that answers as it is told, and the hook command started the way an agent does."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hooklatch.hosts import claude_code, shim
from support.repository import RECORDED

SHIM = Path(shim.__file__).resolve()
PYTHON = [sys.executable, "-I", "-S"]
GATES = sorted(claude_code.GATES)

Talk = Callable[[socket.socket, bytes], None]
Start = Callable[[bytes | Talk], "Daemon"]


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.jsonl").read_bytes().splitlines()[0]


def answer(event: str, verdict: str, **rest: object) -> bytes:
    decision = {
        "decision_id": "1",
        "event": event,
        "verdict": verdict,
        "cause": "policy",
        "reason": "why",
        **rest,
    }
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": decision}, ensure_ascii=False).encode() + b"\n"


class Daemon:
    """A listener whose connections all get the same `talk`; it remembers the lines it was sent."""

    def __init__(self, folder: str, talk: Talk) -> None:
        self.folder = folder
        self.lines: list[bytes] = []
        self._talk = talk
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"{folder}/agent.sock")
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                line = lines.readline()
                self.lines.append(line)
                try:
                    self._talk(connection, line)
                except OSError:
                    continue  # the client went first

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()
        self._thread.join()


def hook(stdin: bytes, *words: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [*PYTHON, str(SHIM), "claude-code", *words]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, env=environ or {"HOME": "/none"})


def said(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    document = json.loads(done.stdout) if done.stdout else {}
    assert isinstance(document, dict)
    return document


def is_blocked(name: str, done: subprocess.CompletedProcess[bytes]) -> bool:
    if done.returncode == 2:
        return name != "PermissionRequest" and not done.stdout and bool(done.stderr)
    assert done.returncode == 0
    document = said(done)
    specific = document.get("hookSpecificOutput", {})
    return (
        document.get("decision") == "block"
        or specific.get("permissionDecision") == "deny"
        or specific.get("decision", {}).get("behavior") == "deny"
    )


def assert_silent(done: subprocess.CompletedProcess[bytes]) -> None:
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)
