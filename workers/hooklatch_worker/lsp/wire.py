"""Framing, messages and file URIs of the Language Server Protocol.  Does not know processes or files.

A frame is `Content-Length: N`, CR LF, optional other headers, an empty line, and N bytes of JSON (LSP 3.17, base
protocol).  Input is untrusted, since it comes from third-party programs about an agent's files: it is bounded, and
everything invalid is one error.
"""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit

import msgspec
from msgspec import Raw, Struct

__all__ = [
    "MAX_HEADER", "MAX_MESSAGE", "LspProtocolError", "LspMessage", "MessageReader", "Problem",
    "encode_lsp_message", "parse_file_uri", "format_file_uri",
]  # fmt: skip

MAX_MESSAGE = 16 * 2**20  # bytes; enough for a file of 2 MiB with a diagnostic on every line
MAX_HEADER = 4096  # bytes; only two headers exist, of less than 100 bytes each


class LspProtocolError(Exception):
    """A server sent an invalid frame, an invalid message, or an invalid answer."""


class Problem(Struct, frozen=True):
    """The error member of a response."""

    code: int
    message: str = ""


class LspMessage(Struct, frozen=True):
    """One JSON-RPC message: a request has method and id, a notification only the method, a response only the id."""

    id: int | str | None = None
    method: str = ""
    params: Raw = Raw()  # empty if absent
    result: Raw = Raw()
    error: Problem | None = None


_decoder = msgspec.json.Decoder(LspMessage)
_encoder = msgspec.json.Encoder()


def encode_lsp_message(message: dict[str, object]) -> bytes:
    """Encode a message as one frame."""
    body = _encoder.encode({"jsonrpc": "2.0", **message})
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class MessageReader:
    """Splits a byte stream into messages.  Feed received bytes, then take messages until there are none."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def take(self) -> LspMessage | None:
        """Return the next complete message, or None.

        Raises:
            LspProtocolError: an invalid frame or message, or one over a limit.
        """
        if self._length is None:
            self._length = self._take_header()
        if self._length is None or len(self._buffer) < self._length:
            return None
        body = bytes(memoryview(self._buffer)[: self._length])
        del self._buffer[: self._length]
        self._length = None
        try:
            return _decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise LspProtocolError(f"not a message: {error}") from None

    def _take_header(self) -> int | None:
        end = self._buffer.find(b"\r\n\r\n", 0, MAX_HEADER)
        if end < 0:
            if len(self._buffer) >= MAX_HEADER:
                raise LspProtocolError(f"no end of the headers in {MAX_HEADER} bytes")
            return None
        header = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        return read_content_length(header)


def read_content_length(header: bytes) -> int:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        value = value.strip()
        if name.strip().lower() == b"content-length" and value.isdigit():
            length = int(value)
            if length > MAX_MESSAGE:
                raise LspProtocolError(f"a message of {length} bytes is over the limit of {MAX_MESSAGE}")
            return length
    raise LspProtocolError(f"no Content-Length in {header[:100]!r}")


def format_file_uri(path: str) -> str:
    """Return the file URI for an absolute path."""
    return "file://" + quote(path.encode(), safe="/~")


def parse_file_uri(uri: str) -> str | None:
    """Return the path in a file URI, or None.  Servers escape differently, so compare paths, not URIs."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme.lower() != "file" or parts.netloc.lower() not in ("", "localhost"):
        return None
    rest = uri.split("://", 1)[1][len(parts.netloc) :] if "://" in uri else parts.path  # '?' and '#' may be unescaped
    return unquote(rest, errors="replace")
