"""A daemon that says what the test tells it to, on a real socket."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hooklatch.core.messages import RETRYABLE

WELCOME = {"protocol": 1, "session_id": "s1", "resume_token": "t1", "revision": 7, "digest": "", "limits": {}}


def decision(event: str = "pre_tool_use", verdict: str = "pass", **others: Any) -> dict[str, Any]:
    """Return a decision as the daemon writes it."""
    cause = others.get("cause", None if verdict == "pass" else "policy")
    decided: dict[str, Any] = {
        "decision_id": "d1", "event": event, "verdict": verdict, "cause": cause, "reason": None, "layer": None,
        "hook": None, "retryable": cause in RETRYABLE and verdict == "deny", "patch": None, "payload_digest": None,
        "append": None, "resume": None, "value": None, "revision": 7, "duration_ms": 0.5,
    }  # fmt: skip
    return decided | others


class Peer:
    """The daemon's end of one connection; each step waits for the client, none for the clock."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._connection.close()

    def read(self) -> dict[str, Any]:
        """The next message; an empty one at the end."""
        line = self._file.readline()
        message: dict[str, Any] = json.loads(line or b"{}")
        return message

    def read_until(self, method: str) -> dict[str, Any]:
        """The next request of that method; pings before it are answered."""
        while (message := self.read()).get("method") != method:
            assert message.get("method") == "ping", message
            self.answer(message, {})
        return message

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def say(self, **message: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def answer(self, request: dict[str, Any], result: Any) -> None:
        self.say(id=request["id"], result=result)

    def refuse(self, request: dict[str, Any], name: str, message: str = "no") -> None:
        self.say(id=request["id"], error={"code": -32000, "message": message, "data": {"name": name}})

    def welcome(self, **others: Any) -> dict[str, Any]:
        """Answer the hello; give its params."""
        hello = self.read_until("hello")
        self.answer(hello, {**WELCOME, **others})
        params: dict[str, Any] = hello["params"]
        return params


class ScriptedDaemon:
    """Plays one script a connection, in order, in a thread of its own."""

    def __init__(self, path: Path, *, backlog: int = 16) -> None:
        self.path = path
        self.problems: list[BaseException] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(os.fspath(path))
        self._socket.listen(backlog)
        self._thread: threading.Thread | None = None

    def play(self, *scripts: Callable[[Peer], object]) -> None:
        self._thread = threading.Thread(target=self._play, args=scripts)
        self._thread.start()

    def _play(self, *scripts: Callable[[Peer], object]) -> None:
        for script in scripts:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed before the client came
            with Peer(connection) as peer:
                try:
                    script(peer)
                except OSError:
                    pass  # the client left first
                except BaseException as problem:
                    self.problems.append(problem)

    def accept(self) -> tuple[socket.socket, object]:
        return self._socket.accept()

    def close(self) -> None:
        if self._thread is not None:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept
            self._thread.join()
        self._socket.close()
        self.path.unlink(missing_ok=True)
        if self.problems:
            raise self.problems[0]
