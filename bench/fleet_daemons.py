"""The daemons' side of bench/fleet.py: simulated daemons in one process, each with a socket and a record of its own.

What a link sees is real: the socket, the token, the lines, and a chained record in a file.  What a version meets is
real as well: `verify_manifests` with the signatures, `select_newest`, and `read_bundle`.  No hook is loaded and no
event is decided.

Orders come on standard input, one JSON object a line, and each is answered by one line.
"""

from __future__ import annotations

import base64
import json
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from hooklatch.core.messages import CallOutcome
from hooklatch.core.payload import Payload
from hooklatch.fleet.manifests import (
    DEFAULT_POLICY,
    START,
    FleetError,
    Manifest,
    read_bundle,
    read_envelope,
    select_newest,
    verify_manifests,
)
from hooklatch.fleet.signing import PublicKey, read_public
from hooklatch.paths import ADMIN_SOCKET, FLEET_TOKEN
from hooklatch.record.entries import FireFacts, encode_decision_entry
from hooklatch.record.redaction import Redactor, excerpt_payload
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.chain import GENESIS, format_timestamp, seal_entry
from hooklatch.record.storage.mark import Anchor, encode_anchor
from machine import raise_open_files
from record_storage import DECISION, OUTCOME, PAYLOAD

FLEET = "bench"
TOKEN = "b" * 64
GIVE_UP = 600.0  # seconds
SEGMENT = f"{1:016d}.jsonl"
GUARDS = ("no_force_push", "no_secrets", "stay_in_project")
SILENT = CallOutcome(layer="fleet", outcome="answered", cause="policy")
WORDS = ("build", "test", "main.py", "src", "docs", "fetch", "rebase", "--quiet", "--all", "origin", "lint", "cache")


def bodies(count: int) -> list[bytes]:
    """Return what daemons record of shell commands: one in twenty denied, of all others no guard said anything.

    They differ as real ones do, in ids, digests, commands and times, so that they are packed no better than those.
    """
    settings, numbers = RecordSettings(), random.Random(7)
    redactor = Redactor(settings)
    found: list[bytes] = []
    for number in range(count):
        words = " ".join(numbers.choices(WORDS, k=8))
        fact = FireFacts(Payload(PAYLOAD.replace(b"origin main", words.encode())), True, f"session-{number % 17}")
        fact.call_id, fact.host, fact.cwd = f"toolu_{numbers.randbytes(9).hex()}", "claude-code", "/home/me/project"
        fact.redactor, fact.limit = redactor, settings.excerpt_bytes
        fact.excerpt, fact.excerpt_cut = excerpt_payload(fact.payload, fact.limit, redactor)
        took = numbers.random()
        decision = msgspec.structs.replace(
            DECISION, decision_id=f"{numbers.randbytes(4).hex()}-{number}", duration_ms=took, outcomes=[OUTCOME],
            payload_digest=fact.payload.digest(),
        )  # fmt: skip
        if number % 20:
            silent = [msgspec.structs.replace(SILENT, hook=f"guards:{name}", duration_ms=took / 3) for name in GUARDS]
            decision = msgspec.structs.replace(
                decision, verdict="pass", cause=None, reason=None, layer=None, hook=None, outcomes=silent
            )
        found.append(encode_decision_entry(decision, fact, redactor))
    return found


