"""Claude Code's side of a fire: its document in, a request out; a decision in, its answer out.

Pure: knows no socket and no file. Says only what Claude Code honours (2.1.330 was measured); what it cannot
be told becomes the nearest stricter answer, with a warning. Silence is the answer to a plain pass alone.
"""

from hooklatch.hosts.light_json import RepeatedKeyError, dumps, is_list, is_object, loads
from hooklatch.hosts.wording import as_text, explanation, model_text, problem_of, text_at

__all__ = [
    "ENFORCEABLE",
    "EVENTS",
    "GATES",
    "HOST",
    "PAYLOAD_LIMIT",
    "Native",
    "Rendered",
    "UnreadableError",
    "failure",
    "fire_request",
    "read",
    "render",
    "timeout_of",
]

HOST = "claude-code"
PAYLOAD_LIMIT = 8 * 2**20  # bytes; the protocol's limit for a payload
CONTEXT_LIMIT = 10_000  # characters that Claude Code shows the model; it puts the rest into a file

EVENTS = {
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "UserPromptSubmit": "user_prompt_submit",
    "PreToolUse": "pre_tool_use",
    "PermissionRequest": "permission_request",
    "PermissionDenied": "permission_denied",
    "PostToolUse": "post_tool_use",
    "PostToolUseFailure": "post_tool_use_failure",
    "Stop": "stop",
    "StopFailure": "stop_failure",
    # Not subagent_start: Claude Code tells it when the subagent runs already, and nothing can refuse it.
    "SubagentStart": "subagent_started",
    "SubagentStop": "subagent_stop",
    "PreCompact": "pre_compact",
    "PostCompact": "post_compact",
    "Notification": "notification",
    "TaskCompleted": "task_completed",
    "TeammateIdle": "teammate_idle",
    "ConfigChange": "config_change",
}

GATES = frozenset({"UserPromptSubmit", "PreToolUse", "PermissionRequest", "PreCompact", "ConfigChange"})

# What Claude Code really does when told to, by event; `context` is text for the model. The rest is said as
# the nearest stricter thing, or, where nothing can be refused, as a warning to the user.
ENFORCEABLE: "dict[str, frozenset[str]]" = {
    "SessionStart": frozenset({"context"}),
    "SessionEnd": frozenset(),
    "UserPromptSubmit": frozenset({"deny", "halt", "context"}),
    "PreToolUse": frozenset({"allow", "deny", "ask", "halt", "patch", "context"}),
    "PermissionRequest": frozenset({"allow", "deny", "ask", "halt", "patch"}),
    "PermissionDenied": frozenset(),
    "PostToolUse": frozenset({"halt", "context"}),
    "PostToolUseFailure": frozenset({"halt", "context"}),
    "Stop": frozenset({"halt", "resume", "context"}),
    "StopFailure": frozenset(),
    "SubagentStart": frozenset({"context"}),
    "SubagentStop": frozenset({"halt", "resume"}),
    "PreCompact": frozenset({"deny", "halt"}),
    "PostCompact": frozenset(),
    "Notification": frozenset(),
    "TaskCompleted": frozenset({"resume"}),
    "TeammateIdle": frozenset({"resume"}),
    "ConfigChange": frozenset({"deny"}),  # not where the source is policy_settings
}

# Canonical field: Claude Code's name for it. Names that agree are not listed.
_RENAMED = {
    "PermissionRequest": {"suggestions": "permission_suggestions"},
    "SubagentStart": {"subagent_id": "agent_id"},
    "SubagentStop": {"subagent_id": "agent_id", "result": "last_assistant_message"},
    "TaskCompleted": {"subject": "task_subject", "teammate": "teammate_name"},
    "TeammateIdle": {"teammate": "teammate_name"},
    "ConfigChange": {"path": "file_path"},
}
_ENVELOPE = ("session_id", "cwd", "agent_id", "agent_type")
_METADATA = ("transcript_path", "permission_mode", "prompt_id", "effort")
_RESUMED_BY_EXIT_CODE = frozenset({"TaskCompleted", "TeammateIdle"})


class UnreadableError(ValueError):
    """What came in is no event document of Claude Code; `name` is the gate that it may be, if it says one."""

    def __init__(self, message: str, name: "str | None" = None) -> None:
        super().__init__(message)
        self.name = name


class Native:
    """One event as Claude Code sent it; `event` is its canonical name, "" where it has none.

    `project` is the folder in which Claude Code was started, as its environment says; "" where it does not.
    """

    __slots__ = ("document", "event", "name", "project", "text")

    def __init__(self, name: str, document: dict[str, object], text: bytes) -> None:
        self.name = name
        self.event = EVENTS.get(name, "")
        self.document = document
        self.text = text
        self.project = ""


class Rendered:
    """What the hook command leaves behind: nothing or one JSON document on `stdout`, and an exit code."""

    __slots__ = ("exit_code", "stderr", "stdout")

    def __init__(self, stdout: str = "", stderr: str = "", exit_code: int = 0) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.exit_code = exit_code


