"""A daemon that answers `host` as it is told, and the entry started the way a host starts it."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hooklatch.entry import building
from hooklatch.entry.commands import Kind, make_entry_command
from support.repository import ROOT

__all__ = ["FORMS", "Daemon", "Talk", "DOCUMENT", "result", "command", "run", "start"]

Talk = Callable[[socket.socket, bytes], None]
HAS_COMPILER = any(map(shutil.which, building.COMPILERS))
PACKAGER = ROOT / "build" / "packager"  # what `make wheels` builds with, once it was run here
MACHINE = os.uname().machine
HAS_ZIG = (PACKAGER / "ready").exists() and MACHINE in ("x86_64", "aarch64")
# What each test of the table is run with: "zig" is the program that a wheel brings.
FORMS = ["python", *(["c", "sanitized"] if HAS_COMPILER else []), *(["zig"] if HAS_ZIG else [])]
DOCUMENT = b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}'


def result(exit_code: int = 0, stdout: str = "", stderr: str = "") -> bytes:
    body = {"exit_code": exit_code, "stdout": stdout, "stderr": stderr}
    message = {"jsonrpc": "2.0", "id": 1, "result": body}
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


class Daemon:
    """A listener whose connections all get the same `talk`; it remembers the lines it was sent."""

    def __init__(self, folder: str, talk: bytes | Talk) -> None:
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
                    if isinstance(self._talk, bytes):
                        connection.sendall(self._talk)
                    else:
                        self._talk(connection, line)
                except OSError:
                    continue  # the client went first

    def request(self) -> dict[str, Any]:
        """Return the only request, with the document as text: it ends the line, and need not be JSON."""
        (line,) = self.lines
        head, document = line.split(b',"document":', 1)
        message: dict[str, Any] = json.loads(head + b"}}")
        assert document.endswith(b"}}\n")
        message["params"]["document"] = document[:-3].decode()
        return message

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()
        self._thread.join()


@functools.cache
def built(form: str) -> str:
    """Return the C form: as `install` builds it, as a wheel has it, or one that ends where it leaves what C defines."""
    if form == "c":
        return str(building.build_program())
    folder = tempfile.mkdtemp(prefix="hl-entry-")
    atexit.register(shutil.rmtree, folder)
    program = Path(folder, "entry")
    if form == "zig":
        script = ROOT / "packaging" / "native_entry.py"
        subprocess.run([PACKAGER / "bin" / "python", script, MACHINE, program], check=True)
    else:
        building.compile_entry(program, "-Werror", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    program.write_bytes(building.write_paths(program.read_bytes()))
    program.chmod(0o700)
    return str(program)


def command(form: str, host: str, event: str, kind: Kind, wait: float, **more: Any) -> list[str]:
    """Return the words of an entry in one of `FORMS`."""
    program = None if form == "python" else [built(form)]
    return make_entry_command(host, event, kind, wait, program=program, **more)


def start(words: Sequence[str], *, environ: dict[str, str] | None = None, **more: Any) -> subprocess.Popen[bytes]:
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen(list(words), env={"HOME": "/none"} if environ is None else environ, **options)


def run(
    form: str,
    folder: str | None,
    stdin: bytes = DOCUMENT,
    *,
    host: str = "codex",
    event: str = "PreToolUse",
    kind: Kind = "gate",
    wait: float = 30,
    environ: dict[str, str] | None = None,
    starts: bool = False,
    daemon_uid: int | None = None,
) -> tuple[int, bytes, bytes]:
    """Start the entry for one event; return exit code, standard output and standard error."""
    words = command(form, host, event, kind, wait, runtime_dir=folder, start=starts, daemon_uid=daemon_uid)
    with start(words, environ=environ) as process:
        stdout, stderr = process.communicate(stdin)
    return process.returncode, stdout, stderr
