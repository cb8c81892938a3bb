"""Quarantines that end together are told in the order in which they began, in every process."""

from __future__ import annotations

from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch_worker.wire import Source


def test_quarantines_that_a_new_build_ends_are_told_in_their_order() -> None:
    told = list[str]()
    breakers = Breakers(lambda name, reason: told.append(name))
    source, matcher = Source("file", "/g.py"), compile_matcher(None)
    for number in range(8):
        target = PythonTarget(source, 1, f"f{number}")
        hook = Hook(id=f"h{number}", event="stop", layer=Layer.GLOBAL, matcher=matcher, target=target)
        while not breakers.record_death(hook, 1.0, "killed"):
            pass

    breakers.release_replaced("/g.py", 2)

    assert told == [f"global/h{number}" for number in range(8)]
