"""Reads the shared conformance file, and plays a daemon's part of it on a real socket.

clients/README.md says what a line holds.  Knows no client: the one under test is a program of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import struct
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.repository import ROOT
from support.strangers import listen_as_nobody

__all__ = ["ScriptedServer", "entry_lines", "matches", "scenarios"]

FILE = ROOT / "clients" / "conformance.jsonl"
WELCOME = {"protocol": 1, "session_id": "s1", "resume_token": "t1", "child_token": "c1", "revision": 7}
FULL = 2**16  # bytes; more than a socket's buffer is never waited for
PATIENCE = 20.0  # seconds; only a failing test waits so long
UNASKED = {"ping": {}, "session.close": {"ended": True}}  # answered wherever a script does not wait for them


def scenarios() -> Iterator[dict[str, Any]]:
    """Yield each scenario; one that has `each` is several, with that value in place of "$each"."""
    for scenario in rows():
        if "entry" in scenario:
            continue
        for number, value in enumerate(scenario.pop("each", [None]), 1):
            one = put(scenario, value)
            yield {**one, "name": f"{scenario['name']} {number}"} if value is not None or number > 1 else one


def entry_lines() -> Iterator[bytes]:
    """Yield the lines that an entry is answered with."""
    for scenario in rows():
        if "entry" in scenario:
            yield from (edited(scenario["entry"].encode(), edit, 1) for edit in scenario["each"])


def rows() -> Iterator[dict[str, Any]]:
    for line in FILE.read_text().strip().split("\n"):  # no other character ends a line
        yield expand(json.loads(line))


def expand(value: Any) -> Any:
    """Write out what the file abbreviates: {"$times": [text, count]}."""
    if isinstance(value, dict):
        if value.keys() == {"$times"}:
            text, count = value["$times"]
            return text * count
        return {key: expand(one) for key, one in value.items()}
    return [expand(one) for one in value] if isinstance(value, list) else value


def put(value: Any, each: Any) -> Any:
    if isinstance(value, dict):
        return {key: put(one, each) for key, one in value.items()}
    if isinstance(value, list):
        return [put(one, each) for one in value]
    if value == "$each":
        return each
    return value.replace("$each", each) if isinstance(value, str) and isinstance(each, str) else value


def matches(expected: Any, actual: Any) -> bool:
    """Return whether `actual` is what is expected: of an object, the keys that are named; {"$has": part} of a text."""
    if isinstance(expected, Mapping):
        if expected.keys() == {"$has"}:
            return isinstance(actual, str) and expected["$has"] in actual
        return isinstance(actual, Mapping) and all(
            key not in actual if value == {"$absent": True} else matches(value, actual.get(key))
            for key, value in expected.items()
        )
    if isinstance(expected, list):
        return isinstance(actual, list) and len(expected) == len(actual) and all(map(matches, expected, actual))
    return bool(expected == actual) and isinstance(expected, bool) == isinstance(actual, bool)


def edited(line: bytes, edit: list[Any], number: object) -> bytes:
    """Return a line with the second text in place of the first, which it has once; "$id" is the request's.

    A lone surrogate stands for a byte, as in Python's names of files: U+DCFF for 0xFF.
    """
    before, after = ("".join(text).replace("$id", json.dumps(number)).encode(errors="surrogateescape") for text in edit)
    assert line.count(before) == 1, f"the answer has {before!r} {line.count(before)} times"
    return line.replace(before, after)


class ScriptedServer:
    """Plays one script a connection, in order, in a thread of its own."""

    def __init__(self, path: Path, connections: list[list[dict[str, Any]]], *, kind: str = "own") -> None:
        self.path = path
        self._kind = kind
        self._squatters: list[socket.socket] = []
        self.problems: list[BaseException] = []
        self.heard = 0  # requests and answers that scripts waited for, without hellos
        self._news = threading.Condition()
        self._connections = connections
        self._thread = threading.Thread(target=self._play)
        self._listens = threading.Event()
        self._socket: socket.socket | None = None

    def listen(self) -> None:
        if self._kind == "nobody's":
            self._socket = listen_as_nobody(self.path)
        else:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.bind(os.fspath(self.path))
            self._socket.listen(0 if self._kind == "full" else 128)
        if self._kind == "full":
            self._fill()
        self._listens.set()
        if self._connections and not self._thread.is_alive():
            self._thread.start()

    def unlisten(self) -> None:
        """Listen no more, until somebody has it listen again."""
        assert self._socket is not None
        self._listens.clear()
        self.path.unlink()
        self._socket.close()

    def _fill(self) -> None:
        """Take all places of the backlog."""
        with suppress(BlockingIOError):
            while True:
                self._squatters.append(squatter := socket.socket(socket.AF_UNIX))
                squatter.setblocking(False)
                squatter.connect(os.fspath(self.path))

    def wait_heard(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.heard >= count or self.problems, PATIENCE), "nothing more was heard"

    def close(self) -> None:
        """Wait for the end of the last script.

        Raises:
            AssertionError: the client said what the script did not expect, or left before its end.
        """
        if self._socket is not None:
            with self._socket:
                if self._connections:
                    self._thread.join(PATIENCE)
                elif self._kind != "full":
                    assert self._unheard() == b"", "the client told a daemon something that it must not believe"
            assert not self._thread.is_alive(), "the script waits for what the client did not say"
        for squatter in self._squatters:
            squatter.close()
        if self.problems:
            raise self.problems[0]

    def _unheard(self) -> bytes:
        """Return what was sent on all connections that wait to be accepted."""
        assert self._socket is not None
        self._socket.setblocking(False)
        said = b""
        with suppress(BlockingIOError):
            while True:
                with self._socket.accept()[0] as connection:
                    said += connection.recv(2**16)
        return said

    def _play(self) -> None:
        try:
            for number, script in enumerate(self._connections):
                assert self._listens.wait(PATIENCE), "nobody has the script listen again"
                assert self._socket is not None
                self._socket.settimeout(PATIENCE)
                connection, _ = self._socket.accept()
                if number == len(self._connections) - 1:  # nobody else may wait in the backlog of a daemon that is gone
                    self.unlisten()
                with Connection(connection, self) as peer:
                    peer.play(script)
        except BaseException as problem:
            with self._news:
                self.problems.append(problem)
                self._news.notify_all()

    def note(self) -> None:
        with self._news:
            self.heard += 1
            self._news.notify_all()


class Connection:
    """The daemon's end of one connection."""

    def __init__(self, connection: socket.socket, server: ScriptedServer) -> None:
        connection.settimeout(PATIENCE)
        self._socket = connection
        self._file = connection.makefile("rb")
        self._server = server
        self._ids: dict[str, Any] = {}  # of requests, by the names that the script gives them
        self._last: Any = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def play(self, script: list[dict[str, Any]]) -> None:
        for step in script:
            match step:
                case {"welcome": others}:
                    self._hear("hello", step.get("with", {}))
                    self._say({"id": self._last, "result": {**WELCOME, **others}})
                case {"hear": method}:
                    self._hear(method, step.get("with", {}))
                    self._ids[step.get("as", "")] = self._last
                    self._server.note()
                case {"hear_answer": number}:
                    self._hear_answer(number, step)
                    self._server.note()
                case {"answer": result}:
                    self._say({"id": self._ids[step["to"]] if "to" in step else self._last, "result": result}, step)
                case {"refuse": error}:
                    body = {"code": -32000, "message": error["message"], "data": {"name": error["name"]}}
                    self._say({"id": self._last, "error": body})
                case {"say": message}:
                    self._say(message)
                case {"together": messages}:
                    lines = [
                        json.dumps({**one, "id": self._named(one["id"])} if "id" in one else one) for one in messages
                    ]
                    self._send("".join(f"{line}\n" for line in lines).encode())
                case {"raw": text}:
                    data = text.replace("$id", json.dumps(self._last)).encode()
                    self._send(data.replace(step["spoilt"].encode(), b"\xff") if "spoilt" in step else data)
                case {"unlisten": True}:
                    self._server.unlisten()
                case {"stall": True}:
                    return self._stall()
                case {"swallow": True}:
                    while self._file.readline():
                        continue
                    return
                case {"hang_up": True}:
                    return
                case _:
                    raise AssertionError(f"the script has an unknown step: {step}")
        while (message := self._read()) is not None:
            self._answer_unasked(message)

    def _stall(self) -> None:
        """Read nothing until the client hangs up; what it has filled the buffer with is a step that was heard."""
        hung_up, is_full, deadline = select.poll(), False, time.monotonic() + PATIENCE
        hung_up.register(self._socket, select.POLLRDHUP)
        while not hung_up.poll(5):
            assert time.monotonic() < deadline, "the client waits for a daemon that reads nothing"
            waiting = struct.unpack("i", fcntl.ioctl(self._socket, termios.FIONREAD, b"\0" * 4))[0]
            if waiting > FULL and not is_full:
                is_full = True
                self._server.note()

    def _named(self, number: Any) -> Any:
        return self._ids[number[1:]] if isinstance(number, str) and number.startswith("$") else number

    def _read(self) -> dict[str, Any] | None:
        try:
            line = self._file.readline()
        except ConnectionError:
            return None
        message: dict[str, Any] | None = json.loads(line) if line else None
        return message

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        while (message := self._read()) is not None and message.get("method") != method:
            self._answer_unasked(message)
        assert message is not None, f"the client left before it sent {method}"
        assert message["jsonrpc"] == "2.0"
        assert matches(params, message.get("params")), (params, message)
        self._last = message["id"]

    def _hear_answer(self, number: object, step: dict[str, Any]) -> None:
        while (message := self._read()) is not None and "method" in message:
            self._answer_unasked(message)
        assert message is not None, f"the client left before it answered {number}"
        assert message.get("jsonrpc") == "2.0"
        assert message.get("id") == number, message
        for key in ("result", "error"):
            if key in step:
                assert key in message, message
                assert matches(step[key], message[key]), message
            else:
                assert key not in message, message

    def _answer_unasked(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method == "skipped":
            return
        assert method in UNASKED, f"the script does not expect {message}"
        try:
            self._say({"id": message["id"], "result": UNASKED[method]})
        except ConnectionError:
            return  # it says good-bye and does not wait

    def _say(self, message: dict[str, Any], step: Mapping[str, Any] = {}) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n"
        if "edit" in step:
            line = edited(line, step["edit"], self._last)
        size = step.get("in_pieces", len(line))
        for begin in range(0, len(line), size):
            self._send(line[begin : begin + size])
            if size < len(line):
                self._wait_until_read()

    def _send(self, data: bytes) -> None:
        with suppress(BrokenPipeError):  # the client has given up, which its own part of the script judges
            self._socket.sendall(data)

    def _wait_until_read(self) -> None:
        """Return when the kernel holds nothing more for the client, so that each piece is a read of its own."""
        deadline = time.monotonic() + PATIENCE
        while struct.unpack("i", fcntl.ioctl(self._socket, termios.TIOCOUTQ, b"\0" * 4))[0]:
            assert time.monotonic() < deadline, "the client does not read"
            select.select([], [], [], 0.0002)
