"""Who may connect: neither another user nor a hook, however it hides; everybody else of the user may."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.core.protocol import RpcError
from hooklatch.processes.zygote import ZygoteClient
from hooklatch.service.transport.peers import LAST_WORDS, PeerGoneError, PeerInspector
from support.daemons import Daemon, running_daemon
from support.pools import until
from support.strangers import CALL, NOBODY, as_nobody, as_root, folder_for_all, start_caller

CONNECT = "import socket, sys\nstream = socket.socket(socket.AF_UNIX)\nstream.connect(sys.argv[1])\n"
STAY = CONNECT + "sys.stdin.read()\n"
BELOW = "import os\nfor _ in range(3):\n    if os.fork():\n        os.wait()\n        os._exit(0)\n" + STAY


@contextmanager
def peer(folder: Path, code: str = STAY) -> Generator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """Accept one program; it lives as long as the block."""
    path = str(folder / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        process = start_caller(path, code)
        stream, _ = listener.accept()
        with stream, process:
            yield stream, process
            process.communicate()


def refusal(stream: socket.socket, *roots: int) -> str:
    with pytest.raises(RpcError) as caught:
        PeerInspector(lambda: frozenset(roots), Counter()).check(stream)
    assert caught.value.code.name == "NOT_PERMITTED"
    return str(caught.value)


@pytest.mark.parametrize("code", [STAY, BELOW])
def test_a_process_below_one_that_runs_hooks_is_refused(tmp_path: Path, code: str) -> None:
    with peer(tmp_path, code) as (stream, process):
        PeerInspector(lambda: frozenset({1}), Counter()).check(stream)

        assert "a hook may not call the daemon that runs it" in refusal(stream, process.pid)
        assert "a hook may not call the daemon that runs it" in refusal(stream, os.getpid())


def test_the_daemon_itself_and_its_parents_are_no_hooks(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(path)
        listener.listen()
        client.connect(path)
        stream, _ = listener.accept()
        with stream:
            PeerInspector(lambda: frozenset({os.getpid()}), Counter()).check(stream)


def test_a_peer_that_is_gone_is_not_served(tmp_path: Path) -> None:
    with peer(tmp_path, CONNECT) as (stream, process):
        process.communicate()

        with pytest.raises(PeerGoneError):
            PeerInspector(frozenset, Counter()).check(stream)


@pytest.mark.linux_only("a peer that has ended: elsewhere it is gone, and refused")
def test_of_a_peer_that_has_ended_and_is_not_yet_reaped_the_parents_are_known(tmp_path: Path) -> None:
    with peer(tmp_path, CONNECT) as (stream, process):
        assert process.stdout is not None
        process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        PeerInspector(frozenset, Counter()).check(stream)
        assert "a hook may not" in refusal(stream, process.pid)


def test_a_daemon_of_its_own_refuses_all_that_it_adopts() -> None:
    assert os.getpid() in ZygoteClient(owns_process=True).roots()
    assert os.getpid() not in ZygoteClient(owns_process=False).roots()


OUTSIDE = """
import socket, sys
from collections import Counter
sys.path[:0] = {path!r}
from hooklatch.service.transport.peers import PeerInspector
stream, _ = socket.socket(fileno=int(sys.argv[1])).accept()
PeerInspector(lambda: frozenset({{1}}), Counter()).check(stream)
print("admitted")
"""


@as_root
def test_a_peer_of_a_namespace_above_ours_is_no_hook(tmp_path: Path) -> None:
    """As when the daemon runs in a container whose folder of sockets the host can see."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(path)
        listener.listen()
        client.connect(path)
        arguments = ["unshare", "--pid", "--fork", sys.executable, "-c", OUTSIDE.format(path=sys.path)]
        found = subprocess.run(
            [*arguments, str(listener.fileno())], pass_fds=[listener.fileno()], capture_output=True, timeout=30
        )

    assert found.stdout.decode().strip() == "admitted", found.stderr.decode()


# -- through the daemon -----------------------------------------------------------------------------------------

ORPHAN = pytest.mark.linux_only("an orphan in a session of its own, which gets its worker for a parent")
HOOKS = f"""
import os, subprocess, sys, time
from hooklatch import allow, hook

CALL = {CALL!r}

def call(event):
    for door in ("agent", "admin"):
        with open(event.payload["told"], "a") as file:
            subprocess.run([sys.executable, "-c", CALL, event.payload[door]], stdout=file)

@hook("pre_tool_use", match="python", timeout=30)
def from_python(event):
    call(event)
    return allow()

@hook("pre_tool_use", match="double", timeout=30)
def twice_removed(event):
    if os.fork() == 0:
        os.setsid()
        parent = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == parent:
            time.sleep(0.001)
        call(event)
        os._exit(0)
    os.wait()
    return allow()
"""
SHELL = f"""
[[hook]]
id = "from-the-shell"
event = "pre_tool_use"
match = "shell"
timeout = 30
command = '''
eval "$(cat | '{sys.executable}' -c 'import json, sys; p = json.load(sys.stdin)
print("TOLD=%s AGENT=%s ADMIN=%s" % (p["told"], p["agent"], p["admin"]))')"
for door in "$AGENT" "$ADMIN"; do
  (setsid '{sys.executable}' -c "$CALL" "$door" >> "$TOLD" &)
done
while [ "$(wc -l < "$TOLD")" -lt 2 ]; do sleep 0.01; done
'''

[hook.env]
CALL = {json.dumps(CALL)}
"""


