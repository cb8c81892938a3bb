"""Targets of the fuzzer: what comes over a socket or a pipe, from workers, clients, commands and language servers."""

from __future__ import annotations

import msgspec

from fuzz.checks import pieces, said
from hooklatch.core.combining import find_fault
from hooklatch.core.fire_params import FireParams
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.payload import Payload, PayloadError, canonicalize_json
from hooklatch.core.protocol import LineBuffer, Request, RpcError, convert_params, encode_error, read_message
from hooklatch.service.api.hook_methods import RegisterParams
from hooklatch.service.api.session_methods import HelloParams, TopicsParams, UpdateParams
from hooklatch_worker import wire
from hooklatch_worker.author import verdicts
from hooklatch_worker.lsp import wire as lsp_wire
from hooklatch_worker.runtime import shell_answers

__all__ = ["read_frames", "read_lines", "read_verdict", "read_payload", "read_language_server", "read_shell_answer"]

MAX_LINE = 2**16  # of the line reader under test; its own 9 MiB would need as much input
PARAMS = (FireParams, HelloParams, RegisterParams, TopicsParams, UpdateParams)
CATALOGUE = Catalogue.standard()


def read_frames(data: bytes) -> list[bytes] | None:
    whole, cut = wire.FrameReader(), wire.FrameReader()
    try:
        bodies = all_taken(whole, data)
    except wire.FrameError as error:
        return said(error)
    found: list[bytes] = []
    for piece in pieces(data):
        found += all_taken(cut, piece)
    assert found == bodies, "frames depend on how they arrive"
    for body in bodies:
        for decode in (decode_from_worker, wire.decode_from_zygote):
            try:
                message = decode(body)
            except wire.FrameError as error:
                said(error)
            else:
                assert decode(wire.encode_body(message)) == message
    return bodies


def decode_from_worker(body: bytes) -> object:
    return wire.take_from_worker(wire.FrameReader(), wire.HEADER.pack(len(body)) + body)


def all_taken(reader: wire.FrameReader, data: bytes) -> list[bytes]:
    """Return every body that is whole, now that this data has come."""
    bodies = [reader.take(data)]
    while bodies[-1] is not None:
        bodies.append(reader.take())
    return [bytes(body) for body in bodies if body is not None]


def read_lines(data: bytes) -> None:
    whole, cut = LineBuffer(MAX_LINE), LineBuffer(MAX_LINE)
    try:
        whole.feed(data)
        lines = list(iter(whole.take, None))
    except RpcError as error:
        return said(error)
    found: list[bytes] = []
    for piece in pieces(data):
        cut.feed(piece)
        found += iter(cut.take, None)
    for buffer, taken in ((whole, lines), (cut, found)):
        buffer.feed(b"\n")  # ends the last line
        taken += iter(buffer.take, None)
    assert found == lines, "lines depend on how they arrive"
    for line in lines:
        read_line(line)
    return None


def read_line(line: bytes) -> None:
    try:
        message = read_message(line)
    except RpcError as error:
        encode_error(error.request_id, error)
        return
    if isinstance(message, Request):
        for shape in PARAMS:
            try:
                convert_params(message.params, shape)
            except RpcError as error:
                encode_error(None, error)


def read_verdict(data: bytes) -> None:
    try:
        answer = verdicts.decode_answer(data)
    except verdicts.GarbageError as error:
        return said(error)
    for name in CATALOGUE:
        find_fault(CATALOGUE[name], answer)
    msgspec.json.encode(answer)  # what is accepted can be told on
    for part in (answer.patch or {}).values():
        canonicalize_json(part)
    return None


def read_payload(data: bytes) -> None:
    first, _, second = data.partition(b"\xff")
    payload = Payload(first)
    payload.digest()
    try:
        fields = payload.fields
        texts = {key: payload.text(key) for key in fields}
        assert all(canonicalize_json(fields[key]) for key in texts if texts[key] is not None)
        patch = verdicts.decode_answer(b'{"patch":%b}' % (second or b"{}")).patch or {}
        patched = payload.with_patch(patch)
    except (PayloadError, verdicts.GarbageError) as error:
        return said(error)
    for key, raw in patch.items():
        assert canonicalize_json(patched.fields[key]) == canonicalize_json(raw)
    assert patched.with_patch(patch) is patched, "a patch that is in force changes something"
    assert Payload(patched.data).fields.keys() == patched.fields.keys()
    return None


def read_language_server(data: bytes) -> None:
    whole, cut = lsp_wire.MessageReader(), lsp_wire.MessageReader()
    try:
        whole.feed(data)
        messages = list(iter(whole.take, None))
    except lsp_wire.LspProtocolError as error:
        return said(error)
    found: list[lsp_wire.LspMessage] = []
    for piece in pieces(data):
        cut.feed(piece)
        found += iter(cut.take, None)
    assert found == messages, "messages depend on how they arrive"
    lsp_wire.parse_file_uri(data.decode("utf-8", "replace"))
    return None


def read_shell_answer(data: bytes) -> None:
    for name in CATALOGUE:
        spec = CATALOGUE[name]
        try:
            verdict = shell_answers.parse_command_output(
                data, event=name, fails_closed=spec.fails_closed, allows=spec.verdicts | spec.outputs
            )
            verdicts.decode_answer(verdicts.encode_verdict(verdict))
            shell_answers.read_text(data)
        except verdicts.GarbageError as error:
            said(error)
