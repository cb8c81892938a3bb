"""A daemon of the portable modules, where Linux's own calls are refused and /proc and /sys are empty."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hooklatch_worker.systems import linux
from support.commands import PATIENCE, Daemon, Place, new_place
from support.survivors import COOKIE, knowing, nobody_survives, wait_until_gone
from systems.lean_kernel import CALLS, PAIRS
from systems.stand_in import KernelServer
from systems.test_contract import until

HERE = Path(__file__).parent
SOCKETS = {f"{name} {kind}": "EPROTONOSUPPORT" for name in PAIRS for kind in (5, 5 | socket.SOCK_CLOEXEC)}


def try_calls(*words: str) -> list[Any] | None:
    done = subprocess.run([sys.executable, HERE / "refused.py", *words], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


pytestmark = [
    pytest.mark.slow,  # a daemon of its own for each test, whose descriptors are closed one by one
    pytest.mark.skipif(try_calls("hide") is None, reason="no mount namespace, or no filter, can be made here"),
]
HOOKS = """
import os, subprocess, sys, time
from hooklatch import allow, deny, hook

CONNECT = '''
import json, os, socket, sys
if sys.argv[2] == "orphan":
    if os.fork():
        os._exit(0)
    while os.getppid() != 1:
        pass
stream = socket.socket(socket.AF_UNIX)
stream.connect(sys.argv[1])
stream.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"protocol": 1}}\\\\n')
print(stream.makefile().readline(), end="")
'''

@hook("pre_tool_use", match="*")
def judge(event):
    what = event.tool_input.get("command", "")
    if what.startswith("rm"):
        return deny("no rm here")
    if what == "connect" or what == "orphan":
        with subprocess.Popen(
            [sys.executable, "-c", CONNECT, os.environ["HOOKLATCH_RUNTIME_DIR"] + "/agent.sock", what],
            stdout=subprocess.PIPE,
        ) as caller:
            return deny(caller.stdout.read().decode() or "nothing")
    if what == "children":
        subprocess.Popen(["sleep", "1000"])
        subprocess.Popen(["sh", "-c", "sleep 1000 & sleep 1001 &"], stdin=subprocess.DEVNULL)
        return allow("started")
    if what == "swell":
        held = b"x" * (300 * 2**20)
        time.sleep(1000)
    if what == "swell below":
        code = "held = b'x' * (300 * 2**20); import time; time.sleep(1000)"
        subprocess.run([sys.executable, "-S", "-c", code])
    if what.startswith("wait"):
        open(what.partition(" ")[2], "w").close()
        time.sleep(1000)
    print("looked at it")
    return allow("seen")
"""
SHELL = """
[[source]]
path = "guards.py"

