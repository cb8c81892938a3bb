"""The third yardstick: everything that a fire is promised, as straight code that handles no failure.

client ══ unix socket ══ this process (trio) ── socketpair per worker ── worker process (blocking)

The floor with every shape that a fire of the daemon has: the whole request and the whole decision; a plan that is
looked up by the matched value; a deadline, and one alarm for all of them; statistics; frames that name the worker and
the call; an event object for the guard, and a look at what it printed; digest and redaction of the payload, while the
worker runs; a record, chained and written before the answer leaves; a short wait in place for the worker's answer.

There are no rooms, no queue's fairness, no reload and no second outcome: what goes wrong ends the process.  So this is
what the promises cost in this language with these libraries, and the daemon's distance to it is the cost of its own
structure.  Bad would be a shape that the daemon's fire has and this one lacks.

Run by bench/run.py; alone: python bench/straight.py SOCKET WORKERS RECORD, which prints "ready" and answers until
killed.
"""

from __future__ import annotations

import hashlib
import os
import select
import socket
import sys
import time
from collections import deque
from datetime import UTC, datetime
from typing import Any

import msgspec
import re2
import trio

import floor
from floor import receive, send

WAIT_IN_PLACE = 1  # milliseconds that the loop waits for a worker before other tasks get their turn
SHOWN_BYTES = 512  # of a payload, in the record
TIMEOUT = 30.0
SESSION = "c0ffee00-5e55-4000-8000-0000000bench"
HEADER = 4  # bytes of a frame's length
SECRET = re2.compile(
    r'"(?i:[a-z_-]*(?:password|passwd|secret|token|api_?key|authorization|credential)[a-z_-]*)"\s*:'
    r"|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|sk-[A-Za-z0-9_-]{20}|xox[abprs]-[A-Za-z0-9-]{10}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|(?i:bearer)\s+[A-Za-z0-9._-]{20}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\."
)


class FireParams(msgspec.Struct, gc=False):
    event: str
    payload: msgspec.Raw
    call_id: str | None = None
    wait: bool = True
    timeout: float | None = None
    context: dict[str, Any] | None = None
    plugins: list[str] | None = None
    dialect: str | None = None
    truncated: bool = False


class Request(msgspec.Struct, gc=False):
    id: int | str
    method: str
    params: FireParams
    jsonrpc: str = "2.0"


class Envelope(msgspec.Struct, gc=False):
    event: str
    decision_id: str
    session_id: str
    call_id: str | None
    cwd: str | None
    host: str


class Call(msgspec.Struct, gc=False, array_like=True):
    generation: int
    number: int
    function: str
    payload: bytes
    envelope: bytes
    timeout: float


class Answered(msgspec.Struct, gc=False, array_like=True):
    generation: int
    number: int
    verdict: str | None = None
    reason: str | None = None
    stdout: bytes = b""
    stderr: bytes = b""


class Outcome(msgspec.Struct, gc=False, omit_defaults=True):
    layer: str
    hook: str
    outcome: str
    cause: str
    duration_ms: float
    verdict: str | None = None
    message: str = ""
    stdout: str = ""
    stderr: str = ""


class Head(msgspec.Struct, gc=False):
    seq: int
    hash: str


class Decision(msgspec.Struct, gc=False):
    decision_id: str
    event: str
    verdict: str
    cause: str | None
    reason: str | None
    layer: str | None
    hook: str | None
    retryable: bool
    patch: dict[str, Any] | None
    payload_digest: str
    append: str | None
    resume: str | None
    value: object
    revision: int
    duration_ms: float
    outcomes: list[Outcome]
    record: Head


class Answer(msgspec.Struct, gc=False):
    id: int | str
    result: Decision
    jsonrpc: str = "2.0"


class Entry(msgspec.Struct, gc=False, omit_defaults=True):
    seq: int
    prev: str
    at: str
    kind: str
    decision_id: str
    event: str
    verdict: str
    session: str
    revision: int
    digest: str
    bytes: int
    excerpt: msgspec.Raw
    outcomes: list[Outcome]
    duration_ms: float
    call_id: str | None = None
    cause: str | None = None
    reason: str | None = None


class Lane(msgspec.Struct, frozen=True):
    """What is known of a fire once its event and its matched value are."""

    hook: str
    layer: str
    function: str
    timeout: float


class Plan(msgspec.Struct, frozen=True):
    matched_by: str
    lanes: dict[str, Lane]


PLANS = {
    "pre_tool_use": Plan("tool_name", {"Bash": Lane("guards:no_force_push", "global", "no_force_push", TIMEOUT)}),
}
REQUESTS = msgspec.json.Decoder(Request)
FIELDS = msgspec.json.Decoder(dict[str, Any])
CALLS = msgspec.msgpack.Decoder(Call)
ANSWERS = msgspec.msgpack.Decoder(Answered)
JSON = msgspec.json.Encoder()
PACK = msgspec.msgpack.Encoder()


class Worker:
    __slots__ = ("answers", "calls", "generation", "socket")

    def __init__(self, own: socket.socket, generation: int) -> None:
        self.socket = own
        self.generation = generation
        self.calls = 0
        self.answers = select.poll()
        self.answers.register(own, select.POLLIN)


class Record:
    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.seq = 0
        self.head = "0" * 64

    def write(self, entry: Entry) -> Head:
        self.seq += 1
        entry.seq, entry.prev = self.seq, self.head
        line = JSON.encode(entry)
        self.head = hashlib.sha256(line).hexdigest()
        os.write(self.file, b'%b,"hash":"%b"}\n' % (line[:-1], self.head.encode()))
        return Head(self.seq, self.head)


