"""A proxy that guards the tools of any MCP server over stdio: it stands between a client and the server it starts.

Needs no MCP library: it passes messages on, and only calls of tools wait for their guards.  A call that is refused
never reaches the server; the client gets a result that is an error, with the reason.  Each call waits by itself, so
calls at the same time get their own verdicts, and everything else (listing, progress, what the server asks of the
client) goes past them.

Knows messages, streams of bytes and one process; does not know what a guard decides by.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import anyio
import msgspec
from anyio.abc import Process, TaskGroup

from hooklatch.bridges.guard import Guard
from hooklatch.bridges.mcp_messages import (
    CallRequest,
    Id,
    Message,
    UnreadableMessageError,
    encode_message,
    find_cancelled_id,
    is_call,
    make_error_message,
    make_refused_result,
    read_call,
    read_result,
    read_strictly,
    replace_arguments,
)
from hooklatch.bridges.rulings import ProceedRuling, Ruling, SdkAbilities
from hooklatch_worker.sandbox.children import make_user_environment

__all__ = ["Proxy", "command_of", "run_proxy"]

log = logging.getLogger("hooklatch.bridges")
CHUNK: Final = 2**16
MAX_LINE: Final = 64 * 2**20  # bytes: a result may hold files
PATIENCE: Final = 5.0  # seconds for a server to end by itself after its input has ended, and again after SIGTERM
ABILITIES: Final = SdkAbilities(name="an MCP proxy", rewrites=True)
Receive: TypeAlias = Callable[[], Awaitable[bytes]]
Send: TypeAlias = Callable[[bytes], Awaitable[None]]


class Proxy:
    """One client and one server.  `receive` gives some bytes, b"" at the end; `send` takes a whole line."""

    def __init__(self, guard: Guard, group: TaskGroup, *, to_client: Send, to_server: Send, name: str | None) -> None:
        self._guard = guard
        self._group = group
        self._to_client = serialize_sends(to_client, group.cancel_scope)
        self._to_server = serialize_sends(to_server, group.cancel_scope)
        self._name = name
        self._asking: dict[Id, anyio.CancelScope] = {}  # calls that wait for their guards
        self._running: dict[Id, CallRequest] = {}  # calls that the server has

    async def from_client(self, line: bytes) -> None:
        """Take a line of the client: pass it on, or have it judged first."""
        message: Message | None = None
        try:
            message = read_strictly(line)
            if is_call(message):
                self._judge_soon(message, read_call(message, self._name))
                return
        except UnreadableMessageError as problem:
            await self._to_client(encode_message(make_error_message(message, problem)))
            return
        cancelled = find_cancelled_id(message)
        if cancelled is not None and (scope := self._asking.pop(cancelled, None)) is not None:
            scope.cancel()  # the server has not heard of it
            return
        await self._to_server(encode_message(message))

    async def from_server(self, line: bytes) -> None:
        """Take a line of the server: it goes to the client as it is; hooks hear of results."""
        await self._to_client(line if line.endswith(b"\n") else line + b"\n")
        try:
            message = read_strictly(line)
        except UnreadableMessageError:
            return  # the client's to judge
        identity = message.get("id")
        if "method" not in message and isinstance(identity, str | int) and (call := self._running.pop(identity, None)):
            self._group.start_soon(self._notify, call, message)

    def client_left(self) -> None:
        """Drop the calls that are still being judged: their client is gone, so none may run."""
        for scope in self._asking.values():
            scope.cancel()

    def _judge_soon(self, message: Message, call: CallRequest) -> None:
        if call.id in self._asking or call.id in self._running:
            raise UnreadableMessageError(f"the id {call.id!r} is in use by another call", -32600)
        scope = self._asking[call.id] = anyio.CancelScope()
        self._group.start_soon(self._judge, message, call, scope)

    async def _judge(self, message: Message, call: CallRequest, scope: anyio.CancelScope) -> None:
        ruling: Ruling | None = None
        try:
            with scope:
                ruling = await self._guard.before_tool(
                    call.tool, call.arguments, call.tool_use_id, ABILITIES, kind=call.kind
                )
        finally:
            if self._asking.get(call.id) is scope:
                del self._asking[call.id]
        if ruling is None:
            return  # its client has cancelled it
        if not isinstance(ruling, ProceedRuling):
            await self._to_client(encode_message(make_refused_result(call.id, ruling.text)))
            return
        if ruling.is_rewritten:
            message = replace_arguments(message, ruling.value)
        self._running[call.id] = msgspec.structs.replace(call, arguments=ruling.value)
        await self._to_server(encode_message(message))

    async def _notify(self, call: CallRequest, answer: Message) -> None:
        payload = {
            "tool_name": call.tool, "tool_input": call.arguments, "tool_use_id": call.tool_use_id, **call.kind,
        }  # fmt: skip
        has_failed, result = read_result(answer)
        if has_failed:
            await self._guard.tell("post_tool_use_failure", **payload, error=result)
        else:
            await self._guard.tell("post_tool_use", **payload, tool_response=result)


async def run_proxy(
    guard: Guard, command: Sequence[str], receive: Receive, send: Send, *, name: str | None = None
) -> int:
    """Start the server, and stand between it and the client until either ends; return the server's exit code.

    The server's standard error is this program's.  The server has ended when this returns, also after an error.

    Raises:
        OSError: the server cannot be started.
    """
    server = await anyio.open_process(list(command), stderr=None, env=make_user_environment(os.environ))
    code = 1
    assert server.stdin is not None
    output = server.stdout
    assert output is not None
    try:
        async with anyio.create_task_group() as group:
            proxy = Proxy(guard, group, to_client=send, to_server=server.stdin.send, name=name)
            group.start_soon(read_lines, receive, proxy.from_client, partial(end_input, proxy, server))
            await read_lines(partial(output.receive, CHUNK), proxy.from_server)
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            code = await end_server(server)
    return code


async def read_lines(
    receive: Receive, take: Callable[[bytes], Awaitable[None]], at_end: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Give each line to `take`; return where the lines end, or one does not."""
    received = bytearray()
    searched = 0  # bytes without a newline, which are not searched again: a long line would take the square of its size
    while data := await read_some(receive):
        received += data
        while (end := received.find(b"\n", searched)) >= 0:
            line, searched = bytes(received[: end + 1]), 0
            del received[: end + 1]
            if line.strip():
                await take(line)
        searched = len(received)
        if searched > MAX_LINE:
            log.error("a message has more than %d bytes; the proxy ends", MAX_LINE)
            break
    if at_end is not None:
        await at_end()


