"""A live demo of a fleet: an engine, three hosts with a daemon and a link each, one policy, one record of decisions.

All is on this machine, in a temporary directory and on its loopback; each host's way to the engine is a wire of its own
that can be cut.  Needs redis-server.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PATIENCE = 60.0  # seconds to wait for something that should be there at once
HOOKLATCH = [sys.executable, "-m", "hooklatch"]
FLEET = "acme"
NAMES = ("anna", "bert", "cleo")
FORCE, PLAIN = "git push --force", "git push"
ENGINE = "port 0\nunixsocket {folder}/engine.sock\ndir {folder}\nappendonly yes\nappendfsync always\nsave ''\n"
TABLE = '[fleet]\nname = "{fleet}"\nurl = "{url}"\nhost = "{host}"\nkeys = ["{key}"]\n'


class Wire:
    """A port of this machine that leads to the engine, until it is cut."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._is_cut = self._is_over = False
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        self._is_cut = True
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self._is_over = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_over:
            try:
                host, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                host.close()
                continue
            thread = threading.Thread(target=self._carry, args=(host,))
            self._threads.append(thread)
            thread.start()

    def _carry(self, host: socket.socket) -> None:
        with host, socket.socket(socket.AF_UNIX) as engine, suppress(OSError):
            engine.connect(self._engine)
            ends = [host, engine]
            self._ends += ends
            while True:
                for end in select.select(ends, [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    ends[1 - ends.index(end)].sendall(data)


class Host:
    """One machine of the fleet: a folder, a daemon and a link."""

    def __init__(self, name: str, folder: Path, engine: str, key: str) -> None:
        self.name = name
        self.wire = Wire(engine)
        self.environment = environment_of(folder)
        (folder / "config").mkdir(parents=True, mode=0o700)
        url = f"redis://127.0.0.1:{self.wire.port}"
        (folder / "config" / "hooks.toml").write_text(TABLE.format(fleet=FLEET, url=url, host=name, key=key))
        self.daemon = self._start("serve", "--json", "--log-level", "error", stdout=subprocess.PIPE)
        assert self.daemon.stdout is not None
        with self.daemon.stdout as first:
            if not first.readline():
                raise SystemExit(f"the daemon of {name} did not start")
        self.link = self._start("link", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def fire(self, command: str) -> str:
        """Ask the host's daemon as an agent would; return its verdict and why."""
        payload = json.dumps({"tool_name": "Bash", "tool_input": {"command": command}})
        words = ["fire", "pre_tool_use", "--json", "--payload", "-"]
        done = run(self.environment, *words, stdin=payload, codes=(0, 2))
        decision = json.loads(done.stdout)
        return decision["verdict"] + (f"  {decision['reason']}" if decision.get("reason") else "")

    def applied(self) -> dict[str, Any]:
        """Return the version that is in force."""
        with socket.socket(socket.AF_UNIX) as stream, stream.makefile("rw") as lines:
            stream.connect(f"{self.environment['HOOKLATCH_RUNTIME_DIR']}/admin.sock")
            answer = {}
            for number, (method, params) in enumerate([("hello", {"protocol": 1}), ("status", {})]):
                asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                lines.write(json.dumps(asked) + "\n")
                lines.flush()
                answer = json.loads(lines.readline())
        return answer["result"]["fleet"]["applied"] or {"version": 0, "bundle": ""}

    def close(self) -> None:
        for process in (self.link, self.daemon):
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
        self.wire.close()

    def _start(self, *words: str, **streams: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*HOOKLATCH, *words], env=self.environment, stdin=subprocess.DEVNULL, **streams)


def environment_of(folder: Path) -> dict[str, str]:
    own = {
        "HOOKLATCH_CONFIG": str(folder / "config" / "hooks.toml"),
        "HOOKLATCH_RUNTIME_DIR": str(folder / "run"),
        "XDG_STATE_HOME": str(folder / "state"),
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    return {**os.environ, **own}


def run(
    environment: dict[str, str], *words: str, stdin: str = "", codes: tuple[int, ...] | None = (0,)
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*HOOKLATCH, *words], env=environment, input=stdin, capture_output=True, text=True, check=False
    )
    if codes is not None and done.returncode not in codes:
        raise SystemExit(f"hooklatch {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done


def say(text: str = "") -> None:
    print(text, flush=True)


def wait_for(condition: Callable[[], object], what: str) -> float:
    """Wait until something is so; return the seconds that it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() > began + PATIENCE:
            raise SystemExit(f"waited {PATIENCE:.0f} s in vain for {what}")
        time.sleep(0.1)  # each look asks every daemon for all that it knows
    return time.monotonic() - began


class Demo:
    def __init__(self, folder: Path, until_end: ExitStack) -> None:
        self.environment = environment_of(folder / "publisher")
        (folder / "publisher").mkdir(mode=0o700)
        self.policies = folder / "publisher" / "policies"  # a copy: what is not committed in git is not pushed
        shutil.copytree(HERE / "fleet", self.policies)
        start_engine(folder / "engine", until_end)
        socket_path = f"{folder}/engine/engine.sock"
        self.url = f"redis+unix://{socket_path}"
        self.key = str(folder / "publisher" / "fleet.key")
        public = json.loads(run(self.environment, "fleet", "keygen", "--out", self.key, "--json").stdout)["public"]
        say("starting three hosts, each with its daemon and its link ...")
        self.hosts: list[Host] = []
        for name in NAMES:
            self.hosts.append(Host(name, folder / name, socket_path, public))
            until_end.callback(self.hosts[-1].close)

    def fleet(self, command: str, *words: str, codes: tuple[int, ...] = (0,)) -> None:
        """Run one of the commands and show what it says."""
        given = ["--key", self.key] if command in ("push", "rollback", "diff", "history") else []
        say(f"  $ hooklatch fleet {' '.join([command, *(word.rpartition('/')[2] for word in words)])}")
        done = run(self.environment, "fleet", command, *words, *given, "--to", self.url, "--fleet", FLEET, codes=codes)
        for line in done.stdout.splitlines():
            say(f"    {line}")

    def fire(self, command: str, expected: dict[str, str]) -> None:
        for host in self.hosts:
            told = host.fire(command)
            say(f"  {host.name}  {command:20} {told}")
            if not told.startswith(expected[host.name]):
                raise SystemExit(f"{host.name} should have said {expected[host.name]}")

    def wait_until_equal(self, hosts: list[Host], version: int) -> float:
        def are_equal() -> bool:
            return {host.applied()["version"] for host in hosts} == {version}

        return wait_for(are_equal, f"version {version} on {', '.join(host.name for host in hosts)}")


def start_engine(folder: Path, until_end: ExitStack) -> None:
    say("starting an engine: redis-server, in a temporary folder ...")
    folder.mkdir(mode=0o700)
    (folder / "redis.conf").write_text(ENGINE.format(folder=folder))
    engine = subprocess.Popen(["redis-server", str(folder / "redis.conf")], stdout=subprocess.DEVNULL)
    until_end.callback(engine.wait, PATIENCE)
    until_end.callback(engine.send_signal, signal.SIGTERM)
    wait_for(lambda: (folder / "engine.sock").exists(), "the engine's socket")


def play(demo: Demo) -> None:
    *others, cleo = demo.hosts
    everywhere = dict.fromkeys(NAMES, "deny")

    say("\n1. A guard is tested, signed and pushed once, and every host denies:")
    demo.fleet("push", str(demo.policies / "careful"))
    demo.wait_until_equal(demo.hosts, 1)
    demo.fire(FORCE, everywhere)

    say("\n2. cleo is cut off, and a stricter policy is pushed:")
    cleo.wire.cut()
    demo.fleet("push", str(demo.policies / "strict"), "--removes", "guards:no_force_push")
    demo.wait_until_equal(others, 2)
    demo.fire(PLAIN, {"anna": "deny", "bert": "deny", "cleo": "pass"})
    say("  cleo decides by the version that it has, from its own disk:")
    demo.fire(FORCE, everywhere)
    demo.fleet("diff", "1", "2", codes=(1,))
    demo.fleet("status", codes=(0, 1))

    say("\n3. That was too strict: rolled back, and then cleo's wire is mended:")
    demo.fleet("rollback")
    demo.wait_until_equal(others, 3)
    cleo.wire.mend()
    say(f"  all three are equal again, {demo.wait_until_equal(demo.hosts, 3):.1f} s after that")
    if len({host.applied()["bundle"] for host in demo.hosts}) != 1:
        raise SystemExit("the hosts differ")
    demo.fire(PLAIN, dict.fromkeys(NAMES, "pass"))

    say("\n4. Every decision of every host is in one place, also those that cleo made alone:")
    demo.fleet("log", "--cause", "policy")
    demo.fleet("verify")
    demo.fleet("history")


def main() -> None:
    if shutil.which("redis-server") is None:
        raise SystemExit("demo-fleet: there is no redis-server: on Debian and Ubuntu, apt install redis-server")
    with tempfile.TemporaryDirectory(prefix="hl-") as name, ExitStack() as until_end:
        play(Demo(Path(name), until_end))
    say("\ndone: nothing is left running, and nothing outside the temporary folder was written")


if __name__ == "__main__":
    main()
