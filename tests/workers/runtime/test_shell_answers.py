"""Commands' answers in JSON: Claude Code's form and our own."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from hooklatch.core.combining import find_fault
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch_worker.author import verdicts
from hooklatch_worker.runtime.shell_answers import parse_command_output
from hooklatch_worker.runtime.shell_forms import CLAUDE_NAMES
from support.tables import table
from workers.runtime.shell_driven import Driven


def read(event: str, answer: object) -> dict[str, Any]:
    """Read an answer as the event's own words allow, and see that the daemon would accept what came of it."""
    spec = Catalogue.standard()[event]
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    verdict = parse_command_output(
        data, event=event, fails_closed=spec.fails_closed, allows=spec.verdicts | spec.outputs
    )  # fmt: skip
    encoded = verdicts.encode_verdict(verdict)
    assert find_fault(spec, verdicts.decode_answer(encoded)) is None
    return json.loads(encoded) if encoded else {}


def specific(event: str, **keys: object) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": CLAUDE_NAMES.get(event, event), **keys}}


def decided(**keys: object) -> dict[str, Any]:
    return specific("permission_request", decision=keys)


def denying(decision: str = "deny", **keys: object) -> dict[str, Any]:
    return specific("pre_tool_use", permissionDecision=decision, **keys)


RULE = {"type": "addRules"}
TEXT = {"role": "user", "content": "c"}
CLAUDE = {
    "nothing": ("pre_tool_use", {}, {}),
    "RG-15-deny": ("pre_tool_use", denying(permissionDecisionReason="r"), {"verdict": "deny", "reason": "r"}),
    "deny-without-a-reason": ("pre_tool_use", denying(), {"verdict": "deny"}),
    "deny-with-a-null-reason": ("pre_tool_use", denying(permissionDecisionReason=None), {"verdict": "deny"}),
    "RG-15-RG-16-allow": ("pre_tool_use", denying("allow"), {"verdict": "allow"}),
    "ask": ("pre_tool_use", denying("ask", permissionDecisionReason="r"), {"verdict": "ask", "reason": "r"}),
    "defer-is-to-ask": ("pre_tool_use", denying("defer"), {"verdict": "ask"}),
    "RG-20-rewrite": (
        "pre_tool_use", specific("pre_tool_use", updatedInput={"command": "ls"}),
        {"patch": {"tool_input": {"command": "ls"}}},
    ),
    "allow-and-rewrite": (
        "pre_tool_use", denying("allow", updatedInput={"a": 1}),
        {"verdict": "allow", "patch": {"tool_input": {"a": 1}}},
    ),
    "RG-20-deny-wins-over-rewrite": ("pre_tool_use", denying(updatedInput={"a": 1}), {"verdict": "deny"}),
    "context-on-a-gate": ("pre_tool_use", specific("pre_tool_use", additionalContext="c"), {"inject": [TEXT]}),
    "context-on-a-result": ("post_tool_use", specific("post_tool_use", additionalContext="c"), {"append": ["c"]}),
    "RG-17-context-at-the-start": (
        "session_start", specific("session_start", additionalContext="c"), {"inject": [TEXT]},
    ),
    "context-at-the-end": ("stop", specific("stop", additionalContext="c"), {"resume": "c"}),
    "context-where-nobody-listens": (
        "session_end", specific("session_end", additionalContext="c"),
        {"warnings": ["session_end takes no context for the model: c"]},
    ),
    "block-a-tool": ("pre_tool_use", {"decision": "block", "reason": "r"}, {"verdict": "deny", "reason": "r"}),
    "RG-15-block-a-prompt": (
        "user_prompt_submit", {"decision": "block", "reason": "r"}, {"verdict": "deny", "reason": "r"},
    ),
    "RG-15-approve-a-prompt": ("user_prompt_submit", {"decision": "approve"}, {}),
    "approve-a-tool": ("pre_tool_use", {"decision": "approve"}, {"verdict": "allow"}),
    "block-the-end": ("stop", {"decision": "block", "reason": "r"}, {"resume": "r"}),
    "block-a-subagents-end": ("subagent_stop", {"decision": "block", "reason": "r"}, {"resume": "r"}),
    "block-a-result-is-feedback": ("post_tool_use", {"decision": "block", "reason": "r"}, {"append": ["r"]}),
    "block-what-cannot-be": (
        "session_end", {"decision": "block", "reason": "r"}, {"warnings": ["session_end cannot be blocked: r"]},
    ),
    "stop-the-run": ("pre_tool_use", {"continue": False, "stopReason": "r"}, {"verdict": "halt", "reason": "r"}),
    "stop-at-the-end-is-no-resume": (
        "stop", {"continue": False, "stopReason": "s", "decision": "block", "reason": "r"},
        {"verdict": "halt", "reason": "s"},
    ),
    "stop-is-deny-where-none-can-halt": (
        "config_change", {"continue": False, "stopReason": "r"}, {"verdict": "deny", "reason": "r"},
    ),
    "stop-is-stricter-than-deny": (
        "pre_tool_use", {"continue": False, **denying(permissionDecisionReason="r")},
        {"verdict": "halt", "reason": "r"},
    ),
    "continue": ("pre_tool_use", {"continue": True, "suppressOutput": True}, {}),
    "RG-15-request-deny": (
        "permission_request", decided(behavior="deny", message="m"), {"verdict": "deny", "reason": "m"},
    ),
    "request-deny-and-stop": (
        "permission_request", decided(behavior="deny", message="m", interrupt=True), {"verdict": "halt", "reason": "m"},
    ),
    "RG-16-RG-21-request-allow": (
        "permission_request", decided(behavior="allow", updatedInput={"a": 1}, updatedPermissions=[RULE]),
        {"verdict": "allow", "patch": {"tool_input": {"a": 1}, "permissions": [RULE]}},
    ),
    "message-to-the-user": ("pre_tool_use", {"systemMessage": "m"}, {"warnings": ["m"]}),
    "an-unknown-key-changes-no-deny": (
        "pre_tool_use", {**denying(), "new": 1},
        {"verdict": "deny", "warnings": ["not supported by hooklatch, so not used: new"]},
    ),
    "what-we-have-nothing-for-is-named": (
        "session_start", specific("session_start", watchPaths=["/a"]),
        {"warnings": ["not supported by hooklatch, so not used: watchPaths"]},
    ),
    "byte-order-mark-and-CRLF": (
        "pre_tool_use", b"\xef\xbb\xbf \r\n" + json.dumps(denying()).encode() + b"\r\n", {"verdict": "deny"},
    ),
}  # fmt: skip
OWN = {
    "deny": ("pre_tool_use", {"verdict": "deny", "reason": "no"}, {"verdict": "deny", "reason": "no"}),
    "deny-with-another-way": (
        "pre_tool_use", {"verdict": "deny", "reason": "no", "instead": "ls"},
        {"verdict": "deny", "reason": "no", "instead": "ls"},
    ),
    "allow-patch-warn": (
        "pre_tool_use", {"verdict": "allow", "patch": {"tool_input": {}}, "warnings": ["w"]},
        {"verdict": "allow", "patch": {"tool_input": {}}, "warnings": ["w"]},
    ),
    "claim": ("message_claim", {"verdict": "claim", "value": None}, {"verdict": "claim", "value": None}),
    "outputs": (
        "post_tool_use", {"append": "a", "inject": TEXT, "context": {"k": 1}},
        {"append": ["a"], "inject": [TEXT], "context": {"k": 1}},
    ),
    "resume": ("stop", {"resume": "go on"}, {"resume": "go on"}),
}  # fmt: skip


