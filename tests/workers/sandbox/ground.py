"""A daemon over hooks that try what they should not, and the things that they try it on."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from support.daemons import Client, Daemon, callbacks, running_daemon

TABLE = """
[isolation]
level = "{level}"
write = ["{write}"]
read = ["{read}"]
network = {network}
"""
SOURCES = """
[[source]]
path = "attempts.py"

[[source]]
path = "other/other.py"
"""
OTHER = """
import os
from hooklatch import hook

@hook("pre_tool_use", match="Other")
def other(event):
    print(os.getpid())
"""
# Each line is a name and what is tried; the paths are in the environment.
SHELL_ATTEMPTS = {
    "write outside": 'echo x > "$HOME_/sh"',
    "remove a file outside": 'rm "$HOME_/doomed-sh"',
    "write inside": 'echo x > "$WRITE_/sh" && grep -q x "$WRITE_/sh"',
    "use temporary files": 'f=$(mktemp) && echo x > "$f" && rm "$f"',
    "read a here-document": "cat <<END\nx\nEND",
    "use a pipe": "echo x | sed s/x/y/ | grep -q y",
    "write to the null device": "echo x > /dev/null",
    "write to its standard error": "echo x > /dev/stderr",
    "read the home": 'cat "$HOME_/secret"',
    "read hooks.toml": 'cat "$FOLDER_/hooks.toml"',
    "read where it is shown": 'cat "$READ_/file"',
    "run what is shown": '"$READ_/program"',
    "run what is at home": '"$HOME_/program"',
    "connect by TCP": 'bash -c "echo > /dev/tcp/127.0.0.1/$TCP_"',
    "connect to the admin socket": '"$PYTHON_" -c "import socket; socket.socket(1).connect(\\"$ADMIN_\\")"',
    "signal the daemon": 'kill -0 "$DAEMON_"',
    "read the daemon's environment": 'head -c1 "/proc/$DAEMON_/environ"',
    "limit the daemon": 'prlimit --pid "$DAEMON_" --cpu',
    "limit another process": 'prlimit --pid "$VICTIM_" --core=0',
    "limit itself": "ulimit -c 0",
    "slow another process": 'renice -n 5 -p "$VICTIM_"',
    "be slow": "nice -n 1 true",
    "bind another process to a processor": 'taskset -cp 0 "$VICTIM_"',
    "bind itself to a processor": "taskset -c 0 true",
    "slow another's disk": 'ionice -c 3 -p "$VICTIM_"',
    "schedule another process": 'chrt --batch -p 0 "$VICTIM_"',
    "set times": 'touch -d 2001-01-01 "$HOME_/secret"',
    "set times inside": 'touch "$WRITE_/sh-touched"',
    "change a mode": 'chmod 600 "$HOME_/secret"',
    "end another's shared memory": 'ipcrm -m "$SEGMENT_"',
    "copy": 'cp "$WRITE_/sh" "$WRITE_/sh-copied"',
    "edit in place": 'sed -i s/x/y/ "$WRITE_/sh-copied"',
    "signal its own child": "sleep 100 & kill $!",
    "list processes": "ls /proc/self/status",
}
LIBC = ctypes.CDLL(None)
SCRIPT = "".join(
    f'if ( {line}\n) >/dev/null 2>&1 </dev/null; then echo "{name}=ok"; else echo "{name}=no"; fi\n'
    for name, line in SHELL_ATTEMPTS.items()
)


@contextmanager
def short_folder() -> Iterator[Path]:
    # Not tmp_path: a socket's path may have 107 bytes and no more.
    with tempfile.TemporaryDirectory(prefix="hl-") as name:
        yield Path(name).resolve()


class Ground:
    """What is tried on: places, listeners, processes."""

    def __init__(self, base: Path, stack: ExitStack) -> None:
        self.folder, self.home, self.write, self.read = (base / name for name in ("config", "home", "write", "read"))
        for folder in (self.folder, self.home, self.write, self.read):
            folder.mkdir(mode=0o700)
        for path in (
            *(self.home / name for name in ("secret", "file", "doomed", "doomed-sh")),
            *(self.write / "file", self.read / "file"),
        ):
            path.write_text("x")
        for path in (self.read / "program", self.home / "program"):
            path.write_text("#!/bin/sh\nexit 0\n")
            path.chmod(0o700)
        (self.write / "repository").mkdir()
        if shutil.which("git"):
            subprocess.run(["git", "init", "-q", self.write / "repository"], check=True)
        self.tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.udp.bind(("127.0.0.1", 0))
        self.abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        self.abstract.bind(f"\0{base.name}")
        self.abstract.listen(8)
        self.victim = stack.enter_context(subprocess.Popen(["sleep", "1000"], start_new_session=True))
        stack.callback(self.victim.kill)
        self.segment = LIBC.shmget(0, 4096, 0o600)
        stack.callback(LIBC.shmctl, self.segment, 0, None)

    def table(self, level: str, *, network: bool = False) -> str:
        return TABLE.format(level=level, write=self.write, read=self.read, network=str(network).lower())

    def files(self, table: str) -> dict[str, str]:
        return {
            "hooks.toml": table + SOURCES,
            "hooks.d/other.toml": "# a secret of another hook\n",
            "beside.json": "{}",
            "sibling.py": "VALUE = 1\n",
            "siblings/__init__.py": "",
            "siblings/inner.py": "VALUE = 2\n",
            "attempts.py": callbacks("attempts.py"),
            "other/other.py": OTHER,
            "other/secret.json": "{}",
        }

    def shown(self, daemon: Daemon, other: int) -> dict[str, Any]:
        """Return what the hooks are told."""
        return {
            "folder": str(self.folder), "home": str(self.home), "write": str(self.write), "read": str(self.read),
            "agent": daemon.agent, "admin": daemon.admin, "tcp": self.tcp.getsockname()[1],
            "udp": self.udp.getsockname()[1], "abstract": self.abstract.getsockname()[1:].decode(),
            "daemon": os.getpid(), "other": other, "victim": self.victim.pid, "segment": self.segment,
        }  # fmt: skip


@contextmanager
def ground() -> Iterator[Ground]:
    with short_folder() as base, ExitStack() as stack:
        yield Ground(base, stack)


@asynccontextmanager
async def trying(place: Ground, table: str) -> AsyncGenerator[tuple[Daemon, Client]]:
    """Run a daemon with the attempts as its hooks, and a session."""
    async with (
        running_daemon(place.folder, place.files(table)) as daemon,
        daemon.session(cwd=str(place.home)) as client,
    ):
        yield daemon, client


async def printed(client: Client, tool: str, **tool_input: Any) -> str:
    """Return what the one hook on a tool printed."""
    decision = await client.fire_tool(tool, **tool_input)
    [outcome] = decision["outcomes"]
    assert outcome["cause"] == "policy", outcome
    return str(outcome["stdout"])


async def try_python(place: Ground, daemon: Daemon, client: Client) -> dict[str, str]:
    other = int(await printed(client, "Other"))
    found: dict[str, str] = json.loads(await printed(client, "Try", **place.shown(daemon, other)))
    return found


async def try_calls(client: Client, level: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(await printed(client, "Calls", level=level))
    return found


async def try_shell(place: Ground, daemon: Daemon, client: Client) -> dict[str, str]:
    shown = place.shown(daemon, 0)
    environment = {f"{key.upper()}_": str(value) for key, value in shown.items()} | {"PYTHON_": sys.executable}
    definition = {
        "id": "sh", "event": "pre_tool_use", "match": "Shell", "command": SCRIPT, "env": environment, "timeout": 30,
    }  # fmt: skip
    await client.call("register", hooks=[definition])
    return dict(line.split("=") for line in (await printed(client, "Shell", command="true")).splitlines())