async def answers_of(daemon: Daemon, folder: Path, tool: str) -> list[str]:
    """Fire a hook that calls both sockets; give what they said to it."""
    told = folder / "told"
    told.touch()
    async with daemon.session() as client:
        decision = await client.fire(
            "pre_tool_use", tool_name=tool, told=str(told), agent=daemon.agent, admin=daemon.admin
        )
        assert decision["verdict"] in ("allow", "pass"), decision
        await until(lambda: len(told.read_text().splitlines()) == 2)
    return [json.loads(line)["error"]["message"] for line in told.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["python", pytest.param("double", marks=ORPHAN), pytest.param("shell", marks=ORPHAN)])
async def test_a_hook_can_call_neither_socket(tmp_path: Path, tool: str) -> None:
    async with running_daemon(tmp_path, {"hooks.d/guards.py": HOOKS, "hooks.toml": SHELL}) as daemon:
        said = await answers_of(daemon, tmp_path, tool)

    assert len(said) == 2
    assert all("a hook may not call the daemon that runs it" in text for text in said)


@pytest.mark.slow
async def test_another_program_of_the_user_is_served_though_the_daemon_is_its_parent(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        with start_caller(daemon.agent) as process:
            said, _ = await trio.to_thread.run_sync(process.communicate)

    assert json.loads(said)["result"] == {}


@as_root
async def test_another_user_is_told_that_it_may_not_connect() -> None:
    with folder_for_all() as folder:
        async with running_daemon(folder) as daemon:
            os.chmod(folder / "run", 0o755)
            for door in (daemon.agent, daemon.admin):
                os.chmod(door, 0o666)
            answers = [await trio.to_thread.run_sync(as_nobody, asking(door)) for door in (daemon.agent, daemon.admin)]
            connections = len(daemon.parts.bus.connections) + len(daemon.parts.bus.connections)

    assert [json.loads(answer)["error"]["message"] for answer in answers] == [
        f"user {NOBODY} may not connect: this daemon is for user {os.geteuid()}"
    ] * 2
    assert connections == 0


@as_root
@pytest.mark.parametrize("is_open", ["folder", "socket"])
async def test_folder_and_socket_keep_another_user_out_each_alone(is_open: str) -> None:
    with folder_for_all() as folder:
        async with running_daemon(folder) as daemon:
            assert os.stat(folder / "run").st_mode & 0o777 == 0o700
            assert {os.stat(door).st_mode & 0o777 for door in (daemon.agent, daemon.admin)} == {0o600}
            os.chmod(folder / "run" if is_open == "folder" else daemon.agent, 0o777)
            answer = await trio.to_thread.run_sync(as_nobody, asking(daemon.agent))

    assert answer.startswith("PermissionError")


def asking(path: str) -> Callable[[], object]:
    def ask() -> str:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(10)
            stream.connect(path)
            return stream.makefile().readline()

    return ask


# -- those who are gone when they are looked at -----------------------------------------------------------------

NOTES = """
import json
from hooklatch import hook

@hook("notification")
def note(event):
    with open(event.payload["told"], "a") as file:
        file.write(event.payload["text"] + "\\n")
"""
LEAVE = """
import json, socket, sys
path, line, count = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3])
streams = [socket.socket(socket.AF_UNIX) for _ in range(count)]
for stream in streams:
    stream.connect(path)
    stream.sendall(line + b"\\n")
"""


def leave_behind(path: str, method: str, count: int = 1, **params: Any) -> None:
    """Have a process send requests, each on a connection of its own, and end, while this thread keeps the daemon."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    subprocess.run([sys.executable, "-c", LEAVE, path, line, str(count)], check=True, timeout=30)


async def test_one_who_fires_and_forgets_is_heard_and_may_do_nothing_else(tmp_path: Path) -> None:
    told = tmp_path / "told"
    hook = {"id": "theirs", "event": "stop", "run": f"{tmp_path}/hooks.d/notes.py:note"}
    payload = {"told": str(told), "text": "heard"}
    async with running_daemon(tmp_path, {"hooks.d/notes.py": NOTES}) as daemon, daemon.administrator() as admin:
        before = await admin.call("hooks"), (await admin.call("sessions"))["sessions"]
        leave_behind(daemon.admin, "fire", event="notification", payload=payload | {"text": "as an admin"})
        leave_behind(daemon.admin, "disable", id="notes:note")
        leave_behind(daemon.agent, "hello", protocol=1, session={"id": "theirs", "hooks": [hook]})
        leave_behind(daemon.agent, "register", hooks=[hook], scope="global")

        leave_behind(daemon.agent, "fire", event="notification", payload=payload)

        await until(told.exists)
        await until(lambda: len(daemon.parts.bus.connections) == 1)
        after = await admin.call("hooks"), (await admin.call("sessions"))["sessions"]
        assert told.read_text() == "heard\n"
        assert [hook["id"] for hook in after[0]["hooks"]] == ["notes:note"]
        assert (before[0]["revision"], before[1]) == (after[0]["revision"], after[1]) == (before[0]["revision"], [])


async def test_so_many_of_those_who_are_gone_are_heard_and_no_more(tmp_path: Path) -> None:
    """What bounds a hook whose child fires its own event and ends at once."""
    payload = {"told": str(tmp_path / "told"), "text": "again"}
    async with running_daemon(tmp_path, {"hooks.d/notes.py": NOTES}) as daemon, daemon.administrator() as admin:
        leave_behind(daemon.agent, "fire", 400, event="notification", payload=payload)

        status = await admin.until_status(lambda one: one["fired"] + one["dropped"].get("gone", 0) == 400)

    assert status["fired"] >= LAST_WORDS
    assert status["dropped"]["gone"] > 100
