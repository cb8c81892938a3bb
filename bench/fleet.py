"""What a fleet costs and how it grows: 10, 100 and 1,000 hosts on one engine, with the real link for each.

push to applied  from when a publisher begins to store a bundle of 16 KiB until a host has applied that version; of
                 all hosts and rounds.  Beside bare readers of the same engine that check nothing
shipping         every host has many records to ship at once, or a few now and then: how many a second arrive, the bytes
                 of each in the engine and on the wire, and the processor time that each takes of link and engine.
                 Beside bare writers of as many bytes
among            the same for twenty hosts alone, with a link each, among bare readers in place of all others: what the
                 engine lets a host have, where the other links do not take its processor
quiet            nothing happens for two minutes: processor time, commands, bytes and connections of each host
idle             ten thousand idle hosts, each with one connection that asks what a link asks (`--idle N`): what they
                 cost the engine, and how long a push takes to all of them
engine           what it holds in memory: a connected host, a million records, a version
storm            the engine is killed and starts again: until all hosts have what was pushed as soon as it could be

The hosts are simulated (bench/fleet_daemons.py): what their links talk to is real, what applies a version checks its
signatures and digests, and loads no hook.  The engine syncs everything that it acknowledges (appendfsync always).  All
runs on one machine, so at 1,000 hosts the links of all of them share the cores with the engine: a real fleet's have
cores of their own.  So beside the times stand what each host costs the engine, and itself.  With over 200 hosts the
links pause for up to 10 s before they connect again (`reconnect`), where 0.5 s is the default, and have more patience.

Bad would be, with 1,000 hosts: a p99 of over 1 s from push to applied, or a host that is not current 30 s after a
restart of the engine.

Run: python bench/fleet.py [--hosts 10 100 1000] [--rounds N] [--sampled] [--idle N] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from fleet_daemons import FLEET
from fleet_engine import SERVERS, Bare, Connection, IdleHosts, RedisServer, Words, bare_writers, run_server
from fleet_hosts import BUNDLE, Hosts, Marks, Publisher, processor_time, running_hosts
from hooklatch.fleet.engine.engine import KEYS, POLICY, TIMESTAMP
from hooklatch.fleet.link import policy
from hooklatch.fleet.manifests import SignedManifest
from hooklatch.fleet.signing import make_key
from machine import Summary, print_machine, raise_open_files, save, summary

HOSTS = (10, 100, 1000)
MOST_MS, MOST_STORM = 1_000.0, 30.0  # bad beyond these, with the most hosts
RECORDS = 200_000  # of all hosts, shipped at once; of one at least LEAST and at most MOST
LEAST, MOST = 200, 5_000
SAMPLE = 20  # hosts with a link, where the others have none
AT_A_TIME = 2  # records that a host has made since its link last looked, as it is on a working day
QUIET = 120.0  # seconds
SETTLED = 75.0  # seconds until a link that has shipped has one connection again
FEW = 4  # rounds of records as they come: a link gathers them for longer each time
IDLE = 10_000  # hosts
REPORT = 700  # bytes
KEPT = 4_000  # records of which the memory in the engine is asked, for each way in which they come
VERSIONS = 50  # committed while nobody follows, to see what one takes in memory
SHIPPED = (
    *("records_a_second", "records_a_batch", "wire_bytes_a_record", "engine_cpu_us_a_record", "link_cpu_us_a_record"),
)
BARE_BYTES = 140  # of a record in a batch of many, packed
DECISIONS_A_DAY = 2_000  # of a host: one developer's agents in a working day
DAY = 86_400


def measure(
    count: int, rounds: int, records: int, quiet: float, settled: float, versions: int, kept_records: int
) -> dict[str, Any]:
    """Return all that is measured of a fleet of one size."""
    key = make_key()
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
        found: dict[str, Any] = {
            "hosts": count,
            "engine": f"redis {server.info()['redis_version']}, appendfsync always",
        }
        found["question_held_s"] = policy.BLOCK
        time.sleep(settled)
        marks = Marks(server, hosts)
        time.sleep(quiet)
        found["quiet"] = per_host(marks.since(), count)
        found["memory"] = {
            "engine_bytes_a_host": (float(server.info()["used_memory"]) - before) / count,
            "engine_bytes_a_version": of_version,
            "link_bytes_a_host": hosts.link_memory() / count,
        }
        found["push_to_applied"], found["a_push"] = pushes(publisher, hosts, marks, rounds)
        found["as_it_comes"] = shipping(server, hosts, marks, AT_A_TIME, min(rounds, FEW))
        found["backlog"] = shipping(server, hosts, marks, records, 1)
        found["engine_bytes_a_record"] = {
            f"{size} at a time": kept(server, publisher, size, kept_records) for size in (1, AT_A_TIME, 10, 200)
        }
        found["storm"] = storm(server, publisher, hosts)
        found["bare"] = bare(server, publisher, hosts, rounds, found["backlog"])
        found["among"] = among(folder, server, publisher, count, key.public.text, rounds)
        return found


def sampled(count: int, rounds: int) -> dict[str, Any]:
    """Return only what `among` measures."""
    key = make_key()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hl-")))
        (folder / "engine").mkdir()
        server = stack.enter_context(run_server(folder / "engine"))
        publisher = Publisher(server.url, key)
        publisher.push()
        return {"hosts": count, "among": among(folder, server, publisher, count, key.public.text, rounds)}


def idle(count: int, quiet: float, rounds: int) -> dict[str, Any]:
    """Return what so many idle hosts cost the engine, and the times of a push to as many bare readers."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hl-")))
        (folder / "engine").mkdir()
        server = stack.enter_context(run_server(folder / "engine"))
        publisher = Publisher(server.url, make_key())
        version, _ = publisher.push()
        stream, keys, timestamp = (f"hooklatch:{FLEET}:{name}" for name in (POLICY, KEYS, TIMESTAMP))
        report = os.urandom(REPORT // 2).hex()

        def round_of(number: int) -> list[Words]:
            """Return what a link asks between two waits."""
            host = f"hooklatch:{FLEET}:host:host-{number}"
            return [
                ("xrange", keys, "-", "+", "count", 100), ("xrevrange", timestamp, "+", "-", "count", 1),
                ("xread", "count", 100, "streams", stream, f"{version - 1}-0"),
                ("xadd", host, "maxlen", "=", 1, "*", "d", report),
            ]  # fmt: skip

        def held() -> Words:
            block = int(policy.BLOCK * 1000 * (1 - policy.SHARE * random.random()))
            return (
                "xread",
                "count",
                1,
                "block",
                block,
                "streams",
                stream,
                keys,
                timestamp,
                f"{version}-0",
                "0-0",
                "0-0",
            )

        hosts = IdleHosts(server.port, count, round_of, held)
        time.sleep(policy.BLOCK if quiet >= QUIET else 0.0)  # so that each has reported once
        before, seconds, began = server.info(), processor_time(server.process.pid), time.monotonic()
        time.sleep(quiet)
        after, passed = server.info(), time.monotonic() - began
        used = processor_time(server.process.pid) - seconds
        hosts.close()
        moved = sum(
            int(after[name]) - int(before[name]) for name in ("total_net_input_bytes", "total_net_output_bytes")
        )
        readers = Bare(server.port, count, stream, bundle_named_in)
        took = [time for _ in range(rounds) for time in readers.times_to(lambda: publisher.push()[1])]
        readers.close()
        return {
            "hosts": count,
            "connections": int(after["connected_clients"]) - 1,
            "commands_a_second": (int(after["total_commands_processed"]) - int(before["total_commands_processed"]))
            / passed,
            "bytes_a_second": moved / passed,
            "engine_share_of_a_core": used / passed,
            "engine_memory_bytes": int(after["used_memory"]),
            "push_to_fetched": summary(took),
        }


def show_idle(machine: dict[str, object], row: dict[str, Any], *, name: str) -> int:
    for key, value in row.items():
        print(f"{key.replace('_', ' '):<44}{value if isinstance(value, dict) else round(value, 3)!s:>14}")
    print(f"written: {save(name, {'machine': machine, 'row': row})}")
    return 0


def among(
    folder: Path, server: RedisServer, publisher: Publisher, count: int, key: str, rounds: int
) -> dict[str, Summary]:
    """Return the times of some hosts with a link, and of the bare readers that stand for all others."""
    applied: list[float] = []
    fetched: list[float] = []
    with running_hosts(folder, server, min(SAMPLE, count), key, begin=count) as hosts:
        readers = Bare(server.port, count - hosts.count, f"hooklatch:{FLEET}:policy", bundle_named_in)
        for number in range(rounds + 1):
            pushed: list[tuple[int, float]] = []

            def publish() -> float:
                pushed.append(publisher.push())  # noqa: B023  (called in this turn only)
                return pushed[0][1]  # noqa: B023

            took = readers.times_to(publish)
            (version, began) = pushed[0]
            moments = hosts.applied(version)
            if number:  # the first round warms up
                fetched += took
                applied += [(moment - began) * 1e3 for moment in moments]
        readers.close()
    return {"applied": summary(applied), "fetched": summary(fetched or applied)}


def pushes(publisher: Publisher, hosts: Hosts, marks: Marks, rounds: int) -> tuple[Summary, dict[str, float]]:
    """Return the times of all hosts, and what one host costs in one push."""
    took: list[float] = []
    hosts.applied(publisher.push()[0])  # warms up
    marks.since()
    for _ in range(rounds):
        version, began = publisher.push()
        took += [(moment - began) * 1e3 for moment in hosts.applied(version)]
    used = marks.since()
    each = 1 / (rounds * hosts.count)
    return summary(took), {
        "engine_cpu_us": used["engine_cpu"] * each * 1e6,
        "link_cpu_us": used["link_cpu"] * each * 1e6,
        "bytes": (used["received"] + used["sent"]) * each,
    }


def kept(server: RedisServer, publisher: Publisher, size: int, records: int) -> float:
    """Return the bytes of memory that the engine takes for a record where they come so many at a time."""
    host, batches = f"kept-{size}", max(10, records // size)
    publisher.append(host, batches, size)
    connection = Connection(server.port)
    found = connection.call("memory", "usage", f"hooklatch:{FLEET}:log:{host}:1", "samples", 0)
    connection.close()
    assert isinstance(found, int)
    return found / (batches * size)


def per_host(used: dict[str, float], count: int) -> dict[str, float]:
    """Return what one host uses while nothing happens, of each second, or of a day."""
    a_second = 1 / (used["seconds"] * count)
    return {
        "commands_a_second": used["commands"] * a_second,
        "bytes_a_day": (used["received"] + used["sent"]) * a_second * DAY,
        "connections": used["connections"] / count,
        "engine_cpu_us_a_second": used["engine_cpu"] * a_second * 1e6,
        "link_cpu_us_a_second": used["link_cpu"] * a_second * 1e6,
    }


def shipping(server: RedisServer, hosts: Hosts, marks: Marks, records: int, rounds: int) -> dict[str, float]:
    """Have every host write records, and wait until its link has told it that all are shipped; so many times."""
    total = records * hosts.count * rounds
    before = batches_of(server)
    marks.since()
    began = ended = time.monotonic()
    for _ in range(rounds):
        hosts.order("write", count=records)
        ended = max(hosts.order("shipped"))
    seconds = ended - began
    used = marks.since()
    batches = batches_of(server) - before
    return {
        "records": float(total),
        "records_a_batch": total / batches,
        "records_a_second": total / seconds,
        "seconds": seconds,
        "wire_bytes_a_record": (used["received"] + used["sent"]) / total,
        "engine_cpu_us_a_record": used["engine_cpu"] / total * 1e6,
        "link_cpu_us_a_record": used["link_cpu"] / total * 1e6,
    }


def batches_of(server: RedisServer) -> int:
    """Return how many batches all hosts have shipped."""
    connection = Connection(server.port)
    cursor: Any = b"0"
    batches = 0
    while True:
        match: Any = f"hooklatch:{FLEET}:log:*"
        cursor, names = connection.call("scan", cursor, "match", match, "count", 1000, "type", "stream")  # type: ignore[misc]
        for name in names:
            batches += int(connection.call("xlen", name))  # type: ignore[arg-type]
        if cursor == b"0":
            connection.close()
            return batches


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
    data = os.urandom(round(BARE_BYTES * shipped["records_a_batch"]))
    seconds = bare_writers(server.port, "bare", hosts.count, batches, data)
    records = batches * hosts.count * shipped["records_a_batch"]
    return {"push_to_fetched": summary(took), "records_a_second": records / seconds}


def bundle_named_in(reply: Any) -> str:
    """Return the key of the bundle that the newest entry of a stream names."""
    fields = reply[0][1][-1][1]
    envelope = msgspec.json.decode(fields[-1], type=SignedManifest)
    return f"hooklatch:{FLEET}:bundle:{json.loads(envelope.payload)['bundle']}"


def a_day(row: dict[str, Any]) -> float:
    """Return the bytes on the engine's wire for one host in a day, with what it decides."""
    return row["quiet"]["bytes_a_day"] + row["as_it_comes"]["wire_bytes_a_record"] * DECISIONS_A_DAY


def show(rows: list[dict[str, Any]]) -> None:
    lines: dict[str, list[str]] = {"hosts": [f"{row['hosts']}" for row in rows]}
    lines["a question is held for, s"] = [f"{row['question_held_s']:g}" for row in rows]
    for name, part in (("push to applied", "push_to_applied"), ("engine's restart to current", "storm")):
        for figure in ("p50", "p99", "worst"):
            lines[f"{name}, {figure} ms"] = [f"{row[part][f'{figure}_ms']:.0f}" for row in rows]
    fetched = [row["bare"]["push_to_fetched"] for row in rows]
    lines["bare readers, p50, p99 ms"] = [f"{one['p50_ms']:.0f}, {one['p99_ms']:.0f}" for one in fetched]
    among = [row["among"]["applied"] for row in rows]
    lines["push to applied among bare readers, p50, p99"] = [
        f"{one['p50_ms']:.0f}, {one['p99_ms']:.0f}" for one in among
    ]
    lines["push to applied, x bare, p50"] = [
        f"{row['push_to_applied']['p50_ms'] / one['p50_ms']:.1f}" for row, one in zip(rows, fetched, strict=True)
    ]
    for part in ("backlog", "as_it_comes"):
        for name in SHIPPED:
            lines[f"{part.replace('_', ' ')}: {name.replace('_', ' ')}"] = [f"{row[part][name]:.0f}" for row in rows]
    lines["backlog: records a second, x bare writers"] = [
        f"{row['backlog']['records_a_second'] / row['bare']['records_a_second']:.2f}" for row in rows
    ]
    for name in ("commands_a_second", "connections", "engine_cpu_us_a_second", "link_cpu_us_a_second"):
        lines[f"quiet host, {name.replace('_', ' ')}"] = [f"{row['quiet'][name]:.3g}" for row in rows]
    lines["quiet host, MB a day"] = [f"{row['quiet']['bytes_a_day'] / 1e6:.2f}" for row in rows]
    lines[f"a host with {DECISIONS_A_DAY} decisions, MB a day"] = [f"{a_day(row) / 1e6:.2f}" for row in rows]
    for name in ("engine_cpu_us", "link_cpu_us", "bytes"):
        lines[f"a push, of each host: {name.replace('_', ' ')}"] = [f"{row['a_push'][name]:.0f}" for row in rows]
    for name in rows[0]["engine_bytes_a_record"]:
        lines[f"engine bytes a record, {name}"] = [f"{row['engine_bytes_a_record'][name]:.0f}" for row in rows]
    for name in ("engine_bytes_a_host", "engine_bytes_a_version", "link_bytes_a_host"):
        lines[f"{name.replace('_', ' ')}, KiB"] = [f"{row['memory'][name] / 1024:.1f}" for row in rows]
    print()
    for name, cells in lines.items():
        print(f"{name:<44}" + "".join(f"{cell:>14}" for cell in cells))


def show_sampled(machine: dict[str, object], rows: list[dict[str, Any]]) -> int:
    print(f"\n{'ms':<44}{'p50':>10}{'p99':>10}{'worst':>10}")
    for row in rows:
        for name, one in row["among"].items():
            label = f"{row['hosts']} hosts, {one['count']} times, {name}"
            print(f"{label:<44}{one['p50_ms']:10.0f}{one['p99_ms']:10.0f}{one['worst_ms']:10.0f}")
    print(f"written: {save('fleet_sampled', {'machine': machine, 'rows': rows})}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure fleets of several sizes on one engine.")
    parser.add_argument("--hosts", type=int, nargs="+", default=HOSTS)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--sampled", action="store_true", help="only a few hosts with a link among bare readers")
    parser.add_argument("--idle", type=int, nargs="?", const=IDLE, help="only so many idle hosts (10000)")
    parser.add_argument("--quick", action="store_true", help="few hosts: shows that it runs, not how fast")
    options = parser.parse_args()
    if shutil.which(SERVERS[0]) is None and shutil.which(SERVERS[1]) is None:
        print("no redis-server and no valkey-server is installed: apt install redis-server", file=sys.stderr)
        return 69
    raise_open_files()
    machine = print_machine()
    if options.sampled:
        return show_sampled(machine, msgspec.to_builtins([sampled(one, options.rounds) for one in options.hosts]))
    if options.idle:
        quiet, rounds = (1.0, 1) if options.quick else (QUIET, 3)
        row = msgspec.to_builtins(idle(options.idle, quiet, rounds))
        return show_idle(machine, row, name="fleet_idle_quick" if options.quick else "fleet_idle")
    if options.quick:
        found = [measure(count, 2, 20, 0.5, 0.0, 3, 200) for count in (2,)]
    else:
        found = [
            measure(count, options.rounds, min(MOST, max(LEAST, RECORDS // count)), QUIET, SETTLED, VERSIONS, KEPT)
            for count in options.hosts
        ]
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