def timeout_of(name: str) -> int:
    """Seconds that the hook command waits; Claude Code waits a little longer, so that our deny is first."""
    # A fire may take 600 s. Claude Code gives all SessionEnd hooks together 60 s at most, and waits for them.
    return 55 if name == "SessionEnd" else 605


def read(raw: bytes) -> Native:
    """The event in `raw`, with or without a byte order mark.

    Raises:
        UnreadableError: it is no JSON object, or does not name its event.
    """
    text = raw.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
    try:
        document = loads(text.decode())
    except RepeatedKeyError as error:
        found = error.value.get("hook_event_name") if is_object(error.value) else None
        # Only to refuse in the form of a gate: what this reader finds, another need not.
        gate = found if isinstance(found, str) and found in GATES else None
        raise UnreadableError(f"the event could be read in two ways: {error}", gate) from None
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"the event is not JSON: {error}") from None
    if not is_object(document):
        raise UnreadableError("the event is no JSON object")
    name = document.get("hook_event_name")
    if not isinstance(name, str):
        raise UnreadableError("the event has no hook_event_name")
    return Native(name, document, text)


def fire_request(native: Native) -> bytes | None:
    """The line to send for `native`, or None if its payload exceeds the protocol's limit.

    The document goes in as it came, byte for byte, and behind it the canonical keys that Claude Code names
    otherwise.
    """
    document = native.document
    names = _RENAMED.get(native.name, {})
    added = [
        f",{dumps(ours)}:{dumps(document[theirs])}"
        for ours, theirs in names.items()
        if theirs in document and ours not in document
    ]
    # A line break can only be between tokens: inside a string, JSON has it escaped.
    one_line = native.text.replace(b"\n", b" ").replace(b"\r", b" ")
    payload = one_line[:-1] + "".join(added).encode() + b"}"
    if len(payload) > PAYLOAD_LIMIT:
        return None
    envelope: dict[str, object] = {key: document[key] for key in _ENVELOPE if isinstance(document.get(key), str)}
    if "cwd" in document and "cwd" not in envelope:
        envelope["cwd"] = ""  # no folder that anybody could look up, which is not the same as none
    if native.project:
        envelope["began_in"] = native.project
    if began_as := _name_of_start(document.get("transcript_path")):
        envelope["began_as"] = began_as
    envelope["host"] = HOST
    envelope["metadata"] = {key: document[key] for key in _METADATA if key in document}
    call_id = document.get("tool_use_id")
    call = f'"call_id":{dumps(call_id)},' if isinstance(call_id, str) else ""
    head = f'{{"event":{dumps(native.event)},"envelope":{dumps(envelope)},{call}"payload":'
    return b'{"jsonrpc":"2.0","id":1,"method":"fire","params":' + head.encode() + payload + b"}}\n"


def _name_of_start(transcript_path: object) -> str:
    """What is left of the start folder's path in .../projects/-home-me-project/SESSION.jsonl, "" if nothing is."""
    if not isinstance(transcript_path, str):
        return ""
    _, found, below = f"/{transcript_path}".rpartition("/projects/")
    name, is_folder, _ = below.partition("/")
    return name if found and is_folder else ""


def failure(name: str, cause: str, reason: str) -> dict[str, object]:
    """The decision that is made here when the daemon's is missing: deny on a gate, else pass."""
    is_gate = name in GATES
    return {
        "event": EVENTS.get(name, ""),
        "verdict": "deny" if is_gate else "pass",
        "cause": cause,
        "reason": reason,
    }


def render(name: str, decision: object, *, document: dict[str, object] | None = None) -> Rendered:
    """What to leave behind for the native event `name`; `document`, if known, is the event itself."""
    if name not in EVENTS:
        return Rendered()
    problem = problem_of(decision)
    if problem or not is_object(decision):
        decision = failure(name, "protocol", problem)
    answer = _Answer(name, decision)
    if name == "PreToolUse":
        _render_tool_use(answer)
    elif name == "PermissionRequest":
        _render_permission(answer)
    elif name in GATES:
        _render_block(answer, document or {})
    else:
        _render_observed(answer)
    return answer.rendered()


