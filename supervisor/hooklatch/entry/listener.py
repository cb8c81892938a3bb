"""A listener for Claude Code's http hooks on loopback: a forwarder that is not started for each event.  Opt-in.

    POST /claude-code/EVENT, a bearer token ─▶ method `host` of the daemon ─▶ 200 and a document, or a text

It is a process of its own, so that the daemon stays without network code.  It needs h11, which comes with
hooklatch[listen].  Claude Code lets a call pass when it gets no answer, so a failure never looks like an answer: with
`onFailure: "block"` every status but 2xx blocks, and so does a 2xx that is not JSON.  Only an empty 2xx passes, and
none is ever sent.

Any program of any user can connect to a loopback port.  So a request needs the token, from a file that only its owner
can read.  It also names this host and this port, which a page in a browser cannot do, even if its own name leads here.
A connection that has not yet shown the token has a few seconds, and takes no place of those that have.
"""

from __future__ import annotations

import hmac
import logging
import math
import os
import secrets
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h11
import trio

from hooklatch.entry.asking import ForwarderProcess, NoAnswerError, read_entry_reply, request_answer
from hooklatch.entry.refusals import MAX_FRAME, MODEL, PERSON, PROMPTS, RESULTS, make_reason
from hooklatch.hosts.find import find_host
from hooklatch.threads import in_thread

__all__ = ["ADDRESS", "Reply", "TokenError", "ask_for_reply", "read_token", "serve_listener", "make_listener_settings"]

logger = logging.getLogger("hooklatch.listener")
ADDRESS = "127.0.0.1"
HOST = "claude-code"
UNHEARD = frozenset({"SessionStart", "Setup"})  # Claude Code sends neither by http: it skips them silently
PROJECT = b"hooklatch-project-dir"  # a header that the settings fill with $CLAUDE_PROJECT_DIR
MAX_CONNECTIONS = 256  # that have shown the token
MAX_STRANGERS = 64  # connections that have not shown it yet; for one more, the oldest of them is closed
INTRODUCTION = 5.0  # seconds until a connection must have shown the token
MAX_HEAD = 2**14
RECEIVED = 2**16
IDLE = 600.0  # seconds that a kept connection may be silent
TIMELY = 20.0  # seconds for the rest of a request, for a place, and for the client to read an answer
GRACE = 2.0  # seconds beyond the daemon's own limit

Reply = tuple[int, str, str]  # status, content type, body


class TokenError(Exception):
    """The token's file cannot be used; the text says why."""


class HttpRefusedError(Exception):
    """A request that is not answered with a decision, but with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


LATE = HttpRefusedError(408, "the request did not end in time")


def read_token(path: str) -> str:
    """Return the token in a file; make the file with a new token where there is none.

    Raises:
        TokenError: it belongs to another user, or others could read it, or it is too short to be a secret.
    """
    try:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            pass
        else:
            with os.fdopen(fd, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            text = os.read(fd, 1000).decode("ascii").strip() if stat.S_ISREG(status.st_mode) else ""
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:
        raise TokenError(f"the token {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise TokenError(f"the token {path} is not yours alone; remove it, and a new one is made")
    if len(text) < 32 or not text.isprintable():
        raise TokenError(
            f"the token {path} is not a secret of at least 32 characters; remove it, and a new one is made"
        )
    return text


# -- one request ---------------------------------------------------------------------------------------------------


def admit_request(request: h11.Request, token: str, port: int) -> str:
    """Return the event that a request is for.

    Raises:
        HttpRefusedError: it is not for this listener, or its client may not fire events.
    """
    headers = [(bytes(name), bytes(value)) for name, value in request.headers]
    names = [value for name, value in headers if name == b"host"]
    if names not in ([f"{ADDRESS}:{port}".encode()], [f"localhost:{port}".encode()]):
        raise HttpRefusedError(421, "this listener answers to its own address and port alone")
    given = [value for name, value in headers if name == b"authorization"]
    if len(given) != 1 or not hmac.compare_digest(given[0], f"Bearer {token}".encode()):
        raise HttpRefusedError(401, "the bearer token is missing or wrong; install hooklatch for Claude Code again")
    if any(name == b"origin" for name, _ in headers):
        raise HttpRefusedError(403, "a page in a browser may not send events")
    parts = bytes(request.target).decode("ascii", "replace").split("/")
    if len(parts) != 3 or parts[:2] != ["", HOST] or parts[2] not in find_host(HOST).events or parts[2] in UNHEARD:
        raise HttpRefusedError(404, "there is no such event here; the path is /claude-code/EVENT")
    if request.method != b"POST":
        raise HttpRefusedError(405, "an event is sent by POST")
    return parts[2]


def read_project_environment(request: h11.Request) -> dict[bytes, bytes]:
    """Return the part of the host's environment that a header carries."""
    values = [bytes(value) for name, value in request.headers if bytes(name) == PROJECT]
    return {b"CLAUDE_PROJECT_DIR": values[0]} if len(values) == 1 and values[0] else {}


