"""The canary: it can refuse, and nothing else, whatever stands beside it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.cli.hosts.checking import is_refusal
from hooklatch.cli.hosts.layouts import LAYOUTS
from hooklatch.hosts import canary
from hooklatch.hosts.find import find_host
from support.tables import table

NONCE = "0123456789abcdef" * 2
COMMANDS = [name for name, layout in LAYOUTS.items() if not layout.is_plugin]
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.integers()), st.just({"a": 1}))


def document(name: str, value: object, **more: object) -> bytes:
    layout = LAYOUTS[name]
    named = {} if name == "copilot" else {"hook_event_name": layout.gate}
    return json.dumps({**named, **layout.canary, **more, canary.KEY: value}).encode()


@table("name", COMMANDS)
def test_every_program_is_refused_in_a_form_that_it_honours_and_the_nonce_comes_back(name: str) -> None:
    host = find_host(name)

    answer = canary.refuse_canary(host, host.read(LAYOUTS[name].gate, document(name, NONCE), {}))

    assert answer is not None
    assert is_refusal(name, answer.exit_code, answer.stdout.encode(), answer.stderr.encode())
    assert NONCE in answer.stdout + answer.stderr


@given(VALUES, st.dictionaries(st.sampled_from(["permission_mode", "allow", "decision", "verdict"]), VALUES))
def test_whatever_it_holds_and_whatever_is_beside_it_it_only_refuses(value: object, more: dict[str, object]) -> None:
    host = find_host("claude-code")

    answer = canary.refuse_canary(host, host.read("PreToolUse", document("claude-code", value, **more), {}))

    assert answer is not None
    assert is_refusal("claude-code", answer.exit_code, answer.stdout.encode(), answer.stderr.encode())


@pytest.mark.parametrize("value", ["allow", NONCE.upper(), NONCE + "0", "\x1b[31m", '"}}', 1, None])
def test_a_nonce_that_is_none_is_not_repeated(value: object) -> None:
    assert canary.format_canary_reason(value) == "hooklatch refuses the canary without a nonce, as it has to"


def test_the_key_elsewhere_in_a_call_is_no_canary() -> None:
    host = find_host("claude-code")
    call = {**LAYOUTS["claude-code"].canary, "tool_input": {"command": "true", canary.KEY: NONCE}}

    native = host.read("PreToolUse", json.dumps({"hook_event_name": "PreToolUse", **call}).encode(), {})

    assert canary.refuse_canary(host, native) is None


def test_where_nothing_can_be_refused_it_is_an_event_like_any_other() -> None:
    host = find_host("claude-code")
    native = host.read("Stop", json.dumps({"hook_event_name": "Stop", canary.KEY: NONCE}).encode(), {})

    assert canary.refuse_canary(host, native) is None
