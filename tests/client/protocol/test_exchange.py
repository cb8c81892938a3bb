"""The requests of one connection, without a socket or a clock."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest

from client.scripts import CALL
from hooklatch.client.protocol.core import Announced, CallRequested
from hooklatch.client.protocol.exchange import Exchange
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


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
    assert exchange.due == 1.0

    exchange.finish(waiter)

    assert exchange.due == inf


def test_what_needs_the_shell_is_handed_on_in_order(exchange: Exchange) -> None:
    announced, call = exchange.receive(
        line(method="announce", params={"topic": "registry"}) + line(id=1, method="call", params=CALL), now=0.0
    )

    assert isinstance(announced, Announced)
    assert isinstance(call, CallRequested)
    assert json.loads(exchange.reply(call, b""))["result"] is None
    assert json.loads(exchange.reply(call, "it broke"))["error"]["message"] == "it broke"
