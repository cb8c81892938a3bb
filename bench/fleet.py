"""What a fleet costs and how it grows: 10, 100 and 1,000 hosts on one engine, with the real link for each.

push to applied  from when a publisher begins to store a bundle of 16 KiB until a host has applied that version; of
                 all hosts and rounds.  Beside bare readers of the same engine that check nothing
shipping         every host has records to ship at once: how many a second arrive, the bytes of each in the engine and
                 on the wire, and the processor time of link and engine for each.  Beside bare writers of as many bytes
quiet            nothing happens: processor time, commands and bytes of each host
engine           what it holds in memory: a connected host, a million records, a version
storm            the engine is killed and starts again: until all hosts have what was pushed as soon as it could be

The hosts are simulated (bench/fleet_daemons.py): what their links talk to is real, what applies a version checks its
signatures and digests, and loads no hook.  The engine syncs everything that it acknowledges (appendfsync always).  All
runs on one machine, so at 1,000 hosts the links of all of them share the cores with the engine: a real fleet's have
cores of their own.

Bad would be, with 1,000 hosts: a p99 of over 1 s from push to applied, or a host that is not current 30 s after a
restart of the engine.

Run: python bench/fleet.py [--hosts 10 100 1000] [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import trio
from hooklatch.fleet.engine.opening import open_engine

from fleet_daemons import FLEET
from fleet_engine import SERVERS, Bare, Connection, RedisServer, bare_writers, run_server
from hooklatch.fleet.policy.bundles import Bundle, encode_bundle
from hooklatch.fleet.policy.manifests import START, Envelope, Head, Manifest, payload_of
from hooklatch.fleet.policy.signing import PrivateKey, new_key
from machine import ROOT, Summary, print_machine, raise_open_files, save, summary

HOSTS = (10, 100, 1000)
MOST_MS, MOST_STORM = 1_000.0, 30.0  # bad beyond these, with the most hosts
PER_PROCESS = 250  # links in one process, simulated daemons in another
RECORDS = 200  # of each host, shipped at once
QUIET = 10.0  # seconds
VERSIONS = 50  # committed while nobody follows, to see what one takes in memory
BUNDLE = 16 * 2**10  # bytes of hooks in a version
DECISIONS_A_DAY = 2_000  # of a host: one developer's agents in a working day
DAY = 86_400
TICKS = os.sysconf("SC_CLK_TCK")


class Publisher:
    """Signs and commits versions as `hooklatch fleet push` does."""

    def __init__(self, url: str, key: PrivateKey) -> None:
        self._url, self._key = url, key
        self._head = START

    def push(self, count: int = 1) -> tuple[int, float]:
        """Publish bundles that nobody has yet; return the last version, and the moment at which that began."""
        return trio.run(self._push, count)

    async def _push(self, count: int) -> tuple[int, float]:
        async with open_engine(self._url, FLEET) as engine:
            began = time.monotonic()
            for _ in range(count):
                bundle = encode_bundle(Bundle({"guards.py": os.urandom(BUNDLE * 3 // 8).hex().encode()}))
                envelope = self._sign(bundle)
                began = time.monotonic()
                await engine.put_bundle(json.loads(envelope.payload)["bundle"], bundle)
                await engine.commit(self._head.version + 1, msgspec.json.encode(envelope))
                self._head = Head(self._head.version + 1, envelope.digest)
            return self._head.version, began

    def _sign(self, bundle: bytes) -> Envelope:
        payload = payload_of(
            Manifest(
                fleet=FLEET, version=self._head.version + 1, previous=self._head.digest,
                bundle=sha256(bundle).hexdigest(), size=len(bundle), publisher="bench", created="2026-01-31T12:00:00Z",
            )
        )  # fmt: skip
        return Envelope(payload, self._key.public.id, self._key.sign(payload.encode()))


class Hosts:
    """All hosts of one size of fleet: processes with links, and processes with the daemons that these talk to."""

    def __init__(self, folder: Path, server: RedisServer, count: int, key: str) -> None:
        self.count = count
        self.links: list[subprocess.Popen[bytes]] = []
        self.daemons: list[subprocess.Popen[bytes]] = []
        for first in range(0, count, PER_PROCESS):
            part = [str(folder), str(first), str(min(PER_PROCESS, count - first))]
            self.daemons.append(started("fleet_daemons.py", *part, key))
            self.links.append(started("fleet_links.py", *part, server.url, key))

    def order(self, name: str, **order: object) -> list[Any]:
        """Have all daemons do something; return what each of their processes answers."""
        line = json.dumps({"order": name, **order}).encode() + b"\n"
        for process in self.daemons:
            assert process.stdin is not None
            process.stdin.write(line)
            process.stdin.flush()
        answers: list[Any] = []
        for process in self.daemons:
            assert process.stdout is not None
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
def running_hosts(folder: Path, server: RedisServer, count: int, key: str) -> Generator[Hosts]:
    hosts = Hosts(folder, server, count, key)
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
    """What was used since the last look: processor time, the engine's traffic and its memory."""

    def __init__(self, server: RedisServer, hosts: Hosts) -> None:
        self._server, self._hosts = server, hosts
        self._before = self._look()

    def since(self) -> dict[str, float]:
        now = self._look()
        found = {name: now[name] - before for name, before in self._before.items()}
        self._before = now
        return found

    def _look(self) -> dict[str, float]:
        info = self._server.info()
        return {
            "seconds": time.monotonic(),
            "engine_cpu": processor_time(self._server.process.pid),
            "link_cpu": self._hosts.link_seconds(),
            "memory": float(info["used_memory"]),
            "received": float(info["total_net_input_bytes"]),
            "sent": float(info["total_net_output_bytes"]),
            "commands": float(info["total_commands_processed"]),
        }


