"""The client's end of the protocol, without a socket."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from hooklatch.client.protocol.core import (
    Announced,
    CallRequested,
    ClientConnection,
    ConnectionLost,
    ErrorReceived,
    ProtocolFault,
    ReplyDue,
    ResultReceived,
)
from hooklatch.core.protocol import MAX_FRAME
from hooklatch.errors import InvalidPayloadError


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


@pytest.fixture
def connection() -> ClientConnection:
    return ClientConnection()


def test_a_request_is_one_line_with_a_number_of_its_own(connection: ClientConnection) -> None:
    first, data = connection.request("ping", {})
    second, _ = connection.request("ping", {})

    assert data == b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}\n'
    assert (first, second) == (1, 2)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "\ud800", {1: "x"}, object(), b"bytes", {"deep": [{"set": {1}}]}, [10**5000]],
)
def test_what_json_cannot_say_is_refused_before_anything_is_sent(connection: ClientConnection, value: object) -> None:
    with pytest.raises(ValueError, match="payload"):
        connection.request("fire", {"payload": value})

    assert connection.request("ping", {})[0] == 1


def test_what_holds_itself_is_refused(connection: ClientConnection) -> None:
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(InvalidPayloadError, match="nested too deep"):
        connection.request("fire", {"payload": endless})


def test_a_message_over_the_frame_limit_is_refused(connection: ClientConnection) -> None:
    with pytest.raises(InvalidPayloadError, match="limit"):
        connection.request("fire", {"context": {"text": "x" * MAX_FRAME}})


def test_answers_are_told_apart_by_number_and_may_come_in_any_order(connection: ClientConnection) -> None:
    connection.request("ping", {})
    connection.request("hooks", {})

    second, first = connection.receive_data(line(id=2, result=[1]) + line(id=1, result={}))

    assert second == ResultReceived(2, msgspec.Raw(b"[1]"))
    assert isinstance(first, ResultReceived)
    assert first.number == 1


def test_bytes_may_come_one_at_a_time(connection: ClientConnection) -> None:
    connection.request("ping", {})

    incoming = [one for byte in line(id=1, result={}) for one in connection.receive_data(bytes([byte]))]

    assert [type(one) for one in incoming] == [ResultReceived]


def test_an_error_names_its_condition(connection: ClientConnection) -> None:
    connection.request("register", {})

    incoming = connection.receive_data(
        line(id=1, error={"code": -32001, "message": "wrong socket", "data": {"name": "not_admin"}})
    )

    assert incoming == [ErrorReceived(1, -32001, "not_admin", "wrong socket")]


@pytest.mark.parametrize("error", [{}, {"code": "x", "message": 5, "data": []}, {"data": {"name": 1}}])
def test_an_odd_error_is_still_an_error(connection: ClientConnection, error: dict[str, Any]) -> None:
    connection.request("ping", {})

    (one,) = connection.receive_data(line(id=1, error=error))

    assert isinstance(one, ErrorReceived)


@pytest.mark.parametrize(
    "data",
    [
        b"rubbish\n",
        b"[]\n",
        b'"text"\n',
        b"\xff\xfe\n",
        b'{"id": 1, "result": {}}\n',
        b'{"jsonrpc": "2.0", "id": 1}\n',
        line(id=99, result={}),
        line(id="1", result={}),
        line(id=None, error={"message": "too long"}),
        line(method="announce", params={"topic": 5}),
        b"[" * 5000 + b"\n",
        b"x" * (MAX_FRAME + 1),
    ],
)
def test_nonsense_is_a_fault_and_nothing_follows_it(connection: ClientConnection, data: bytes) -> None:
    connection.request("fire", {})

    incoming = connection.receive_data(data + line(id=1, result={}))

    assert [type(one) for one in incoming] == [ProtocolFault]
    assert connection.receive_data(line(id=1, result={})) == []
    assert connection.receive_eof() == []


def test_a_second_answer_to_one_request_is_a_fault(connection: ClientConnection) -> None:
    connection.request("fire", {})

    incoming = connection.receive_data(line(id=1, result={}) * 2)

    assert [type(one) for one in incoming] == [ResultReceived, ProtocolFault]


@pytest.mark.parametrize(
    ("data", "words"), [(b"", "hung up"), (b'{"jsonrpc"', "middle of a message"), (b"x\r", "middle of a message")]
)
def test_half_a_message_at_the_end_counts_for_nothing(connection: ClientConnection, data: bytes, words: str) -> None:
    connection.receive_data(data)

    (lost,) = connection.receive_eof()

    assert isinstance(lost, ConnectionLost)
    assert words in lost.message


def test_a_call_is_answered_with_its_own_number(connection: ClientConnection) -> None:
    params = {"hook": "mine", "call_id": "c", "event": "stop", "payload": {"turn": 1}, "envelope": {"host": "h"}}

    (call,) = connection.receive_data(line(id="k1", method="call", params=params))

    assert call == CallRequested("k1", "mine", "stop", {"turn": 1}, {"host": "h"})
    assert json.loads(connection.answer(call, b""))["result"] is None
    assert json.loads(connection.answer(call, b'{"verdict":"deny"}')) == {
        "jsonrpc": "2.0",
        "id": "k1",
        "result": {"verdict": "deny"},
    }


def test_a_failed_call_is_an_error_whatever_its_text_holds(connection: ClientConnection) -> None:
    call = CallRequested(1, "mine", "stop", {}, {})

    assert json.loads(connection.fail(call, "bad \ud800"))["error"]["message"] == "bad ?"


def test_an_answer_over_the_frame_limit_becomes_an_error(connection: ClientConnection) -> None:
    call = CallRequested(1, "mine", "stop", {}, {})

    assert "error" in json.loads(connection.answer(call, b'"' + b"x" * MAX_FRAME + b'"'))


@pytest.mark.parametrize(
    ("method", "params", "name"), [("dance", {}, "method_not_found"), ("call", {"hook": 1}, "invalid_params")]
)
def test_a_request_that_no_client_serves_gets_an_error(
    connection: ClientConnection, method: str, params: dict[str, Any], name: str
) -> None:
    (reply,) = connection.receive_data(line(id=5, method=method, params=params))

    assert isinstance(reply, ReplyDue)
    assert json.loads(reply.data)["error"]["data"]["name"] == name


def test_a_notification_of_a_newer_daemon_is_ignored(connection: ClientConnection) -> None:
    assert connection.receive_data(line(method="news", params={})) == []


def test_an_announcement_names_the_revision_in_force(connection: ClientConnection) -> None:
    changed, resync = connection.receive_data(
        line(method="announce", params={"topic": "registry", "previous": 1, "revision": 2, "added": ["a"]})
        + line(method="announce", params={"topic": "registry", "resync": 9})
    )

    assert isinstance(changed, Announced)
    assert isinstance(resync, Announced)
    assert (changed.announcement.current, changed.announcement.added) == (2, ["a"])
    assert resync.announcement.current == 9
