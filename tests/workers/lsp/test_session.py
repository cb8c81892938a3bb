"""A session with a server, by scripts: bytes in, bytes out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hooklatch_worker.lsp.session import MAX_DOCUMENTS, MAX_OUTGOING, MAX_PULLS, LspSession
from hooklatch_worker.lsp.wire import LspProtocolError, encode_lsp_message
from support.tables import table

PULLING = {"diagnosticProvider": {"identifier": "x"}}
URI = "file:///w/a.py"
BAD = {"message": "bad", "range": {"start": {"line": 0, "character": 0}}}


def started(capabilities: dict[str, Any] | None = None) -> LspSession:
    session = LspSession("/w", process_id=7)
    session.feed(encode_lsp_message({"id": 1, "result": {"capabilities": capabilities or {}}}))
    sent(session)
    return session


def sent(session: LspSession) -> list[dict[str, Any]]:
    """Take what the session has to send."""
    bodies = bytes(session.outgoing).split(b"Content-Length: ")[1:]
    session.outgoing.clear()
    return [msgspec.json.decode(body.partition(b"\r\n\r\n")[2]) for body in bodies]


def show(session: LspSession, text: str, path: str = "/w/a.py") -> list[str]:
    session.show(path, language="python", text=text)
    return [message["method"] for message in sent(session)]


def publish(session: LspSession, *, version: int | None = None, uri: str = URI) -> None:
    params = {"uri": uri, "version": version, "diagnostics": [BAD]}
    session.feed(encode_lsp_message({"method": "textDocument/publishDiagnostics", "params": params}))


def test_it_begins_with_who_we_are_and_where() -> None:
    [hello] = sent(LspSession("/w", process_id=7))

    assert hello["method"] == "initialize"
    assert (hello["params"]["processId"], hello["params"]["rootUri"]) == (7, "file:///w")


def test_it_is_ready_when_the_server_has_answered() -> None:
    session = LspSession("/w", process_id=7)
    sent(session)

    session.feed(encode_lsp_message({"id": 1, "result": {"capabilities": {}}}))

    assert session.is_ready
    assert [message["method"] for message in sent(session)] == ["initialized"]


@pytest.mark.parametrize(
    ("capabilities", "methods"),
    [
        ({}, ["textDocument/didChange"]),
        ({"textDocumentSync": 1}, ["textDocument/didChange"]),
        ({"textDocumentSync": {"save": False}}, ["textDocument/didChange"]),
        ({"textDocumentSync": {"save": {"includeText": True}}}, ["textDocument/didChange", "textDocument/didSave"]),
        (PULLING, ["textDocument/didChange", "textDocument/diagnostic"]),
    ],
)
def test_a_file_is_opened_once_and_then_changed(capabilities: dict[str, Any], methods: list[str]) -> None:
    session = started(capabilities)

    first = show(session, "one")

    assert first[0] == "textDocument/didOpen"
    assert show(session, "two") == methods


def test_a_change_is_the_whole_text_and_the_next_version() -> None:
    session = started()
    show(session, "one")

    session.show("/w/a.py", language="python", text="two")

    assert sent(session)[0]["params"] == {
        "textDocument": {"uri": URI, "version": 2},
        "contentChanges": [{"text": "two"}],
    }


def test_a_text_that_did_not_change_keeps_its_answer() -> None:
    session = started()
    show(session, "one")
    publish(session)

    assert show(session, "one") == []
    assert session.has_answer("/w/a.py")


@pytest.mark.parametrize(
    ("version", "uri", "has_answer"),
    [
        (2, URI, True),
        (None, URI, True),
        (1, URI, False),
        (3, URI, False),
        (2, "file:///w/%61.py", True),
        (2, "x:", False),
    ],
)
def test_only_what_is_said_about_the_latest_version_counts(version: int | None, uri: str, has_answer: bool) -> None:
    session = started()
    show(session, "one")
    show(session, "two")

    publish(session, version=version, uri=uri)

    assert session.has_answer("/w/a.py") is has_answer


def test_what_is_pulled_is_joined_by_what_is_published() -> None:
    session = started(PULLING)
    show(session, "one")

    publish(session)
    assert not session.has_answer("/w/a.py")
    session.feed(encode_lsp_message({"id": 2, "result": {"kind": "full", "items": [BAD]}}))

    assert len(session.diagnostics("/w/a.py")) == 2


def test_the_answer_about_an_earlier_version_is_dropped() -> None:
    session = started(PULLING)
    show(session, "one")
    show(session, "two")

    session.feed(encode_lsp_message({"id": 2, "result": {"items": [BAD]}}))

    assert not session.has_answer("/w/a.py")


@pytest.mark.parametrize("code", [-32801, -32802])
def test_a_server_that_puts_its_answer_off_is_asked_again_but_not_for_ever(code: int) -> None:
    session = started(PULLING)
    show(session, "one")

    for number in range(2, 2 + MAX_PULLS):
        assert not session.has_answer("/w/a.py")
        session.feed(encode_lsp_message({"id": number, "error": {"code": code, "message": "later"}}))

    assert session.diagnostics("/w/a.py") == []


@table(
    ("method", "params", "answer"),
    [
        ("workspace/configuration", {"items": [{}, {}]}, {"result": [None, None]}),
        ("workspace/workspaceFolders", None, {"result": [{"uri": "file:///w", "name": "w"}]}),
        ("client/registerCapability", {"registrations": []}, {"result": None}),
        ("client/unregisterCapability", {}, {"result": None}),
        ("window/workDoneProgress/create", {"token": 1}, {"result": None}),
        ("window/showMessageRequest", {}, {"result": None}),
        ("window/showDocument", {}, {"result": {"success": False}}),
        ("workspace/applyEdit", {}, {"result": {"applied": False}}),
        ("workspace/semanticTokens/refresh", None, {"result": None}),
        ("made/up", {}, {"error": {"code": -32601, "message": "no method 'made/up' here"}}),
    ],
)
@table("number", [0, "a"])
def test_a_servers_requests_are_answered(
    number: int | str, method: str, params: object, answer: dict[str, object]
) -> None:
    session = started()

    session.feed(encode_lsp_message({"id": number, "method": method, "params": params}))

    assert sent(session) == [{"jsonrpc": "2.0", "id": number, **answer}]


@pytest.mark.parametrize(
    "message",
    [
        {"method": "window/logMessage", "params": {"message": "hello"}},
        {"method": "$/progress", "params": None},
        {"id": 99, "result": None},
        {"id": "never", "error": {"code": 1, "message": "m"}},
        {"id": None, "error": {"code": -32700, "message": "parse error"}},
    ],
)
def test_what_needs_no_answer_is_passed_over(message: dict[str, object]) -> None:
    session = started()

    session.feed(encode_lsp_message(message))

    assert sent(session) == []


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "error": {"code": -32603, "message": "no"}},
        {"id": 1, "result": "yes"},
        {"id": 1},
        {"method": "textDocument/publishDiagnostics", "params": {"uri": URI, "diagnostics": 1}},
        {"id": 5, "method": "workspace/configuration", "params": [1]},
    ],
)
def test_what_is_of_the_wrong_shape_breaks_it_off(message: dict[str, object]) -> None:
    session = LspSession("/w", process_id=7)

    with pytest.raises(LspProtocolError):
        session.feed(encode_lsp_message(message))


def test_a_server_that_reads_nothing_is_not_buffered_for_ever() -> None:
    session = started()
    session.show("/w/a.py", language="python", text="x" * (MAX_OUTGOING // 2))

    with pytest.raises(LspProtocolError, match="unread"):
        session.show("/w/a.py", language="python", text="y" * (MAX_OUTGOING // 2))


def test_the_file_that_was_shown_longest_ago_is_closed() -> None:
    session = started()
    for number in range(MAX_DOCUMENTS):
        show(session, "x", f"/w/{number}.py")
    show(session, "x", "/w/0.py")

    methods = show(session, "x", "/w/one-more.py")

    assert methods == ["textDocument/didOpen", "textDocument/didClose"]
    assert "/w/0.py" in session.open_paths
    assert "/w/1.py" not in session.open_paths


def test_goodbye_is_said_in_two_messages() -> None:
    session = started()

    session.say_goodbye()

    assert [message["method"] for message in sent(session)] == ["shutdown", "exit"]
