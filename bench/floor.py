"""The floor: two hops through trio and nothing else, a lower bound for any daemon with this architecture.

client ══ unix socket ══ this process (trio) ── socketpair per worker ── worker process (blocking)

It receives the same lines and calls the same function as the daemon; it has no deadlines, matching, registry, record or
supervision, and dies with a worker.  It is written to be fast: one task per connection answers in place, sockets are
tried before waiting for them, and decoders are typed and created once.

With a RECORD file it is a second yardstick: each decision is written to that file before its answer leaves, chained by
sha256 to the one before.  What is between the two is the price of that promise, and not of any code.

Run by bench/run.py; alone: python bench/floor.py SOCKET [WORKERS [RECORD]], which prints "ready" and answers until
killed.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import msgspec
import trio

import guards

GUARDS = {"Bash": guards.no_force_push, "Sleep": guards.sleep, "Spin": guards.spin}
HEADER = struct.Struct("!I")


class Fire(msgspec.Struct):
    event: str
    payload: msgspec.Raw


class Request(msgspec.Struct):
    id: int
    params: Fire


class Call(msgspec.Struct):
    event: str
    payload: bytes


class Verdict(msgspec.Struct):
    verdict: str
    reason: str | None = None


class Answer(msgspec.Struct):
    id: int
    result: Verdict
    jsonrpc: str = "2.0"


class Entry(msgspec.Struct):
    prev: str
    digest: str
    event: str
    verdict: str


REQUESTS = msgspec.json.Decoder(Request)
CALLS = msgspec.msgpack.Decoder(Call)
VERDICTS = msgspec.msgpack.Decoder(Verdict)
JSON = msgspec.json.Encoder()
PACK = msgspec.msgpack.Encoder()


class Chain:
    """The record: a line for each decision, with the hash of the line before it."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.head = ""

    def add(self, call: Call, verdict: Verdict) -> None:
        line = JSON.encode(Entry(self.head, hashlib.sha256(call.payload).hexdigest(), call.event, verdict.verdict))
        self.head = hashlib.sha256(line).hexdigest()
        os.write(self.file, line + b"\n")


class Relay:
    def __init__(self, workers: list[socket.socket], chain: Chain | None) -> None:
        self.idle = workers
        self.chain = chain
        self.waiting = trio.lowlevel.ParkingLot()

    async def serve(self, client: socket.socket) -> None:
        buffer = bytearray()
        while data := await receive(client):
            searched = len(buffer)
            buffer += data
            while (end := buffer.find(b"\n", searched)) >= 0:
                request = REQUESTS.decode(buffer[:end])
                del buffer[: end + 1]
                searched = 0
                call = Call(request.params.event, bytes(request.params.payload))
                verdict = await self.call(call)
                if self.chain is not None:
                    self.chain.add(call, verdict)
                await send(client, JSON.encode(Answer(request.id, verdict)) + b"\n")
        client.close()

    async def call(self, call: Call) -> Verdict:
        while not self.idle:
            await self.waiting.park()
        worker = self.idle.pop()
        await send(worker, framed(call))
        body = await receive(worker)
        while len(body) < HEADER.size + HEADER.unpack_from(body)[0]:
            body += await receive(worker)
        self.idle.append(worker)
        if self.waiting:
            self.waiting.unpark()
        return VERDICTS.decode(memoryview(body)[HEADER.size :])


async def receive(stream: socket.socket) -> bytes:
    while True:
        try:
            return stream.recv(2**16)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(stream)


async def send(stream: socket.socket, data: bytes | bytearray) -> None:
    while data:
        try:
            data = data[stream.send(data) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(stream)


def framed(message: msgspec.Struct) -> bytes:
    body = PACK.encode(message)
    return HEADER.pack(len(body)) + body


def be_worker(daemon: socket.socket) -> None:
    buffer = bytearray()
    while data := daemon.recv(2**16):
        buffer += data
        if len(buffer) < HEADER.size + HEADER.unpack_from(buffer)[0]:
            continue
        call = CALLS.decode(memoryview(buffer)[HEADER.size :])
        buffer = bytearray()
        event = SimpleNamespace(**msgspec.json.decode(call.payload))
        verdict = GUARDS[event.tool_name](event)
        answer = Verdict("pass") if verdict is None else Verdict(verdict.verdict, verdict.reason)
        daemon.sendall(framed(answer))


def start_worker(run: Callable[[socket.socket], None]) -> socket.socket:
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        run(theirs)
        os._exit(0)
    theirs.close()
    ours.setblocking(False)
    return ours


def listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    listener.setblocking(False)
    print("ready", flush=True)
    return listener


async def main(listener: socket.socket, serve: Callable[[socket.socket], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        while True:
            await trio.lowlevel.wait_readable(listener)
            client, _ = listener.accept()
            client.setblocking(False)
            nursery.start_soon(serve, client)


if __name__ == "__main__":
    path, *more = sys.argv[1:]
    workers = [start_worker(be_worker) for _ in range(int(more[0]) if more else 1)]
    relay = Relay(workers, Chain(more[1]) if len(more) > 1 else None)
    trio.run(main, listen(path), relay.serve)
