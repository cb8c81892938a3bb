"""Clients of all kinds that skip as fast as they can, in processes of their own, while a hook comes and goes.

No fire that began after a registration was acknowledged, and before the hook's removal was asked for, may be skipped.
The moments are of CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from array import array
from bisect import bisect_left
from pathlib import Path

import pytest

from hooklatch import SyncSession, connect_sync
from support.commands import Place, new_place, serving

ROUNDS = 25
CLIENT = """
import sys, threading, time
from array import array
import hooklatch

kind, socket, folder = sys.argv[1:]
began, skipped = array("q"), array("b")

def note(at, decision):
    began.append(at)
    skipped.append(decision.decision_id.startswith("skipped-"))

def blocking(session):
    while not stopped.is_set():
        at = time.monotonic_ns()
        note(at, session.fire("stop"))

async def awaiting():
    async with hooklatch.connect(socket, skip_idle=True) as session:
        print("ready", flush=True)
        while not stopped.is_set():
            at = time.monotonic_ns()
            note(at, await session.fire("stop"))

stopped = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stopped.set())).start()
if kind == "threads":
    with hooklatch.connect_sync(socket, skip_idle=True) as session:
        print("ready", flush=True)
        threads = [threading.Thread(target=blocking, args=(session,)) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
elif kind == "trio":
    import trio
    trio.run(awaiting)
else:
    import asyncio
    asyncio.run(awaiting())
with open(f"{folder}/{kind}.began", "wb") as file: began.tofile(file)
with open(f"{folder}/{kind}.skipped", "wb") as file: skipped.tofile(file)
"""


def begin(kind: str, place: Place, agent: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, kind, agent, os.fspath(place.folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **place.environment},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def pause(admin: SyncSession) -> None:
    """Let the others go on for a while."""
    for _ in range(50):
        admin.ping()


def read(path: Path, code: str) -> array[int]:
    found: array[int] = array(code)
    found.frombytes(path.read_bytes())
    return found


@pytest.mark.slow  # it has to go on until each client has been met in each state
def test_no_fire_is_skipped_that_began_after_a_registration_was_acknowledged() -> None:
    hook = {"id": "g", "event": "stop", "argv": ["true"], "enabled": True}
    active: list[tuple[int, int]] = []
    with new_place({"hooks.toml": ""}) as place, serving(place) as daemon:
        kinds = ("threads", "trio", "asyncio")
        clients = {kind: begin(kind, place, daemon.ready["agent"]) for kind in kinds}
        with connect_sync(daemon.ready["admin"]) as admin:
            for count in range(ROUNDS):
                stopped = clients[kinds[count % 4]] if count % 4 < 3 else None
                if stopped is not None:  # in the middle of whatever it does: it must not go on with what it had read
                    stopped.send_signal(signal.SIGSTOP)
                admin.register_all([hook], scope="global")
                acknowledged = time.monotonic_ns()
                if stopped is not None:
                    stopped.send_signal(signal.SIGCONT)
                pause(admin)
                active.append((acknowledged, time.monotonic_ns()))
                admin.unregister("g", scope="global")
                pause(admin)
            for client in clients.values():
                client.communicate(b"", timeout=30)
            status = admin.status()

        skipped_by: dict[str, int] = {}
        for kind in kinds:
            began = read(place.folder / f"{kind}.began", "q")
            skipped = read(place.folder / f"{kind}.skipped", "b")
            order = sorted(range(len(began)), key=began.__getitem__)
            moments = [began[index] for index in order]
            asked = 0
            for first, last in active:
                within = order[bisect_left(moments, first) : bisect_left(moments, last)]
                assert not [index for index in within if skipped[index]], kind
                asked += len(within)
            skipped_by[kind] = sum(skipped)
            assert skipped_by[kind] > 0, f"{kind} skipped nothing, so this has shown nothing"
            assert asked > 0, f"{kind} fired nothing while there was a hook"

    assert status["skipped"] == {"stop": sum(skipped_by.values())}
