"""Claude Code's http hooks: a real listener, asked as Claude Code asks it, and as others would."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hooklatch.entry import listener
from hooklatch.entry.refusals import MAX_FRAME
from support.entries import DOCUMENT, Daemon, Talk, result
from support.survivors import COOKIE, nobody_survives
from support.tables import table
from support.warm_commands import start_command

Serve = Callable[[bytes | Talk], Daemon]
DENY = '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"}}\n'


class Listening(NamedTuple):
    port: int
    token: str

    def ask(
        self, event: str = "PreToolUse", body: bytes = DOCUMENT, *, method: str = "POST", **headers: str | None
    ) -> tuple[int, str]:
        """Post an event; a header that is None is left out.  Return status and body."""
        given: dict[str, str | None] = {
            "Authorization": f"Bearer {self.token}", "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }  # fmt: skip
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = {name: value for name, value in given.items() if value is not None}
            connection.request(method, event if event.startswith("/") else f"/claude-code/{event}", body, sent)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()


@pytest.fixture
def listening(folder: str, tmp_path: Path) -> Iterator[Listening]:
    token = tmp_path / "token"
    words = ["listen", "--json", "--runtime-dir", folder, "--token-file", str(token)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LANG", "LC_"))}
    with (
        nobody_survives() as word,
        start_command(
            words, cwd=tmp_path, env={**environ, COOKIE: word, "PYTHONUTF8": "1"}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process,
    ):  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        yield Listening(json.loads(line)["port"], token.read_text().strip())
        process.terminate()
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_decision_is_the_body(listening: Listening, serve: Serve) -> None:
    daemon = serve(result(0, DENY))

    assert listening.ask(Hooklatch_Project_Dir="/proj") == (200, DENY)
    params = daemon.request()["params"]
    assert params.pop("budget") > 500
    assert params == {
        "host": "claude-code", "event": "PreToolUse", "document": DOCUMENT.decode(),
        "environ": {"CLAUDE_PROJECT_DIR": "/proj"},
    }  # fmt: skip


def test_no_opinion_is_a_document_since_an_empty_body_would_look_like_a_failure(
    listening: Listening, serve: Serve
) -> None:
    serve(result())

    assert listening.ask() == (200, "{}\n")


def test_a_refusal_by_text_is_a_status_that_blocks(listening: Listening, serve: Serve) -> None:
    serve(result(2, "", "no\n"))

    assert listening.ask("TaskCreated") == (403, "no\n")


@pytest.mark.parametrize(("body", "is_read"), [(b'{"tool_response": {"stdout": "x"}}', True), (b"\xff", False)])
def test_a_result_that_no_daemon_judged_is_withheld(listening: Listening, body: bytes, is_read: bool) -> None:
    status, text = listening.ask("PostToolUse", body)

    said = json.loads(text)
    assert status == 200
    assert "withheld by hooklatch: " in text
    assert ("stdout" in said.get("hookSpecificOutput", {}).get("updatedToolOutput", {})) is is_read
    assert (said.get("continue") is False) is not is_read


@pytest.mark.parametrize(
    "answer", [b"", b"rubbish\n", result()[:-5], result(1), result(0, "text"), b'{"jsonrpc":"2.0","id":2}\n']
)
def test_what_is_no_whole_answer_is_a_failure_with_a_text(listening: Listening, serve: Serve, answer: bytes) -> None:
    serve(answer)

    for event in ("PreToolUse", "Stop"):
        status, text = listening.ask(event)
        assert status == 502
        assert text.startswith("Not run: ")


def test_without_a_daemon_it_is_a_failure_with_a_text(listening: Listening) -> None:
    status, text = listening.ask()

    assert status == 502
    assert "hooklatch is not running" in text


@pytest.fixture
def daemon(serve: Serve) -> Daemon:
    return serve(result())


@table(
    ("asked", "status"),
    [
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer x"}, 401),
        ({"Authorization": "Basic x"}, 401),
        ({"Authorization": ""}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"event": "SessionStart"}, 404),
        ({"event": "Setup"}, 404),
        ({"event": "Unknown"}, 404),
        ({"event": "/"}, 404),
        ({"event": "/codex/PreToolUse"}, 404),
        ({"event": "/claude-code/PreToolUse/x"}, 404),
        ({"method": "GET"}, 405),
        ({"method": "PUT"}, 405),
        ({"body": b"\xff"}, 400),
        ({"body": b"x" * (MAX_FRAME + 1)}, 413),
        ({"X_Large": "x" * 200_000}, 431),
    ],
    ids=lambda value: str(value)[:40],
)
def test_who_may_not_ask_or_asks_nonsense_is_told_so_and_nothing_is_sent(
    listening: Listening, daemon: Daemon, asked: dict[str, Any], status: int
) -> None:
    found, text = listening.ask(**asked)

    assert (found, bool(text)) == (status, True)
    assert daemon.lines == []


def test_a_connection_that_is_kept_is_asked_again(listening: Listening, serve: Serve) -> None:
    serve(result())
    connection = HTTPConnection("127.0.0.1", listening.port, timeout=60)

    for _ in range(3):
        connection.request("POST", "/claude-code/Stop", DOCUMENT, {"Authorization": f"Bearer {listening.token}"})
        assert connection.getresponse().read() == b"{}\n"
    connection.close()


def test_what_is_no_http_is_answered_with_a_failure(listening: Listening) -> None:
    with socket.create_connection(("127.0.0.1", listening.port)) as stream:
        stream.sendall(b"rubbish\r\n\r\n")

        assert stream.recv(100).startswith(b"HTTP/1.1 400")


def test_hundreds_of_silent_connections_keep_nobody_from_an_answer(listening: Listening, serve: Serve) -> None:
    serve(result(0, DENY))
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", listening.port)))

        assert listening.ask() == (200, DENY)


def test_a_connection_that_has_shown_the_token_is_kept_beside_hundreds_that_have_not(
    listening: Listening, serve: Serve
) -> None:
    serve(result())
    connection = HTTPConnection("127.0.0.1", listening.port, timeout=60)
    with ExitStack() as stack:
        for _ in range(2):
            connection.request("POST", "/claude-code/Stop", DOCUMENT, {"Authorization": f"Bearer {listening.token}"})
            assert connection.getresponse().read() == b"{}\n"
            kept = connection.sock
            for _ in range(2 * listener.MAX_STRANGERS):
                stack.enter_context(socket.create_connection(("127.0.0.1", listening.port)))

        assert connection.sock is kept is not None
    connection.close()


@pytest.mark.slow
def test_who_has_shown_no_token_in_seconds_is_told_so_and_closed_however_the_request_drips(
    listening: Listening,
) -> None:
    """Slow: it waits for the listener's patience to end."""
    place = "127.0.0.1", listening.port
    with socket.create_connection(place) as silent, socket.create_connection(place) as dripping:
        dripping.sendall(b"POST /claude-code/Stop HTTP/1.1\r\n")
        dripping.settimeout(0.1)
        answer = b""
        while not answer:
            dripping.sendall(b"x")
            with suppress(TimeoutError):
                answer = dripping.recv(1000)

        assert answer.startswith(b"HTTP/1.1 408")
        assert silent.recv(1000).startswith(b"HTTP/1.1 408")


