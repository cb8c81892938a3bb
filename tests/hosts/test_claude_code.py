"""Claude Code's vocabulary: its recorded documents in, and every decision out in a form that it honours."""

import json
from typing import Any

import pytest

from hooklatch.hosts import claude_code
from support.repository import RECORDED
from support.tables import table

LINES = [(file.stem, line) for file in sorted(RECORDED.glob("*.jsonl")) for line in file.read_bytes().splitlines()]
IDENTIFIERS = [f"{name}-{position}" for position, (name, _) in enumerate(LINES)]

WITHOUT_A_CANONICAL_NAME = {
    "CwdChanged",
    "Elicitation",
    "ElicitationResult",
    "InstructionsLoaded",
    "MessageDisplay",
    "PostModelSwitch",
    "PostToolBatch",
    "PreModelSwitch",
    "Setup",
    "TaskCreated",
    "UserPromptExpansion",
    "WorktreeCreate",
}
TOOL_PATCH = {"tool_input": {"command": "ls"}}


def decided(name: str, verdict: str, **rest: object) -> dict[str, object]:
    scalars = dict.fromkeys(("reason", "layer", "hook", "patch", "append", "resume", "value", "context"))
    event = claude_code.EVENTS[name]
    return {"decision_id": "d1", "event": event, **scalars, "verdict": verdict, "cause": "policy", **rest}


def said(rendered: claude_code.HookOutput) -> dict[str, Any]:
    """What standard output says: nothing, or exactly one JSON object on one line."""
    if not rendered.stdout:
        return {}
    assert rendered.stdout.count("\n") == 1
    assert rendered.stdout.isascii()
    document = json.loads(rendered.stdout)
    assert isinstance(document, dict)
    return document


def fired(document: dict[str, object]) -> dict[str, Any]:
    line = claude_code.fire_request(claude_code.read(json.dumps(document).encode()))
    assert line is not None
    params = json.loads(line)["params"]
    assert isinstance(params, dict)
    return params


def blocks(name: str, rendered: claude_code.HookOutput) -> bool:
    """Whether `rendered` has the form that really keeps Claude Code from going on with this gate."""
    document = said(rendered)
    specific = document.get("hookSpecificOutput", {})
    if rendered.exit_code == 2:
        return name != "PermissionRequest"
    if name == "PreToolUse":
        return specific.get("permissionDecision") == "deny" and bool(specific["permissionDecisionReason"])
    if name == "PermissionRequest":
        return specific.get("decision", {}).get("behavior") == "deny"
    return document.get("decision") == "block" and bool(document["reason"])


# --- in


@table(("name", "line"), LINES, ids=IDENTIFIERS)
def test_each_recorded_event_gets_its_canonical_name_or_none(name: str, line: bytes) -> None:
    native = claude_code.read(line)

    assert native.name == name
    assert bool(native.event) is (name not in WITHOUT_A_CANONICAL_NAME)
    assert native.event == claude_code.EVENTS.get(name, "")


@table(("name", "line"), LINES, ids=IDENTIFIERS)
def test_each_recorded_event_is_fired_whole_on_one_line(name: str, line: bytes) -> None:
    native = claude_code.read(line)

    request = claude_code.fire_request(native)

    assert request is not None
    assert request.count(b"\n") == 1
    sent = json.loads(request)
    assert {**sent["params"]["payload"], **json.loads(line)} == sent["params"]["payload"]
    assert sent["params"]["envelope"]["session_id"] == json.loads(line)["session_id"]
    assert sent["params"]["envelope"]["host"] == "claude-code"


@table(
    ("document", "added"),
    [
        ({"hook_event_name": "TaskCompleted", "task_subject": "s"}, {"subject": "s"}),
        ({"hook_event_name": "TaskCompleted", "teammate_name": "t"}, {"teammate": "t"}),
        ({"hook_event_name": "TeammateIdle", "teammate_name": "t"}, {"teammate": "t"}),
        ({"hook_event_name": "ConfigChange", "file_path": "/f"}, {"path": "/f"}),
        ({"hook_event_name": "SubagentStart", "agent_id": "a"}, {"subagent_id": "a"}),
        ({"hook_event_name": "SubagentStop", "agent_id": "a"}, {"subagent_id": "a"}),
        ({"hook_event_name": "SubagentStop", "last_assistant_message": "m"}, {"result": "m"}),
        ({"hook_event_name": "PermissionRequest", "permission_suggestions": [1.0]}, {"suggestions": [1.0]}),
    ],
)
def test_canonical_keys_join_the_native_ones(document: dict[str, object], added: dict[str, object]) -> None:
    assert fired(document)["payload"] == {**document, **added}


