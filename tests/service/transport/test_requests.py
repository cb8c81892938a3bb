"""A fire is read by one typed decode, and just as any other method would be; all else goes to the general reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from hooklatch.core.fire_params import FireParams
from hooklatch.core.protocol import Request, Response, RpcError, convert_params, read_message
from hooklatch.service.transport.requests import FireRequest, HostRequest, read_host_params, read_line
from hooklatch_worker.author.ambiguity import find_ambiguity
from support.profiles import fuzzing
from support.tables import table


def found(read: Any, line: bytes) -> object:
    try:
        return read(line)
    except RpcError as error:
        return error.code, error.message, error.request_id


def fire(**members: Any) -> bytes:
    params = {"event": "stop", "payload": {"a": [1, "é"]}, "envelope": {"turn": 1}}
    return json.dumps({"jsonrpc": "2.0", "method": "fire", "params": params, "id": 1, **members}).encode()


@pytest.mark.parametrize("number", [1, "one", None])
def test_a_fire_is_read_with_its_params(number: object) -> None:
    request = read_line(fire(id=number))

    assert isinstance(request, FireRequest)
    assert (request.id, request.params.event, bytes(request.params.payload)) == (
        number,
        "stop",
        b'{"a": [1, "\\u00e9"]}',
    )
    assert request.id is not UNSET


def test_a_fire_without_an_id_is_a_notification() -> None:
    request = read_line(b'{"jsonrpc":"2.0","method":"fire","params":{"event":"stop"}}')

    assert isinstance(request, FireRequest)
    assert request.id is UNSET


@table(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire"}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop","payload":{"a":1,"a":2}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop","event":"stop"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop","context":{"a":{"b":1,"b":1}}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop","payload":{"a":1e999}}}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"fire","params":{"event":"stop"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop"},"extra":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop"},"error":5}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"fire","params":{"event":"stop"}}',
        b'{"jsonrpc":"1.0","id":1,"method":"fire","params":{"event":"stop"}}',
        b'{"id":1,"method":"fire","params":{"event":"stop"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop","payload":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop","payload":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop","payload":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop","context":%s}}' % (b"[" * 9000),
        b'[{"jsonrpc":"2.0","id":1,"method":"fire","params":{"event":"stop"}}]',
        b"", b" ", b"{", b"null",
    ],
)  # fmt: skip
def test_what_is_no_plain_fire_is_read_as_every_other_line(line: bytes) -> None:
    assert found(read_line, line) == found(read_message, line)


MEMBERS: dict[str, list[str]] = {
    "jsonrpc": ['"2.0"', '"2.0"', '"2.0"', '"1.0"', "2"],
    "method": ['"fire"', '"fire"', '"fire"', '"ping"', "null", '"\\u0066ire"'],
    "id": ["1", '"a"', "null", "1.5", "[]", "true"],
    "params": [
        '{"event":"stop"}', '{"event":"stop","payload":{"a":"\\u003a","b":[{}]}}', '{"event":"stop","more":1}',
        '{"event":"stop","payload":{"a":1,"a":1}}', '{"event":"stop","envelope":{"metadata":{"a":1,"a":1}}}',
        '{"event":""}', '{"event":"stop","timeout":"1"}', '{"event":"stop",}', "{}", "[]", "null",
    ],
    "error": ["null", "{}", "1"],
    "result": ["1"],
    "extra": ["null"],
}  # fmt: skip
members = st.sampled_from(sorted(MEMBERS)).flatmap(
    lambda key: st.sampled_from(MEMBERS[key]).map(lambda value: f'"{key}":{value}')
)
lines = st.lists(members, min_size=1, max_size=7).map(lambda parts: ("{" + ",".join(parts) + "}").encode())
usual = st.tuples(*(st.sampled_from(MEMBERS[key]) for key in ("jsonrpc", "method", "id", "params"))).map(
    lambda values: '{{"jsonrpc":{},"method":{},"id":{},"params":{}}}'.format(*values).encode()
)


@pytest.mark.slow  # some hundred examples
@fuzzing
@given(lines | usual)
def test_both_readers_say_the_same_of_every_line(line: bytes) -> None:
    request, general = found(read_line, line), found(read_message, line)

    if not isinstance(request, FireRequest):
        assert request == general
        return
    assert isinstance(general, Request)
    assert not isinstance(general, Response)
    assert (general.method, general.id) == ("fire", request.id)
    assert convert_params(general.params, FireParams) == request.params
    assert find_ambiguity(bytes(general.params)) is None


HEAD = b'{"jsonrpc":"2.0","id":1,"method":"host","params":{"host":"codex","event":"Stop","environ":{},"budget":5'


@fuzzing
@given(st.binary() | st.sampled_from([b"", b"}}", b'{},"document":{}', b'{"a":1},"event":"x"', b'"text"', b"\xff"]))
def test_a_forwarded_document_is_taken_as_it_came(document: bytes) -> None:
    request = read_line(HEAD + b',"document":' + document + b"}}")

    assert isinstance(request, HostRequest)
    assert bytes(request.params.document) == document
    assert (request.params.host, request.params.event, request.params.budget) == ("codex", "Stop", 5)


@table(
    "line",
    [
        HEAD + b"}}",
        HEAD + b',"document":}',
        HEAD + b',"more":1,"document":{}}}',
        HEAD.replace(b',"budget":5', b"") + b',"document":{}}}',
        HEAD.replace(b',"environ":{}', b"") + b',"document":{}}}',
        HEAD.replace(b"5", b"0") + b',"document":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"host","params":{"a":{"b":1,"document":{}}}}',
    ],
)
def test_a_line_that_no_forwarder_writes_is_read_as_any_other(line: bytes) -> None:
    assert found(read_line, line) == found(read_message, line)


@table(
    "line",
    [
        HEAD + b',"event":"PreToolUse","document":{}}}',
        HEAD.replace(b"5", b"0") + b',"document":{}},"params":{"host":"codex","event":"Stop"}}',
        HEAD.replace(b"5", b"0") + b',"document":{},"event":"PreToolUse"}}',
        HEAD.replace(b"5", b"0") + b',"document":{}},"method":"fire","params":{"event":"stop"}}',
        HEAD.replace(b"5", b"0") + b',"document":{}},"\\u0069d":2,"x":{}}',
        HEAD + b',"more":1,"document":{}},"id":2,"x":{}}',
    ],
)
def test_what_begins_like_a_forwarders_line_names_no_key_twice(line: bytes) -> None:
    with pytest.raises(RpcError, match="occurs twice in one object") as caught:
        read_line(line)

    assert caught.value.request_id == 1


@pytest.mark.parametrize("document", [b'{"a":1}', b'"{\\"a\\":1}"'])
def test_another_client_sends_a_document_as_json_or_as_text(document: bytes) -> None:
    params = read_host_params(Raw(b'{"document": ' + document + b' ,"host":"codex"}'))

    assert (params.host, bytes(params.document)) == ("codex", b'{"a":1}')


@pytest.mark.parametrize("document", [b'"abc', b'"\\ud800"', b'"\xff"', b'{"a":1,"a":1}', b'"" ""'])
def test_a_document_of_another_client_that_is_not_json_is_refused(document: bytes) -> None:
    with pytest.raises(RpcError, match="bad params"):
        read_host_params(Raw(b'{"host":"codex","document":' + document + b"}"))
