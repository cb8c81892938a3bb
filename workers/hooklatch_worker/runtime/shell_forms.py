"""The standard input of shell hooks: one event, in the format of one system.  Pure.

There are three forms, each one JSON object on one line.

canonical   `event`, the envelope's keys (null if unknown) and the payload's fields, all at the top level, so that
            `jq -r .tool_args.command` works in every fire.  Payload fields override envelope keys.  `event`, `config`,
            `merged` and `reinvoked` are ours and cannot be overridden; the last two are omitted if empty.
claude      Claude Code's own names.  Fields unknown to it keep their canonical names.
reasonix    event, cwd, sessionId and Reasonix's keys for the event; nothing else, and no unknown values.

The last two contain `config` only if the hook has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from hooklatch_worker.author.event import ENVELOPE, Event
from hooklatch_worker.author.events import ToolEvent
from hooklatch_worker.author.tools import UnclearToolError

__all__ = ["CLAUDE_FIELDS", "CLAUDE_NAMES", "FORMS", "REASONIX_NAMES", "UnsupportedFormatError", "encode_form_payload"]

# What has happened already: a hook sees it even if its tool's input is unclear, and then without the words for that.
REPORTS = ("post_tool_use", "post_tool_use_failure", "permission_denied")
ENVELOPE_KEYS = sorted(ENVELOPE - {"event"})

CLAUDE_NAMES = {
    "session_start": "SessionStart",
    "session_end": "SessionEnd",
    "user_prompt_submit": "UserPromptSubmit",
    "user_prompt_expansion": "UserPromptExpansion",
    "pre_tool_use": "PreToolUse",
    "permission_request": "PermissionRequest",
    "permission_denied": "PermissionDenied",
    "post_tool_use": "PostToolUse",
    "post_tool_use_failure": "PostToolUseFailure",
    "post_tool_batch": "PostToolBatch",
    "stop": "Stop",
    "stop_failure": "StopFailure",
    "subagent_started": "SubagentStart",
    "subagent_stop": "SubagentStop",
    "pre_compact": "PreCompact",
    "post_compact": "PostCompact",
    "notification": "Notification",
    "task_created": "TaskCreated",
    "task_completed": "TaskCompleted",
    "teammate_idle": "TeammateIdle",
    "config_change": "ConfigChange",
    "pre_model_switch": "PreModelSwitch",
}

# Claude Code's names of canonical fields, where they differ.
CLAUDE_FIELDS = {
    "permission_request": {"suggestions": "permission_suggestions"},
    "subagent_started": {"subagent_id": "agent_id"},
    "subagent_stop": {"subagent_id": "agent_id", "result": "last_assistant_message"},
    "task_created": {"subject": "task_subject", "description": "task_description", "teammate": "teammate_name"},
    "task_completed": {"subject": "task_subject", "teammate": "teammate_name"},
    "teammate_idle": {"teammate": "teammate_name"},
    "config_change": {"path": "file_path"},
}
OURS = frozenset({"tool_kind", "tool_args"})  # an adapter's own keys for a tool, beside the host's
CLAUDE_METADATA = ("transcript_path", "prompt_id", "permission_mode", "effort")
# Claude Code always sends these, and scripts read them unconditionally.
CLAUDE_DEFAULTS: dict[str, dict[str, Any]] = {
    "stop": {"stop_hook_active": False},
    "subagent_stop": {"stop_hook_active": False},
}

Fields: TypeAlias = dict[str, tuple[str, ...]]
TOOL: Fields = {"toolName": ("tool_name",), "toolArgs": ("tool_input",)}
LAST_TEXT: Fields = {"lastAssistantText": ("last_assistant_message", "result")}
# Reasonix's name of an event, and its keys with the canonical fields that may hold the value; the first known is used.
REASONIX: dict[str, tuple[str, Fields]] = {
    "session_start": ("SessionStart", {"source": ("source",)}),
    "session_end": ("SessionEnd", {"reason": ("reason",)}),
    "user_prompt_submit": ("UserPromptSubmit", {"prompt": ("prompt",), "turn": ("turn",)}),
    "pre_tool_use": ("PreToolUse", TOOL),
    "permission_request": ("PermissionRequest", {**TOOL, "subject": ("subject",)}),
    "post_tool_use": ("PostToolUse", {**TOOL, "toolResult": ("tool_response",)}),
    "post_tool_use_failure": (
        "PostToolUseFailure",
        {
            **TOOL,
            "toolResult": ("tool_response", "content"),
            "error": ("error",),
            "isInterrupt": ("is_interrupt",),
        },
    ),
    "post_model": ("PostLLMCall", {"reasoning": ("reasoning",), "turn": ("turn",)}),
    "stop": ("Stop", {**LAST_TEXT, "turn": ("turn",)}),
    "stop_failure": ("StopFailure", {**LAST_TEXT, "error": ("error",), "turn": ("turn",)}),
    "subagent_stop": ("SubagentStop", LAST_TEXT),
    "pre_compact": ("PreCompact", {"trigger": ("trigger",)}),
    "notification": (
        "Notification",
        {"message": ("message",), "notificationType": ("notification_type",)},
    ),
}
REASONIX_NAMES = {event: name for event, (name, _) in REASONIX.items()}


class UnsupportedFormatError(ValueError):
    """The event has no representation in this form; `form` and `event` name them."""

    def __init__(self, form: str, event: str, known: dict[str, str]) -> None:
        names = ", ".join(sorted(known))
        super().__init__(f'payload = "{form}" has no name for the event {event!r}; it has one for {names}')
        self.form = form
        self.event = event


def encode_form_payload(form: str, event: Event) -> bytes:
    """Return the input line of a hook with this form, including its newline.

    Raises:
        UnsupportedFormatError: the event does not exist in that system.
        UnclearToolError: the input of the event's tool could be read in two ways.
    """
    return msgspec.json.encode(FORMS[form](event)) + b"\n"


def make_canonical_form(event: Event) -> dict[str, Any]:
    document: dict[str, Any] = {"event": event.event}
    document.update((key, getattr(event, key)) for key in ENVELOPE_KEYS)
    document.update(event.payload)
    if isinstance(event, ToolEvent) and "tool_input" in event.payload:
        try:
            document.update(tool_kind=event.tool_kind, tool_args=event.tool_args)
        except UnclearToolError:
            if event.event not in REPORTS:
                raise
    document.update(event=event.event, config=find_own_config(event))
    for key in ("merged", "reinvoked"):
        document.pop(key, None)
    if event.merged:
        document["merged"] = event.merged
    if event.reinvoked:
        document["reinvoked"] = True
    return document


def make_claude_form(event: Event) -> dict[str, Any]:
    name = CLAUDE_NAMES.get(event.event)
    if name is None:
        raise UnsupportedFormatError("claude", event.event, CLAUDE_NAMES)
    document: dict[str, Any] = {
        "session_id": event.session_id or "",
        "transcript_path": "",
        "cwd": event.cwd or "",
        **{key: value for key, value in (event.metadata or {}).items() if key in CLAUDE_METADATA},
    }
    for key in ("agent_id", "agent_type"):
        value = getattr(event, key)
        if value is not None:
            document[key] = value
    renamed = CLAUDE_FIELDS.get(event.event, {})
    document.update((key, value) for key, value in event.payload.items() if key not in renamed and key not in OURS)
    for ours, theirs in renamed.items():
        if ours in event.payload and theirs not in event.payload:
            document[theirs] = event.payload[ours]
    for key, value in CLAUDE_DEFAULTS.get(event.event, {}).items():
        document.setdefault(key, value)
    document["hook_event_name"] = name
    return add_own_config(document, event)


def make_reasonix_form(event: Event) -> dict[str, Any]:
    if event.event not in REASONIX:
        raise UnsupportedFormatError("reasonix", event.event, REASONIX_NAMES)
    name, fields = REASONIX[event.event]
    document: dict[str, Any] = {"event": name, "cwd": event.cwd or ""}
    if event.session_id is not None:
        document["sessionId"] = event.session_id
    for theirs, ours in fields.items():
        value = find_first_known(event, ours)
        if value is not None:
            document[theirs] = value
    return add_own_config(document, event)


def find_first_known(event: Event, names: tuple[str, ...]) -> Any:
    values = (getattr(event, name, None) for name in names)
    return next((value for value in values if value is not None), None)


def find_own_config(event: Event) -> object:
    """Return the hook's own config; the event's config holds the whole definition of the command."""
    return event.config.get("config") or {}


def add_own_config(document: dict[str, Any], event: Event) -> dict[str, Any]:
    config = find_own_config(event)
    return {**document, "config": config} if config else document


FORMS: dict[str, Callable[[Event], dict[str, Any]]] = {
    "canonical": make_canonical_form,
    "claude": make_claude_form,
    "reasonix": make_reasonix_form,
}