[[hook]]
id = "leaves"
event = "stop"
command = "cat > /dev/null; sleep 1000 < /dev/null > /dev/null 2>&1 & echo '{}'"
"""


@contextmanager
def serving(files: dict[str, str] | None = None) -> Generator[Daemon]:
    """Run a daemon that is portable; nothing of it is left afterwards."""
    files = files if files is not None else {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": HOOKS}
    with (
        # Not below /dev, which is another one for the daemon.
        tempfile.TemporaryDirectory(prefix="hl-", dir="/tmp") as folder, closing(KernelServer(f"{folder}/kernel")),
        nobody_survives() as word, new_place(files) as place,
    ):  # fmt: skip
        place.environment[COOKIE] = word
        process = subprocess.Popen(
            [sys.executable, HERE / "start.py", folder, "-m", "hooklatch", "serve", "--json"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place.folder, env=place.environment, text=True,
        )  # fmt: skip
        place.begun.append(process)
        daemon = Daemon(process, place)
        try:
            yield daemon
        finally:
            if process.poll() is None:
                process.terminate()
            _, _, said = daemon.end()
            deaths = sum(said.count(f"Error: the {name} died, pid") for name in ("zygote", "guardian"))
            assert said.count("Traceback") == deaths, said
            assert wait_until_gone(word) == []


def fire(place: Place, command: str) -> tuple[str, str]:
    """Return the verdict and the reason on a command."""
    done = place.fire_tool("Bash", "--json", command=command)
    decision = json.loads(done.stdout)
    return decision["verdict"], decision.get("reason") or ""


def named(daemon: Daemon) -> tuple[int, int, set[int]]:
    """Return guardian, zygote and workers."""
    (guardian,) = [pid for pid in linux.list_children(daemon.pid) if linux.list_children(pid)]
    (zygote,) = linux.list_children(guardian)
    return guardian, zygote, set(linux.list_children(zygote))


def test_each_call_that_linux_alone_has_is_refused_and_others_are_not() -> None:
    tried = try_calls("hide")
    assert tried is not None
    before, after, *folders = tried

    refused = {name for name, error in after.items() if error == "ENOSYS"}
    assert refused == {name for name, numbers in CALLS.items() if name in after and numbers}
    assert len(refused) >= 12
    assert {name: error for name, error in after.items() if name in SOCKETS} == SOCKETS
    assert {error for name, error in after.items() if name.endswith(f" {int(socket.SOCK_STREAM)}")} == {""}
    assert "ENOSYS" not in {error for name, error in before.items() if name not in ("signalfd", "inotify_init")}
    assert not {"EPROTONOSUPPORT"} & set(before.values())
    assert (before["abstract name"], after["abstract name"]) == ("", "ENOENT")
    assert folders == [[], []]


def test_a_daemon_decides_reloads_and_ends() -> None:
    with serving() as daemon:
        place = daemon.place

        assert fire(place, "ls")[0] == "allow"
        assert fire(place, "rm x") == ("deny", "no rm here")
        place.write({"guards.py": HOOKS.replace("no rm here", "never")})
        assert place.run("reload").returncode == 0
        assert fire(place, "rm x") == ("deny", "never")
        place.write({"guards.py": HOOKS.replace("no rm here", "not seen by a hint")})
        until(lambda: fire(place, "rm x")[1] == "not seen by a hint")
        status = place.json("status")
        assert status["health"] == "green", status
    assert daemon.process.returncode == 0


def test_a_worker_that_is_killed_denies_and_leaves_nothing(tmp_path: Path) -> None:
    with serving() as daemon:
        place, begun = daemon.place, tmp_path / "begun"
        assert fire(place, "children")[0] == "allow"
        asked = place.begin("fire", "pre_tool_use", "--json", "--payload", tool(f"wait {begun}"))
        until(begun.exists)
        word = place.environment[COOKIE]
        sleeping = [pid for pid in knowing(word) if b"sleep" in command_of(pid)]
        assert len(sleeping) == 3
        _, zygote, workers = named(daemon)
        busy = [pid for pid in workers if has_slept(pid)]

        for pid in busy:
            os.kill(pid, signal.SIGKILL)

        decision = json.loads(asked.end()[1])
        assert (decision["verdict"], decision["cause"]) == ("deny", "crash"), decision
        assert fire(place, "ls")[0] == "allow"
        assert named(daemon)[1] == zygote


def test_a_zygote_that_is_killed_denies_and_is_replaced_with_all_below_it(tmp_path: Path) -> None:
    with serving() as daemon:
        place, begun = daemon.place, tmp_path / "begun"
        assert fire(place, "children")[0] == "allow"
        asked = place.begin("fire", "pre_tool_use", "--json", "--payload", tool(f"wait {begun}"))
        until(begun.exists)
        guardian, zygote, workers = named(daemon)
        sleeping = [pid for pid in knowing(place.environment[COOKIE]) if b"sleep" in command_of(pid)]

        os.kill(zygote, signal.SIGKILL)

        assert json.loads(asked.end()[1])["verdict"] == "deny"
        until(lambda: not {zygote, *workers, *sleeping} & set(knowing(place.environment[COOKIE])))
        assert fire(place, "rm x") == ("deny", "no rm here")
        assert named(daemon)[0] == guardian


@pytest.mark.parametrize("others", [[], ["zygote"], ["guardian"], ["guardian", "zygote"]])
def test_nothing_is_left_of_a_daemon_that_is_killed(others: list[str], tmp_path: Path) -> None:
    """With others that are killed at the same time: none can do anything after the others are dead."""
    with serving() as daemon:
        place, begun = daemon.place, tmp_path / "begun"
        assert fire(place, "children")[0] == "allow"
        asked = place.begin("fire", "pre_tool_use", "--json", "--payload", tool(f"wait {begun}"))
        until(begun.exists)
        guardian, zygote, _ = named(daemon)
        pids = [daemon.pid, *({"guardian": guardian, "zygote": zygote}[name] for name in others)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                os.kill(pid, number)

        assert json.loads(asked.end()[1])["verdict"] == "deny"
        daemon.process.wait(PATIENCE)
        assert wait_until_gone(place.environment[COOKIE]) == []


def test_a_hooks_child_may_not_connect_nor_may_its_orphan() -> None:
    with serving() as daemon:
        for what in ("connect", "orphan"):
            verdict, reason = fire(daemon.place, what)

            assert verdict == "deny"
            assert "a hook may not call the daemon that runs it" in reason, (what, reason)
        assert daemon.place.run("status").returncode == 0


@pytest.mark.parametrize(
    ("key", "what", "said"),
    [
        ("memory_mib", "swell", r"\d+ MiB resident are over the limit of 200 MiB"),
        ("total_mib", "swell below", r"\d+ MiB resident with all below it are over the limit of 200 MiB"),
    ],
)
def test_a_worker_that_takes_more_memory_than_it_may_is_killed(key: str, what: str, said: str) -> None:
    config = f'[workers]\n{key} = 200\n[[source]]\npath = "guards.py"\n'
    with serving({"hooks.toml": config, "guards.py": HOOKS}) as daemon:
        verdict, reason = fire(daemon.place, what)

        assert verdict == "deny"
        assert re.search(said, reason), reason
        assert fire(daemon.place, "ls")[0] == "allow"


def test_what_a_shell_hook_leaves_ends_with_its_worker() -> None:
    with serving({"hooks.toml": SHELL, "guards.py": HOOKS}) as daemon:
        word = daemon.place.environment[COOKIE]
        done = daemon.place.run("fire", "stop", "--payload", "{}", "--json")

        assert json.loads(done.stdout)["verdict"] == "pass", done.stdout
        until(lambda: any(b"sleep" in command_of(pid) for pid in knowing(word)))  # the shell does not wait for its exec
    assert daemon.process.returncode == 0


def test_a_level_that_needs_linux_is_refused_when_it_is_loaded() -> None:
    files = {"hooks.toml": '[isolation]\nlevel = "restricted"\n[[source]]\npath = "guards.py"\n', "guards.py": HOOKS}
    with serving(files) as daemon:
        verdict, reason = fire(daemon.place, "ls")

        assert verdict == "deny"
        assert "restricted isolation is not available here" in reason + daemon.place.run("status").stdout


def tool(command: str) -> str:
    return json.dumps({"tool_name": "Bash", "tool_input": {"command": command}})


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def has_slept(pid: int) -> bool:
    """Return whether a worker is in time.sleep: its system call is clock_nanosleep."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[0] in ("230", "115")
