"""Calls that a client serves: what their fire is told, and when."""

from __future__ import annotations

import json

import trio

from hooklatch.core.protocol import Response
from hooklatch.service.transport.served_calls import ServedCalls
from support.calls import LoneFire, call_of


class Told(LoneFire):
    """A fire that notes when it is told that its call was sent."""

    def __init__(self, steps: list[str]) -> None:
        super().__init__()
        self._steps = steps

    def prepare_record(self) -> None:
        self._steps.append("told")


async def test_a_fire_is_told_once_its_call_is_sent_and_before_the_client_answers() -> None:
    served, steps = ServedCalls(), list[str]()

    def send(data: bytes) -> None:
        steps.append("sent")
        nursery.start_soon(answer, json.loads(data)["id"])

    async def answer(number: int) -> None:
        steps.append("answered")
        served.take_response(Response(id=number, result=None))

    async with trio.open_nursery() as nursery:
        outcome = await served.call(send, call_of("guard"), Told(steps), trio.current_time() + 5)

    assert steps == ["sent", "told", "answered"]
    assert outcome.cause == "policy"