def test_a_canonical_key_that_is_there_already_is_left_alone() -> None:
    document: dict[str, object] = {"hook_event_name": "ConfigChange", "file_path": "/f", "path": "/p"}

    assert fired(document)["payload"] == document


def test_the_envelope_says_who_and_where() -> None:
    metadata = {
        "transcript_path": "/t",
        "permission_mode": "plan",
        "prompt_id": "p",
        "effort": {"level": "high"},
    }
    where = {"session_id": "s", "cwd": "/c", "agent_id": "a", "agent_type": "t"}

    params = fired({"hook_event_name": "PreToolUse", "tool_use_id": "toolu_1", **where, **metadata})

    assert params["event"] == "pre_tool_use"
    assert params["call_id"] == "toolu_1"
    assert params["envelope"] == {**where, "host": "claude-code", "metadata": metadata}


def test_what_is_absent_is_not_made_up() -> None:
    params = fired({"hook_event_name": "Stop"})

    assert params["envelope"] == {"host": "claude-code", "metadata": {}}
    assert "call_id" not in params


def test_numbers_and_escapes_arrive_as_they_were_written() -> None:
    written = b'"tool_input":{"n":12345678901234567890.10,"s":"\\ud800\\n"}'

    line = claude_code.fire_request(claude_code.read(b'{"hook_event_name":"Stop",\n ' + written + b"\r\n}\n"))

    assert line is not None
    assert written in line
    assert line.count(b"\n") == 1
    assert b"\r" not in line


def test_a_byte_order_mark_is_no_obstacle() -> None:
    assert claude_code.read(b'\xef\xbb\xbf{"hook_event_name":"Stop"}').event == "stop"


@table(
    "raw",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b"{}",
        b'{"hook_event_name":1}',
        b'{"hook_event_name":"PreToolUse"',
        b'{"hook_event_name":"PreToolUse"} {}',
        b'{"hook_event_name":"PreToolUse","x":NaN}',
        b'{"hook_event_name":"PreToolUse","x":1e999}',
        b'{"hook_event_name":"PreToolUse","x":"a\nb"}',
        b'{"hook_event_name":"\xff"}',
        b'{"hook_event_name":"PreToolUse","x":' + b"[" * 100_000,
    ],
)
def test_what_is_no_event_is_refused(raw: bytes) -> None:
    with pytest.raises(claude_code.UnreadableError):
        claude_code.read(raw)


def test_a_payload_over_the_limit_is_not_sent() -> None:
    def request_of(size: int) -> bytes | None:
        head, tail = b'{"hook_event_name":"PreToolUse","x":"', b'"}'
        return claude_code.fire_request(claude_code.read(head + b"a" * (size - len(head) - len(tail)) + tail))

    assert request_of(8 * 2**20) is not None
    assert request_of(8 * 2**20 + 1) is None


# --- out


@table("name", claude_code.EVENTS)
@table("patch", [None, TOOL_PATCH, {"prompt": "p"}], ids=["plain", "tool_input", "prompt"])
@table("verdict", ["pass", "allow", "deny", "ask", "halt"])
def test_every_decision_is_said_in_one_document_and_never_more_mildly(
    name: str, verdict: str, patch: dict[str, object] | None
) -> None:
    rendered = claude_code.render(name, decided(name, verdict, reason="because", hook="h", patch=patch))

    document = said(rendered)
    assert rendered.exit_code == 0
    if name not in claude_code.GATES:
        assert "decision" not in document
        return
    can = claude_code.ENFORCEABLE[name]
    refused = verdict in ("deny", "halt") or (verdict == "ask" and "ask" not in can)
    inexpressible = patch is not None and (
        "patch" not in can or patch is not TOOL_PATCH or (name == "PermissionRequest" and verdict != "allow")
    )
    assert blocks(name, rendered) is (refused or inexpressible)
    assert (document.get("continue") is False) is (verdict == "halt")


@table("name", sorted(claude_code.GATES))
@table("cause", ["no_daemon", "protocol", "payload"])
def test_a_failure_blocks_a_gate_and_says_so(name: str, cause: str) -> None:
    rendered = claude_code.render(name, claude_code.failure(name, cause, "what happened"))

    assert blocks(name, rendered)
    assert cause in rendered.stdout
    assert "what happened" in rendered.stdout


