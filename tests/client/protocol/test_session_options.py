"""What a session says of itself in `hello`, what it keeps over a lost daemon, and dialects."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client.scripts import CALL, Recorder
from hooklatch import connect_sync, deny
from hooklatch.client.protocol.exchange import encode_answer
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.errors import DaemonUnreachableError, RequestFailedError
from support.scripted_daemon import Peer, ScriptedDaemon, decision


def hello(**options: Any) -> dict[str, Any]:
    params = SessionState(None, {"cwd": "/w", **options}).hello("1")
    return {key: value for key, value in params.items() if key not in ("protocol", "client")}


@pytest.mark.parametrize(
    ("options", "session"),
    [
        ({}, {}),
        ({"plugins": []}, {"plugins": []}),
        ({"plugins": ("a",)}, {"plugins": ["a"]}),
        ({"plugins": None}, {}),
        ({"personality": "careful"}, {"personality": "careful"}),
        ({"ungated": "a demo"}, {"ungated": "a demo"}),
        ({"require_handlers": ["pre_tool_use"]}, {"require_handlers": ["pre_tool_use"]}),
    ],
)
def test_options_are_passed_on(options: dict[str, Any], session: dict[str, Any]) -> None:
    assert hello(**options) == {"session": {"cwd": "/w", **session}}


def test_a_dialect_stands_beside_the_session() -> None:
    assert hello(dialect="ethos") == {"session": {"cwd": "/w"}, "dialect": "ethos"}


def test_what_was_changed_since_is_said_again_after_a_lost_daemon() -> None:
    state = SessionState(None, {"plugins": ["a"], "personality": "bold"})

    params = state.changed(cwd="/new", personality="careful", plugins=[])

    session: Any = state.hello("1")["session"]
    assert params == {"cwd": "/new", "personality": "careful", "plugins": []}
    assert session == {**params, "began_in": os.getcwd()}  # its guards are those of where it began, too
    assert state.changed() == {}


def test_a_forked_process_of_a_session_that_has_moved_says_where_that_began() -> None:
    state = SessionState(None, {"cwd": "/trusted"})
    state.changed(cwd="/elsewhere")

    session: Any = state.without_hooks().hello("1")["session"]

    assert session == {"cwd": "/elsewhere", "began_in": "/trusted"}


class Parent:
    """A session that starts others, with what a daemon has given it."""

    def __init__(self, session_id: str | None, child_token: str | None) -> None:
        self.session_id = session_id
        self.child_token = child_token


@pytest.mark.parametrize(("session_id", "token"), [(None, "t"), ("s", None), (None, None)])
def test_a_parent_that_no_daemon_has_welcomed_starts_none(session_id: str | None, token: str | None) -> None:
    state = SessionState(None, {"cwd": "/w", "parent": Parent(session_id, token)})

    with pytest.raises(DaemonUnreachableError, match="no daemon has welcomed the session that started this one"):
        state.hello("1")


def test_a_child_proves_who_started_it() -> None:
    assert hello(parent=Parent("s", "t")) == {"session": {"cwd": "/w", "parent_session_id": "s", "parent_token": "t"}}


def test_a_host_without_a_gate_says_why_and_only_once(caplog: pytest.LogCaptureFixture, path: Path) -> None:
    caplog.set_level(logging.WARNING, "hooklatch.client")

    with connect_sync(path, ungated="only reads"), connect_sync(path, require_handlers=["pre_tool_use"]):
        pass

    assert [text for text in caplog.messages if text.startswith("no gate")] == [
        "no gate is required: session=None only reads"
    ]


def test_a_host_cannot_require_a_gate_and_need_none() -> None:
    with pytest.raises(ValueError, match="choose one"):
        SessionState(None, {"ungated": "no", "require_handlers": ["pre_tool_use"]})
    with pytest.raises(ValueError, match="say why"):
        SessionState(None, {"ungated": " "})


def listing(*states: str) -> Callable[[Peer], None]:
    def script(peer: Peer) -> None:
        peer.welcome()
        request = peer.read_until("hooks")
        assert request["params"] == {"event": "stop"}
        peer.answer(request, {"hooks": [{"id": str(n), "state": state} for n, state in enumerate(states)]})
        peer.read()

    return script


@pytest.mark.parametrize(
    ("states", "expected"),
    [([], False), (["disabled"], False), (["disabled", "active"], True), (["quarantined"], True)],
)
def test_a_session_says_whether_anybody_listens(
    daemon: ScriptedDaemon, path: Path, states: list[str], expected: bool
) -> None:
    daemon.play(listing(*states))

    with connect_sync(path) as s:
        assert s.has_handlers("stop") is expected


UPDATES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"plugins": ["a"]}, {"plugins": ["a"]}),
    ({"personality": None}, {"personality": None}),
    ({"personality": "careful", "plugins": None}, {"personality": "careful", "plugins": None}),
    ({"cwd": None}, {}),
]


@pytest.mark.parametrize(("changes", "sent"), UPDATES)
def test_an_update_names_only_what_changes_and_none_takes_back(
    daemon: ScriptedDaemon, path: Path, changes: dict[str, Any], sent: dict[str, Any]
) -> None:
    recorder = Recorder()

    def script(peer: Peer) -> None:
        peer.welcome()
        request = peer.read_until("session.update")
        recorder.note(request["params"])
        peer.answer(request, {"revision": 9})
        peer.read()

    daemon.play(script)

    with connect_sync(path) as s:
        assert s.update(**changes) == 9

    assert recorder.seen == [sent]


def test_a_native_fire_is_decided_under_another_name(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()

    def script(peer: Peer) -> None:
        peer.welcome()
        fire = peer.read_until("fire")
        recorder.note((fire["params"]["event"], fire["params"]["payload"], fire["params"]["plugins"]))
        follower = decision("model_request")
        answer = {"verdict": "deny", "rendered": {"error": "no"}, "followed_by": [follower], "revision": 7}
        peer.answer(fire, decision("pre_tool_use", **answer))
        peer.read()

    daemon.play(script)

    with connect_sync(path, dialect="ethos", denial_breaker=1) as s:
        answer = s.fire("before_tool_call", toolName="bash", args={}, plugins=["a"])

    assert recorder.seen == [("before_tool_call", {"toolName": "bash", "args": {}}, ["a"])]
    assert (answer.event, answer.rendered) == ("pre_tool_use", {"error": "no"})
    assert [one.event for one in answer.followed_by] == ["model_request"]
    assert s.refusals_in_a_row == 1


@pytest.mark.parametrize("event", ["before_tool_call", "after_tool_call", "PreToolUse"])
def test_a_native_event_without_a_daemon_is_refused_and_not_rendered(path: Path, event: str) -> None:
    with connect_sync(path, dialect="ethos") as s:
        answer = s.fire(event)

    assert (answer.allowed, answer.cause, answer.rendered) == (False, "no_daemon", None)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"error": "no"}, b'{"error":"no"}'),
        ([], b"[]"),
        (None, b""),
        (deny("no"), encode_answer(deny("no"))),
    ],
)
def test_a_served_hook_of_a_dialect_may_answer_in_its_words(answer: Any, expected: bytes) -> None:
    assert encode_answer(answer, is_native=True) == expected


def test_a_native_answer_that_is_no_json_is_garbage() -> None:
    assert b"garbage" in encode_answer({"n": float("nan")}, is_native=True)
    assert b"garbage" in encode_answer({"error": "no"})


def test_a_served_hook_of_a_dialect_is_answered_over_the_socket(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.say(id=1, method="call", params=CALL)
        recorder.note(peer.read()["result"])
        peer.read()

    daemon.play(script)

    with connect_sync(
        path, dialect="ethos", hooks=[("before_tool_call", lambda event: {"error": "no"}, {"id": "guard"})]
    ):
        recorder.done.wait()

    assert recorder.seen == [{"error": "no"}]


def test_what_an_update_took_back_is_not_said_again_after_a_lost_daemon() -> None:
    state = SessionState(None, {"cwd": "/w", "personality": "careful", "plugins": ["a"]})

    state.changed(personality=None, plugins=None)

    assert state.hello("1")["session"] == {"cwd": "/w"}


def test_what_an_update_was_refused_is_not_said_after_a_lost_daemon(daemon: ScriptedDaemon, path: Path) -> None:
    recorder = Recorder()

    def refuse(peer: Peer) -> None:
        peer.welcome()
        peer.refuse(peer.read_until("session.update"), "invalid_params")

    def welcome(peer: Peer) -> None:
        recorder.note(peer.welcome()["session"])
        peer.read()

    daemon.play(refuse, welcome)

    with connect_sync(path, cwd="/w", personality="careful") as s:
        with pytest.raises(RequestFailedError):
            s.update(cwd="/new", personality="unknown", plugins=["a"])
        recorder.done.wait()

    assert [(one["cwd"], one["personality"], one.get("plugins")) for one in recorder.seen] == [("/w", "careful", None)]


def test_a_text_is_no_list_of_plugins() -> None:
    with pytest.raises(TypeError, match="list of names"):
        SessionState(None, {"plugins": "guards"})
    state = SessionState(None, {"cwd": "/w", "plugins": ["guards"]})
    with pytest.raises(TypeError, match="list of names"):
        state.changed(plugins="guards")
    assert state.hello("1")["session"] == {"cwd": "/w", "plugins": ["guards"]}
