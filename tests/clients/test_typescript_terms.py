"""Values of a process that speaks TypeScript: its own hooks get and give the very ones, everybody else a plain copy.

Both sides of each: what a gate must not let pass, and the ordinary use that must go on.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from clients.conftest import RealDaemon
from clients.programs import Program, command_of
from support.survivors import nobody_survives
from support.tables import table

pytestmark = pytest.mark.slow  # a process of Node, and a daemon

GUARDS = """
import json
from pathlib import Path
from hooklatch import amend, hook

def seen(event):
    with open(Path(__file__).with_name("seen"), "a") as file:
        file.write(json.dumps(event.payload) + "\\n")

@hook("post_tool_use")
def sees_a_call(event):
    seen(event)

@hook("message_claim")
def sees_a_message(event):
    seen(event)

@hook("pre_tool_use", match="Amended", amends=True)
def amends_first(event):
    return amend(tool_input={**event.tool_input, "command": "theirs"})
"""
DATE = {"$named": "date", "is": {"$date": "2026-01-31T12:00:00.000Z"}}
CALL = {"toolCallId": "t-1", "toolName": "Shell", "args": {"command": "ls"}}

# Each value of the language that JSON cannot say, and what stands for it on the wire.
VALUES: dict[str, tuple[Any, Any]] = {
    "a date": (DATE, {"$native": "Date", "text": "2026-01-31T12:00:00.000Z"}),
    "bytes that are text": ({"$buffer": "w6k="}, {"$native": "Buffer", "text": "é"}),
    "bytes that are none": ({"$buffer": "/wA="}, {"$native": "Buffer", "text": "\ufffd\0"}),
    "a map": ({"$named": "map", "is": {"$map": [[1, {"$date": "2026-01-31T12:00:00.000Z"}]]}}, {"$native": "Map"}),
    "a large integer": ({"$bigint": "9007199254740993"}, {"$native": "bigint", "text": "9007199254740993"}),
    "no number": ({"$number": "NaN"}, {"$native": "number", "text": "NaN"}),
    "a symbol": ({"$symbol": "s"}, {"$native": "symbol", "text": "Symbol(s)"}),
    "a function": ({"$function": "f"}, {"$native": "function", "text": "f"}),
    "an instance": ({"$named": "turn", "is": {"$instance": "Turn", "with": {"n": 1}}}, {"$native": "Turn"}),
    "nothing, in a list": ([1, {"$undefined": True}], [1, {"$native": "undefined"}]),
    "a lone surrogate": ("a\ud800b", {"$native": "string", "text": "a\ufffdb"}),
    "a circle": ({"me": {"$self": True}}, {"me": {"$native": "Object"}}),
}
CASES = [(name, value, mark) for name, (value, mark) in VALUES.items()]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealDaemon]:
    with nobody_survives():
        running = RealDaemon(tmp_path_factory.mktemp("daemon"), GUARDS)
        yield running
        running.end()


class Registry:
    """Ethos' registry in a process of its own, beside guards that keep what they see."""

    def __init__(self, daemon: RealDaemon, program: Program) -> None:
        self._seen = daemon.folder / "seen"
        self._seen.write_text("")
        self.program = program
        self._path = daemon.path
        self.reopen()

    def reopen(self) -> None:
        """Begin again without handlers."""
        self.program.do(do="open", path=self._path, dialect="ethos")

    def __call__(self, call: str, *arguments: Any, **others: Any) -> Any:
        answer = self.program.do(do="native", call=call, arguments=list(arguments), **others)
        return answer["result"] if "result" in answer else pytest.fail(str(answer))

    def called(self, named: str) -> list[Any]:
        found: list[Any] = self("called", **{"as": named})
        return found

    def seen(self) -> list[Any]:
        """Return what the operator's guards were shown."""
        return [json.loads(line) for line in self._seen.read_text().splitlines()]


@pytest.fixture
def ethos(daemon: RealDaemon) -> Generator[Registry]:
    with Program(command_of("typescript")) as program:
        yield Registry(daemon, program)


def shape(value: Any) -> Any:
    """Return a value as it is reported: one that was named, by its name."""
    return {"$named": value["$named"]} if isinstance(value, dict) and "$named" in value else value


@table("name, value, mark", CASES, ids=[name for name, _, _ in CASES])
def test_an_event_that_cannot_refuse_gives_handlers_the_value_and_guards_a_mark(
    ethos: Registry, name: str, value: Any, mark: Any
) -> None:
    ethos.reopen()
    ethos("registerVoid", "after_tool_call", handler={"answer": None}, **{"as": "first"})
    ethos("registerVoid", "after_tool_call", handler={"answer": value}, **{"as": "second"})
    payload = {"toolName": "Read", "args": {}, "result": value}

    assert ethos("fireVoid", "after_tool_call", payload) is None

    wanted = {"toolName": "Read", "args": {}, "result": shape(value)}
    assert (ethos.called("first"), ethos.called("second")) == ([wanted], [wanted])
    assert ethos.seen()[-1]["tool_response"] == mark