@table("name", sorted(set(claude_code.EVENTS) - claude_code.GATES))
def test_a_failure_of_any_other_event_is_silent(name: str) -> None:
    rendered = claude_code.render(name, claude_code.failure(name, "no_daemon", "what happened"))

    assert (rendered.stdout, rendered.stderr, rendered.exit_code) == ("", "", 0)


@table(
    "decision",
    [
        None,
        [],
        {},
        {"verdict": "claim"},
        {"verdict": ["deny"]},
        {"verdict": "pass", "patch": []},
        {"verdict": "allow", "patch": {"tool_input": "rm"}},
        {"verdict": "pass", "inject": "text"},
        {"verdict": "pass", "reason": 1},
    ],
)
@table("name", sorted(claude_code.GATES))
def test_a_decision_that_makes_no_sense_blocks(name: str, decision: object) -> None:
    assert blocks(name, claude_code.render(name, decision))


def test_a_pass_is_silent_everywhere() -> None:
    for name in claude_code.EVENTS:
        assert said(claude_code.render(name, decided(name, "pass"))) == {}


@pytest.mark.parametrize(
    ("verdict", "patch", "expected"),
    [
        ("allow", None, {"permissionDecision": "allow"}),
        ("allow", TOOL_PATCH, {"permissionDecision": "allow", "updatedInput": {"command": "ls"}}),
        ("pass", TOOL_PATCH, {"updatedInput": {"command": "ls"}}),
        ("ask", None, {"permissionDecision": "ask", "permissionDecisionReason": "refused by hooklatch"}),
        (
            "deny",
            TOOL_PATCH,
            {"permissionDecision": "deny", "permissionDecisionReason": "refused by hooklatch"},
        ),
    ],
)
def test_the_forms_of_pre_tool_use(verdict: str, patch: object, expected: dict[str, object]) -> None:
    rendered = claude_code.render("PreToolUse", decided("PreToolUse", verdict, patch=patch))

    assert said(rendered) == {"hookSpecificOutput": {"hookEventName": "PreToolUse", **expected}}


