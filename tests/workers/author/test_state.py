"""event.state in the worker: what is rejected before a request is sent, and a stream that stays in step."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooklatch_worker import StateError
from hooklatch_worker.author import events
from hooklatch_worker.author.call_context import CallContext
from hooklatch_worker.author.composition import chain
from hooklatch_worker.author.state import Scope, StateRequest
from hooklatch_worker.author.verdicts import amend


class Remembering:
    """Keeps what is asked, and answers each question alike."""

    def __init__(self, answer: bytes = b"") -> None:
        self.asked: list[StateRequest] = []
        self.answer = answer

    def ask(self, asked: StateRequest) -> bytes:
        self.asked.append(asked)
        return self.answer


@pytest.fixture
def line() -> Remembering:
    return Remembering()


def event(line: Remembering | None, call_id: int = 7) -> events.Event:
    call = CallContext(call_id, line=line) if line is not None else None
    return events.build_event("pre_tool_use", {"tool_name": "Bash", "tool_input": {}}, {}, None, None, False, call)


REFUSED: dict[str, Callable[[Scope], Any]] = {
    "a key is a text that is not empty, not ''": lambda scope: scope.get(""),
    "a key is a text that is not empty, not 5": lambda scope: scope.get(5),  # type: ignore[arg-type]
    "a key has at most 256 bytes, not 258": lambda scope: scope.get("é" * 129),
    "a key holds a lone surrogate": lambda scope: scope.get("\ud800"),
    "None cannot be set as a value": lambda scope: scope.set("k", None),
    "JSON cannot express": lambda scope: scope.set("k", [float("nan")]),
    "inf is not a finite number": lambda scope: scope.increment("k", float("inf")),
    "not plain JSON": lambda scope: scope.set("k", {1, 2}),
    "keys must be str": lambda scope: scope.set("k", {1: 2}),
    "the value cannot be stored": lambda scope: scope.set("k", "\ud800"),
    "at most 16384 bytes as JSON, not 16385": lambda scope: scope.set("k", "x" * 16383),
    "by is a number, not a 'str'": lambda scope: scope.increment("k", "1"),  # type: ignore[arg-type]
    "by is a number, not a 'bool'": lambda scope: scope.increment("k", True),
    "ttl must be a number of seconds over 0": lambda scope: scope.increment("k", ttl=0),
    "not nan": lambda scope: scope.set("k", 1, ttl=float("nan")),
    "at most 31622400, not 40000000.0": lambda scope: scope.set("k", 1, ttl=4e7),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_stored_is_refused_before_anybody_is_asked(line: Remembering, text: str) -> None:
    with pytest.raises(StateError) as caught:
        REFUSED[text](event(line).state)

    assert text in str(caught.value)
    assert line.asked == []


def test_what_is_asked_is_of_the_events_own_call(line: Remembering) -> None:
    line.answer = b"2"
    assert event(line).state.session.increment("k", 0.5, ttl=9, once=True) == 2
    event(line, 8).state.compare_and_set("k", None, {"b": 1, "a": [True]})

    assert line.asked == [
        StateRequest(0, 7, 0, "increment", "k", True, b"0.5", ttl=9.0, once=True),
        StateRequest(0, 8, 0, "compare_and_set", "k", False, b'{"a":[true],"b":1}'),
    ]


def test_an_event_that_was_amended_in_a_chain_asks_too(line: Remembering) -> None:
    function = chain(lambda one: amend(tool_input={}), lambda one: one.state.get("k"))

    assert function(event(line)) is not None
    assert [asked.call_id for asked in line.asked] == [7]


def test_an_event_belongs_to_its_call_as_a_copy_too_but_not_in_another_process(line: Remembering) -> None:
    with pytest.raises(StateError, match="while a worker of the daemon runs the event"):
        event(None).state.get("k")
    for copied in (copy.deepcopy(event(line)), copy.copy(event(line))):
        copied.state.get("k")
    assert [asked.call_id for asked in line.asked] == [7, 7]
    with pytest.raises(StateError, match="while a worker of the daemon runs the event"):
        pickle.loads(pickle.dumps(event(line))).state.get("k")


def test_a_field_of_that_name_is_in_the_payload() -> None:
    made = events.build_event("deploy", {"state": "up"}, {}, None, None, False)

    assert made.payload["state"] == "up"


INTERRUPTED = """
import signal, socket, sys
from hooklatch_worker.runtime import state_client
from hooklatch_worker.author import state
from hooklatch_worker import wire

ours, theirs = socket.socketpair()
line = state_client.StateClient(ours, wire.FrameReader(), 1)
line.begin(5)

class Interrupted(Exception):
    pass

def interrupt(*_):
    raise Interrupted

signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.01)
try:
    state.State(line, 5).get("k")
except Interrupted:
    print("interrupted", flush=True)
line.end()
print("went on", flush=True)
"""


def test_a_worker_whose_question_was_interrupted_says_nothing_more(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert (done.returncode, done.stdout) == (1, "interrupted\n"), done.stderr
