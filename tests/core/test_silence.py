"""A fire whose only hook says nothing passes without a machine, as the machine of its model would decide."""

from __future__ import annotations

from typing import Any

import msgspec

from hooklatch.core.decision import decide_silence
from hooklatch.core.messages import CallOutcome
from support.plays import BASH, CATALOGUE, begin, end, hook
from support.tables import table

SAID = ("d1", 7, 1.5)  # as `end` decides


MARKS: list[dict[str, Any]] = [{}, {"observe": True}, {"optional": True}, {"amends": True}, {"owner": "s1"}]


@table(("event", "marks"), [(event, marks) for event in CATALOGUE for marks in MARKS])
def test_silence_is_decided_as_the_machine_decides_it(event: str, marks: dict[str, Any]) -> None:
    spec = CATALOGUE[event]
    only, context = hook("only", event, **marks), {"key": 1}
    fire = begin(spec, [only], BASH, context)

    (call,) = fire.next_calls()
    fire.receive(call, CallOutcome(cause="policy", duration_ms=2.5))
    assert not fire.next_calls()

    silence = msgspec.structs.replace(only.silence, duration_ms=2.5)
    assert decide_silence(spec, [silence], call.payload, context, [], *SAID) == end(fire)
    assert (call.index, call.context, call.merged, call.reinvoked, call.following) == (0, context, None, False, ())
