"""SIGKILL of the daemon at each step of an apply: at the next start the old policy is in force as a whole, or the new.

Slow, since each case is a daemon that is killed and one that starts after it.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from support.daemons import Client, nothing_left
from support.fleet_hosts import NO_POLICY, OWN, decided, health, host
from support.fleets import fleet_table, link_of
from support.pools import until
from support.publishing import Publisher, brought, guard
from support.survivors import nobody_survives

# Counts what it does to the disk below STATE/fleet once a file says so, and kills itself at a step.
DAEMON = """
import json, os, signal, sys
from hooklatch.service.daemon import run_daemon
from hooklatch.service.folders import DaemonOptions

folder, step = sys.argv[1], int(sys.argv[2])
count = 0

def counted(name, real):
    def call(*arguments, **others):
        global count
        path = os.readlink(f"/proc/self/fd/{arguments[0]}") if name == "fsync" else os.fspath(arguments[0])
        is_ours = path.startswith(f"{folder}/state/fleet")
        if is_ours and os.path.exists(f"{folder}/armed"):
            count += 1
            with open(f"{folder}/steps", "a") as file:
                file.write(f"{name} {os.path.basename(path)}\\n")
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **others)
    return call

for name in ("fsync", "replace", "rename"):
    setattr(os, name, counted(name, getattr(os, name)))

def ready(what):
    print(json.dumps({"admin": what["admin"]}), flush=True)

options = DaemonOptions(config=folder + "/hooks.toml", runtime_dir=folder + "/run", state_dir=folder + "/state")
run_daemon(options, on_ready=ready)
"""
STEPS = [
    "fsync BUNDLE.json.new", "replace BUNDLE.json.new", "fsync fleet", "fsync guards.py", "fsync BUNDLE.new",
    "rename BUNDLE.new", "fsync fleet", "fsync policy.json.new", "replace policy.json.new", "fsync fleet",
]  # fmt: skip
KEPT = STEPS.index("replace policy.json.new") + 1  # at steps after this one the new policy is what is kept
CASES = [*((step, True) for step in range(1, len(STEPS) + 1)), (1, False), (KEPT, False), (KEPT + 1, False)]


@contextmanager
def killing_itself(folder: Path, step: int) -> Generator[subprocess.Popen[bytes]]:
    with nobody_survives():
        process = subprocess.Popen([sys.executable, "-c", DAEMON, str(folder), str(step)], stdout=subprocess.PIPE)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


async def killed_at(folder: Path, step: int, publisher: Publisher, *, has_old: bool) -> list[str]:
    """Have a daemon apply a version, and kill itself at a step; return its steps."""
    for name, text in {**OWN, "hooks.toml": fleet_table(publisher.public)}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with killing_itself(folder, step) as process:
        assert process.stdout is not None
        admin = json.loads(await trio.to_thread.run_sync(process.stdout.readline))["admin"]
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(admin)
        link = Client(stream)
        token = Path(admin).with_name("fleet.token").read_text().strip()
        await link.call("hello", protocol=1, role="link", token=token)
        if has_old:
            await brought(link, publisher.versions[0])
        await link.call("fleet_follow", manifests=[one.envelope for one in publisher.versions[has_old:]])
        (folder / "armed").touch()
        with pytest.raises((AssertionError, trio.BrokenResourceError, OSError)):
            await link.call("fleet_apply", **publisher.versions[-1].applying)
        await link.aclose()
        await until(lambda: process.poll() is not None)
        assert process.returncode == -signal.SIGKILL
    (folder / "armed").unlink()
    return (folder / "steps").read_text().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(("step", "has_old"), CASES)
async def test_after_a_crash_there_is_the_old_policy_or_the_new(tmp_path: Path, step: int, has_old: bool) -> None:
    publisher = Publisher()
    if has_old:
        publisher.publish({"guards.py": guard("old")})
    publisher.publish({"guards.py": guard("new")})

    with nothing_left():
        steps = await killed_at(tmp_path, step, publisher, has_old=has_old)

    assert [one.replace(publisher.versions[-1].digest, "BUNDLE") for one in steps] == STEPS[:step]
    is_kept = step > KEPT
    old = ("fleet/no-bash: old", "ready") if has_old else (NO_POLICY, "red")
    async with host(tmp_path, publisher.public) as daemon, link_of(daemon) as link:
        assert (await decided(daemon), await health(daemon)) == (("fleet/no-bash: new", "ready") if is_kept else old)
        await link.call("fleet_apply", **publisher.versions[-1].applying)
        assert await decided(daemon) == "fleet/no-bash: new"
        await until(lambda: len(list((tmp_path / "state" / "fleet").iterdir())) == 4 + has_old)  # a timestamp
