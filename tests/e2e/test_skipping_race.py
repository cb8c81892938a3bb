"""Clients of all kinds that skip as fast as they can, in processes of their own, while a hook comes and goes.

No fire that began after a registration was acknowledged, and was over before the hook's removal was asked for, may be
skipped.  (One that began in that time, and had its answer after it, may have met the removal.)
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

ROUNDS = 10  # each client is stopped in two or three of them
CLIENT = """
import sys, threading, time
from array import array
import hooklatch

kind, socket, folder = sys.argv[1:]
fires = array("q")

def note(at, decision):  # both numbers in one call of C, or threads would get between them
    fires.extend((at, time.monotonic_ns() * 2 + decision.decision_id.startswith("skipped-")))

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
with open(f"{folder}/{kind}", "wb") as file: fires.tofile(file)
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


def read(path: Path) -> list[tuple[int, int, bool]]:
    """Return when each fire began, when it was over, and whether it was skipped; in the order of their beginnings."""
    found: array[int] = array("q")
    found.frombytes(path.read_bytes())
    return sorted((began, over // 2, bool(over % 2)) for began, over in zip(found[::2], found[1::2], strict=True))


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
            fires = read(place.folder / kind)
            asked = 0
            for first, last in active:
                begun = fires[bisect_left(fires, (first,)) : bisect_left(fires, (last,))]
                within = [(began, is_skipped) for began, over, is_skipped in begun if over < last]
                assert not [began - first for began, is_skipped in within if is_skipped], (
                    f"{kind}: skipped so long after it, in ns"
                )
                asked += len(within)
            skipped_by[kind] = sum(is_skipped for _, _, is_skipped in fires)
            assert skipped_by[kind] > 0, f"{kind} skipped nothing, so this has shown nothing"
            assert asked > 0, f"{kind} fired nothing while there was a hook"

    assert status["skipped"] == {"stop": sum(skipped_by.values())}
