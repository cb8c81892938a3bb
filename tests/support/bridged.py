"""What tests of the bridges share: guards that do as a word says, a daemon with them, and what its hooks were told."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.daemons import Daemon
from support.repository import ROOT
from support.shared_daemon import daemon_in_thread

__all__ = ["COMMANDS", "READINGS", "REFUSALS", "Bridged", "bridged", "called", "example"]

GUARDS = """
import json, os, pathlib, time
from hooklatch import allow, amend, ask, deny, halt, hook

TOLD = pathlib.Path(__file__).with_name("told.jsonl")

@hook("pre_tool_use", timeout=3.0)
def judge(event):
    with open(TOLD.with_name("asked.jsonl"), "a") as file:
        file.write(json.dumps([event.tool_name, event.tool_input]) + "\\n")
    if "rm -rf" in event.tool_input.get("command", ""):
        return deny("name the files to remove")
    word = event.tool_input.get("word", "")
    if word == "deny":
        return deny("that word is not said here")
    if word == "halt":
        return halt("enough for today")
    if word == "ask":
        return ask("somebody should look at this")
    if word == "rewrite":
        return amend(tool_input={**event.tool_input, "word": "rewritten"})
    if word == "allow":
        return allow()
    if word == "raise":
        raise RuntimeError("a bug")
    if word == "crash":
        os._exit(3)
    if word == "hang":
        time.sleep(60)
    if word == "rubbish":
        return {"verdict": "sure"}

@hook("user_prompt_submit", timeout=3.0)
def read(event):
    if "forbidden" in event.prompt:
        return deny("that is not discussed here")

@hook("tool_result", timeout=3.0)
def reader(event):
    text = json.dumps(event.tool_response)
    if "said redact" in text:
        return amend(tool_response=json.loads(text.replace("said redact", "said [redacted]")))
    if "said withhold" in text:
        return deny("that result is not read here")
    if "said burst" in text:
        raise RuntimeError("a bug")

EVENTS = ("session_start", "session_end", "post_tool_use", "post_tool_use_failure", "model_request", "model_response",
          "stop", "subagent_stop", "notification", "permission_denied")

def tell(event):
    line = json.dumps([event.event, event.payload], default=str)
    with open(TOLD, "a") as file:
        file.write(line + "\\n")

for name in EVENTS:
    globals()["hear_" + name] = hook(name, id="hear-" + name.replace("_", "-"))(
        (lambda tell: lambda event: tell(event))(tell))
"""
# What a guard does for each word, and a piece of what the model is told then.
REFUSALS = {
    "deny": "not said here",
    "halt": "enough for today",
    "raise": "a bug",
    "crash": "worker",
    "hang": "no answer within",
    "rubbish": "",
}
# Words whose result a guard changes, withholds, or fails on, and what the model then reads.
READINGS = {
    "redact": "said [redacted]",
    "withhold": "withheld by hooklatch: that result is not read here",
    "burst": "withheld by hooklatch: hooklatch's guard",
}
# What an example's model calls; only the first may run.
COMMANDS = ("$ echo hello", "$ rm -rf build")
PATIENCE = 20.0  # seconds; only a failing test waits so long


def called(word: str) -> tuple[str, dict[str, Any]]:
    """Return what a scripted model calls for a word, or for a command of an example."""
    return ("shell", {"command": word[2:]}) if word.startswith("$ ") else ("speak", {"word": word})


def example(name: str) -> Any:
    """Return the module of an example."""
    path = ROOT / "examples" / "bridges" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Bridged:
    """A daemon with these guards, and its place."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.runtime_dir = str(daemon.folder / "run")

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return the payloads of an event that hooks have been told so far."""
        return [payload for name, payload in self._lines("told.jsonl") if name == event]

    def asked(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the tools and inputs that the guard has been asked about."""
        return [(name, tool_input) for name, tool_input in self._lines("asked.jsonl")]

    def forget(self) -> None:
        """Forget what hooks were told by earlier tests, as far as they were: nobody waits for a notification."""
        for name in ("told.jsonl", "asked.jsonl"):
            (self.daemon.folder / name).unlink(missing_ok=True)

    def wait_told(self, event: str, is_it: Callable[[dict[str, Any]], object] = lambda payload: True) -> dict[str, Any]:
        """Wait until hooks have been told of an event; return its payload."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if found := [payload for payload in self.told(event) if is_it(payload)]:
                return found[0]
            time.sleep(0.005)  # a file that other processes write has no event of its own
        raise AssertionError(f"no {event} was told; there are {self._lines('told.jsonl')}")

    def _lines(self, name: str) -> list[Any]:
        path = self.daemon.folder / name
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


@contextmanager
def bridged(folder: Path) -> Generator[Bridged]:
    """Run the daemon beside the tests of a file."""
    with daemon_in_thread(folder, {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}) as daemon:
        assert daemon.parts.reloader.active.diagnostics == []
        yield Bridged(daemon)