@table(("event", "answer", "expected"), CLAUDE.values(), ids=CLAUDE.keys())
def test_claude_codes_form_is_read(event: str, answer: object, expected: dict[str, Any]) -> None:
    assert read(event, answer) == expected


@pytest.mark.parametrize(("event", "answer", "expected"), OWN.values(), ids=OWN.keys())
def test_our_own_form_is_read(event: str, answer: object, expected: dict[str, Any]) -> None:
    assert read(event, answer) == expected


@pytest.mark.parametrize("nothing", [b"", b" \n", b"\xef\xbb\xbf", b"{}"])
def test_nothing_is_no_opinion(nothing: bytes) -> None:
    assert read("pre_tool_use", nothing) == {}


DENY = json.dumps(denying()).encode()
GARBAGE = {
    "plain-text": b"all good",
    "truncated": DENY[:-1],
    "a-line-before": b"checking...\n" + DENY,
    "a-line-after": DENY + b"\ndone",
    "two-answers": b'{"verdict":"allow"}\n{"verdict":"deny"}',
    "null": b"null",
    "a-list": b"[]",
    "a-string": b'"deny"',
    "not-UTF-8": b'{"verdict":"deny","reason":"\xff"}',
    "NUL": DENY + b"\0",
    "nested-too-deep": b'{"verdict":' + b"[" * 100_000,
    "a-reason-alone": {"reason": "no"},
    "a-misspelt-key": {"decison": "block", "reason": "r"},
    "a-misspelt-key-inside": specific("pre_tool_use", permisionDecision="deny"),
    "both-forms": {"verdict": "deny", "decision": "block"},
    "RG-17-another-events-answer": specific("post_tool_use", additionalContext="c"),
    "no-event-named": {"hookSpecificOutput": {"permissionDecision": "deny"}},
    "an-unknown-decision": denying("block"),
    "an-unknown-word": {"verdict": "block"},
    "an-unknown-behaviour": specific("pre_tool_use", decision={"behavior": "maybe"}),
    "decision-deny": {"decision": "deny"},
    "continue-is-text": {"continue": "false"},
    "reason-is-a-number": {"decision": "block", "reason": 1},
    "specific-is-text": {"hookSpecificOutput": "deny"},
    "input-is-text": denying("allow", updatedInput="ls"),
}


