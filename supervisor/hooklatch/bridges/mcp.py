"""A proxy that guards the tools of any MCP server over stdio: it stands between a client and the server it starts.

Needs no MCP library: it passes messages on, and only calls of tools wait for their guards.  A call that is refused
never reaches the server; the client gets a result that is an error, with the reason.  Each call waits by itself, so
calls at the same time get their own verdicts, and everything else (listing, progress, what the server asks of the
client) goes past them.

What a client sends is read strictly and written anew, since a server may read the same bytes in another way: it may
keep the first of two equal keys, or end a line at a carriage return, and so be called with something that no guard saw.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias, cast

import anyio
import msgspec
from anyio.abc import Process, TaskGroup

from hooklatch.bridges.guard import Guard
from hooklatch.bridges.rulings import ProceedRuling, Ruling, SdkAbilities
from hooklatch.core.light_json import is_object, parse_json
from hooklatch_worker.sandbox.children import make_user_environment

__all__ = [
    "Id", "Message", "UnreadableMessageError", "read_call", "encode_message", "is_call", "read_strictly",
    "command_of", "run_proxy",
]  # fmt: skip

Id: TypeAlias = "str | int"
Message: TypeAlias = "dict[str, Any]"

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
CLAUDE_ID: Final = "claudecode/toolUseId"  # in `_meta`: the model's own id of the call


class UnreadableMessageError(ValueError):
    """A line that is not a message, or that parsers read differently; `code` is JSON-RPC's."""

    def __init__(self, text: str, code: int = PARSE_ERROR) -> None:
        super().__init__(text)
        self.code = code


class CallRequest(msgspec.Struct, frozen=True):
    """A request to call a tool; `name` is the server's own name for it, `server` is "" where the server has no name."""

    id: Id
    server: str
    name: str
    arguments: dict[str, Any]
    tool_use_id: str

    @property
    def tool(self) -> str:
        """Return the tool's name as hooks see it: `mcp__SERVER__TOOL` if the server has a name."""
        return f"mcp__{self.server}__{self.name}" if self.server else self.name

    @property
    def kind(self) -> dict[str, Any]:
        """Return the kind of the tool and its canonical arguments."""
        tool_args = {"server": self.server, "tool": self.name, "arguments": self.arguments}
        return {"tool_kind": "mcp", "tool_args": tool_args}


def read_strictly(line: bytes) -> Message:
    """Return the one message of a line.

    Raises:
        UnreadableMessageError: it is not JSON, has a key twice or a number that JSON does not allow, or is not an
            object, as a batch, which no client needs any more.
    """
    try:
        value = parse_json(line.decode())
    except (ValueError, RecursionError) as problem:
        raise UnreadableMessageError(f"not a message: {problem}") from None
    if not is_object(value):
        raise UnreadableMessageError("a message is one JSON object; batches are not accepted", INVALID_REQUEST)
    return value


def encode_message(message: Message) -> bytes:
    """Return a message as a line; all but ASCII is escaped, so that no reader can find another line's end."""
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def is_call(message: Message) -> bool:
    """Return whether it asks for a tool to be called."""
    return message.get("method") == "tools/call"


def read_call(message: Message, server: str | None) -> CallRequest:
    """Return what is called.

    Raises:
        UnreadableMessageError: it has no usable id, name or arguments.
    """
    identity = message.get("id")
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        raise UnreadableMessageError("a call of a tool needs an id, a text or a whole number", INVALID_REQUEST)
    params = message.get("params")
    if not isinstance(params, dict):
        raise UnreadableMessageError("a call of a tool needs params", INVALID_PARAMS)
    fields = cast("dict[str, Any]", params)
    name, arguments = fields.get("name"), fields.get("arguments")
    if not isinstance(name, str) or not name:
        raise UnreadableMessageError("a call of a tool needs its name", INVALID_PARAMS)
    if arguments is not None and not isinstance(arguments, dict):
        raise UnreadableMessageError("the arguments of a tool are an object", INVALID_PARAMS)
    meta = fields.get("_meta")
    claude_id = cast("dict[str, Any]", meta).get(CLAUDE_ID) if isinstance(meta, dict) else None
    tool_use_id = claude_id if isinstance(claude_id, str) and claude_id else f"mcp-{identity}"
    return CallRequest(identity, server or "", name, cast("dict[str, Any]", arguments or {}), tool_use_id)