@table("name, value, mark", CASES, ids=[name for name, _, _ in CASES])
def test_a_gate_refuses_the_value_with_the_path_of_its_key(ethos: Registry, name: str, value: Any, mark: Any) -> None:
    ethos.reopen()
    ethos("registerModifying", "before_tool_call", handler={"answer": None}, **{"as": "guard"})

    refused = ethos("fireModifying", "before_tool_call", {**CALL, "args": {"command": "ls", "more": value}})

    assert "payload.args.more" in refused["error"]
    assert ethos.called("guard") == []
    assert ethos("fireModifying", "before_tool_call", CALL) == {}


@table("name, value, mark", CASES, ids=[name for name, _, _ in CASES])
def test_what_a_handler_gives_is_what_the_caller_is_given(ethos: Registry, name: str, value: Any, mark: Any) -> None:
    ethos.reopen()
    ethos("registerClaiming", "inbound_claim", handler={"answer": {"handled": True, "more": value}})
    ethos("registerModifying", "message_sending", handler={"answer": {"message": {"more": value}, "own": value}})
    message = {"platform": "telegram", "chatId": "c", "text": "hi", "sentAt": DATE}

    claim = ethos("fireClaiming", "inbound_claim", {"message": message})
    sending = ethos("fireModifying", "message_sending", {"chatId": "c", "message": "hi"})

    assert claim == {"handled": True, "more": shape(value)}
    assert sending == {"message": {"more": shape(value)}, "own": shape(value)}
    assert ethos.seen()[-1]["message"]["sentAt"] == VALUES["a date"][1]


def test_a_value_goes_through_many_handlers_and_back_as_the_very_one(ethos: Registry) -> None:
    for number in range(5):
        ethos("registerModifying", "message_sending", handler={"answer": None}, **{"as": f"{number}"})
    ethos("registerModifying", "message_sending", handler={"pick": "message"}, **{"as": "giver"})
    named = {
        "$named": "message",
        "is": {"text": "hi", "at": {"$date": "2026-01-31T12:00:00.000Z"}, "no": {"$undefined": True}},
    }

    given = ethos("fireModifying", "message_sending", {"chatId": "c", "message": named})

    assert given == {"message": {"$named": "message"}}
    assert all(ethos.called(f"{number}") == [{"chatId": "c", "message": {"$named": "message"}}] for number in range(5))


def test_sixty_fires_at_once_keep_their_terms_apart(ethos: Registry) -> None:
    ethos("registerClaiming", "before_dispatch", handler={"claim_with": "at"})
    runs = [
        {
            "call": "fireClaiming",
            "arguments": ["before_dispatch", {"text": "the same", "at": {"$named": f"{n}", "is": {"n": n}}}],
        }
        for n in range(60)
    ]

    assert ethos("together", runs=runs) == [{"handled": True, "at": {"$named": f"{n}"}} for n in range(60)]


def test_on_a_gate_keys_that_are_undefined_stay(ethos: Registry) -> None:
    ethos("registerModifying", "before_tool_call", handler={"answer": None}, **{"as": "guard"})
    args = {"$named": "args", "is": {"command": "ls", "path": {"$undefined": True}}}

    assert ethos("fireModifying", "before_tool_call", {**CALL, "args": args}) == {}
    assert ethos.called("guard") == [{**CALL, "args": {"$named": "args"}}]


def test_what_an_operators_guard_changes_is_seen_and_the_rest_is_the_very_value(ethos: Registry) -> None:
    ethos("registerModifying", "before_tool_call", handler={"answer": None}, **{"as": "guard"})
    deep = {"$named": "deep", "is": {"list": [1]}}
    call = {**CALL, "toolName": "Amended", "args": {"command": "mine", "deep": deep, "no": {"$undefined": True}}}

    given = ethos("fireModifying", "before_tool_call", call)

    amended = {"command": "theirs", "deep": {"$named": "deep"}, "no": {"$undefined": True}}
    assert given == {"args": amended}
    assert ethos.called("guard")[-1]["args"] == amended


def test_arguments_that_a_handler_changes_in_place_after_the_guards_copy_was_made_are_refused(ethos: Registry) -> None:
    ethos("registerModifying", "before_tool_call", handler={"set_within": "args", "key": "command", "to": "rm"})

    assert "changed in place" in ethos("fireModifying", "before_tool_call", CALL)["error"]


