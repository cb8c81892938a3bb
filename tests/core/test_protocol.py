"""Lines, requests and errors, from arbitrary bytes."""

import json
from typing import Any

import msgspec
import pytest

from hooklatch.core.protocol import (
    ErrorCode,
    LineBuffer,
    LineTooLongError,
    Request,
    Response,
    RpcError,
    convert_params,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    read_ends,
    read_message,
)
from support.tables import table

DEEP = b"[" * 100_000 + b"]" * 100_000
BIG = 2**64 + 1


class Registration(msgspec.Struct):
    event: str
    priorities: list[int] = []


def refused(line: bytes) -> RpcError:
    with pytest.raises(RpcError) as caught:
        read_message(line)
    return caught.value


def request(line: bytes) -> Request:
    message = read_message(line)
    assert isinstance(message, Request)
    return message


def lines_of(buffer: LineBuffer) -> list[bytes]:
    lines = []
    while (line := buffer.take()) is not None:
        lines.append(line)
    return lines


@table("cut", range(10))
def test_lines_are_the_same_wherever_the_stream_is_cut(cut: int) -> None:
    buffer, lines = LineBuffer(), []

    for part in (b"ab\n\ncd\nef"[:cut], b"ab\n\ncd\nef"[cut:]):
        buffer.feed(part)
        lines += lines_of(buffer)

    assert lines == [b"ab", b"", b"cd"]

    buffer.feed(b"\n")

    assert lines_of(buffer) == [b"ef"]


def test_lines_come_one_byte_at_a_time() -> None:
    buffer, lines = LineBuffer(limit=2), []

    for byte in b"ab\ncd\n":
        buffer.feed(bytes([byte]))
        lines += lines_of(buffer)

    assert lines == [b"ab", b"cd"]
    assert buffer.is_empty


def test_what_is_fed_after_an_unended_line_continues_it() -> None:
    buffer = LineBuffer()
    buffer.feed(b"a")
    assert buffer.take() is None

    buffer.feed(b"b\nc\n")

    assert lines_of(buffer) == [b"ab", b"c"]


def test_what_is_fed_before_a_line_is_taken_comes_after_it() -> None:
    buffer = LineBuffer()

    for part in (b"a", b"b\nc", b"d\ne", b"f\n"):
        buffer.feed(part)

    assert lines_of(buffer) == [b"ab", b"cd", b"ef"]
    assert buffer.is_empty


def test_a_long_line_comes_in_many_pieces() -> None:
    buffer, piece = LineBuffer(), b"x" * 2**16

    for _ in range(128):
        buffer.feed(piece)
        assert not buffer.has_line
    buffer.feed(b"y\nz")

    assert buffer.take() == 128 * piece + b"y"
    assert (len(buffer), buffer.is_empty) == (1, False)
    assert buffer.take() is None


def test_of_a_line_that_is_skipped_only_the_ends_are_kept() -> None:
    buffer, piece = LineBuffer(), b"x" * 2**16
    buffer.feed(b"begin" + piece)

    buffer.skip()
    for _ in range(100):
        buffer.feed(piece)
    buffer.feed(piece + b"end\nnext\n")

    line = buffer.take() or b""
    assert (line[:6], line[-4:], len(line) < 2**13) == (b"beginx", b"xend", True)
    assert (buffer.is_skipping, buffer.take()) == (False, b"next")


def test_a_line_that_is_skipped_has_the_same_limit() -> None:
    buffer = LineBuffer(limit=5)
    buffer.feed(b"123")
    buffer.skip()

    buffer.feed(b"456")

    with pytest.raises(LineTooLongError):
        buffer.take()