async def ask_for_reply(event: str, document: bytes, environ: dict[bytes, bytes], place: Sequence[str]) -> Reply:
    """Return the daemon's answer to an event.  Without a whole answer, it is a status that blocks, and a text."""
    spec = find_host(HOST).events[event]
    wait = spec.wait if spec.kind != "notify" else 1.0
    entry = ForwarderProcess([HOST, event, "--kind", spec.kind, "--wait", f"{wait:.3f}", *place])
    entry.document = document
    with trio.move_on_after(wait + GRACE):
        return await in_thread(ask_daemon, entry, document, environ, wait, abandon_on_cancel=True)
    return make_failed_reply(504, entry, "late")


def ask_daemon(entry: ForwarderProcess, document: bytes, environ: dict[bytes, bytes], wait: float) -> Reply:
    try:
        document.decode()
    except UnicodeDecodeError:
        return make_failed_reply(400, entry, "encoding")
    try:
        line = request_answer(entry, document, time.monotonic() + wait, environ)
        code, stdout, stderr = read_entry_reply(entry, line)
    except NoAnswerError as error:
        return make_failed_reply(502, entry, error.cause, error.detail)
    if code:
        return 403, "text/plain; charset=utf-8", stderr.decode()
    return 200, "application/json", stdout.decode() if stdout.strip() else "{}\n"


def make_refused_reply(refusal: HttpRefusedError) -> Reply:
    return refusal.status, "text/plain; charset=utf-8", f"Not run: hooklatch refused the request: {refusal}\n"


def make_failed_reply(status: int, entry: ForwarderProcess, cause: str, detail: bytes = b"") -> Reply:
    if (HOST, entry.event) in RESULTS:  # a status that blocks elsewhere leaves the result there
        return 200, "application/json", entry.make_outputs(cause, detail)[1].decode()
    reason = make_reason(cause, detail, PERSON if entry.event in PROMPTS else MODEL, entry.event)
    return status, "text/plain; charset=utf-8", f"{reason.decode()}\n"


# -- http ----------------------------------------------------------------------------------------------------------


class ListenerConnections:
    """The open connections: authenticated ones, and strangers, of which the oldest is closed for a new one."""

    def __init__(self) -> None:
        self.authenticated = trio.Semaphore(MAX_CONNECTIONS)
        self.strangers: dict[ConnectionLease, None] = {}  # the oldest first


class ConnectionLease:
    """The time limit of one connection: brief, unless it shows the token.  A context manager around its service."""

    def __init__(self, connections: ListenerConnections) -> None:
        self.is_authenticated = False
        self.is_late = False  # it has shown no token in time
        self._connections = connections
        self._scope = trio.CancelScope()

    def __enter__(self) -> ConnectionLease:
        strangers = self._connections.strangers
        if len(strangers) >= MAX_STRANGERS:
            oldest = next(iter(strangers))
            del strangers[oldest]
            oldest._scope.cancel()
        strangers[self] = None
        self._scope.deadline = trio.current_time() + INTRODUCTION
        self._scope.__enter__()
        return self

    def __exit__(self, *error: Any) -> bool:
        is_stranger = self in self._connections.strangers
        self._connections.strangers.pop(self, None)
        if self.is_authenticated:
            self._connections.authenticated.release()
        is_handled = self._scope.__exit__(*error)
        self.is_late = self._scope.cancelled_caught and is_stranger
        return is_handled

    async def prolong(self) -> None:
        """Give a connection that has shown the token a place that lasts.

        Raises:
            HttpRefusedError: none became free in time.
        """
        if self.is_authenticated:
            return
        self._connections.strangers.pop(self, None)
        self._scope.deadline = math.inf
        with trio.move_on_after(TIMELY):
            await self._connections.authenticated.acquire()
            self.is_authenticated = True
            return
        raise HttpRefusedError(503, f"{MAX_CONNECTIONS} connections are open already")


