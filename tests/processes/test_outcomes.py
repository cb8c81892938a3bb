"""What a worker tells of a call is not trusted: what the daemon makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from hooklatch.processes.worker import build_call_outcome
from hooklatch_worker import wire
from hooklatch_worker.author.failures import MAX_TRACEBACK
from support.plays import hook

TOLD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an answer": ({"answer": b"{}"}, {"cause": "policy", "answer": b"{}"}),
    "a failure": ({"cause": "timeout", "message": "m"}, {"cause": "timeout", "message": "m", "answer": b""}),
    "an answer beside a failure": ({"cause": "load", "answer": b"{}"}, {"cause": "load", "answer": b""}),
    "a cause that is the daemon's to give": ({"cause": "draining"}, {"cause": "crash"}),
    "a cause that lets it pass": ({"cause": "policy", "answer": b"{}"}, {"cause": "crash", "answer": b""}),
    "bytes that are no text": ({"stdout": b"\xff", "stderr": b"no"}, {"stdout": "\ufffd", "stderr": "no"}),
    "a traceback without end": ({"cause": "crash", "traceback": "t" * 10**6}, {"traceback": "t" * MAX_TRACEBACK}),
}


@pytest.mark.parametrize("what", TOLD)
def test_an_outcome_takes_from_a_worker_only_what_a_worker_may_say(what: str) -> None:
    told, expected = TOLD[what]

    outcome = build_call_outcome(wire.CallAnswered(1, 2, **told), hook("guard"), 0.0)

    assert {name: getattr(outcome, name) for name in expected} == expected
    assert (outcome.outcome, outcome.is_lost) == ("unread", False)
