"""The floor: two hops through trio and nothing else, a lower bound for any daemon with this architecture.

client ══ unix socket ══ this process (trio) ── socketpair per worker ── worker process (blocking)

It receives the same lines and calls the same function as the daemon; it has no deadlines, matching, registry, record or
supervision, and dies with a worker.  It is written to be fast: one task per connection answers in place, sockets are
tried before waiting for them, and decoders are typed and created once.

Run by bench/run.py; alone: python bench/floor.py SOCKET [WORKERS], which prints "ready" and answers until killed.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from types import SimpleNamespace

import msgspec
import trio

from guards import no_force_push

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


REQUESTS = msgspec.json.Decoder(Request)
CALLS = msgspec.msgpack.Decoder(Call)
VERDICTS = msgspec.msgpack.Decoder(Verdict)
JSON = msgspec.json.Encoder()
PACK = msgspec.msgpack.Encoder()


class Relay:
    def __init__(self, workers: list[socket.socket]) -> None:
        self.idle = workers
        self.waiting = trio.lowlevel.ParkingLot()

    async def serve(self, client: socket.socket) -> None:
        buffer = bytearray()
        while data := await receive(client):
            buffer += data
            while (end := buffer.find(b"\n")) >= 0:
                request = REQUESTS.decode(buffer[:end])
                del buffer[: end + 1]
                verdict = await self.call(Call(request.params.event, bytes(request.params.payload)))
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


async def send(stream: socket.socket, data: bytes) -> None:
    while data:
        try:
            data = data[stream.send(data) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(stream)


def framed(message: msgspec.Struct) -> bytes:
    body = PACK.encode(message)
    return HEADER.pack(len(body)) + body


def be_worker(daemon: socket.socket) -> None:
    buffer = b""
    while data := daemon.recv(2**16):
        buffer += data
        if len(buffer) < HEADER.size + HEADER.unpack_from(buffer)[0]:
            continue
        call = CALLS.decode(memoryview(buffer)[HEADER.size :])
        buffer = b""
        verdict = no_force_push(SimpleNamespace(**msgspec.json.decode(call.payload)))
        answer = Verdict("pass") if verdict is None else Verdict(verdict.verdict, verdict.reason)
        daemon.sendall(framed(answer))


def start_worker() -> socket.socket:
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        be_worker(theirs)
        os._exit(0)
    theirs.close()
    ours.setblocking(False)
    return ours


async def main(listener: socket.socket, workers: list[socket.socket]) -> None:
    relay = Relay(workers)
    async with trio.open_nursery() as nursery:
        while True:
            await trio.lowlevel.wait_readable(listener)
            client, _ = listener.accept()
            client.setblocking(False)
            nursery.start_soon(relay.serve, client)


if __name__ == "__main__":
    workers = [start_worker() for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1)]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(64)
    listener.setblocking(False)
    print("ready", flush=True)
    trio.run(main, listener, workers)
