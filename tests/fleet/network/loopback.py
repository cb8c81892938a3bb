"""Wires where there can be no namespaces: one relay process between each node's port of 127.0.0.1 and the engine.

A cut looks to a host much as the real ones do: `down` and `unplugged` refuse and reset connections, `silent` takes them
and lets nothing through.  Run as a program it is the relay; `Loopback` starts and orders it.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import trio

__all__ = ["Loopback"]

CHUNK = 16 * 1024
SLOW_CHUNK, SLOW_PAUSE = 1024, 0.1  # bytes, and seconds for each of them


class Loopback:
    """See `Wires`."""

    kind = "loopback"

    def __init__(self, nodes: list[str], engine: Path) -> None:
        self.listening = {"port": "0"}
        self._relay = subprocess.Popen(
            [sys.executable, __file__, str(engine), *nodes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ports = {node: int(self._answer()) for node in nodes}

    def prefix(self, node: str) -> list[str]:
        return []

    def url(self, node: str, user: str) -> str:
        return f"redis://{user}@127.0.0.1:{self._ports[node]}/0"

    def cut(self, node: str, how: str) -> None:
        self._order("hold" if how == "silent" else "cut", node)

    def slow(self, node: str) -> None:
        self._order("slow", node)

    def mend(self, node: str) -> None:
        self._order("open", node)

    def close(self) -> None:
        assert self._relay.stdin is not None
        assert self._relay.stdout is not None
        self._relay.stdin.close()
        self._relay.wait(30)
        self._relay.stdout.close()

    def _order(self, verb: str, node: str) -> None:
        assert self._relay.stdin is not None
        self._relay.stdin.write(f"{verb} {node}\n")
        self._relay.stdin.flush()
        assert self._answer() == verb

    def _answer(self) -> str:
        assert self._relay.stdout is not None
        line = self._relay.stdout.readline()
        assert line, "the relay ended"
        return line.strip()


class Wire:
    """One node's way to the engine."""

    def __init__(self, nursery: trio.Nursery, engine: str) -> None:
        self._nursery = nursery
        self._engine = engine
        self._scope = trio.CancelScope()
        self._way = trio.Event()
        self._is_slow = False
        self.port = 0

    async def open(self) -> None:
        """Listen again, if it was cut; let pass what was held."""
        self._is_slow = False
        self._way.set()
        if self._scope.cancel_called or not self.port:
            self._scope = trio.CancelScope()
            await self._nursery.start(self._listen)

    def cut(self) -> None:
        self._scope.cancel()

    def hold(self) -> None:
        self._way = trio.Event()

    def slow(self) -> None:
        self._is_slow = True

    async def _listen(self, task_status: trio.TaskStatus[None]) -> None:
        [listener] = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
        self.port = int(listener.socket.getsockname()[1])
        with self._scope:
            async with trio.open_nursery() as nursery:
                task_status.started()
                await trio.serve_listeners(self._serve, [listener], handler_nursery=nursery)

    async def _serve(self, host: trio.SocketStream) -> None:
        with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            await self._way.wait()
            engine = await trio.open_unix_socket(self._engine)
            async with engine, trio.open_nursery() as nursery:
                nursery.start_soon(self._pump, host, engine, nursery.cancel_scope)
                nursery.start_soon(self._pump, engine, host, nursery.cancel_scope)

    async def _pump(self, source: trio.SocketStream, sink: trio.SocketStream, whole: trio.CancelScope) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some(SLOW_CHUNK if self._is_slow else CHUNK):
                if self._is_slow:
                    await trio.sleep(SLOW_PAUSE)
                await self._way.wait()
                await sink.send_all(data)
        whole.cancel()


async def relay(engine: str, nodes: list[str]) -> None:
    """Relay until the input ends, following the orders that it holds."""
    async with trio.open_nursery() as nursery:
        wires = {node: Wire(nursery, engine) for node in nodes}
        for wire in wires.values():
            await wire.open()
            say(str(wire.port))
        orders = trio.lowlevel.FdStream(0)
        held = b""
        while data := await orders.receive_some():
            *lines, held = (held + data).split(b"\n")
            for line in lines:
                verb, node = line.decode().split()
                if verb == "open":
                    await wires[node].open()
                else:
                    {"cut": wires[node].cut, "hold": wires[node].hold, "slow": wires[node].slow}[verb]()
                say(verb)
        nursery.cancel_scope.cancel()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    trio.run(relay, sys.argv[1], sys.argv[2:])
