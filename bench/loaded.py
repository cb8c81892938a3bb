"""Which modules of ours a plain daemon has loaded after a fire, a reload and a status, and how many lines they are.

The daemon runs in a process of its own, with one guard in a file and nothing else: no fleet, no dashboard, no plugin.
What it has loaded is what is trusted to decide a gate.

modules    those of `hooklatch` and `hooklatch_worker` in the daemon's process (workers are processes of their own)
lines      of their files

Bad would be: more lines than `tests/test_loaded.py` allows, or a module of a product that no configuration names.

Run: python bench/loaded.py [--quick] [--json]; with --json one line: {"modules": [...], "lines": N}.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import trio

from machine import print_machine, save

GUARD = """
from hooklatch import hook

@hook("pre_tool_use")
def guard(event):
    return None
"""
PACKAGES = ("hooklatch", "hooklatch_worker")


class Loaded(msgspec.Struct):
    """What the daemon's process holds of our own."""

    modules: list[str]
    lines: int


async def call(stream: trio.SocketStream, method: str, /, **params: object) -> Any:
    """Send one request and return its result; raise RuntimeError if it is an error."""
    await stream.send_all(msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + b"\n")
    received = b""
    while not received.endswith(b"\n"):
        received += await stream.receive_some(2**20)
    answers = [msgspec.json.decode(line) for line in received.splitlines()]
    [answer] = [answer for answer in answers if answer.get("id") == 1]
    if "error" in answer:
        raise RuntimeError(f"{method}: {answer['error']}")
    return answer["result"]


async def use(folder: Path) -> None:
    """Run a daemon in this process: one fire, one reload of an edited file, one status."""
    from hooklatch.service.daemon import DaemonOptions, open_daemon

    guards = folder / "guards.py"
    guards.write_text(GUARD)
    (folder / "hooks.toml").write_text('[[source]]\npath = "guards.py"\n')
    options = DaemonOptions(str(folder / "hooks.toml"), str(folder / "run"), str(folder / "state"), owns_process=False)
    async with open_daemon(options), await trio.open_unix_socket(f"{folder}/run/agent.sock") as agent:
        await call(agent, "hello", protocol=1, session={"cwd": str(folder)})
        payload = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
        decision = await call(agent, "fire", event="pre_tool_use", payload=payload)
        if decision["verdict"] != "pass":
            raise RuntimeError(f"the guard did not pass: {decision}")
        async with await trio.open_unix_socket(f"{folder}/run/admin.sock") as administrator:
            await call(administrator, "hello", protocol=1)
            guards.write_text(GUARD + "#\n")
            await call(administrator, "reload")
            await call(administrator, "status")


def loaded() -> Loaded:
    """Return what this process has loaded of our own packages."""
    files = {
        name: Path(module.__file__)
        for name, module in sys.modules.items()
        if name.partition(".")[0] in PACKAGES and module.__file__ is not None
    }
    return Loaded(sorted(files), sum(len(path.read_text().splitlines()) for path in files.values()))


def measure() -> Loaded:
    """Return what a daemon in a fresh process has loaded."""
    done = subprocess.run([sys.executable, __file__, "--here"], stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Loaded)


def main() -> int:
    parser = argparse.ArgumentParser(description="List what a plain daemon has loaded.")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--quick", action="store_true", help="the same: there is nothing to shorten")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        with tempfile.TemporaryDirectory() as folder:
            trio.run(use, Path(folder))
        print(json.dumps(msgspec.to_builtins(loaded())))
        return 0
    found = measure()
    if options.json:
        print(json.dumps(msgspec.to_builtins(found)))
        return 0
    print_machine()
    print(*found.modules, sep="\n")
    print(f"{len(found.modules)} modules, {found.lines} lines")
    save("loaded_quick" if options.quick else "loaded", msgspec.to_builtins(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