def replace_arguments(message: Message, arguments: dict[str, Any]) -> Message:
    return {**message, "params": {**message["params"], "arguments": arguments}}


def make_refused_result(identity: Id, text: str) -> Message:
    """Return the answer to a call that was refused: a result that is an error, which clients show to the model."""
    content = [{"type": "text", "text": text}]
    return {"jsonrpc": "2.0", "id": identity, "result": {"content": content, "isError": True}}


def make_error_message(message: object, problem: UnreadableMessageError) -> Message:
    identity = cast("Message", message).get("id") if isinstance(message, dict) else None
    usable = identity if isinstance(identity, str | int) and not isinstance(identity, bool) else None
    return {"jsonrpc": "2.0", "id": usable, "error": {"code": problem.code, "message": f"hooklatch: {problem}"}}


def find_cancelled_id(message: Message) -> Id | None:
    """Return which request a notification cancels, if it is one that does."""
    params = message.get("params")
    if message.get("method") != "notifications/cancelled" or not isinstance(params, dict):
        return None
    identity = cast("dict[str, Any]", params).get("requestId")
    return identity if isinstance(identity, str | int) and not isinstance(identity, bool) else None


def read_result(answer: Message) -> tuple[bool, object]:
    """Return whether a call has failed, and its result or its error."""
    if (failure := answer.get("error")) is not None:
        return True, failure
    has_failed = isinstance(answer.get("result"), dict) and answer["result"].get("isError") is True
    return has_failed, answer.get("result")


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
        self._running: dict[Id | float, CallRequest] = {}  # calls that the server has
        self._answers: list[anyio.Event] = []  # of results that are being judged

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
        """Take a line of the server: it goes to the client as it is, but for results, which their guards judge."""
        try:
            message = read_strictly(line)
        except UnreadableMessageError as problem:
            if not self._running or line.lstrip()[:1] not in (b"{", b"["):
                await self._to_client(line if line.endswith(b"\n") else line + b"\n")  # no result of a call is in it
                return
            for call in list(self._running.values()):  # it may hold the result of any of them
                text = f"withheld by hooklatch: the server's answer cannot be read: {problem}"
                await self._to_client(encode_message(make_refused_result(call.id, text)))
            self._running.clear()
            return
        identity = message.get("id")
        is_answer = "method" not in message or "result" in message
        if is_answer and isinstance(identity, str | int | float) and identity in self._running:
            self._answers.append(anyio.Event())
            self._group.start_soon(self._answer, self._running.pop(identity), message, self._answers[-1])
            return
        await self._to_client(line if line.endswith(b"\n") else line + b"\n")

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

    async def wait_answered(self) -> None:
        """Wait until the client has every result that the server has given."""
        for answered in list(self._answers):
            await answered.wait()

    async def _answer(self, call: CallRequest, answer: Message, answered: anyio.Event) -> None:
        """Give the client a result as its guards let it through; a failure it gets as it is."""
        try:
            await self._judge_answer(call, answer)
        finally:
            answered.set()
            self._answers.remove(answered)

    async def _judge_answer(self, call: CallRequest, answer: Message) -> None:
        payload = {
            "tool_name": call.tool, "tool_input": call.arguments, "tool_use_id": call.tool_use_id, **call.kind,
        }  # fmt: skip
        has_failed, result = read_result(answer)
        if has_failed:
            await self._to_client(encode_message(answer))
            await self._guard.tell("post_tool_use_failure", **payload, error=result)
            return
        ruling = await self._guard.after_tool(result, ABILITIES, **payload)
        if not isinstance(ruling, ProceedRuling):
            answer = make_refused_result(call.id, ruling.text)
        elif ruling.is_rewritten:
            answer = {**answer, "result": ruling.value}
        await self._to_client(encode_message(answer))


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
            await proxy.wait_answered()
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