class Relay:
    def __init__(self, workers: list[Worker], record: Record) -> None:
        self.idle = workers
        self.waiting = trio.lowlevel.ParkingLot()
        self.record = record
        self.fires = 0
        self.revision = 1
        self.running: dict[Worker, float] = {}
        self.alarm = float("inf")
        self.statistics: deque[tuple[str, str, float, str]] = deque(maxlen=4096)

    async def serve(self, client: socket.socket) -> None:
        buffer = bytearray()
        while data := await receive(client):
            searched = len(buffer)
            buffer += data
            while (end := buffer.find(b"\n", searched)) >= 0:
                request = REQUESTS.decode(buffer[:end])
                del buffer[: end + 1]
                searched = 0
                await self.fire(client, request)
        client.close()

    async def fire(self, client: socket.socket, request: Request) -> None:
        began = time.monotonic()
        params = request.params
        payload = bytes(params.payload)
        plan = PLANS[params.event]
        lane = plan.lanes[FIELDS.decode(payload)[plan.matched_by]]
        self.fires += 1
        decision_id = f"b0a7-{self.fires}"
        while not self.idle:
            await self.waiting.park()
        worker = self.idle.pop()
        worker.calls += 1
        timeout = params.timeout or lane.timeout
        self.running[worker] = deadline = began + timeout
        self.alarm = min(self.alarm, deadline)
        envelope = JSON.encode(Envelope(params.event, decision_id, SESSION, params.call_id, None, "bench"))
        await send(
            worker.socket, framed(Call(worker.generation, worker.calls, lane.function, payload, envelope, timeout))
        )
        digest, excerpt = hashlib.sha256(payload).hexdigest(), excerpt_of(params.payload, payload)
        answer = await self.answer_of(worker)
        del self.running[worker]
        self.idle.append(worker)
        if self.waiting:
            self.waiting.unpark()
        took = round((time.monotonic() - began) * 1e3, 3)
        outcomes = [Outcome(lane.layer, lane.hook, "answered", "policy", took, answer.verdict, answer.reason or "")]
        verdict = answer.verdict or "pass"
        cause = None if answer.verdict is None else "policy"
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        head = self.record.write(
            Entry(
                0, "", at, "decision", decision_id, params.event, verdict, SESSION, self.revision, digest, len(payload),
                excerpt, outcomes, took, params.call_id, cause, answer.reason,
            )
        )  # fmt: skip
        layer, hook = (lane.layer, lane.hook) if answer.verdict else (None, None)
        decision = Decision(
            decision_id, params.event, verdict, cause, answer.reason, layer, hook, False, None, digest, None, None,
            None, self.revision, took, outcomes, head,
        )  # fmt: skip
        await send(client, JSON.encode(Answer(request.id, decision)) + b"\n")
        self.statistics.append((params.event, lane.hook, took, verdict))

    async def answer_of(self, worker: Worker) -> Answered:
        try:
            body = worker.socket.recv(2**16)
        except BlockingIOError:
            worker.answers.poll(WAIT_IN_PLACE)
            body = await receive(worker.socket)
        while len(body) < HEADER + int.from_bytes(body[:HEADER], "big"):
            body += await receive(worker.socket)
        answer = ANSWERS.decode(memoryview(body)[HEADER:])
        if (answer.generation, answer.number) != (worker.generation, worker.calls):
            raise RuntimeError("the answer to another call")
        return answer


def excerpt_of(raw: msgspec.Raw, payload: bytes) -> msgspec.Raw:
    """Return what the record may show: all of a short payload that hides nothing."""
    if SECRET.search(payload) is not None:
        return msgspec.Raw(b'"(hidden)"')
    return (
        raw if len(payload) <= SHOWN_BYTES else msgspec.Raw(JSON.encode(payload[:SHOWN_BYTES].decode(errors="replace")))
    )


def framed(message: msgspec.Struct) -> bytearray:
    frame = bytearray(HEADER)
    PACK.encode_into(message, frame, HEADER)
    frame[:HEADER] = (len(frame) - HEADER).to_bytes(HEADER, "big")
    return frame


class Event:
    """What a guard takes: the payload's fields as attributes, and what the host knows besides."""

    def __init__(self, fields: dict[str, Any], call: Call) -> None:
        self.__dict__.update(fields)
        self.payload = fields
        self.call = call


def be_worker(daemon: socket.socket) -> None:
    printed = [os.memfd_create("stdout"), os.memfd_create("stderr")]
    buffer = bytearray()
    while data := daemon.recv(2**16):
        buffer += data
        if len(buffer) < HEADER + int.from_bytes(buffer[:HEADER], "big"):
            continue
        call = CALLS.decode(memoryview(buffer)[HEADER:])
        buffer = bytearray()
        event = Event(FIELDS.decode(call.payload), call)
        verdict = floor.GUARDS[event.payload["tool_name"]](event)
        if any(os.lseek(one, 0, os.SEEK_CUR) for one in printed):
            raise RuntimeError("the guard printed something")
        told = (None, None) if verdict is None else (verdict.verdict, verdict.reason)
        daemon.sendall(framed(Answered(call.generation, call.number, *told)))


if __name__ == "__main__":
    path, count, record = sys.argv[1:]
    workers = [Worker(floor.start_worker(be_worker), generation) for generation in range(int(count))]
    trio.run(floor.main, floor.listen(path), Relay(workers, Record(record)).serve)
