"""The proxy with real servers: what is refused never reaches one, and everything else goes past."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooklatch.bridges.guard import open_guard
from hooklatch.bridges.mcp import (
    UnreadableMessageError,
    command_of,
    encode_message,
    read_call,
    read_strictly,
    run_proxy,
)
from support.bridged import READINGS, REFUSALS, Bridged
from support.daemons import nothing_left
from support.repository import ROOT
from support.survivors import nobody_survives
from support.tables import table

SERVER = Path(__file__).with_name("servers.py")


class Client:
    """A client of the proxy, in plain JSON."""

    def __init__(self, runtime_dir: str, log: Path, *, name: str | None = "words") -> None:
        self.log = log
        command = command_of([sys.executable, str(SERVER), str(log)], name=name, runtime_dir=runtime_dir)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.answers: dict[Any, dict[str, Any]] = {}

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def say(self, **message: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def call(self, identity: Any, word: str, **others: Any) -> None:
        self.say(id=identity, method="tools/call", params={"name": "speak", "arguments": {"word": word}, **others})

    def answer(self, identity: Any) -> dict[str, Any]:
        """Return the answer to a request, reading on until it is there."""
        assert self.process.stdout is not None
        while identity not in self.answers:
            line = self.process.stdout.readline()
            assert line, "the proxy has ended"
            message = json.loads(line)
            self.answers[message.get("id")] = message
        return self.answers.pop(identity)

    def text(self, identity: Any) -> tuple[bool, str]:
        """Return whether a call's result is an error, and its text."""
        result = self.answer(identity)["result"]
        return result.get("isError", False), result["content"][0]["text"]

    def received(self) -> list[str]:
        """Return what the server has read so far, line by line as it saw them."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def words(self) -> list[str]:
        """Return with what the server's tool was called."""
        messages = [json.loads(line) for line in self.received()]
        return [one["params"]["arguments"]["word"] for one in messages if one.get("method") == "tools/call"]


@contextmanager
def client_of(runtime_dir: str, log: Path, **options: Any) -> Generator[Client]:
    with nothing_left(), nobody_survives():
        client = Client(runtime_dir, log, **options)
        try:
            yield client
        finally:
            with client.process as process:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(timeout=30)


@pytest.fixture
def client(place: Bridged, tmp_path: Path) -> Iterator[Client]:
    with client_of(place.runtime_dir, tmp_path / "log") as running:
        yield running


@pytest.mark.slow
def test_each_call_gets_its_own_verdict_and_what_is_refused_never_reaches_the_server(client: Client) -> None:
    """Slow: two processes are started, and one guard hangs."""
    for word in (*REFUSALS, "ask", "hello", "rewrite", "fail"):
        client.call(word, word)

    for word, text in REFUSALS.items():
        is_error, said = client.text(word)
        assert is_error
        assert text in said
    assert client.text("ask") == (
        True,
        "Not run: it needs the user's yes, and an MCP proxy cannot ask a person here: somebody should look at this",
    )
    assert client.text("hello") == (False, "said hello")
    assert client.text("rewrite") == (False, "said rewritten")
    assert client.text("fail") == (True, "said fail")
    assert sorted(client.words()) == ["fail", "hello", "rewritten"]


@pytest.mark.slow
def test_a_result_is_changed_or_withheld_before_the_client_reads_it(client: Client, place: Bridged) -> None:
    """Slow: two processes are started."""
    for word in (*READINGS, "hello"):
        client.call(word, word)

    assert client.text("hello") == (False, "said hello")
    assert client.text("redact") == (False, "said [redacted]")
    for word in ("withhold", "burst"):
        is_error, said = client.text(word)
        assert is_error
        assert READINGS[word] in said
    heard = place.wait_told("post_tool_use", lambda one: "withhold" in str(one["tool_input"]))
    assert heard["tool_response"]["content"][0]["text"] == "said withhold"  # what the tool gave


@pytest.mark.slow
def test_hooks_see_the_servers_name_and_hear_of_results(client: Client, place: Bridged) -> None:
    """Slow: two processes are started."""
    client.call(1, "hello", _meta={"claudecode/toolUseId": "toolu_1"})
    client.call("two", "fail")
    client.text(1)
    client.text("two")

    heard = place.wait_told("post_tool_use", lambda one: one["tool_use_id"] == "toolu_1")
    failed = place.wait_told("post_tool_use_failure", lambda one: one["tool_use_id"] == "mcp-two")
    assert (heard["tool_name"], heard["tool_input"]) == ("mcp__words__speak", {"word": "hello"})
    assert heard["tool_use_id"] == "toolu_1"
    assert heard["tool_kind"] == "mcp"
    assert heard["tool_args"] == {"server": "words", "tool": "speak", "arguments": {"word": "hello"}}
    assert heard["tool_response"]["content"][0]["text"] == "said hello"
    assert failed["tool_use_id"] == "mcp-two"
    assert ("mcp__words__speak", {"word": "hello"}) in place.asked()


