"""Claude Code's side of a fire: its event document in, a request out; a decision in, its answer out.

Pure: no sockets, no files.  Uses only what Claude Code honours (measured with 2.1.330); anything else becomes the
nearest stricter answer, with a warning.  Only a plain pass is answered with silence.
"""

from hooklatch.hosts.light_json import RepeatedKeyError, dumps, is_list, is_object, loads
from hooklatch.hosts.wording import as_text, explanation, model_text, problem_of, text_at

__all__ = [
    "ENFORCEABLE",
    "EVENTS",
    "GATES",
    "HOST",
    "PAYLOAD_LIMIT",
    "ClaudeEvent",
    "HookOutput",
    "UnreadableError",
    "failure",
    "fire_request",
    "read",
    "render",
    "timeout_of",
]

HOST = "claude-code"
PAYLOAD_LIMIT = 8 * 2**20  # bytes; the protocol's limit for a payload
CONTEXT_LIMIT = 10_000  # characters that Claude Code shows the model; it puts more into a file

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
    # Not subagent_start: Claude Code sends this when the subagent is already running and cannot be refused.
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

# What Claude Code actually enforces, by event; `context` is text for the model.  Anything else becomes the nearest
# stricter answer or, if the event cannot be refused, a warning to the user.
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
    "ConfigChange": frozenset({"deny"}),  # not if the source is policy_settings
}

# Claude Code's names of canonical fields, where they differ.
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
    """The input is not an event document of Claude Code; `name` is the gate that it names, if any."""

    def __init__(self, message: str, name: "str | None" = None) -> None:
        super().__init__(message)
        self.name = name


class ClaudeEvent:
    """One event as Claude Code sent it; `event` is its canonical name, "" if it has none.

    `project` is the directory in which Claude Code was started, according to its environment; "" if unknown.
    """

    __slots__ = ("document", "event", "name", "project", "text")

    def __init__(self, name: str, document: dict[str, object], text: bytes) -> None:
        self.name = name
        self.event = EVENTS.get(name, "")
        self.document = document
        self.text = text
        self.project = ""


class HookOutput:
    """The output of the hook command: nothing or one JSON document on `stdout`, and an exit code."""

    __slots__ = ("exit_code", "stderr", "stdout")

    def __init__(self, stdout: str = "", stderr: str = "", exit_code: int = 0) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.exit_code = exit_code


def timeout_of(name: str) -> int:
    """Return the seconds that the hook command waits; Claude Code waits longer, so that our deny comes first."""
    # A fire may take 600 s.  Claude Code limits all SessionEnd hooks together to 60 s, and waits for them.
    return 55 if name == "SessionEnd" else 605


def read(raw: bytes) -> ClaudeEvent:
    """Parse an event, with or without a byte order mark.

    Raises:
        UnreadableError: it is not a JSON object, or does not name its event.
    """
    text = raw.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
    try:
        document = loads(text.decode())
    except RepeatedKeyError as error:
        named = error.value.get("hook_event_name") if is_object(error.value) else None
        # Only used to refuse in the form of a gate: another parser may read another name.
        gate = named if isinstance(named, str) and named in GATES else None
        raise UnreadableError(f"the event could be read in two ways: {error}", gate) from None
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"the event is not JSON: {error}") from None
    if not is_object(document):
        raise UnreadableError("the event is not a JSON object")
    name = document.get("hook_event_name")
    if not isinstance(name, str):
        raise UnreadableError("the event has no hook_event_name")
    return ClaudeEvent(name, document, text)


def fire_request(native: ClaudeEvent) -> bytes | None:
    """Return the request line for an event, or None if its payload exceeds the protocol's limit.

    The document is sent byte for byte as it came; canonical keys that Claude Code names differently are appended.
    """
    document = native.document
    names = _RENAMED.get(native.name, {})
    added = [
        f",{dumps(ours)}:{dumps(document[theirs])}"
        for ours, theirs in names.items()
        if theirs in document and ours not in document
    ]
    # Line breaks can only occur between tokens: within a string, JSON escapes them.
    one_line = native.text.replace(b"\n", b" ").replace(b"\r", b" ")
    payload = one_line[:-1] + "".join(added).encode() + b"}"
    if len(payload) > PAYLOAD_LIMIT:
        return None
    envelope: dict[str, object] = {key: document[key] for key in _ENVELOPE if isinstance(document.get(key), str)}
    if "cwd" in document and "cwd" not in envelope:
        envelope["cwd"] = ""  # a cwd that is not a string is not the same as no cwd: it matches no directory
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
    """Return the encoded start directory in .../projects/-home-me-project/SESSION.jsonl, or ""."""
    if not isinstance(transcript_path, str):
        return ""
    _, separator, below = f"/{transcript_path}".rpartition("/projects/")
    name, is_folder, _ = below.partition("/")
    return name if separator and is_folder else ""


def failure(name: str, cause: str, reason: str) -> dict[str, object]:
    """Return the decision to use when that of the daemon is missing: deny on a gate, otherwise pass."""
    is_gate = name in GATES
    return {
        "event": EVENTS.get(name, ""),
        "verdict": "deny" if is_gate else "pass",
        "cause": cause,
        "reason": reason,
    }


def render(name: str, decision: object, *, document: dict[str, object] | None = None) -> HookOutput:
    """Return the output for the native event `name`; `document`, if known, is the event itself."""
    if name not in EVENTS:
        return HookOutput()
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
    """A decision being rendered: the answer so far, and warnings about what cannot be expressed."""

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
        """Turn what cannot be expressed into a deny."""
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

    def rendered(self) -> HookOutput:
        if self.exit_code:  # Claude Code then ignores standard output
            return HookOutput(stderr=self.stderr, exit_code=self.exit_code)
        if self.specific:
            self.said["hookSpecificOutput"] = {"hookEventName": self.name, **self.specific}
        if self.warnings:
            self.said["systemMessage"] = "\n".join([f"hooklatch: {warning}" for warning in self.warnings])
        return HookOutput(stdout=dumps(self.said) + "\n" if self.said else "")


def _render_tool_use(answer: _Answer) -> None:
    if answer.verdict not in ("deny", "halt") and answer.patch.keys() - {"tool_input"}:
        answer.refuse(f"Claude Code cannot change {_listed(answer.patch, 'tool_input')} here")
    if answer.verdict == "halt":
        answer.stop_turn()  # on its own this would still let the tool run: hence the deny as well
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
    # To ask means to stay silent: this event precedes a dialog that asks the user.
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
        answer.warnings.append(f"Claude Code does not enforce {answer.verdict} at {answer.name}: {answer.text}")
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
