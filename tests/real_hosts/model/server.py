"""A model API on loopback that plays scripts, and keeps what it was told.  Knows the wires, and no program."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

from real_hosts.model import anthropic, augment, chat, gemini, responses
from real_hosts.model.conversation import Turn, next_reply

__all__ = ["Model"]


class Model:
    """The server, the plays of the present run, and the requests of it in the order of their arrival."""

    def __init__(self, port: int) -> None:
        self.plays: dict[str, list[Turn]] = {}
        self.requests: list[dict[str, Any]] = []
        self.told: dict[str, str] = {}
        self.called: list[str] = []
        self.errors: list[str] = []
        self._lock = threading.Lock()
        model = self

        class Handler(_Handler):
            def answer(self, path: str, body: dict[str, Any]) -> tuple[str, bytes]:
                return model.answer(path, body)

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def begin(self, plays: dict[str, list[Turn]]) -> None:
        """Forget the last run; play these from now on."""
        self.plays, self.requests, self.told, self.called, self.errors = plays, [], {}, [], []

    def answer(self, path: str, body: dict[str, Any]) -> tuple[str, bytes]:
        """Return the content type and body of the answer; what was no request of a known API is kept as an error."""
        wire = _wire(path)
        if wire is None or "count" in path.lower():
            listed = [{"id": "fake", "object": "model"}] if path == "/v1/models" else []
            anything = {"data": listed, "models": [], "input_tokens": 9, "totalTokens": 9}
            return "application/json", json.dumps(augment.ANSWERS.get(path, anything)).encode()
        try:
            conversation = wire.read(body)
            with self._lock:
                self.requests.append({"path": path, "at": time.monotonic(), "play": conversation.play, "body": body})
                self.told |= conversation.told
            reply = next_reply(self.plays, conversation)
            self.called += [name for name, _ in reply.calls]
            return wire.render(body, reply)
        except Exception as error:
            self.errors.append(f"{path}: {type(error).__name__}: {error}")
            raise


def _wire(path: str) -> ModuleType | None:
    if path.endswith("/messages"):
        return anthropic
    if path.endswith("/responses"):
        return responses
    if path.endswith("/chat/completions"):
        return chat
    if path == "/chat-stream":
        return augment
    return gemini if "generatecontent" in path.lower() else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, path: str, body: dict[str, Any]) -> tuple[str, bytes]:
        raise NotImplementedError

    def do_GET(self) -> None:
        self._reply(*self.answer(self.path.partition("?")[0], {}))

    do_HEAD = do_GET

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        body = json.loads(data or b"{}")
        if "streamGenerateContent" in path:
            body["stream"] = True
        self._reply(*self.answer(path, body))

    def _reply(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        return
