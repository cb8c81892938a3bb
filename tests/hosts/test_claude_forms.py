"""What Claude Code is told, event by event, and that its page says the same as the table in force."""

from __future__ import annotations

from typing import Any

from hooklatch.hosts.find import find_host
from hooklatch.hosts.host import HookOutput, HostEventSpec
from support.honoured import effect, said
from support.native import answered, decided
from support.repository import ROOT
from support.tables import table

CLAUDE = find_host("claude-code")
GATES = [name for name, event in CLAUDE.events.items() if event.kind == "gate"]
OTHERS = [name for name, event in CLAUDE.events.items() if event.kind != "gate"]
AWAITED = [name for name, event in CLAUDE.events.items() if event.kind == "context"]
PATCH = {"tool_input": {"command": "ls"}}
CHANGED = {"updatedInput": {"command": "ls"}}


def told(event: str, verdict: str, document: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    return said(answered("claude-code", event, decided(verdict, **rest), **(document or {})))


def specific(event: str, verdict: str, **rest: Any) -> dict[str, Any]:
    found: dict[str, Any] = told(event, verdict, **rest)["hookSpecificOutput"]
    assert found.pop("hookEventName") == event
    return found


def test_all_events_of_claude_code_are_known() -> None:
    assert len(CLAUDE.events) == 34


def test_a_command_of_a_skill_is_a_tool_call_that_is_refused_where_a_hook_changes_it() -> None:
    assert told("PreSkillShellCommand", "allow").keys() <= {"systemMessage"}
    for verdict, patch in (("deny", None), ("ask", None), ("pass", PATCH)):
        assert specific("PreSkillShellCommand", verdict, patch=patch)["permissionDecision"] == "deny"


@table("name", CLAUDE.events)
def test_a_pass_is_silent(name: str) -> None:
    if name != "WorktreeCreate":
        assert answered("claude-code", name, decided("pass")) == HookOutput()


@table(
    ("verdict", "patch", "expected"),
    [
        ("allow", None, {"permissionDecision": "allow"}),
        ("allow", PATCH, {"permissionDecision": "allow", **CHANGED}),
        ("pass", PATCH, CHANGED),
        ("ask", None, {"permissionDecision": "ask", "permissionDecisionReason": "refused by hooklatch"}),
        ("deny", PATCH, {"permissionDecision": "deny", "permissionDecisionReason": "refused by hooklatch"}),
    ],
)
def test_the_forms_of_pre_tool_use(verdict: str, patch: Any, expected: dict[str, Any]) -> None:
    assert specific("PreToolUse", verdict, patch=patch) == expected


def test_a_halted_tool_is_denied_too_because_a_stop_alone_lets_it_run() -> None:
    document = told("PreToolUse", "halt", reason="no", hook="h", layer="global")

    assert document["continue"] is False
    assert document["stopReason"] == "no (hooklatch hook 'global/h')"
    assert document["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_the_forms_of_permission_request() -> None:
    patch = {"tool_input": {"a": 1}, "permissions": [{"type": "setMode"}]}
    changes = {"updatedInput": {"a": 1}, "updatedPermissions": [{"type": "setMode"}]}

    assert specific("PermissionRequest", "allow", patch=patch)["decision"] == {"behavior": "allow", **changes}
    assert specific("PermissionRequest", "deny", reason="no")["decision"] == {
        "behavior": "deny", "message": "no (hooklatch)",
    }  # fmt: skip
    assert specific("PermissionRequest", "halt", reason="no")["decision"]["interrupt"] is True
    assert specific("PermissionRequest", "ask", patch=patch)["decision"]["behavior"] == "deny"
    assert told("PermissionRequest", "ask", reason="?") == {}


@table("name", ["UserPromptSubmit", "UserPromptExpansion", "PreCompact", "ConfigChange"])
def test_a_refusal_of_a_gate_without_a_permission_is_a_block(name: str) -> None:
    assert told(name, "deny", reason="no") == {"decision": "block", "reason": "no (hooklatch)"}


@table("name", ["TaskCreated", "WorktreeCreate", "WorktreeRemove"])
def test_where_no_document_is_honoured_the_exit_code_refuses(name: str) -> None:
    output = answered("claude-code", name, decided("deny", reason="no"))

    assert output == HookOutput(exit_code=2, stderr="no (hooklatch)\n")


def test_a_model_switch_is_allowed_asked_about_or_denied() -> None:
    assert specific("PreModelSwitch", "allow") == {"permissionDecision": "allow"}
    assert specific("PreModelSwitch", "ask", reason="dear")["permissionDecision"] == "ask"
    assert specific("PreModelSwitch", "deny", reason="no")["permissionDecision"] == "deny"


def test_a_question_of_a_server_is_declined_or_answered_in_a_persons_place() -> None:
    content = {"content": {"name": "n"}}

    assert specific("Elicitation", "deny") == {"action": "decline"}
    assert specific("Elicitation", "allow", patch=content) == {"action": "accept", **content}
    assert specific("Elicitation", "pass", patch=content) == {"action": "decline"}
    assert told("Elicitation", "allow").keys() == {"systemMessage"}
    answer = told("ElicitationResult", "pass", {"action": "accept"}, patch=content)
    assert answer["hookSpecificOutput"]["action"] == "accept"
    declined = told("ElicitationResult", "pass", {"action": "cancel"}, patch=content)
    assert declined["hookSpecificOutput"]["action"] == "decline"


def test_a_worktree_is_the_hooks_to_make() -> None:
    assert specific("WorktreeCreate", "pass", patch={"worktree_path": "/w"}) == {"worktreePath": "/w"}

    output = answered("claude-code", "WorktreeCreate", decided("pass"))

    assert output.exit_code == 2
    assert "none gave a worktree_path" in output.stderr
    assert [name for name, event in CLAUDE.events.items() if event.alters_host] == ["WorktreeCreate", "WorktreeRemove"]


def test_a_refused_policy_change_is_said_to_be_out_of_reach() -> None:
    document = told("ConfigChange", "deny", {"source": "policy_settings"}, reason="no")

    assert document["decision"] == "block"
    assert "policy_settings" in document["systemMessage"]


@table("name", ["Stop", "SubagentStop"])
def test_an_agent_is_kept_working_by_a_block(name: str) -> None:
    assert told(name, "pass", resume="tests fail") == {"decision": "block", "reason": "tests fail"}


@table("name", ["TaskCompleted", "TeammateIdle"])
def test_a_teammate_is_kept_working_by_the_exit_code(name: str) -> None:
    output = answered("claude-code", name, decided("pass", resume="tests fail"))

    assert output == HookOutput(exit_code=2, stderr="tests fail\n")


def test_a_halt_wins_over_a_wish_to_go_on() -> None:
    assert told("Stop", "halt", reason="enough", resume="more") == {
        "continue": False, "stopReason": "enough (hooklatch)",
    }  # fmt: skip


@table("name", [*AWAITED, *(name for name in GATES if name not in ("WorktreeCreate", "WorktreeRemove"))])
def test_text_for_the_model_is_said_or_named_as_lost(name: str) -> None:
    inject = [{"role": "user", "content": "one"}, {"role": "user", "content": [{"type": "text", "text": "two"}]}]

    document = told(name, "pass", inject=inject, append="three")

    if "context" in CLAUDE.events[name].enforces:
        assert document == {"hookSpecificOutput": {"hookEventName": name, "additionalContext": "one\ntwo\nthree"}}
    else:
        assert "lost" in document["systemMessage"]


def test_text_beyond_what_claude_code_shows_is_kept_and_remarked_on() -> None:
    document = told("PostToolUseFailure", "pass", append="a" * 10_001)

    assert len(document["hookSpecificOutput"]["additionalContext"]) == 10_001
    assert "10001 characters" in document["systemMessage"]


@table("name", AWAITED)
@table("verdict", ["deny", "ask", "halt"])
def test_a_refusal_that_claude_code_cannot_enforce_is_told_to_the_user(name: str, verdict: str) -> None:
    document = told(name, verdict, reason="because")

    assert ("because" in document.get("systemMessage", "")) is (verdict not in CLAUDE.events[name].enforces)


def test_warnings_are_shown_to_the_user() -> None:
    assert told("PreToolUse", "pass", warnings=["careful"]) == {"systemMessage": "hooklatch: careful"}


def test_a_failed_hook_is_named_to_the_model_as_no_judgement_and_to_the_person_with_the_way_out() -> None:
    decision = {
        "cause": "timeout",
        "layer": "global",
        "hook": "no-rm",
        "reason": "hook timed out (fail-safe deny): global/no-rm: 2 s passed",
    }

    document = told("PreToolUse", "deny", **decision)

    assert document["systemMessage"] == (
        'hooklatch refused this call: its guard "no-rm" gave no answer in time: 2 s passed. '
        "Run: hooklatch hooks show no-rm"
    )
    assert document["hookSpecificOutput"]["permissionDecisionReason"] == (
        'Not run: hooklatch\'s guard "no-rm" gave no answer in time: 2 s passed. That is no judgement of '
        "this call. Do not try it again, in this form or another, and do not mend hooklatch yourself: stop, and tell "
        "the user to run: hooklatch hooks show no-rm"
    )


def test_a_refusal_is_told_to_the_person_too_and_a_call_that_passes_says_nothing() -> None:
    assert told("PreToolUse", "deny", reason="no", hook="h")["systemMessage"] == (
        "hooklatch refused this call: no (guard h)"
    )
    assert "systemMessage" not in told("PreToolUse", "ask", reason="sure?"), "its own dialog asks"
    assert told("PreToolUse", "pass") == {}


@table("name", GATES)
def test_each_gate_is_refused_in_a_form_that_holds(name: str) -> None:
    for verdict in ("deny", "halt"):
        output = answered("claude-code", name, decided(verdict, reason="because"), tool_response="x")

        assert effect("claude-code", name, output).done == "blocked"
        assert (said(output).get("continue") is False) is (verdict == "halt" and "halt" in CLAUDE.events[name].enforces)


@table("name", CLAUDE.events)
def test_the_documented_table_is_the_one_in_force(name: str) -> None:
    page = (ROOT / "docs" / "reference" / "claude-code.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]

    _, _, event, kind, words, _ = (cell.strip(" `") for cell in row.split("|"))

    spec = CLAUDE.events[name]
    after = spec.after or HostEventSpec()  # that tells what ran, by the same document
    assert event.replace("`", "") == (", ".join(filter(None, (spec.event, after.event))) or "-")
    assert kind == spec.kind
    assert set(words.split(", ")) - {"nothing"} == spec.enforces | after.enforces