def measure(count: int, rounds: int, records: int, quiet: float, versions: int) -> dict[str, Any]:
    """Return all that is measured of a fleet of one size."""
    key = new_key()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hl-")))
        (folder / "engine").mkdir()
        server = stack.enter_context(run_server(folder / "engine"))
        publisher = Publisher(server.url, key)
        empty = float(server.info()["used_memory"])
        publisher.push(versions)
        of_version = (float(server.info()["used_memory"]) - empty) / versions
        version, _ = publisher.push()
        before = float(server.info()["used_memory"])
        hosts = stack.enter_context(running_hosts(folder, server, count, key.public.text))
        hosts.applied(version)
        hosts.order("shipped")
        marks = Marks(server, hosts)
        time.sleep(quiet)
        found: dict[str, Any] = {
            "hosts": count,
            "engine": f"redis {server.info()['redis_version']}, appendfsync always",
            "push_to_applied": pushes(publisher, hosts, rounds),
            "quiet": per_host(marks.since(), count),
        }
        memory = float(server.info()["used_memory"])
        found["shipping"] = shipping(server, hosts, marks, records)
        found["memory"] = {
            "engine_bytes_a_host": (memory - before) / count,
            "engine_bytes_a_version": of_version,
            "link_bytes_a_host": hosts.link_memory() / count,
        }
        found["storm"] = storm(server, publisher, hosts)
        found["bare"] = bare(server, publisher, hosts, rounds, found["shipping"])
        return found


def pushes(publisher: Publisher, hosts: Hosts, rounds: int) -> Summary:
    took: list[float] = []
    for number in range(rounds + 1):
        version, began = publisher.push()
        moments = hosts.applied(version)
        if number:  # the first round warms up
            took += [(moment - began) * 1e3 for moment in moments]
    return summary(took)


def per_host(used: dict[str, float], count: int) -> dict[str, float]:
    """Return what one host uses while nothing happens, of each second, or of a day."""
    a_second = 1 / (used["seconds"] * count)
    return {
        "commands_a_second": used["commands"] * a_second,
        "bytes_a_day": (used["received"] + used["sent"]) * a_second * DAY,
        "engine_cpu_us_a_second": used["engine_cpu"] * a_second * 1e6,
        "link_cpu_us_a_second": used["link_cpu"] * a_second * 1e6,
    }


def shipping(server: RedisServer, hosts: Hosts, marks: Marks, records: int) -> dict[str, float]:
    """Have every host write records, and wait until its link has told it that all are shipped."""
    total = records * hosts.count
    keys = {"entries": entries_of(server)}
    marks.since()
    began = time.monotonic()
    hosts.order("write", count=records)
    seconds = max(hosts.order("shipped")) - began
    used = marks.since()
    batches = entries_of(server) - keys["entries"]
    return {
        "records": float(total),
        "records_a_batch": total / batches,
        "records_a_second": total / seconds,
        "seconds": seconds,
        "engine_bytes_a_record": used["memory"] / total,
        "engine_mib_a_million": used["memory"] / total * 1e6 / 2**20,
        "wire_bytes_a_record": (used["received"] + used["sent"]) / total,
        "engine_cpu_us_a_record": used["engine_cpu"] / total * 1e6,
        "link_cpu_us_a_record": used["link_cpu"] / total * 1e6,
    }


def entries_of(server: RedisServer) -> int:
    """Return how many batches all hosts have shipped."""
    connection = Connection(server.port)
    cursor, entries = b"0", 0
    while True:
        cursor, names = connection.call("scan", cursor, "match", f"hooklatch:{FLEET}:log:*", "count", 1000)  # type: ignore[misc, assignment]
        for name in names:
            entries += connection.call("xlen", name)  # type: ignore[operator, arg-type]
        if cursor == b"0":
            connection.close()
            return entries


def storm(server: RedisServer, publisher: Publisher, hosts: Hosts) -> Summary:
    """Kill the engine and start it again; return when each host had what was pushed in its first moment."""
    server.kill()
    time.sleep(1.0)  # so that every link has noticed, and waits for its next attempt
    began = time.monotonic()
    server.start_again()
    version, _ = publisher.push()
    return summary([(moment - began) * 1e3 for moment in hosts.applied(version)])


