"""What bench/fleet.py has: a publisher, the processes of links and simulated daemons, and what all of them use up."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import trio

from fleet_daemons import BODIES, FLEET
from fleet_engine import RedisServer
from hooklatch.fleet.batches import pack_batch
from hooklatch.fleet.engine.engine import RecordBatch
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.manifests import (
    START,
    Bundle,
    Manifest,
    PolicyHead,
    SignedManifest,
    encode_bundle,
    encode_signed_text,
)
from hooklatch.fleet.settings import DEFAULT_FIELDS
from hooklatch.fleet.signing import PrivateKey, Purpose
from hooklatch.record.storage.chain import GENESIS, format_timestamp, seal_entry
from machine import ROOT

__all__ = ["BUNDLE", "Hosts", "Marks", "Publisher", "running_hosts"]

CROWD, CALM, LATER = 200, 0.5, 10.0  # of more hosts than that each has more patience, as they share a few cores
PER_PROCESS = 250  # links in one process, simulated daemons in another
BUNDLE = 16 * 2**10  # bytes of hooks in a version
TICKS = os.sysconf("SC_CLK_TCK")


class Publisher:
    """Signs and commits versions as `hooklatch fleet push` does."""

    def __init__(self, url: str, key: PrivateKey) -> None:
        self._url, self._key = url, key
        self._head = START

    def push(self, count: int = 1) -> tuple[int, float]:
        """Publish bundles that nobody has yet; return the last version, and the moment at which that began."""
        return trio.run(self._push, count)

    def append(self, host: str, batches: int, size: int) -> None:
        """Ship batches of records as a host's link would."""
        trio.run(self._append, host, batches, size)

    async def _append(self, host: str, batches: int, size: int) -> None:
        async with open_engine(self._url, FLEET) as engine:
            seq, previous = 0, GENESIS
            for _ in range(batches):
                lines: list[bytes] = []
                for _ in range(size):
                    seq += 1
                    line, previous = seal_entry(
                        seq, previous, format_timestamp(time.time()), "decision", BODIES[seq % len(BODIES)]
                    )
                    lines.append(line)
                packed = pack_batch(host, 1, lines, DEFAULT_FIELDS)
                assert packed is not None
                await engine.append(host, 1, RecordBatch(packed.first, packed.last, packed.data))

    async def _push(self, count: int) -> tuple[int, float]:
        async with open_engine(self._url, FLEET) as engine:
            began = time.monotonic()
            for _ in range(count):
                bundle = encode_bundle(Bundle({"guards.py": os.urandom(BUNDLE * 3 // 8).hex().encode()}))
                envelope = self._sign(bundle)
                began = time.monotonic()
                await engine.put_bundle(json.loads(envelope.payload)["bundle"], bundle)
                await engine.commit(self._head.version + 1, msgspec.json.encode(envelope))
                self._head = PolicyHead(self._head.version + 1, envelope.digest)
            return self._head.version, began

    def _sign(self, bundle: bytes) -> SignedManifest:
        payload = encode_signed_text(
            Manifest(
                fleet=FLEET, version=self._head.version + 1, previous=self._head.digest,
                bundle=sha256(bundle).hexdigest(), size=len(bundle), publisher="bench", created="2026-01-31T12:00:00Z",
            )
        )  # fmt: skip
        return SignedManifest(payload, self._key.public.id, self._key.sign(payload.encode(), Purpose.MANIFEST))


class Hosts:
    """All hosts of one size of fleet: processes with links, and processes with the daemons that these talk to."""

    def __init__(self, folder: Path, server: RedisServer, count: int, key: str, begin: int) -> None:
        self.count = count
        reconnect = LATER if count > CROWD else CALM
        self.links: list[subprocess.Popen[bytes]] = []
        self.daemons: list[subprocess.Popen[bytes]] = []
        for first in range(begin, begin + count, PER_PROCESS):
            part = [str(folder), str(first), str(min(PER_PROCESS, begin + count - first))]
            self.daemons.append(started("fleet_daemons.py", *part, key))
            self.links.append(started("fleet_links.py", *part, server.url, key, str(reconnect)))

    def order(self, name: str, **order: object) -> list[Any]:
        """Have all daemons do something; return what each of their processes answers."""
        line = json.dumps({"order": name, **order}).encode() + b"\n"
        for process in self.daemons:
            assert process.stdin is not None
            process.stdin.write(line)
            process.stdin.flush()
        answers: list[Any] = []
        links = [process.stdout for process in self.links]  # which say no more: one that can be read has ended
        for process in self.daemons:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout, *links], [], [])
            if set(ready) & set(links):
                raise RuntimeError("a process of links has ended")
            answer = process.stdout.readline()
            if not answer:
                raise RuntimeError("a process of simulated daemons has ended")
            answers.append(json.loads(answer))
        return answers

    def applied(self, version: int) -> list[float]:
        """Wait until all hosts have applied a version; return the moments."""
        return [moment for part in self.order("applied", version=version) for moment in part]

    def link_seconds(self) -> float:
        return sum(processor_time(process.pid) for process in self.links)

    def link_memory(self) -> int:
        """Return the resident bytes of the processes with links."""
        return sum(resident(process.pid) for process in self.links)

    def close(self) -> None:
        for process in (*self.links, *self.daemons):
            process.kill()
            process.communicate()


def started(script: str, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(ROOT / "bench" / script), *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        process.kill()
        process.communicate()
        raise RuntimeError(f"it did not start: {' '.join(command)}")
    return process


@contextmanager
def running_hosts(folder: Path, server: RedisServer, count: int, key: str, *, begin: int = 0) -> Generator[Hosts]:
    """Run so many hosts, numbered from `begin` on."""
    hosts = Hosts(folder, server, count, key, begin)
    try:
        yield hosts
    finally:
        hosts.close()


def processor_time(pid: int) -> float:
    """Return the seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Marks:
    """What was used since the last look: processor time, and the engine's traffic."""

    def __init__(self, server: RedisServer, hosts: Hosts) -> None:
        self._server, self._hosts = server, hosts
        self._before = self._look()

    def since(self) -> dict[str, float]:
        now = self._look()
        found = {name: now[name] - before for name, before in self._before.items()}
        self._before = now
        return {**found, "connections": now["connections"]}

    def _look(self) -> dict[str, float]:
        info = self._server.info()
        return {
            "seconds": time.monotonic(),
            "engine_cpu": processor_time(self._server.process.pid),
            "link_cpu": self._hosts.link_seconds(),
            "received": float(info["total_net_input_bytes"]),
            "sent": float(info["total_net_output_bytes"]),
            "commands": float(info["total_commands_processed"]),
            "connections": float(info["connected_clients"]) - 1,  # that of this question
        }
