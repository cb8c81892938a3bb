"""The price of the promise: what a fire's record costs, beside a bare sha256 and a write, in one run.

bare        what no chained record can do without: the sha256 of the payload, the sha256 of a line, one write(2) of it
before      made while a gate's hooks run: the payload's digest and what is shown of it, without secrets
after       made between the decision and its answer: the entry, its link in the chain, the write
denied      `after`, for a denial, whose reason is searched for secrets too
kept        `before` and `after` together where payloads are kept whole

They alternate, and their files lie side by side.  Nothing else happens between two of them, so caches are warmer than
in a daemon.

Bad would be: more than 6 times the bare for a small payload, or more than 1.5 times for one of 256 KiB and over.

Run: python bench/record_price.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path

import msgspec

from hooklatch.core.call import EventEnvelope
from hooklatch.core.messages import CallOutcome, FireDecision
from hooklatch.core.payload import Payload
from hooklatch.record.settings import RecordSettings
from hooklatch.record.writer import FireFacts, RecordWriter
from machine import describe, save

__all__ = ["measure", "show"]

SIZES = (256, 1024, 16 * 1024, 256 * 1024, 4 * 2**20)
LINE = 1000  # bytes of a line that is usual
MOST = 100 * 2**20  # bytes of payloads per size: fewer rounds for large ones
REASON = "force pushes are not allowed here"
OUTCOME = CallOutcome(layer="global", hook="guards:no_force_push", outcome="answered", cause="policy", duration_ms=0.31)
SILENT = FireDecision(
    decision_id="3f2a9c1e-1", event="pre_tool_use", verdict="pass", cause=None, reason=None, layer=None, hook=None,
    retryable=False, patch=None, payload_digest="5b" * 32, append=None, resume=None, value=None, revision=1795300667911,
    duration_ms=0.5, outcomes=[OUTCOME],
)  # fmt: skip
DENIAL = msgspec.structs.replace(
    SILENT, verdict="deny", cause="policy", reason=REASON, layer="global", hook="guards:no_force_push",
    outcomes=[msgspec.structs.replace(OUTCOME, verdict="deny", message=REASON)],
)  # fmt: skip


def payload_of(size: int) -> bytes:
    """Return a tool's input of about so many bytes: a command, and a file from a certain size on."""
    command = "git fetch origin && git rebase origin/main && git push --atomic origin HEAD:refs/heads/topic/relay"
    fields: dict[str, object] = {"tool_name": "Bash", "tool_use_id": "toolu_01A09q90qw90lq917835lq9"}
    fields["tool_input"] = {"command": command, "timeout": 120000}
    missing = size - len(json.dumps(fields))
    if missing > 0:
        fields["notes"] = ("all work and no play \n" * (missing // 22 + 1))[:missing]
    return json.dumps(fields).encode()


ENVELOPE = EventEnvelope(
    "pre_tool_use", "421edd16-b2f5-4472", "3f2a-1", "/home/me/project", None, None, None, "claude-code", None, None, {}
)


class Times(msgspec.Struct):
    """Seconds of one size."""

    bytes: int
    rounds: int
    bare: list[float] = []
    before: list[float] = []
    after: list[float] = []
    denied: list[float] = []
    kept: list[float] = []


def run(record: RecordWriter, full: RecordWriter, fd: int, size: int, rounds: int) -> Times:
    """Alternate between the bare and the record, on payloads of one size."""
    data, line, clock = payload_of(size), b"x" * LINE, time.perf_counter
    times = Times(len(data), max(5, min(rounds, MOST // len(data))))
    for _ in range(times.rounds):
        payload = Payload(data)
        payload.text("tool_name")  # as the event's matchers do
        fact = FireFacts(
            payload, True, "421edd16-b2f5-4472", "9c1f03a55d20e7b4", None, "claude-code", "/home/me/project"
        )
        began = clock()
        payload.digest()
        record.choose_excerpt(fact)
        chosen = clock()
        record.append_decision(SILENT, fact)
        kept = clock()
        hashlib.sha256(data).hexdigest()
        hashlib.sha256(line).hexdigest()
        os.write(fd, line)
        done = clock()
        record.append_decision(DENIAL, fact)
        times.denied.append(clock() - done)
        whole = Payload(data)
        whole.text("tool_name")
        told = msgspec.structs.replace(fact, payload=whole, redactor=None, decision_id="3f2a-1", envelope=ENVELOPE)
        begun = clock()
        whole.digest()
        full.choose_excerpt(told)
        full.append_decision(SILENT, told)
        times.kept.append(clock() - begun)
        times.before.append(chosen - began)
        times.after.append(kept - chosen)
        times.bare.append(done - kept)
    return times


def figures(times: Times) -> dict[str, float]:
    """Return the medians, p99, and how often the bare fits into the record of a silent fire."""
    found: dict[str, float] = {"bytes": times.bytes, "rounds": times.rounds}
    for name in ("bare", "before", "after", "denied", "kept"):
        ordered = sorted(getattr(times, name))
        found[f"{name}_p50_us"] = round(ordered[len(ordered) // 2] * 1e6, 2)
        found[f"{name}_p99_us"] = round(ordered[int(len(ordered) * 0.99)] * 1e6, 2)
    found["times_bare"] = round((found["before_p50_us"] + found["after_p50_us"]) / found["bare_p50_us"], 2)
    return found


def measure(rounds: int) -> dict[str, object]:
    """Measure all sizes in one temporary folder."""
    with tempfile.TemporaryDirectory(prefix="record-", dir=os.environ.get("TMPDIR")) as name:
        record = RecordWriter(str(Path(name, "record")), RecordSettings(segment_bytes=2**40))
        full = RecordWriter(str(Path(name, "full")), RecordSettings(segment_bytes=2**40, payloads="full"))
        fd = os.open(Path(name, "bare"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            run(record, full, fd, SIZES[0], min(rounds, 500))  # so that no size pays for what is new
            results = [figures(run(record, full, fd, size, rounds)) for size in SIZES]
        finally:
            os.close(fd)
            record.close()
            full.close()
    return {"machine": describe(), "results": results}


def show(found: dict[str, object]) -> None:
    """Print a table of the results."""
    print(json.dumps(found["machine"]))
    titles = " ".join(f"{name:>9}" for name in ("bytes", "bare", "before", "after", "denied", "kept"))
    print(f"{titles}   p50 in us; before + after in bares")
    for one in msgspec.to_builtins(found["results"]):
        medians = " ".join(f"{one[f'{name}_p50_us']:9.1f}" for name in ("bare", "before", "after", "denied", "kept"))
        print(f"{one['bytes']:>9} {medians}   {one['times_bare']:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="what a fire's record costs beside a bare sha256 and a write")
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it runs")
    arguments = parser.parse_args()
    found = measure(20 if arguments.quick else arguments.rounds)
    save("record_price_quick" if arguments.quick else "record_price", found)
    show(found)
