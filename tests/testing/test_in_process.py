"""hooklatch.testing in the test's own process: events, results, assertions, and what hooks remember."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any, cast

import pytest

import hooklatch.testing
from hooklatch import Event, PostToolUse, PreToolUse, StateError
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.testing import (
    Memory,
    assert_allows,
    assert_amends,
    assert_asks,
    assert_denies,
    assert_fails,
    assert_passes,
    event,
    run,
)
from hooklatch.testing.events import NotAnEventError
from hooklatch.testing.in_process import NotAHookError
from support.tables import table
from testing import guards_of_an_author as guards

PUSH = event(PreToolUse, tool_input={"command": "git push --force"})
LIST = event("pre_tool_use", tool_input={"command": "ls"})
TASK = event("pre_tool_use", tool_name="Task")
DEPLOY = {"model": "gate", "verdicts": ["deny"], "match": "target"}


def test_an_event_is_one_of_its_class_and_has_what_a_host_always_sends() -> None:
    made = event(PostToolUse, tool_input={"command": "ls"}, tool_response="a", cwd="/srv", turn=3)

    assert type(made) is PostToolUse
    assert (made.tool_name, made.tool_kind, made.tool_args) == ("Bash", "shell", {"command": "ls"})
    assert (made.tool_response, made.cwd, made.turn, made.session_id) == ("a", "/srv", 3, "test")
    assert event("personality_switch", from_="a").payload == {"to": "default", "from": "a"}


@table("name", Catalogue.standard())
def test_every_event_can_be_made_by_its_name_alone_and_fired(name: str) -> None:
    made = event(name)
    seen: list[Event] = []

    result = run(seen.append, made)

    assert result.verdict == "pass"
    assert [(one.event, one.payload) for one in seen] == [(name, made.payload)]


@table(
    ("words", "fields", "said"),
    [
        (("pre_tol_use",), {}, "there is no event 'pre_tol_use'; did you mean 'pre_tool_use'?"),
        (("stop",), {"turm": 1}, "stop has no field 'turm'; did you mean 'turn'?"),
        (
            ("stop",),
            {"zzz": 1},
            "stop has no field 'zzz'; if a host sends it nevertheless: event('stop', {'zzz': ...})",
        ),
        (("pre_tool_use",), {"tool_name": 3}, "pre_tool_use: tool_name cannot be 3: expected str, got int"),
        (("pre_tool_use",), {"cwd": 3}, "pre_tool_use: cwd cannot be 3: expected str | null, got int"),
        (("pre_tool_use", {"x": {1}}), {}, "pre_tool_use: the payload holds a 'set', which is not plain JSON"),
        ((Event,), {}, "Event is not the class of one event; name the event itself"),
        (("mine",), {"defined": {"model": "gat"}}, "event has model = 'gat'"),
    ],
)
def test_what_no_host_would_send_is_refused(words: tuple[Any, ...], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(NotAnEventError) as caught:
        event(*words, **fields)

    assert said in str(caught.value) or ("mine" in words and "gat" in str(caught.value))


def test_assertions_pass_where_the_hook_does_what_they_say() -> None:
    write = event("pre_tool_use", tool_name="Write", tool_input={"content": "x"})

    assert assert_denies(guards.no_force_push, PUSH, reason="force").cause == "policy"
    assert_denies(guards, event("pre_tool_use", tool_input={"command": "reboot"}), reason="no reboots")
    assert_denies(guards.without_a_mark, LIST)
    assert_asks(guards.no_force_push, event("pre_tool_use", tool_input={"command": "cloud"}), reason="which")
    assert_passes(guards.no_force_push, LIST)
    assert_passes(guards, event("pre_tool_use", tool_name="Edit"))
    assert_allows(guards.marks, write, reason="fine")
    assert_amends(guards.marks, write, {"tool_input": {"content": "x", "dry": True}})
    assert_fails(guards.note, event("post_tool_use"))
    assert_fails(guards.talks_nonsense, event("stop"), cause="protocol")
    assert run(guards.note, event("post_tool_use", tool_name="Edit")).append == "noted"
    assert_denies(guards.no_friday, event("deploy_requested", defined=DEPLOY, target="prod"), reason="not to prod")
    assert_passes(guards.no_friday, event("deploy_requested", defined=DEPLOY, target="test"))


def test_config_is_the_marks_own_unless_the_event_brings_one() -> None:
    brought = event("pre_tool_use", tool_name="Write", tool_input={}, config={"mark": "other"})

    assert assert_amends(guards.marks, brought).patch == {"tool_input": {"other": True}}


async def test_an_async_hook_runs_where_a_loop_runs_already() -> None:
    assert run(guards.note, event("post_tool_use", tool_name="Edit")).append == "noted"


def test_a_hook_can_be_called_like_any_function() -> None:
    assert guards.no_force_push(PUSH).verdict == "deny"
    assert guards.budget(event("pre_tool_use", tool_name="Task")) is None


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        (lambda: assert_denies(guards.no_force_push, LIST), ["no_force_push does not deny", "verdict  pass", "'ls'"]),
        (lambda: assert_denies(guards.no_force_push, PUSH, reason="other"), ["gives another reason than 'other'"]),
        (lambda: assert_passes(guards.no_force_push, PUSH), ["does not pass", "reason   force pushes are not"]),
        (lambda: assert_passes(guards.note, event("post_tool_use")), ["it fails", "crash", "KeyError: 'oops'"]),
        (lambda: assert_amends(guards.no_force_push, LIST), ["no_force_push changes nothing"]),
        (lambda: assert_fails(guards.no_force_push, LIST), ["does not fail with cause 'crash'"]),
        (
            lambda: assert_denies(guards.no_force_push, event("pre_tool_use", tool_name="Edit")),
            ["note     guards_of_an_author:no_force_push was not called: it matches Bash on tool_name"],
        ),
        (
            lambda: assert_denies(guards.no_destroy, LIST),
            ["no_destroy was not called: its condition does not hold: command is command terraform"],
        ),
        (
            lambda: assert_amends(guards.marks, event("pre_tool_use", tool_name="Write"), {"tool_input": {}}),
            ["changes 'tool_input' to {'dry': True}, not to {}"],
        ),
    ],
)
def test_a_failed_assertion_says_what_came_instead(failing: Any, said: list[str]) -> None:
    with pytest.raises(AssertionError) as caught:
        failing()

    assert [text for text in said if text not in str(caught.value)] == []


def test_a_crash_is_the_cause_of_the_failed_assertion() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_passes(guards.note, event("post_tool_use"))

    assert isinstance(caught.value.__cause__, KeyError)


class Unnamed(ModuleNotFoundError):
    @property
    def name(self) -> str:  # type: ignore[override]
        raise KeyError


@table(
    ("error", "hint"),
    [
        (ModuleNotFoundError("No module named 'a.b'", name="a.b"), '# dependencies = ["a"]'),
        (ExceptionGroup("one", [ModuleNotFoundError("No module named 'a'", name="a")]), '# dependencies = ["a"]'),
        (ModuleNotFoundError("a"), ""),
        (Unnamed("a"), ""),
        (ImportError("a", name="a"), ""),
    ],
)
def test_a_package_that_is_missing_when_a_hook_runs_says_how_it_gets_one(error: Exception, hint: str) -> None:
    def imports(_: object) -> None:
        raise error

    reason = run(imports, LIST).reason

    assert hint in reason
    assert ("dependencies" in reason) is bool(hint)


def test_a_crash_at_a_gate_is_no_denial() -> None:
    without = event("pre_tool_use", tool_name="Bash", tool_input={})

    assert run(guards.no_force_push, without).verdict == "deny"
    with pytest.raises(AssertionError, match="does not deny: it fails"):
        assert_denies(guards.no_force_push, without)


def test_what_is_no_hook_of_the_event_is_said() -> None:
    with pytest.raises(NotAHookError, match="budget is not a hook of stop, but of pre_tool_use"):
        run(guards.budget, event("stop"))
    with pytest.raises(NotAHookError, match="marks no function"):
        run(re, event("stop"))
    nothing: Any
    for nothing in ("guards.py", None, [], [guards.budget, "budget"]):
        with pytest.raises(NotAHookError, match="is not a hook; give a function"):
            assert_fails(nothing, LIST)
    with pytest.raises(NotAnEventError, match="was not made by"):
        run(guards.budget, cast("Event", {"tool_name": "Bash"}))


def test_whoever_sits_at_the_terminal_can_end_a_hook() -> None:
    def interrupted(_: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(interrupted, event("stop"))


def test_memory_is_shared_by_those_who_are_given_it_and_expires() -> None:
    memory = Memory()

    for _ in range(2):
        assert_passes(guards.budget, TASK, memory=memory)
    assert_denies(guards.budget, TASK, reason="3 tasks", memory=memory)
    assert_passes(guards.budget, event("pre_tool_use", tool_name="Task", session_id="other"), memory=memory)
    assert_passes(guards.budget, TASK)
    assert memory.state(guards.budget).session.get("tasks") == 3

    memory.pass_time(61)
    assert_passes(guards.budget, TASK, memory=memory)
    memory.state(guards.budget).session.set("tasks", 7)
    assert_denies(guards.budget, TASK, reason="8 tasks", memory=memory)


def test_limits_of_what_is_remembered_hold() -> None:
    def without_a_session(one: Event) -> None:
        one.state.session.get("a")

    with pytest.raises(StateError, match="None cannot be set"):
        Memory().state(guards.budget).set("a", None)
    assert "has no session" in assert_fails(without_a_session, event("stop", session_id=None)).failures[0].message


def test_each_public_name_is_there() -> None:
    assert {getattr(hooklatch.testing, name).__name__ for name in hooklatch.testing.__all__} == {
        *hooklatch.testing.__all__
    }
    with pytest.raises(AttributeError, match="no attribute 'asert_denies'"):
        hooklatch.testing.asert_denies  # noqa: B018 - the access is the act


def test_trying_hooks_out_loads_neither_trio_nor_psutil() -> None:
    script = (
        "import sys, hooklatch.testing.plugin; first = set(sys.modules);"
        "from hooklatch.testing import event, run; run(print, event('stop'));"
        "print('hooklatch.core' in first, 'msgspec' in first, *({'trio', 'psutil', 'asyncio'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "False False"