@table("answer", GARBAGE.values(), ids=GARBAGE.keys())
def test_anything_else_is_garbage(answer: object) -> None:
    with pytest.raises(verdicts.GarbageError):
        read("pre_tool_use", answer)


def test_a_permission_where_nothing_can_be_refused_is_garbage() -> None:
    with pytest.raises(verdicts.GarbageError, match="which nothing can refuse"):
        read("post_tool_use", specific("post_tool_use", permissionDecision="deny"))


def test_an_event_without_a_name_at_claude_code_goes_by_its_own() -> None:
    assert read("pre_model", specific("pre_model", permissionDecision="deny")) == {"verdict": "deny"}


TWICE = '{"decision":"block","decision":"approve"}'


def say(document: object, ending: str = "") -> str:
    return f"cat <<'END'\n{json.dumps(document)}\nEND\n{ending}"


@pytest.mark.parametrize(
    ("command", "config", "word"),
    [
        pytest.param(say(denying()), {"output": "json"}, "deny", id="RG-19-read-where-it-is-asked-for"),
        pytest.param(say(denying()), {}, "warning", id="RG-19-never-elsewhere"),
        pytest.param(say(denying("allow")), {}, "pass", id="an-allow-elsewhere"),
        pytest.param("echo all good", {}, "pass", id="text-elsewhere"),
        pytest.param(say(denying("allow"), "exit 2"), {"output": "json"}, "deny", id="exit-2-wins-over-allow"),
        pytest.param(say(denying(), "exit 1"), {"output": "json"}, "crash", id="exit-1-is-a-crash"),
        pytest.param(
            say(denying(), "exit 1"), {"output": "json", "exit_codes": "advisory"}, "deny", id="a-refusal-at-exit-1",
        ),
        pytest.param(
            say(denying("allow"), "exit 1"), {"output": "json", "exit_codes": "advisory"}, "warning",
            id="no-allow-at-exit-1",
        ),
        pytest.param(f"echo '{TWICE}'", {"output": "json"}, "protocol", id="a-key-twice"),
        pytest.param(
            f"echo '{TWICE}'; exit 1", {"output": "json", "exit_codes": "advisory"}, "protocol", id="twice-at-exit-1",
        ),
        pytest.param("echo hm; exit 1", {"output": "json", "exit_codes": "advisory"}, "warning", id="text-at-exit-1"),
        pytest.param("echo all good", {"output": "json"}, "protocol", id="text"),
        pytest.param("echo all good", {"output": "json", "payload": "claude"}, "protocol", id="text-for-claude"),
        pytest.param("true", {"output": "json"}, "pass", id="silence"),
        pytest.param("echo '{}' >&2", {"output": "json"}, "pass", id="standard-error-is-no-answer"),
    ],
)  # fmt: skip
def test_output_is_read_as_the_definition_says(shared: Driven, command: str, config: dict[str, Any], word: str) -> None:
    assert shared.run(command, **config).word == word


@pytest.mark.parametrize("event", ["session_start", "user_prompt_submit"])
def test_plain_text_is_context_where_claude_code_takes_it_for_that(shared: Driven, event: str) -> None:
    config: dict[str, Any] = {"output": "json", "payload": "claude"}

    answer = shared.run("echo ' it is Friday '", event, fields={}, **config).answer

    assert answer == {"inject": [{"role": "user", "content": "it is Friday"}]}  # RG-17
    assert shared.run('echo \'hm {"decision": "block"}\'', event, fields={}, **config).word == "protocol"
    assert shared.run("echo it is Friday", event, fields={}, output="json").word == "protocol"


def test_a_rewritten_input_is_what_the_command_said(shared: Driven) -> None:
    answer = shared.run(
        'sed \'s/.*"command":"\\([^"]*\\)".*/{"patch":{"tool_input":{"command":"\\1 -l"}}}/\'', output="json"
    ).answer

    assert answer == {"patch": {"tool_input": {"command": "ls -l"}}}


def test_reading_answers_never_raises_anything_but_garbage() -> None:
    odd: list[object] = [None, True, 0, 1.5, "x", [], {}, {"behavior": None}]
    keys = ["hookSpecificOutput", "decision", "reason", "continue", "stopReason", "systemMessage", "verdict", "patch"]
    for key in keys:
        for value in odd:
            try:
                parse_command_output(
                    msgspec.json.encode({key: value}), event="pre_tool_use", fails_closed=True, allows=()
                )
            except verdicts.GarbageError:
                continue
