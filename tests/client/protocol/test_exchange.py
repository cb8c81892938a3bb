"""The requests of one connection, without a socket or a clock."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest

from client.scripts import CALL
from hooklatch.client.protocol.announcements import Announcement
from hooklatch.client.protocol.exchange import CallRequested, Exchange, PendingRequest, encode_reply
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.core.protocol import MAX_FRAME
from hooklatch.errors import DaemonUnreachableError, InvalidPayloadError, RequestFailedError, UnreadableAnswerError


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def begin(exchange: Exchange, method: str = "ping", **params: Any) -> PendingRequest:
    return exchange.begin(method, params, wake=lambda: None, now=0.0)[0]


@pytest.fixture
def ends() -> list[str]:
    return []


@pytest.fixture
def exchange(ends: list[str]) -> Exchange:
    return Exchange(Liveness(interval=1.0, misses=2), lambda: ends.append("end"))


def test_an_answer_wakes_who_waits_for_it(exchange: Exchange) -> None:
    woken: list[str] = []
    first, _ = exchange.begin("ping", {}, wake=lambda: woken.append("first"), now=0.0)
    second, _ = exchange.begin("hooks", {}, wake=lambda: woken.append("second"), now=0.0)

    assert exchange.receive(line(id=2, result=[1]) + line(id=1, error={"message": "no"}), now=0.5) == []

    assert woken == ["second", "first"]
    assert bytes(second.read()) == b"[1]"
    with pytest.raises(RequestFailedError):
        first.read()


def test_the_end_fails_all_who_wait_once(exchange: Exchange, ends: list[str]) -> None:
    waiters = [exchange.begin("ping", {}, wake=lambda: None, now=0.0)[0] for _ in range(2)]

    exchange.receive(b"rubbish\n", now=0.1)
    exchange.end(DaemonUnreachableError("too late"))

    assert ends == ["end"]
    for waiter in waiters:
        with pytest.raises(UnreadableAnswerError):
            waiter.read()
    with pytest.raises(UnreadableAnswerError):
        exchange.begin("ping", {}, wake=lambda: None, now=0.2)


def test_silence_is_asked_after_and_then_ends_it(exchange: Exchange, ends: list[str]) -> None:
    waiter, _ = exchange.begin("fire", {}, wake=lambda: None, now=0.0)

    assert exchange.check(1.0) == line(id=2, method="ping", params={}).replace(b": ", b":").replace(b", ", b",")
    assert exchange.check(2.0) == b""

    assert ends == ["end"]
    with pytest.raises(DaemonUnreachableError, match="silent"):
        waiter.read()


def test_nothing_is_due_while_nobody_waits(exchange: Exchange) -> None:
    waiter, _ = exchange.begin("ping", {}, wake=lambda: None, now=0.0)
    assert exchange.pulse.due == 1.0

    exchange.finish(waiter)

    assert exchange.pulse.due == inf


def test_what_needs_the_shell_is_handed_on_in_order(exchange: Exchange) -> None:
    announced, call = exchange.receive(
        line(method="announce", params={"topic": "registry"}) + line(id=1, method="call", params=CALL), now=0.0
    )

    assert isinstance(announced, Announcement)
    assert isinstance(call, CallRequested)
    assert json.loads(encode_reply(call, b""))["result"] is None
    assert json.loads(encode_reply(call, "it broke"))["error"]["message"] == "it broke"


def test_a_request_is_one_line_with_a_number_of_its_own(exchange: Exchange) -> None:
    first, data = exchange.begin("ping", {}, wake=lambda: None, now=0.0)
    second = begin(exchange)

    assert data == b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}\n'
    assert (first.number, second.number) == (1, 2)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "\ud800", {1: "x"}, object(), b"bytes", {"deep": [{"set": {1}}]}, [10**5000]],
)
def test_what_json_cannot_say_is_refused_before_anything_is_sent(exchange: Exchange, value: object) -> None:
    with pytest.raises(ValueError, match="payload"):
        begin(exchange, "fire", payload=value)

    assert begin(exchange).number == 1


def test_what_holds_itself_is_refused(exchange: Exchange) -> None:
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(InvalidPayloadError, match="nested too deep"):
        begin(exchange, "fire", payload=endless)


def test_a_message_over_the_frame_limit_is_refused(exchange: Exchange) -> None:
    with pytest.raises(InvalidPayloadError, match="limit"):
        begin(exchange, "fire", context={"text": "x" * MAX_FRAME})


def test_answers_are_told_apart_by_number_and_may_come_in_any_order(exchange: Exchange) -> None:
    first, second = begin(exchange), begin(exchange, "hooks")

    exchange.receive(line(id=2, result=[1]) + line(id=1, result={}), now=0.0)

    assert (bytes(first.read()), bytes(second.read())) == (b"{}", b"[1]")


def test_bytes_may_come_one_at_a_time(exchange: Exchange) -> None:
    waiter = begin(exchange)

    for byte in line(id=1, result={}):
        exchange.receive(bytes([byte]), now=0.0)

    assert bytes(waiter.read()) == b"{}"


def test_an_error_names_its_condition(exchange: Exchange) -> None:
    waiter = begin(exchange, "register")

    error = {"code": -32001, "message": "wrong socket", "data": {"name": "not_admin"}}
    exchange.receive(line(id=1, error=error), now=0.0)

    with pytest.raises(RequestFailedError) as raised:
        waiter.read()
    assert raised.value.args == (-32001, "not_admin", "wrong socket")


@pytest.mark.parametrize("error", [{}, {"code": "x", "message": 5, "data": []}, {"data": {"name": 1}}])
def test_an_odd_error_is_still_an_error(exchange: Exchange, error: dict[str, Any]) -> None:
    waiter = begin(exchange)

    exchange.receive(line(id=1, error=error), now=0.0)

    with pytest.raises(RequestFailedError):
        waiter.read()


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
def test_nonsense_is_the_end_and_nothing_follows_it(exchange: Exchange, data: bytes) -> None:
    waiter = begin(exchange, "fire")

    assert exchange.receive(data + line(id=1, result={}), now=0.0) == []

    assert exchange.receive(line(id=1, method="call", params=CALL), now=0.0) == []
    assert isinstance(exchange.failure, UnreadableAnswerError)
    with pytest.raises(UnreadableAnswerError):
        waiter.read()


def test_a_second_answer_to_one_request_is_a_fault(exchange: Exchange) -> None:
    waiter = begin(exchange, "fire")

    exchange.receive(line(id=1, result={}) * 2, now=0.0)

    assert bytes(waiter.read()) == b"{}"
    assert isinstance(exchange.failure, UnreadableAnswerError)


def test_an_answer_that_nobody_waits_for_any_more_is_dropped(exchange: Exchange) -> None:
    exchange.finish(begin(exchange, "fire"))

    assert exchange.receive(line(id=1, result={}), now=0.0) == []

    assert exchange.failure is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (line(method="news", params={}), "hung up"),
        (b'{"jsonrpc"', "middle of a message"),
        (b"x\r", "middle of a message"),
    ],
)
def test_half_a_message_at_the_end_counts_for_nothing(exchange: Exchange, data: bytes, words: str) -> None:
    exchange.receive(data, now=0.0)

    assert exchange.receive(b"", now=0.0) == []

    assert isinstance(exchange.failure, DaemonUnreachableError)
    assert words in str(exchange.failure)


def test_a_call_is_answered_with_its_own_number(exchange: Exchange) -> None:
    params = {"hook": "mine", "call_id": "c", "event": "stop", "payload": {"turn": 1}, "envelope": {"host": "h"}}

    (call,) = exchange.receive(line(id="k1", method="call", params=params), now=0.0)

    assert call == CallRequested("mine", "stop", {"turn": 1}, {"host": "h"}, number="k1")
    assert json.loads(encode_reply(call, b""))["result"] is None
    assert json.loads(encode_reply(call, b'{"verdict":"deny"}')) == {
        "jsonrpc": "2.0",
        "id": "k1",
        "result": {"verdict": "deny"},
    }


def test_a_failed_call_is_an_error_whatever_its_text_holds() -> None:
    call = CallRequested("mine", "stop", {}, number=1)

    assert json.loads(encode_reply(call, "bad \ud800"))["error"]["message"] == "bad ?"


def test_an_answer_over_the_frame_limit_becomes_an_error() -> None:
    call = CallRequested("mine", "stop", {}, number=1)

    assert "error" in json.loads(encode_reply(call, b'"' + b"x" * MAX_FRAME + b'"'))


@pytest.mark.parametrize(
    ("method", "params", "name"), [("dance", {}, "method_not_found"), ("call", {"hook": 1}, "invalid_params")]
)
def test_a_request_that_no_client_serves_gets_an_error(
    exchange: Exchange, method: str, params: dict[str, Any], name: str
) -> None:
    (answer,) = exchange.receive(line(id=5, method=method, params=params), now=0.0)

    assert isinstance(answer, bytes)
    assert json.loads(answer)["error"]["data"]["name"] == name


def test_a_notification_of_a_newer_daemon_is_ignored(exchange: Exchange) -> None:
    assert exchange.receive(line(method="news", params={}), now=0.0) == []


def test_an_announcement_names_the_revision_in_force(exchange: Exchange) -> None:
    changed, resync = exchange.receive(
        line(method="announce", params={"topic": "registry", "previous": 1, "revision": 2, "added": ["a"]})
        + line(method="announce", params={"topic": "registry", "resync": 9}),
        now=0.0,
    )

    assert isinstance(changed, Announcement)
    assert isinstance(resync, Announcement)
    assert (changed.current, changed.added) == (2, ["a"])
    assert resync.current == 9