@table(
    ("line", "found"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"fire","params":{"x":', (7, False)),
        (b' { "method" : "fire" , "id" : "a\\"b" , "params" : {"id":9,"x":', ('a"b', False)),
        (b'{"method":"fire","params":{"id":9,"x":"xxxyyy"},"jsonrpc":"2.0","id":7}', (7, False)),
        (b'{"method":"fire","params":{"x":"xxx, \\"id\\":9}"},"id":7 , "jsonrpc":"2.0"} ', (7, False)),
        (b'{"method":"fire","params":{"x":"xxx","id":9}}', (None, False)),
        (b'{"method":"fire","params":{"x":"', (None, False)),
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":', (7, True)),
        (b'{"result":{"x":"xxxyyy"},"id":7}', (7, True)),
        (b'{"error":{"x":"xxxyyy"},"id":7,"method":"x"}', (7, False)),
        (b'{"id":7.5,"method":"fire","params":{', (None, False)),
        (b'{"id":null,"method":"fire","params":{', (None, False)),
        (b'{"id":"\xff","method":"fire","params":{', (None, False)),
        (b"xxx", (None, False)),
        (b"", (None, False)),
    ],
)
def test_the_ends_of_a_line_tell_its_id_and_whether_it_is_a_response(line: bytes, found: tuple[object, bool]) -> None:
    assert read_ends(line) == found


@pytest.mark.parametrize("pieces", [[b"123", b"456"], [b"123", b"456\n"], [b"1\n123", b"456"], [b"12345", b"6\n7\n"]])
def test_a_line_over_the_limit_is_an_error_in_pieces_too(pieces: list[bytes]) -> None:
    *before, last = pieces
    buffer = LineBuffer(limit=5)
    for piece in before:
        buffer.feed(piece)
        lines_of(buffer)

    buffer.feed(last)

    with pytest.raises(LineTooLongError):
        buffer.take()


@pytest.mark.parametrize("data", [b"123456", b"123456\n", b"123456\n1\n"])
def test_a_line_over_the_limit_is_an_error_ended_or_not(data: bytes) -> None:
    buffer = LineBuffer(limit=5)
    buffer.feed(data)

    with pytest.raises(LineTooLongError, match="over the limit of 5 bytes") as caught:
        buffer.take()

    assert caught.value.code is ErrorCode.FRAME_TOO_LARGE


def test_a_line_of_just_the_limit_is_taken_and_so_are_many() -> None:
    buffer = LineBuffer(limit=5)
    buffer.feed(b"12345\n" * 3 + b"12345")

    assert lines_of(buffer) == [b"12345"] * 3


def test_lines_before_a_line_that_is_too_long_are_still_given() -> None:
    buffer = LineBuffer(limit=5)
    buffer.feed(b"ok\n1234567")

    assert buffer.take() == b"ok"
    with pytest.raises(LineTooLongError):
        buffer.take()


@pytest.mark.parametrize(("data", "has_line"), [(b"", False), (b"12345", False), (b"1\n", True), (b"123456", True)])
def test_a_buffer_says_whether_there_is_something_to_take(data: bytes, has_line: bool) -> None:
    buffer = LineBuffer(limit=5)
    buffer.feed(data)

    assert buffer.has_line is has_line


def test_a_line_whose_end_comes_late_is_something_to_take() -> None:
    buffer = LineBuffer()
    buffer.feed(b"ab")
    buffer.take()

    buffer.feed(b"c\nd")

    assert buffer.has_line
    assert (buffer.take(), buffer.has_line) == (b"abc", False)


@pytest.mark.parametrize(
    ("id_json", "id_read"), [(b"7", 7), (b"-1", -1), (b'"seven"', "seven"), (b"null", None), (b"%d" % BIG, BIG)]
)
def test_an_id_is_read_as_it_came(id_json: bytes, id_read: object) -> None:
    message = request(b'{"jsonrpc":"2.0","method":"ping","id":%s}' % id_json)

    assert message.id == id_read
    assert type(message.id) is type(id_read)
    assert not message.is_notification


def test_a_request_without_an_id_is_a_notification() -> None:
    assert request(b'{"jsonrpc":"2.0","method":"announce"}').is_notification


def test_absent_params_are_an_empty_object() -> None:
    assert bytes(request(b'{"jsonrpc":"2.0","method":"ping","id":1}').params) == b"{}"


def test_params_are_passed_on_as_they_came() -> None:
    line = b'{"jsonrpc":"2.0","method":"fire","id":1,"params":{"n": %d,  "x": 1.00}}' % BIG

    assert bytes(request(line).params) == b'{"n": %d,  "x": 1.00}' % BIG


def test_unknown_keys_of_a_message_are_ignored() -> None:
    assert request(b'{"jsonrpc":"2.0","method":"ping","id":1,"trace":{"a":[1]}}').method == "ping"


@pytest.mark.parametrize("ending", [b"", b"\r", b"  "])
def test_white_space_around_a_message_is_nothing(ending: bytes) -> None:
    assert request(b' {"jsonrpc":"2.0","method":"ping","id":1}' + ending).method == "ping"


@pytest.mark.parametrize("value", [b"null", b"0", b'{"a":1}'])
def test_an_answer_with_a_result(value: bytes) -> None:
    message = read_message(b'{"jsonrpc":"2.0","id":"a","result":%s}' % value)

    assert isinstance(message, Response)
    assert (message.id, bytes(message.result or b""), message.error) == ("a", value, None)


def test_an_answer_with_an_error() -> None:
    message = read_message(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON"}}')

    assert message == Response(None, error={"code": -32700, "message": "no JSON"})


@table(
    ("line", "text"),
    [
        (b"", "not JSON"),
        (b"   ", "not JSON"),
        (b"{", "not JSON"),
        (b"hello", "not JSON"),
        (b"GET / HTTP/1.1\r", "not JSON"),
        (b"\x00\xff\xfe", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"jsonrpc":"2.0","method":"ping","id":1} {}', "not JSON"),
        (b'{"jsonrpc":"2.0","method":"ping","id":1,"params":{"a":NaN}}', "not JSON"),
        (b'{"jsonrpc":"2.0","method":"ping","id":1,"params":{"a":Infinity}}', "not JSON"),
        (b'{"jsonrpc":"2.0","method":"ping","id":1,"params":{"a":"\\ud800"}}', "not JSON"),
        (b'{"jsonrpc":"2.0","method":"\\ud800","id":1}', "not JSON"),
        (b'{"jsonrpc":"2.0","method":"\xff","id":1}', "not JSON"),
        (b'{"jsonrpc":"2.0","method":"ping","id":1,"params":{"a":' + DEEP + b"}}", "nested too deep"),
        (b'{"jsonrpc":"2.0","method":"ping","id":1,"other":' + DEEP + b"}", "nested too deep"),
    ],
    ids=range(15),
)
def test_a_line_that_is_no_json_is_a_parse_error(line: bytes, text: str) -> None:
    error = refused(line)

    assert error.code is ErrorCode.PARSE_ERROR
    assert text in error.message


@table(
    ("line", "text"),
    [
        (b'[{"jsonrpc":"2.0","method":"ping","id":1}]', "batches are not supported; send one object a line"),
        (b"  []", "batches are not supported"),
        (DEEP, "batches are not supported"),
        (b"1", "got `int`"),
        (b"null", "got `null`"),
        (b'"ping"', "got `str`"),
        (b"{}", 'a message needs "jsonrpc": "2.0"'),
        (b'{"method":"ping","id":1}', 'a message needs "jsonrpc": "2.0"'),
        (b'{"jsonrpc":"1.0","method":"ping","id":1}', 'a message needs "jsonrpc": "2.0"'),
        (b'{"jsonrpc":2.0,"method":"ping","id":1}', "$.jsonrpc"),
        (b'{"jsonrpc":"2.0","method":5,"id":1}', "$.method"),
        (b'{"jsonrpc":"2.0","method":null,"id":1}', "$.method"),
        (b'{"jsonrpc":"2.0","method":"ping","id":true}', "$.id"),
        (b'{"jsonrpc":"2.0","method":"ping","id":1.5}', "$.id"),
        (b'{"jsonrpc":"2.0","method":"ping","id":[1]}', "$.id"),
        (b'{"jsonrpc":"2.0","method":"ping","id":' + b"9" * 5000 + b"}", "$.id"),
        (b'{"jsonrpc":"2.0","id":1,"error":"no"}', "$.error"),
        (b'{"jsonrpc":"2.0","id":1}', "a response needs a result or an error"),
        (b'{"jsonrpc":"2.0","result":1}', "a message needs a method, or an id"),
        (b'{"jsonrpc":"2.0"}', "a message needs a method, or an id"),
    ],
    ids=range(20),
)
def test_json_that_is_no_message_is_an_invalid_request(line: bytes, text: str) -> None:
    error = refused(line)

    assert error.code is ErrorCode.INVALID_REQUEST
    assert text in error.message


def test_params_become_the_shape_that_is_asked_for() -> None:
    found = convert_params(msgspec.Raw(b'{"event":"stop","priorities":[1],"unknown":true}'), Registration)

    assert found == Registration("stop", [1])


@table(
    ("params", "text"),
    [
        (b"{}", "missing required field `event`"),
        (b'{"event":5}', "$.event"),
        (b'{"event":"stop","priorities":[1,"2"]}', "$.priorities[1]"),
        (b'{"event":"\xff"}', "bad params"),  # the words are msgspec's, and its versions differ
        (b"null", "got `null`"),
        (b'["stop"]', "got `array`"),
        (b'{"event":"stop","priorities":%s}' % DEEP, "$.priorities[0]"),
        (b'{"event":"stop","other":%s}' % DEEP, "nested too deep"),
    ],
    ids=range(8),
)
def test_params_of_another_shape_name_the_field(params: bytes, text: str) -> None:
    with pytest.raises(RpcError) as caught:
        convert_params(msgspec.Raw(params), Registration)

    assert caught.value.code is ErrorCode.INVALID_PARAMS
    assert text in caught.value.message


def test_big_integers_in_params_survive() -> None:
    assert convert_params(msgspec.Raw(b'{"n":%d}' % BIG), dict[str, Any]) == {"n": BIG}


def test_a_request_reads_as_it_was_written() -> None:
    line = encode_request(3, "fire", {"event": "stop", "n": BIG, "text": "a\nb\u2028"})

    message = request(line.removesuffix(b"\n"))
    assert (message.id, message.method) == (3, "fire")
    assert json.loads(bytes(message.params)) == {"event": "stop", "n": BIG, "text": "a\nb\u2028"}


def test_a_notification_reads_as_it_was_written() -> None:
    assert request(encode_notification("announce", {"revision": 2})).is_notification


@pytest.mark.parametrize("number", [1, "one", None])
def test_a_result_reads_as_it_was_written(number: object) -> None:
    assert json.loads(encode_result(number, {"ids": ["a"]})) == {
        "jsonrpc": "2.0",
        "id": number,
        "result": {"ids": ["a"]},
    }


def test_an_error_carries_its_code_its_text_and_its_name() -> None:
    line = encode_error(None, RpcError(ErrorCode.NOT_ADMIN, "global hooks need the admin socket"))

    assert read_message(line) == Response(
        None,
        error={"code": -32001, "message": "global hooks need the admin socket", "data": {"name": "not_admin"}},
    )


@pytest.mark.parametrize(
    "line",
    [
        encode_request(1, "m", "a\nb"),
        encode_notification("m", "a\nb"),
        encode_result(1, "a\nb"),
        encode_error(1, RpcError(ErrorCode.NOT_FOUND, "a\nb")),
    ],
)
def test_what_is_written_is_one_line(line: bytes) -> None:
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")


def test_every_code_is_its_own() -> None:
    assert len({int(code) for code in ErrorCode}) == len(ErrorCode.__members__)