class _Answer:
    """A decision being put into words: what was said so far, and what could not be."""

    def __init__(self, name: str, decision: dict[str, object]) -> None:
        self.name = name
        self.can = ENFORCEABLE[name]
        self.verdict = text_at(decision, "verdict")
        self.text = explanation(decision)
        self.reason = text_at(decision, "reason")
        self.wants_resume = decision.get("resume") is not None
        self.resume = text_at(decision, "resume") or "go on"
        patch = decision.get("patch")
        self.patch: dict[str, object] = patch if is_object(patch) else {}
        self.context = model_text(decision)
        warnings = decision.get("warnings")
        self.warnings = [as_text(warning) for warning in warnings] if is_list(warnings) else []
        self.said: dict[str, object] = {}
        self.specific: dict[str, object] = {}
        self.stderr = ""
        self.exit_code = 0

    def refuse(self, why: str) -> None:
        """Turn what cannot be said into a deny."""
        self.verdict = "deny"
        self.text = f"hooklatch: {why}" + (f": {self.text}" if self.text else "")
        self.warnings.append(f"{self.name}: {why}")

    def stop_turn(self) -> None:
        self.said["continue"] = False
        self.said["stopReason"] = self.text

    def block(self, reason: str) -> None:
        self.said["decision"] = "block"
        self.said["reason"] = reason

    def add_context(self) -> None:
        if not self.context:
            return
        if "context" not in self.can:
            self.warnings.append(f"text for the model was lost: Claude Code takes none at {self.name}")
            return
        self.specific["additionalContext"] = self.context
        if len(self.context) > CONTEXT_LIMIT:
            size = f"{len(self.context)} characters for the model"
            self.warnings.append(f"{size}: Claude Code shows {CONTEXT_LIMIT} and puts the rest into a file")

    def rendered(self) -> Rendered:
        if self.exit_code:  # Claude Code does not read standard output then
            return Rendered(stderr=self.stderr, exit_code=self.exit_code)
        if self.specific:
            self.said["hookSpecificOutput"] = {"hookEventName": self.name, **self.specific}
        if self.warnings:
            self.said["systemMessage"] = "\n".join([f"hooklatch: {warning}" for warning in self.warnings])
        return Rendered(stdout=dumps(self.said) + "\n" if self.said else "")


def _render_tool_use(answer: _Answer) -> None:
    if answer.verdict not in ("deny", "halt") and answer.patch.keys() - {"tool_input"}:
        answer.refuse(f"Claude Code cannot change {_listed(answer.patch, 'tool_input')} here")
    if answer.verdict == "halt":
        answer.stop_turn()  # alone it lets the tool run first: hence the deny as well
    if answer.verdict in ("deny", "halt"):
        answer.specific["permissionDecision"] = "deny"
    elif answer.verdict in ("allow", "ask"):
        answer.specific["permissionDecision"] = answer.verdict
    if answer.verdict != "pass" and answer.text:
        answer.specific["permissionDecisionReason"] = answer.text
    if answer.verdict not in ("deny", "halt") and "tool_input" in answer.patch:
        answer.specific["updatedInput"] = answer.patch["tool_input"]
    answer.add_context()


def _render_permission(answer: _Answer) -> None:
    # To ask is to stay silent: the dialog that this event is about asks.
    known = {"tool_input", "permissions"}
    if answer.verdict in ("pass", "ask") and answer.patch:
        answer.refuse("Claude Code cannot change the call and still ask the user")
    elif answer.verdict == "allow" and answer.patch.keys() - known:
        answer.refuse(f"Claude Code cannot change {_listed(answer.patch, *known)} here")
    decision: dict[str, object] = {}
    if answer.verdict in ("deny", "halt"):
        decision = {"behavior": "deny", "message": answer.text}
    if answer.verdict == "halt":
        decision["interrupt"] = True
        answer.stop_turn()
    if answer.verdict == "allow":
        decision = {"behavior": "allow"}
        if "tool_input" in answer.patch:
            decision["updatedInput"] = answer.patch["tool_input"]
        if "permissions" in answer.patch:
            decision["updatedPermissions"] = answer.patch["permissions"]
    if decision:
        answer.specific["decision"] = decision
    answer.add_context()


def _render_block(answer: _Answer, document: dict[str, object]) -> None:
    if answer.verdict == "ask":
        answer.refuse(f"Claude Code cannot ask at {answer.name}, so this was blocked")
    elif answer.verdict in ("pass", "allow") and answer.patch:
        answer.refuse(f"Claude Code cannot change {_listed(answer.patch)} at {answer.name}, so this was blocked")
    if answer.verdict == "halt":
        answer.stop_turn()
    if answer.verdict in ("deny", "halt"):
        answer.block(answer.text)
        if answer.name == "ConfigChange" and document.get("source") == "policy_settings":
            answer.warnings.append("Claude Code applies a change of policy_settings although it was refused")
    answer.add_context()


def _render_observed(answer: _Answer) -> None:
    refused = answer.verdict in ("deny", "ask", "halt")
    if answer.verdict == "halt":
        answer.stop_turn()
    if refused and answer.verdict not in answer.can:
        answer.warnings.append(f"Claude Code enforces no {answer.verdict} at {answer.name}: {answer.text}")
    if answer.patch:
        answer.warnings.append(f"Claude Code cannot change {_listed(answer.patch)} at {answer.name}")
    if answer.wants_resume and not refused:
        _resume(answer)
    answer.add_context()


def _resume(answer: _Answer) -> None:
    if "resume" not in answer.can:
        answer.warnings.append(f"Claude Code cannot be kept working at {answer.name}: {answer.resume}")
    elif answer.name in _RESUMED_BY_EXIT_CODE:
        answer.stderr = f"{answer.resume}\n"
        answer.exit_code = 2
    else:
        answer.block(answer.resume)


def _listed(patch: dict[str, object], *known: str) -> str:
    return ", ".join(sorted(patch.keys() - set(known)))
