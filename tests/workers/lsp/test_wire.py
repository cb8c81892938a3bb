"""Frames, messages and URIs, by tables."""

from __future__ import annotations

import pytest

from hooklatch_worker.lsp.wire import (
    MAX_HEADER,
    MAX_MESSAGE,
    LspProtocolError,
    MessageReader,
    encode_lsp_message,
    format_file_uri,
    parse_file_uri,
)
from support.tables import table

FRAME = encode_lsp_message({"method": "initialized", "params": {}})


def test_a_frame_is_a_length_and_json() -> None:
    assert FRAME == b'Content-Length: 52\r\n\r\n{"jsonrpc":"2.0","method":"initialized","params":{}}'


@pytest.mark.parametrize("size", [1, 7, len(FRAME), 3 * len(FRAME)])
def test_messages_are_cut_from_a_stream_whatever_the_pieces(size: int) -> None:
    reader, stream, methods = MessageReader(), FRAME * 3, list[str]()

    for start in range(0, len(stream), size):
        reader.feed(stream[start : start + size])
        while (message := reader.take()) is not None:
            methods.append(message.method)

    assert methods == ["initialized"] * 3


@pytest.mark.parametrize(
    "header",
    [b"Content-Length: 2", b"content-length:2", b"Content-Type: x; charset=utf-8\r\nContent-Length:  2 "],
)
def test_headers_are_read_as_http_reads_them(header: bytes) -> None:
    reader = MessageReader()

    reader.feed(header + b"\r\n\r\n{}")

    assert reader.take() is not None


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        pytest.param(b"x" * MAX_HEADER, "no end of the headers", id="no header"),
        pytest.param(b"Content-Type: x\r\n\r\n", "no Content-Length", id="no length"),
        pytest.param(b"Content-Length: -1\r\n\r\n", "no Content-Length", id="negative length"),
        pytest.param(b"Content-Length: 1e3\r\n\r\n", "no Content-Length", id="odd length"),
        pytest.param(b"Content-Length: %d\r\n\r\n" % (MAX_MESSAGE + 1), "over the limit", id="huge"),
        pytest.param(b"Content-Length: 3\r\n\r\n{{{", "not a message", id="no JSON"),
        pytest.param(b"Content-Length: 2\r\n\r\n[]", "not a message", id="a batch"),
        pytest.param(b"Content-Length: 12\r\n\r\n" + b'{"method":1}', "not a message", id="wrong type"),
        pytest.param(b'Content-Length: 4\r\n\r\n"\xff\xfe"', "not a message", id="no UTF-8"),
    ],
)
def test_garbage_is_one_error(data: bytes, complaint: str) -> None:
    reader = MessageReader()
    reader.feed(data)

    with pytest.raises(LspProtocolError, match=complaint):
        reader.take()


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/a/b.py", "file:///a/b.py"),
        ("/a b/ä#?.py", "file:///a%20b/%C3%A4%23%3F.py"),
        ("/a/[id]/@x/50%.ts", "file:///a/%5Bid%5D/%40x/50%25.ts"),
    ],
)
def test_a_path_survives_the_way_through_a_uri(path: str, uri: str) -> None:
    assert format_file_uri(path) == uri
    assert parse_file_uri(uri) == path


@table(
    ("uri", "path"),
    [
        ("file:///a/[id]/@x.ts", "/a/[id]/@x.ts"),
        ("file://localhost/a.py", "/a.py"),
        ("FILE:///a%2eb", "/a.b"),
        ("file:///a#b?c.py", "/a#b?c.py"),
        ("file://elsewhere/a.py", None),
        ("untitled:Untitled-1", None),
        ("file://[", None),
        ("", None),
    ],
)
def test_uris_are_read_as_other_programs_write_them(uri: str, path: str | None) -> None:
    assert parse_file_uri(uri) == path