@pytest.mark.slow
def test_everything_else_goes_past_a_guard_that_hangs(client: Client) -> None:
    """Slow: two processes are started, and one guard hangs."""
    client.call(1, "hang")
    client.say(id=2, method="tools/list")
    client.say(method="notifications/initialized")
    client.say(id=3, result={"an": "answer to the server"})
    client.say(id=4, method="ping")

    assert client.answer(2)["result"] == {"method": "tools/list"}
    assert client.answer(4)["result"] == {"method": "ping"}
    assert len(client.received()) == 4


@pytest.mark.slow
def test_a_call_that_its_client_cancels_while_it_is_judged_is_never_made(client: Client, place: Bridged) -> None:
    """Slow: two processes are started."""
    client.call(1, "hang")
    while not place.asked():
        client.say(id=2, method="ping")
        client.answer(2)
    client.say(method="notifications/cancelled", params={"requestId": 1})
    client.call(1, "hello")  # the id is free again

    assert client.text(1) == (False, "said hello")
    assert client.words() == ["hello"]
    assert not any("cancelled" in line for line in client.received())


CALL = '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"speak","arguments":{"word":"deny"}}}'
HIDDEN = [
    b'{"jsonrpc":"2.0","id":9,"method":"ping","method":"tools/call","params":{"name":"speak","arguments":{"word":"a"}}}',
    b'{"jsonrpc":"2.0","id":9,"params":{"name":"speak","arguments":{"word":"a"}},"method":"tools/call","method":"ping"}',
    f"[{CALL}]".encode(),
    CALL.replace('"id":9', '"id":9.0').encode(),
    CALL.replace('"id":9', '"id":true').encode(),
    CALL.replace('"id":9,', "").encode(),
    CALL.replace('"deny"', "NaN").encode(),
    CALL.replace('"name":"speak"', '"name":["speak"]').encode(),
    CALL.replace('{"word":"deny"}', '["deny"]').encode(),
    CALL.encode().replace(b"deny", b"\xff"),
    b"not json",
    b"[" * 100_000,
]


@pytest.mark.slow
def test_what_parsers_may_read_differently_never_reaches_the_server(client: Client) -> None:
    """Slow: two processes are started."""
    for line in HIDDEN:
        client.send(line)
        client.say(id="after", method="ping")
        client.answer("after")
        client.answers.clear()

    assert [json.loads(line)["method"] for line in client.received()] == ["ping"] * len(HIDDEN)


@pytest.mark.slow
def test_a_line_that_a_server_would_split_is_one_message_for_it_too(client: Client) -> None:
    """Slow: two processes are started.  A server that reads universal newlines would find a call in the middle."""
    client.send(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":\r{"a":\r' + CALL.encode() + b"\r}}")
    client.say(id=2, method="ping", params={"text": "a\u2028b\u0085c"})
    client.answer(1)
    client.answer(2)

    assert len(client.received()) == 2
    assert client.words() == []
    assert json.loads(client.received()[1])["params"]["text"] == "a\u2028b\u0085c"


@pytest.mark.slow
def test_an_id_in_use_is_refused(client: Client) -> None:
    """Slow: two processes are started, and one guard hangs."""
    client.call(1, "hang")
    client.call(1, "hello")

    assert "in use" in client.answer(1)["error"]["message"]
    assert client.words() == []


@pytest.mark.slow
def test_without_a_daemon_each_call_is_refused_and_listing_works(nowhere: str, tmp_path: Path) -> None:
    """Slow: two processes are started."""
    with client_of(nowhere, tmp_path / "log") as client:
        client.say(id=1, method="tools/list")
        client.call(2, "hello")

        is_error, text = client.text(2)
        assert client.answer(1)["result"] == {"method": "tools/list"}

    assert is_error
    assert "Not run: " in text
    assert client.words() == []


@pytest.mark.slow
def test_the_end_of_the_server_ends_the_proxy_with_its_code(place: Bridged, tmp_path: Path) -> None:
    """Slow: two processes are started."""
    with client_of(place.runtime_dir, tmp_path / "log") as client:
        client.call(1, "die")
        code = client.process.wait(timeout=30)

    assert code == 7


