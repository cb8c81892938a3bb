"""What administrators send and take, as steps without a connection."""

from __future__ import annotations

from typing import Any

import pytest

from hooklatch.client.protocol import admin_exchange
from hooklatch.client.protocol.admin_exchange import AdminExchange
from hooklatch.core import protocol
from hooklatch.errors import (
    DaemonUnreachableError,
    HooklatchError,
    InvalidPayloadError,
    RequestFailedError,
    UnreadableAnswerError,
)
from support.tables import table

ANNOUNCED = b'{"jsonrpc":"2.0","method":"announce","params":{"topic":"%s"}}\n'


def play(steps: Any, *received: bytes) -> Any:
    """Return the result of steps, which receive these data and then the end of the stream."""
    data = iter([*received, b""])
    try:
        line = next(steps)
        while True:
            line = steps.send(b"" if line else next(data))
    except StopIteration as end:
        return end.value


def answered(result: str, number: str = "1") -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (number.encode(), result.encode())


def test_a_request_has_a_number_of_its_own_and_no_params_that_are_none() -> None:
    exchange = AdminExchange("/s")

    lines = [next(exchange.ask("hooks", session=None, id="a")), next(exchange.greet("me"))]

    assert lines[0] == b'{"jsonrpc":"2.0","id":1,"method":"hooks","params":{"id":"a"}}\n'
    assert lines[1].startswith(b'{"jsonrpc":"2.0","id":2,"method":"hello","params":{"protocol":')


def test_announcements_before_an_answer_are_kept_in_order() -> None:
    exchange = AdminExchange("/s")

    answer = play(exchange.ask("asks"), ANNOUNCED % b"a" + ANNOUNCED[:9], ANNOUNCED[9:] % b"b" + answered("[1]"))
    had_lines = exchange.has_line
    announcements = [play(exchange.announcement()), play(exchange.announcement())]

    assert (answer, had_lines, exchange.has_line) == ([1], True, False)
    assert announcements == [{"topic": "a"}, {"topic": "b"}]


@table(
    ("received", "error", "text"),
    [
        (b"", DaemonUnreachableError, "hung up at /s without an answer"),
        (b'{"json', DaemonUnreachableError, "hung up at /s in mid-answer"),
        (b"no json\n", UnreadableAnswerError, "what answers at /s is not a hooklatch daemon"),
        (answered("1", "2"), UnreadableAnswerError, "an answer to request 2, which was never sent"),
        (answered("1", "true"), UnreadableAnswerError, "an answer to request True"),
        (answered("1", "null"), UnreadableAnswerError, "an answer to request None"),
        (answered('"\\ud800"'), UnreadableAnswerError, "a lone surrogate"),
        (answered('{"a":1,"a":2}'), UnreadableAnswerError, "the key 'a' occurs twice"),
        (answered("[" * 10**5 + "]" * 10**5), UnreadableAnswerError, "recursion"),
        (b'{"jsonrpc":"2.0","id":1}\n', UnreadableAnswerError, "a request, a result or an error"),
        (b'{"id":1,"result":1}\n', UnreadableAnswerError, "not a JSON-RPC message"),
        (b"x" * (protocol.MAX_FRAME + 1), UnreadableAnswerError, "longer than"),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}\n', RequestFailedError, "answered -1: no"),
    ],
)
def test_what_is_no_answer_to_this_request_is_an_error(received: bytes, error: type[HooklatchError], text: str) -> None:
    with pytest.raises(error) as raised:
        play(AdminExchange("/s").ask("status"), received)

    assert text in str(raised.value)


def test_a_word_that_is_not_unicode_is_never_sent() -> None:
    with pytest.raises(InvalidPayloadError):
        next(AdminExchange("/s").ask("hooks", id=b"\xff".decode(errors="surrogateescape")))


def test_its_limit_of_a_line_is_that_of_the_protocol() -> None:
    assert admin_exchange.MAX_FRAME == protocol.MAX_FRAME