def test_a_halted_tool_is_denied_too_because_a_stop_alone_lets_it_run() -> None:
    document = said(
        claude_code.render("PreToolUse", decided("PreToolUse", "halt", reason="no", hook="h", layer="global"))
    )

    assert document["continue"] is False
    assert document["stopReason"] == "no (hooklatch hook 'global/h')"
    assert document["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_the_forms_of_permission_request() -> None:
    def decision(verdict: str, **rest: object) -> dict[str, Any]:
        rendered = claude_code.render("PermissionRequest", decided("PermissionRequest", verdict, **rest))
        specific = said(rendered)["hookSpecificOutput"]["decision"]
        assert isinstance(specific, dict)
        return specific

    patch = {"tool_input": {"a": 1}, "permissions": [{"type": "setMode"}]}
    changes = {"updatedInput": {"a": 1}, "updatedPermissions": [{"type": "setMode"}]}
    assert decision("allow", patch=patch) == {"behavior": "allow", **changes}
    assert decision("deny", reason="no") == {"behavior": "deny", "message": "no (hooklatch)"}
    assert decision("halt", reason="no")["interrupt"] is True
    assert decision("ask", patch=patch)["behavior"] == "deny"


def test_to_ask_at_the_permission_dialog_is_to_leave_it_alone() -> None:
    assert said(claude_code.render("PermissionRequest", decided("PermissionRequest", "ask", reason="?"))) == {}


def test_a_refused_policy_change_is_said_to_be_out_of_reach() -> None:
    decision = decided("ConfigChange", "deny", reason="no")

    document = said(claude_code.render("ConfigChange", decision, document={"source": "policy_settings"}))

    assert document["decision"] == "block"
    assert "policy_settings" in document["systemMessage"]


@pytest.mark.parametrize("name", ["Stop", "SubagentStop"])
def test_an_agent_is_kept_working_by_a_block(name: str) -> None:
    document = said(claude_code.render(name, decided(name, "pass", resume="tests fail")))

    assert document == {"decision": "block", "reason": "tests fail"}


@pytest.mark.parametrize("name", ["TaskCompleted", "TeammateIdle"])
def test_a_teammate_is_kept_working_by_the_exit_code(name: str) -> None:
    rendered = claude_code.render(name, decided(name, "pass", resume="tests fail"))

    assert (rendered.stdout, rendered.stderr, rendered.exit_code) == ("", "tests fail\n", 2)


def test_a_halt_wins_over_a_wish_to_go_on() -> None:
    document = said(claude_code.render("Stop", decided("Stop", "halt", reason="enough", resume="more")))

    assert document == {"continue": False, "stopReason": "enough (hooklatch)"}


@table("name", claude_code.EVENTS)
def test_text_for_the_model_is_said_or_named_as_lost(name: str) -> None:
    inject = [
        {"role": "user", "content": "one"},
        {"role": "user", "content": [{"type": "text", "text": "two"}]},
    ]

    document = said(claude_code.render(name, decided(name, "pass", inject=inject, append="three")))

    if "context" in claude_code.ENFORCEABLE[name]:
        expected = {"hookEventName": name, "additionalContext": "one\ntwo\nthree"}
        assert document == {"hookSpecificOutput": expected}
    else:
        assert "lost" in document["systemMessage"]


def test_text_beyond_what_claude_code_shows_is_kept_and_remarked_on() -> None:
    document = said(claude_code.render("PostToolUse", decided("PostToolUse", "pass", append="a" * 10_001)))

    assert len(document["hookSpecificOutput"]["additionalContext"]) == 10_001
    assert "10001 characters" in document["systemMessage"]


@table("name", sorted(set(claude_code.EVENTS) - claude_code.GATES))
@table("verdict", ["deny", "ask", "halt"])
def test_a_refusal_that_claude_code_cannot_enforce_is_told_to_the_user(name: str, verdict: str) -> None:
    document = said(claude_code.render(name, decided(name, verdict, reason="because")))

    assert ("because" in document.get("systemMessage", "")) is (verdict not in claude_code.ENFORCEABLE[name])


def test_warnings_are_shown_to_the_user() -> None:
    document = said(claude_code.render("PreToolUse", decided("PreToolUse", "pass", warnings=["careful", {"a": 1}])))

    assert document == {"systemMessage": 'hooklatch: careful\nhooklatch: {"a":1}'}


def test_a_failed_hook_is_named_with_its_cause_and_the_way_out() -> None:
    decision = decided("PreToolUse", "deny", cause="timeout", layer="global", hook="no-rm", reason="2 s passed")

    reason = said(claude_code.render("PreToolUse", decision))["hookSpecificOutput"]["permissionDecisionReason"]

    assert reason == "hooklatch: hook 'global/no-rm': 2 s passed (timeout) (hooklatch log --decision d1)"


@table("name", sorted(WITHOUT_A_CANONICAL_NAME))
def test_an_event_without_a_canonical_name_gets_no_answer(name: str) -> None:
    assert said(claude_code.render(name, {"verdict": "deny"})) == {}


def test_what_can_be_enforced_is_known_for_every_event() -> None:
    assert claude_code.ENFORCEABLE.keys() == claude_code.EVENTS.keys()
    assert all("deny" in claude_code.ENFORCEABLE[name] for name in claude_code.GATES)


@pytest.mark.parametrize(
    ("document", "project", "envelope"),
    [
        pytest.param({"cwd": "/a/b"}, "/a", {"cwd": "/a/b", "began_in": "/a"}, id="the environment tells"),
        pytest.param({"cwd": "/a"}, "", {"cwd": "/a"}, id="an empty variable tells nothing"),
        pytest.param({"cwd": 7}, "", {"cwd": ""}, id="a folder that is none is not left out"),
        pytest.param(
            {"transcript_path": "/home/me/.claude/projects/-home-me-a/s.jsonl"}, "", {"began_as": "-home-me-a"},
            id="the transcript's folder tells",
        ),
        pytest.param(
            {"transcript_path": "/srv/projects/.claude/projects/-a/s/subagents/agent-1.jsonl"}, "",
            {"began_as": "-a"}, id="a subagent's too",
        ),
        pytest.param({"transcript_path": "/srv/projects/s.jsonl"}, "", {}, id="a file below no such folder"),
        pytest.param({"transcript_path": None}, "", {}, id="no transcript"),
    ],
)  # fmt: skip
def test_the_envelope_says_where_claude_code_was_started(
    document: dict[str, object], project: str, envelope: dict[str, object]
) -> None:
    native = claude_code.read(json.dumps({"hook_event_name": "Stop", **document}).encode())
    native.project = project
    line = claude_code.fire_request(native)

    said = json.loads(line or b"")["params"]["envelope"]
    assert {key: said[key] for key in ("cwd", "began_in", "began_as") if key in said} == envelope