def test_a_mark_that_a_handler_leaves_beside_the_arguments_refuses_nothing(ethos: Registry) -> None:
    ethos("registerModifying", "before_tool_call", handler={"set": "seen", "to": {"$date": "2026-01-31T12:00:00.000Z"}})
    ethos("registerModifying", "before_tool_call", handler={"answer": None}, **{"as": "next"})

    assert ethos("fireModifying", "before_tool_call", CALL) == {}
    assert "$date" in ethos.called("next")[0]["seen"]


def test_an_answer_on_a_gate_that_json_cannot_say_refuses(ethos: Registry) -> None:
    ethos("registerModifying", "before_tool_call", handler={"answer": {"args": {"at": DATE}}})

    assert "args.at is a Date" in ethos("fireModifying", "before_tool_call", CALL)["error"]


def test_a_payload_that_is_too_long_for_the_wire_calls_the_handlers_where_nothing_is_refused(ethos: Registry) -> None:
    ethos("registerVoid", "after_tool_call", handler={"count": "result"}, **{"as": "void"})

    ethos("fireVoid", "after_tool_call", {"toolName": "Read", "result": {"$long": 9 * 2**20}})
    refused = ethos("fireModifying", "before_tool_call", {**CALL, "args": {"text": {"$long": 9 * 2**20}}})

    assert ethos.called("void") == [9 * 2**20]
    assert ethos.seen()[-1]["tool_response"] == {"$native": "string", "text": "x" * 200}
    assert refused["error"]


def test_a_result_with_a_key_that_nobody_knows_keeps_the_others_and_a_gate_refuses_it(ethos: Registry) -> None:
    ethos("registerModifying", "before_prompt_build", handler={"answer": {"prependSystem": "a", "more": 1}})
    ethos("registerModifying", "before_prompt_build", handler={"answer": {"appendSystem": "b", "more": 2}})
    ethos("registerModifying", "before_tool_call", handler={"answer": {"eror": "no"}})

    given = ethos("fireModifying", "before_prompt_build", {"history": []})

    assert given == {"prependSystem": "a", "appendSystem": "b", "more": 1}
    assert any("'more'" in text for text in ethos("warnings"))
    assert "eror" in ethos("fireModifying", "before_tool_call", CALL)["error"]


def test_a_session_of_no_dialect_keeps_terms_where_nothing_is_refused(daemon: RealDaemon) -> None:
    with Program(command_of("typescript")) as program:
        program.do(do="open", path=daemon.path)
        program.do(do="native", call="serve", event="post_tool_use", handler={"answer": None}, **{"as": "served"})

        def fire(event: str) -> Any:
            payload = {"tool_name": "Read", "tool_input": {}, "tool_response": DATE}
            return program.do(do="native", call="fire", event=event, payload=payload)["result"]

        passed, refused = fire("post_tool_use"), fire("pre_tool_use")
        called = program.do(do="native", call="called", **{"as": "served"})["result"]

    assert passed["verdict"] == "pass"
    assert called[0]["tool_response"] == {"$named": "date"}
    assert (refused["verdict"], refused["cause"]) == ("deny", "payload")
    assert "payload.tool_response is a Date" in refused["reason"]


@table("unusable", [5, True, [], {}, "x" * 500, {"$bigint": "5"}, DATE])
def test_a_payload_that_the_daemon_cannot_use_calls_the_handlers_where_nothing_is_refused(
    ethos: Registry, unusable: Any
) -> None:
    ethos.reopen()
    ethos("registerVoid", "after_tool_call", handler={"count": "toolName"}, **{"as": "void"})
    ethos("registerModifying", "before_prompt_build", handler={"answer": {"prependSystem": "hi"}})

    ethos("fireVoid", "after_tool_call", {"toolName": "Read", "sessionId": unusable})
    given = ethos("fireModifying", "before_prompt_build", {"history": [], "sessionId": unusable})
    refused = ethos("fireModifying", "before_tool_call", {**CALL, "sessionId": unusable})

    assert (ethos.called("void"), given) == ([4], {"prependSystem": "hi"})
    assert ethos.seen()[-1]["$native"] == "payload"
    assert "session" in refused["error"]


def test_a_tool_that_a_handler_renames_in_place_is_refused(ethos: Registry) -> None:
    ethos("registerModifying", "before_tool_call", handler={"set": "toolName", "to": "Other"})

    assert "toolName was changed in place" in ethos("fireModifying", "before_tool_call", CALL)["error"]


@table("unreadable", [{"$map": [["error", "no"]]}, DATE, {"$buffer": ""}, {"$instance": "Opaque"}])
def test_a_result_without_keys_of_its_own_that_json_cannot_say_refuses_its_gate(
    ethos: Registry, unreadable: Any
) -> None:
    ethos.reopen()
    ethos("registerModifying", "before_tool_call", handler={"answer": unreadable})

    assert "which JSON cannot say" in ethos("fireModifying", "before_tool_call", CALL)["error"]
