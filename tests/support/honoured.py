"""What each host does with an answer, written down a second time from what was measured, not from our adapters.

`effect` plays the host: given what the hook process left, does the tool run, with which input, is a person asked?
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hooklatch.hosts.find import find_host, list_hosts
from hooklatch.hosts.host import HookOutput

__all__ = ["GATES", "Effect", "effect", "said"]


class Effect(NamedTuple):
    """`done` is blocked, asked, passed (the host's own rules decide) or allowed; `input` what a tool then gets."""

    done: str
    input: Any = None


GATES = [
    (name, event) for name in list_hosts() for event, spec in find_host(name).events.items() if spec.kind == "gate"
]


def said(output: HookOutput) -> dict[str, Any]:
    """Return what standard output says: nothing, or exactly one JSON object on one line."""
    if not output.stdout:
        return {}
    assert output.stdout.count("\n") == 1
    assert output.stdout.endswith("\n")
    document = json.loads(output.stdout)
    assert isinstance(document, dict)
    return document


def effect(host: str, event: str, output: HookOutput, given: Any = None) -> Effect:
    """Return what a host does with an answer at a gate; `given` is the tool's input."""
    return PLAYED[host](event, output, said(output), given)


def claude(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    specific = document.get("hookSpecificOutput", {})
    assert specific.get("hookEventName", event) == event
    if event == "PostToolUse":  # another result, or the end of the run before the model reads
        assert output.exit_code == 0, "exit code 2 changes no result"
        is_other = "updatedToolOutput" in specific or document.get("continue") is False
        return Effect("blocked" if is_other else "passed", given)
    if output.exit_code == 2:
        assert output.stderr.strip()
        assert event != "PermissionRequest", "Claude Code ignores exit code 2 there"
        return Effect("blocked")
    assert output.exit_code == 0
    if event == "PermissionRequest":
        decision = specific.get("decision")
        if decision is None:
            return Effect("asked", given)
        is_allowed = decision["behavior"] == "allow"
        return Effect("allowed", decision.get("updatedInput", given)) if is_allowed else Effect("blocked")
    if event in ("PreToolUse", "PreModelSwitch", "PreSkillShellCommand"):
        word = specific.get("permissionDecision")
        done = {"deny": "blocked", "ask": "asked", "allow": "allowed", None: "passed"}[word]
        if word == "deny":
            assert specific["permissionDecisionReason"].strip()
        return Effect(done, specific.get("updatedInput", given))
    if event in ("Elicitation", "ElicitationResult"):
        return Effect({"decline": "blocked", "accept": "allowed", None: "asked"}[specific.get("action")], given)
    if event == "WorktreeCreate":
        return Effect("passed" if specific.get("worktreePath") else "blocked", given)
    if event in ("TaskCreated", "WorktreeRemove"):
        return Effect("passed", given)  # a document blocks nothing there
    return Effect("blocked" if document.get("decision") == "block" and document["reason"] else "passed", given)


def qwen(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    done = claude(event, output, document, given)
    return Effect(done.done, given)  # the original input runs


def codex(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    if output.exit_code:
        return Effect(
            "blocked" if output.exit_code == 2 and output.stderr.strip() and not output.stdout else "passed", given
        )
    known = {
        "PreToolUse": {
            "hookEventName",
            "permissionDecision",
            "permissionDecisionReason",
            "updatedInput",
            "additionalContext",
        },
        "PermissionRequest": {"hookEventName", "decision"},
        "UserPromptSubmit": {"hookEventName", "additionalContext"},
        "PreCompact": set[str](),
        "PostToolUse": {"hookEventName", "additionalContext"},
    }[event]
    specific = document.get("hookSpecificOutput", {})
    top = {"hookSpecificOutput"} if event in ("PreToolUse", "PermissionRequest") else {
        "UserPromptSubmit": {"hookSpecificOutput", "decision", "reason"}, "PreCompact": {"continue", "stopReason"},
        "PostToolUse": {"hookSpecificOutput", "decision", "reason"},
    }[event]  # fmt: skip
    unknown = (document.keys() - top) | (specific.keys() - known)
    assert not unknown, "an unknown key makes Codex run the tool"
    if event == "PreToolUse":
        word, reason = specific.get("permissionDecision"), specific.get("permissionDecisionReason", "")
        if word == "deny":
            assert specific.keys() == {"hookEventName", "permissionDecision", "permissionDecisionReason"}
            return Effect("blocked") if reason.strip() else Effect("passed", given)
        assert word is None or (word == "allow" and "updatedInput" in specific)
        return Effect("passed", specific.get("updatedInput", given))
    if event == "PermissionRequest":
        return claude(event, output, document, given)
    if event == "PreCompact":
        return Effect("blocked" if document.get("continue") is False else "passed")
    return Effect("blocked" if document.get("decision") == "block" and document["reason"] else "passed")


def gemini(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    if output.exit_code:
        return Effect("blocked" if output.exit_code == 2 and output.stderr.strip() else "passed", given)
    assert output.stdout, "Gemini CLI would read standard error"
    if document.get("decision") in ("deny", "block"):
        assert document["reason"]
        return Effect("blocked")
    changed = document.get("hookSpecificOutput", {}).get("tool_input", {})
    done = {"ask": "asked", "allow": "allowed", None: "passed"}[document.get("decision")]
    return Effect(done, merged(given, changed))


def merged(given: Any, changed: Any) -> Any:
    if not isinstance(given, dict) or not isinstance(changed, dict):
        return changed
    return {**given, **{key: merged(given.get(key), value) for key, value in changed.items()}}


def copilot(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    if event.lower() == "permissionrequest":
        if output.exit_code == 2 or document.get("behavior") == "deny":
            return Effect("blocked")
        return Effect("allowed" if document.get("behavior") == "allow" else "asked", given)
    if output.exit_code:
        return Effect("blocked")
    if event == "PreToolUse":
        assert not document or document["hookSpecificOutput"]["hookEventName"] == event
        document = document.get("hookSpecificOutput", {})
        assert "modifiedArgs" not in document
    else:
        assert "updatedInput" not in document
    done = {"deny": "blocked", "ask": "asked", "allow": "allowed", None: "passed"}[document.get("permissionDecision")]
    return Effect(done, document.get("modifiedArgs", document.get("updatedInput", given)))


def cursor(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    if output.exit_code:
        return Effect("blocked" if output.exit_code == 2 else "passed", given)
    assert output.stdout
    if event == "beforeSubmitPrompt":
        return Effect("blocked" if document.get("continue") is False else "passed")
    if event == "postToolUse":  # of an MCP tool
        return Effect("blocked" if "updated_mcp_tool_output" in document else "passed", given)
    word = document.get("permission")
    if word == "ask" and event not in ("beforeShellExecution", "beforeMCPExecution"):
        return Effect("passed", given)  # it is not enforced there
    done = {"deny": "blocked", "ask": "asked", "allow": "allowed", None: "passed"}[word]
    changed = document.get("updated_input") if event == "preToolUse" else None
    return Effect(done, given if changed is None else changed)


def opencode(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    if document.get("verdict") != "pass" or output.exit_code:
        return Effect("blocked")
    return Effect("passed", document.get("args", given))


def generic(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    verdict = document.get("verdict")
    if verdict not in ("pass", "allow"):
        assert output.exit_code == 2
        return Effect("asked" if verdict == "ask" else "blocked")
    assert output.exit_code == 0
    patch = document.get("patch") or {}
    return Effect("passed" if verdict == "pass" else "allowed", patch.get("tool_input", given))


def exit_code(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    """Play a program that reads exit code 2 and a changed input, as Letta Code, Auggie and Droid do."""
    if output.exit_code == 2:
        assert output.stderr.strip()
        return Effect("blocked")
    specific = document.get("hookSpecificOutput", {})
    done = {"allow": "allowed", None: "passed"}[specific.get("permissionDecision")]
    return Effect("asked" if event == "PermissionRequest" else done, specific.get("updatedInput", given))


def droid(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    done = exit_code(event, output, document, given)
    return Effect(done.done, merged(given, done.input))


def kimi(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    """Play Kimi Code and Goose: the first input runs."""
    return Effect(exit_code(event, output, document, given).done, given)


def grok(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    done = claude(event, output, document, given)
    return Effect("passed" if done.done == "allowed" else done.done, done.input)


def cline(event: str, output: HookOutput, document: dict[str, Any], given: Any) -> Effect:
    """Play Cline, which reads no exit code."""
    return Effect("blocked" if document.get("cancel") is True else "passed", document.get("overrideInput", given))


PLAYED = {
    "kimi": kimi, "grok": grok, "letta": exit_code, "cline": cline, "auggie": exit_code, "droid": droid,
    "goose": kimi,
    "claude-code": claude, "codex": codex, "gemini": gemini, "copilot": copilot, "cursor": cursor,
    "opencode": opencode, "qwen": qwen, "generic": generic,
}  # fmt: skip