class Client:
    """One connection: requests in, one reply to each."""

    def __init__(self, stream: trio.SocketStream, token: str, place: Sequence[str], lease: ConnectionLease) -> None:
        self._stream = stream
        self._lease = lease
        self._token = token
        self._place = place
        self._port: int = stream.socket.getsockname()[1]
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)

    async def serve(self) -> None:
        """Answer requests until the client leaves, or one of them cannot be read."""
        is_open = True
        while is_open:
            try:
                reply = await self._handle()
            except HttpRefusedError as refusal:
                reply = make_refused_reply(refusal)
            except h11.RemoteProtocolError as error:
                reply = make_refused_reply(HttpRefusedError(error.error_status_hint, str(error)))
            if reply is None:
                return
            with trio.fail_after(TIMELY):
                await self._send(*reply)
            is_open = self._lease.is_authenticated and self._is_between_requests()
            if is_open:
                self._http.start_next_cycle()
        await self._hang_up()

    async def refuse_late(self) -> None:
        """Refuse a client that has not shown the token in time."""
        with trio.move_on_after(1):
            await self._send(*make_refused_reply(LATE))
        await self._hang_up()

    async def _hang_up(self) -> None:
        with trio.move_on_after(1):  # a socket closed with unread input is reset, and the reply may be lost
            await self._stream.send_eof()
            while await self._stream.receive_some(RECEIVED):
                continue

    def _is_between_requests(self) -> bool:
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _handle(self) -> Reply | None:
        with trio.move_on_after(IDLE) as idle_scope:
            await self._wait_for_request()
        if idle_scope.cancelled_caught:
            return None
        post = await self._read_post()
        return await ask_for_reply(*post, self._place) if post is not None else None

    async def _read_post(self) -> tuple[str, bytes, dict[bytes, bytes]] | None:
        """Return the event, the document and the environment of a request; None at the end of input."""
        with trio.move_on_after(TIMELY):
            request = await self._read_event()
            if not isinstance(request, h11.Request):
                return None
            event = admit_request(request, self._token, self._port)
            await self._lease.prolong()
            return event, await self._read_body(), read_project_environment(request)
        raise LATE

    async def _wait_for_request(self) -> None:
        """Wait for the first bytes of a request, or for the end of input."""
        if not self._http.trailing_data[0]:
            self._http.receive_data(await self._stream.receive_some(RECEIVED))

    async def _read_body(self) -> bytes:
        document = bytearray()
        while not isinstance(event := await self._read_event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                document += event.data
            if len(document) > MAX_FRAME:
                raise HttpRefusedError(413, f"the event is larger than {MAX_FRAME} bytes")
        return bytes(document)

    async def _read_event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                continuation = h11.InformationalResponse(status_code=100, headers=[])
                await self._stream.send_all(self._http.send(continuation) or b"")
            self._http.receive_data(await self._stream.receive_some(RECEIVED))
        return event

    async def _send(self, status: int, content_type: str, text: str) -> None:
        body = text.encode()
        headers = [("content-type", content_type), ("content-length", str(len(body))), ("cache-control", "no-store")]
        data = self._http.send(h11.Response(status_code=status, headers=headers)) or b""
        data += self._http.send(h11.Data(data=body)) or b""
        await self._stream.send_all(data + (self._http.send(h11.EndOfMessage()) or b""))


async def serve_listener(port: int, token: str, place: Sequence[str], on_ready: Callable[[int], None]) -> None:
    """Listen on a port of loopback, 0 for any that is free, until cancelled; call `on_ready` with its number.

    Raises:
        OSError: it cannot be listened on.
    """
    connections = ListenerConnections()
    (listener,) = await trio.open_tcp_listeners(port, host=ADDRESS)
    trio.to_thread.current_default_thread_limiter().total_tokens = MAX_CONNECTIONS

    async def serve_one(stream: trio.SocketStream) -> None:
        # The boundary that must catch all: a failure of one client must not end the others.  It gets no reply, so its
        # call is blocked.
        try:
            async with stream:
                lease = ConnectionLease(connections)
                client = Client(stream, token, place, lease)
                with lease:
                    await client.serve()
                if lease.is_late:
                    await client.refuse_late()
        except (trio.BrokenResourceError, trio.TooSlowError, trio.ClosedResourceError) as error:
            logger.debug("client gone: %s", error)
        except Exception:
            logger.exception("a connection failed")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve_one, [listener])
        on_ready(listener.socket.getsockname()[1])


def make_listener_settings(port: int) -> dict[str, Any]:
    """Return the hooks of Claude Code's settings that ask a listener on this port."""
    hooks = {
        event: [{"hooks": [{
            "type": "http",
            "url": f"http://{ADDRESS}:{port}/{HOST}/{event}",
            "timeout": int(spec.limit),
            "onFailure": "block",
            "headers": {"Authorization": "Bearer $HOOKLATCH_TOKEN", "Hooklatch-Project-Dir": "$CLAUDE_PROJECT_DIR"},
            "allowedEnvVars": ["HOOKLATCH_TOKEN", "CLAUDE_PROJECT_DIR"],
        }]}]
        for event, spec in find_host(HOST).events.items()
        if spec.event and event not in UNHEARD and not spec.alters_host
    }  # fmt: skip
    return {"hooks": hooks}