def bare(
    server: RedisServer, publisher: Publisher, hosts: Hosts, rounds: int, shipped: dict[str, float]
) -> dict[str, Any]:
    """Do the same with bare connections, after the links are gone."""
    hosts.close()
    took: list[float] = []
    readers = Bare(server.port, hosts.count, f"hooklatch:{FLEET}:policy", bundle_named_in)
    for _ in range(rounds):
        took += readers.times_to(lambda: publisher.push()[1])
    readers.close()
    batches = max(1, round(shipped["records"] / hosts.count / shipped["records_a_batch"]))
    data = os.urandom(round(shipped["engine_bytes_a_record"] * shipped["records_a_batch"]))
    seconds = bare_writers(server.port, "bare", hosts.count, batches, data)
    records = batches * hosts.count * shipped["records_a_batch"]
    return {"push_to_fetched": summary(took), "records_a_second": records / seconds}


def bundle_named_in(reply: Any) -> str:
    """Return the key of the bundle that the newest entry of a stream names."""
    fields = reply[0][1][-1][1]
    envelope = msgspec.json.decode(fields[-1], type=Envelope)
    return f"hooklatch:{FLEET}:bundle:{json.loads(envelope.payload)['bundle']}"


def a_day(row: dict[str, Any]) -> float:
    """Return the bytes on the engine's wire for one host in a day, with what it decides."""
    return row["quiet"]["bytes_a_day"] + row["shipping"]["wire_bytes_a_record"] * DECISIONS_A_DAY


def show(rows: list[dict[str, Any]]) -> None:
    lines: dict[str, list[str]] = {"hosts": [f"{row['hosts']}" for row in rows]}
    for name, part in (("push to applied", "push_to_applied"), ("engine's restart to current", "storm")):
        for figure in ("p50", "p99", "worst"):
            lines[f"{name}, {figure} ms"] = [f"{row[part][f'{figure}_ms']:.0f}" for row in rows]
    fetched = [row["bare"]["push_to_fetched"] for row in rows]
    lines["bare readers, p50, p99 ms"] = [f"{one['p50_ms']:.0f}, {one['p99_ms']:.0f}" for one in fetched]
    lines["push to applied, x bare, p50"] = [
        f"{row['push_to_applied']['p50_ms'] / one['p50_ms']:.1f}" for row, one in zip(rows, fetched, strict=True)
    ]
    for name in ("records_a_second", "records_a_batch", "wire_bytes_a_record", "engine_mib_a_million",
                 "engine_cpu_us_a_record", "link_cpu_us_a_record"):  # fmt: skip
        lines[name.replace("_", " ")] = [f"{row['shipping'][name]:.0f}" for row in rows]
    lines["shipping, x bare writers"] = [
        f"{row['shipping']['records_a_second'] / row['bare']['records_a_second']:.2f}" for row in rows
    ]
    for name in ("commands_a_second", "engine_cpu_us_a_second", "link_cpu_us_a_second"):
        lines[f"quiet host, {name.replace('_', ' ')}"] = [f"{row['quiet'][name]:.3g}" for row in rows]
    lines["quiet host, MB a day"] = [f"{row['quiet']['bytes_a_day'] / 1e6:.2f}" for row in rows]
    lines[f"a host with {DECISIONS_A_DAY} decisions, MB a day"] = [f"{a_day(row) / 1e6:.2f}" for row in rows]
    for name in ("engine_bytes_a_host", "engine_bytes_a_version", "link_bytes_a_host"):
        lines[f"{name.replace('_', ' ')}, KiB"] = [f"{row['memory'][name] / 1024:.1f}" for row in rows]
    print()
    for name, cells in lines.items():
        print(f"{name:<44}" + "".join(f"{cell:>14}" for cell in cells))


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure fleets of several sizes on one engine.")
    parser.add_argument("--hosts", type=int, nargs="+", default=HOSTS)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="few hosts: shows that it runs, not how fast")
    options = parser.parse_args()
    if shutil.which(SERVERS[0]) is None and shutil.which(SERVERS[1]) is None:
        print("no redis-server and no valkey-server is installed: apt install redis-server", file=sys.stderr)
        return 69
    raise_open_files()
    machine = print_machine()
    if options.quick:
        found = [measure(count, 2, 20, 0.5, 3) for count in (2, 4)]
    else:
        found = [measure(count, options.rounds, RECORDS, QUIET, VERSIONS) for count in options.hosts]
    rows = msgspec.to_builtins(found)
    show(rows)
    last = rows[-1]
    print(
        f"with {last['hosts']} hosts: push to applied p99 {last['push_to_applied']['p99_ms']:.0f} ms"
        f" (bad: over {MOST_MS:g}); all current {last['storm']['worst_ms'] / 1e3:.1f} s after a restart of the engine"
        f" (bad: over {MOST_STORM:g})"
    )
    for row in rows:
        row["bytes_a_host_and_day"] = a_day(row)
    record: dict[str, object] = {
        "machine": machine,
        "engine": rows[0]["engine"],
        "rounds": options.rounds,
        "decisions_a_day": DECISIONS_A_DAY,
        "bundle_bytes": BUNDLE,
        "rows": rows,
    }
    print(f"written: {save('fleet_quick' if options.quick else 'fleet', record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