async def end_input(proxy: Proxy, server: Process) -> None:
    """End the server's input, and give it some time to finish what it has; it ends the proxy with its own end."""
    proxy.client_left()
    await close_input(server)
    await anyio.sleep(PATIENCE)
    server.terminate()


async def close_input(server: Process) -> None:
    assert server.stdin is not None
    with suppress(anyio.BrokenResourceError, OSError):
        await server.stdin.aclose()


async def read_some(receive: Receive) -> bytes:
    try:
        return await receive()
    except Exception as problem:  # each library of streams has errors of its own for one that is gone
        log.info("the other side is gone: %r", problem)
        return b""


def serialize_sends(send: Send, scope: anyio.CancelScope) -> Send:
    """Return `send`, so that lines of several tasks never mix; where it fails, the proxy ends."""
    lock = anyio.Lock(fast_acquire=True)

    async def send_whole(line: bytes) -> None:
        async with lock:
            try:
                await send(line)
            except Exception as problem:
                log.info("the other side is gone: %r", problem)
                scope.cancel()

    return send_whole


async def end_server(server: Process) -> int:
    """End the server as MCP says: end its input, then SIGTERM, then SIGKILL; return its exit code."""
    await close_input(server)
    for insist in (server.terminate, server.kill):
        with anyio.move_on_after(PATIENCE):
            await server.wait()
            break
        with suppress(ProcessLookupError):
            insist()
    code = await server.wait()
    await server.aclose()
    return code


def command_of(server: Sequence[str], *, name: str | None = None, runtime_dir: str | None = None) -> list[str]:
    """Return the command that starts the proxy around a server: what to write into a client's configuration instead.

    With it any MCP library guards a server: StdioServerParameters(command=command[0], args=command[1:]).
    """
    options: list[str] = []
    for option, value in (("--name", name), ("--runtime-dir", runtime_dir)):
        options += [] if value is None else [option, value]
    return [sys.executable, "-P", "-m", "hooklatch", "mcp", *options, "--", *server]
