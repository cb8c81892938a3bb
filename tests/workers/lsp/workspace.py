"""A workspace with a language server: what is edited in it, and what the built-in hook says to that."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hooklatch_worker.author.call_context import CallContext
from hooklatch_worker.author.events import PostToolUse
from hooklatch_worker.lsp import diagnostics

PATIENCE = 60.0  # seconds
FAKE = str(Path(__file__).with_name("fake_server.py"))


class Workspace:
    """A working directory, and the hook called as a worker calls it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder.parent / "server.log"
        self.config: dict[str, Any] = {"timeout": diagnostics.MAX_TIMEOUT}  # out of reach where none is meant to pass
        self.seconds = 0.0
        self.emitted: list[tuple[str, dict[str, object]]] = []

    def use_fake(self, mode: str) -> None:
        """Let a fake server of this mode serve Python files."""
        self.config["servers"] = {".py": [sys.executable, "-I", "-S", FAKE, mode, str(self.log)]}

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def call(self, tool_input: object, tool_name: str = "Edit") -> str | None:
        """Call the hook; give the appended text."""
        call = CallContext()
        event = PostToolUse(
            "post_tool_use",
            {"tool_name": tool_name, "tool_input": tool_input},
            envelope={"cwd": str(self.folder)},
            config=self.config,
            merged={},
            reinvoked=False,
            call=call,
        )
        started_at = time.monotonic()
        verdict = diagnostics.diagnose(event)
        self.seconds = time.monotonic() - started_at
        self.emitted += [(one.event_type, json.loads(one.data)) for one in call.emitted]
        return verdict.texts[0] if verdict else None

    def edit(self, name: str, text: str) -> str | None:
        """Write a file as a tool does, and call the hook."""
        return self.call({"file_path": str(self.write(name, text))})

    @property
    def pids(self) -> list[int]:
        return list(diagnostics.SERVERS.pids.values())

    @property
    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def starts(self) -> int:
        return sum("start" in record for record in self.logged)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for what a server logs; only a failing test waits for long."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline, self.logged
            time.sleep(0.005)

    def sent(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of each message of this method that the server got."""
        return [record.get("params") or {} for record in self.logged if record.get("method") == method]