class SimulatedDaemon:
    """What one host's daemon does for its link."""

    def __init__(self, folder: Path, host: str, keys: dict[str, PublicKey]) -> None:
        self.host = host
        self.folder = folder / host
        self.applied: dict[int, float] = {}  # when each version was applied, by the clock that all processes share
        self.shipped = 0
        self.told = trio.Event()  # set at the next call that changes anything, and then another one
        self._record = self.folder / "record"
        self._record.mkdir(parents=True, mode=0o700)
        (self.folder / FLEET_TOKEN).write_text(TOKEN)
        (self.folder / FLEET_TOKEN).chmod(0o600)
        self._keys = keys
        self._head = START
        self._manifests: list[Manifest] = []
        self._bundle: tuple[int, str] | None = None
        self.seq, self._hash = 0, GENESIS
        self._anchor = Anchor(os.fspath(self._record), 0, GENESIS)
        self.write(1, kind="started")

    def write(self, count: int, kind: str = "decision") -> None:
        """Append records to the file that the link reads."""
        lines: list[bytes] = []
        for _ in range(count):
            self.seq += 1
            body = BODIES[self.seq % len(BODIES)] if kind == "decision" else b'{"version":"bench"}'
            line, self._hash = seal_entry(self.seq, self._hash, format_timestamp(time.time()), kind, body)
            lines.append(line)
        with open(self._record / SEGMENT, "ab") as file:
            file.write(b"".join(lines))
        self._anchor.write(encode_anchor(self.seq, self._hash))  # not synced, as nothing here outlives the run

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "hello":
                return {"protocol": 1, "session_id": None, "limits": {}, "revision": len(self.applied)}
            case "fleet_follow":
                return self._follow(params.get("manifests") or [])
            case "fleet_apply":
                return self._apply(params["version"], base64.b64decode(params["bundle"]))
            case "fleet_shipped":
                self.shipped = params["seq"]
                self._tell()
                return {}
            case "health":
                return {"health": "ready", "ready": True, "reasons": []}
            case _:
                return {}

    def _follow(self, manifests: list[str]) -> dict[str, Any]:
        if manifests:
            walked = verify_manifests(
                FLEET, self._head, [read_envelope(text.encode()) for text in manifests], self._keys
            )
            self._head = walked.head
            self._manifests += walked.manifests
        wanted = self._wanted()
        applied = self._bundle
        policy = {
            "wanted": None if wanted is None else {"version": wanted.version, "bundle": wanted.bundle},
            "applied": None if applied is None else {"version": applied[0], "bundle": applied[1]},
        }
        return {
            "head": {"version": self._head.version, "digest": self._head.digest},
            **policy,
            "policies": {DEFAULT_POLICY: policy},
            "problem": None,
            "host": self.host,
            "labels": [],
            "health": "ready",
            "revision": len(self.applied),
            "stale_s": 0.0,
        }

    def _wanted(self) -> Manifest | None:
        return select_newest(self._manifests, self.host, ()).get(DEFAULT_POLICY)

    def _apply(self, version: int, data: bytes) -> dict[str, Any]:
        wanted = self._wanted()
        if wanted is None or wanted.version != version:
            raise FleetError(f"version {version} is not wanted")
        read_bundle(data, wanted)
        self._bundle = (version, wanted.bundle)
        self.applied[version] = time.monotonic()
        self._tell()
        return {"applied": {"version": version, "bundle": wanted.bundle}, "revision": len(self.applied)}

    def _tell(self) -> None:
        self.told.set()
        self.told = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one link until it goes; at the end of a run it is killed."""
        async with stream:
            with suppress(trio.BrokenResourceError):
                received = b""
                while data := await stream.receive_some(2**18):
                    *lines, received = (received + data).split(b"\n")
                    for line in lines:
                        await stream.send_all(self._reply(json.loads(line)))

    def _reply(self, request: dict[str, Any]) -> bytes:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request.get("id")}
        try:
            reply["result"] = self.answer(request["method"], request.get("params") or {})
        except FleetError as error:
            reply["error"] = {"code": -32602, "message": str(error), "data": {"name": "invalid_params"}}
        return json.dumps(reply).encode() + b"\n"


async def listen(daemon: SimulatedDaemon, nursery: trio.Nursery) -> None:
    listener = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    await listener.bind(os.fspath(daemon.folder / ADMIN_SOCKET))
    listener.listen(16)
    nursery.start_soon(partial(trio.serve_listeners, daemon.serve, [trio.SocketListener(listener)]))


async def until_all(daemons: list[SimulatedDaemon], is_so: Callable[[SimulatedDaemon], bool]) -> None:
    with trio.fail_after(GIVE_UP):
        for daemon in daemons:
            while not is_so(daemon):
                await daemon.told.wait()


async def obey(daemons: list[SimulatedDaemon], order: dict[str, Any]) -> Any:
    match order["order"]:
        case "write":
            for number, daemon in enumerate(daemons):
                daemon.write(order["count"])
                if number % 16 == 0:
                    await trio.lowlevel.checkpoint()
            return None
        case "applied":
            await until_all(daemons, lambda daemon: order["version"] in daemon.applied)
            return [daemon.applied[order["version"]] for daemon in daemons]
        case "shipped":
            await until_all(daemons, lambda daemon: daemon.shipped >= daemon.seq)
            return time.monotonic()
        case _:
            raise ValueError(order)


async def main(folder: Path, first: int, count: int, key: str) -> None:
    public = read_public(key)
    daemons = [SimulatedDaemon(folder, f"host-{first + n}", {public.id: public}) for n in range(count)]
    async with trio.open_nursery() as nursery:
        for daemon in daemons:
            await listen(daemon, nursery)
        print("ready", flush=True)
        async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as orders:
            received = b""
            while data := await orders.receive_some(2**16):
                *lines, received = (received + data).split(b"\n")
                for line in lines:
                    print(json.dumps(await obey(daemons, json.loads(line))), flush=True)
        nursery.cancel_scope.cancel()


BODIES = bodies(1000)

if __name__ == "__main__":
    raise_open_files()
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