def test_it_listens_on_loopback_alone(listening: Listening) -> None:
    rows = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]

    assert [row for row in rows if row.endswith(f":{listening.port:04X}") and not row.startswith("0100007F")] == []


def test_a_token_that_others_could_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = listener.read_token(str(path))

    assert (len(token) >= 32, path.stat().st_mode & 0o777) == (True, 0o600)
    assert listener.read_token(str(path)) == token
    path.chmod(0o640)
    with pytest.raises(listener.TokenError, match="not yours alone"):
        listener.read_token(str(path))
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(listener.TokenError, match="not a secret"):
        listener.read_token(str(path))
    path.unlink()
    path.symlink_to(tmp_path / "other")
    with pytest.raises(listener.TokenError, match="cannot be read"):
        listener.read_token(str(path))


def test_the_settings_name_every_event_that_comes_by_http_and_block_on_failure() -> None:
    command = [sys.executable, "-m", "hooklatch", "listen", "--port", "7437", "--settings"]
    done = subprocess.run(command, capture_output=True, check=True)

    hooks = json.loads(done.stdout)["hooks"]

    assert {"PreToolUse", "PermissionRequest", "Stop"} <= hooks.keys()
    assert not {"SessionStart", "Setup", "WorktreeCreate"} & hooks.keys()
    handler = hooks["PreToolUse"][0]["hooks"][0]
    assert (handler["url"], handler["onFailure"]) == ("http://127.0.0.1:7437/claude-code/PreToolUse", "block")


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "hooklatch", "listen", "--port", port, "--token-file", str(tmp_path / "t")]

        done = subprocess.run(command, capture_output=True, check=False, env=dict(os.environ))

    assert done.returncode == 69
    assert b"cannot be listened on" in done.stderr