@pytest.mark.slow
def test_sigterm_ends_the_server_too(place: Bridged, tmp_path: Path) -> None:
    """Slow: two processes are started."""
    with client_of(place.runtime_dir, tmp_path / "log") as client:
        client.say(id=1, method="ping")
        client.answer(1)
        client.process.send_signal(signal.SIGTERM)
        client.process.wait(timeout=30)


@pytest.mark.slow
def test_a_server_that_cannot_be_started_is_said(place: Bridged) -> None:
    """Slow: a process is started."""
    command = command_of(["/nobody/server", "--port", "1"], runtime_dir=place.runtime_dir)

    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (66, "")
    assert "/nobody/server" in done.stderr


def test_without_a_name_the_tool_has_the_servers_own() -> None:
    message = read_strictly(CALL.encode())

    assert read_call(message, None).tool == "speak"
    assert read_call(message, "words").tool == "mcp__words__speak"


@table("number", [2**70, 1.0, 1e300, -0.0, 12345678901234567890])
def test_numbers_go_past_as_they_are(number: object) -> None:
    assert read_strictly(encode_message({"a": number})) == {"a": number}


@table("line", [b"", b"[]", b"null", b"{", b'{"a":Infinity}'])
def test_what_is_no_message_is_an_error(line: bytes) -> None:
    with pytest.raises(UnreadableMessageError):
        read_strictly(line)


@pytest.mark.slow
def test_the_real_library_sees_a_refusal_as_an_error(place: Bridged, tmp_path: Path) -> None:
    """Slow: the library is large, and two processes are started."""
    pytest.importorskip("mcp", reason="the package mcp is not installed (pip install 'hooklatch[bridges]')")
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = tmp_path / "server.py"
    server.write_text(REAL_SERVER)
    command, *arguments = command_of([sys.executable, str(server)], name="real", runtime_dir=place.runtime_dir)

    async def main() -> list[Any]:
        parameters = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            assert [tool.name for tool in (await session.list_tools()).tools] == ["speak"]
            return [await session.call_tool("speak", {"word": word}) for word in ("hello", "deny", "rewrite")]

    with nobody_survives():
        said, denied, rewritten = anyio.run(main)

    assert (said.is_error, said.content[0].text) == (False, "said hello")
    assert (denied.is_error, denied.content[0].text) == (True, "that word is not said here")
    assert rewritten.content[0].text == "said rewritten"


REAL_SERVER = """
from mcp.server import MCPServer

server = MCPServer("words")

@server.tool()
def speak(word: str) -> str:
    return f"said {word}"

server.run()
"""


@pytest.mark.slow
@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_a_program_runs_the_proxy_over_streams_of_its_own(place: Bridged, tmp_path: Path, library: str) -> None:
    """Slow: a process is started."""
    log, answers = tmp_path / "log", {}

    async def main() -> int:
        requests, receiving = anyio.create_memory_object_stream[bytes](10)
        has_both = anyio.Event()

        async def receive() -> bytes:
            try:
                return await receiving.receive()
            except anyio.EndOfStream:
                return b""

        async def send(line: bytes) -> None:
            message = json.loads(line)
            answers[message["id"]] = message["result"]["content"][0]["text"]
            if len(answers) == 2:
                has_both.set()

        async def ask() -> None:
            call = CALL.replace('"id":9', '"id":8').replace("deny", "hello")
            await requests.send(f"{CALL}\n{call[:50]}".encode())
            await requests.send(f"{call[50:]}\n".encode())
            await has_both.wait()
            await requests.aclose()

        async with open_guard(runtime_dir=place.runtime_dir) as guard, anyio.create_task_group() as group, receiving:
            group.start_soon(ask)
            return await run_proxy(guard, [sys.executable, str(SERVER), str(log)], receive, send)

    with nothing_left(), nobody_survives():
        code = anyio.run(main, backend=library)

    assert code == 0
    assert answers == {9: "that word is not said here", 8: "said hello"}


@pytest.mark.slow
def test_the_example_runs_what_it_may(place: Bridged) -> None:
    """Slow: the library is large, and three processes are started."""
    pytest.importorskip("mcp", reason="the package mcp is not installed (pip install 'hooklatch[bridges]')")
    environment = {**os.environ, "HOOKLATCH_RUNTIME_DIR": place.runtime_dir}

    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/bridges/guarded_server.py")],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.stdout.splitlines() == ["echo hello: ran: hello", "rm -rf build: refused: name the files to remove"]
    assert done.returncode == 0, done.stderr
