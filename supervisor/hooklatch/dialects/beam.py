"""The BeamAgent dialect: one context map threaded through every hook; answers are ok, deny or ask with a reason."""

from __future__ import annotations

from typing import Final

from hooklatch.dialects.dialect import Answers, Dialect, EventMapping, NativeEvent, feed, keep_names

__all__ = ["BEAM"]

# The context map has the same keys at every event.  All of them are fields, so context from hooks cannot replace any.
CONTEXT = {
    **keep_names(
        "session_id", "tool_name", "tool_input", "tool_use_id", "agent_id", "agent_type", "content", "duration_ms",
        "stop_hook_active", "prompt", "params", "interrupt", "category", "permission_id", "metadata", "system_info",
        "reason", "reload_type", "status",
    ),
    "stop_reason": "finish_reason",
    "permission_prompt_tool_name": "prompt_tool_name",
    "permission_suggestions": "suggestions",
    "updated_permissions": "permissions",
    "agent_transcript_path": "transcript_path",
}  # fmt: skip
ENDS_AT = frozenset({"deny", "ask", "halt"})
REFUSE = {"deny": "deny", "ask": "ask"}


def map_keys_with(**own: str) -> dict[str, str]:
    return {**CONTEXT, **own}


def make_blocking_event(first: EventMapping, *others: EventMapping, **patch: str) -> NativeEvent:
    return NativeEvent(feeds=(first, *others), answers=Answers(words=REFUSE, patch=patch))


def make_notifying_event(event: str, keys: dict[str, str]) -> NativeEvent:
    return NativeEvent(feeds=(feed(event, keys, flow="sequential"),))


BEAM: Final = Dialect(
    name="beam",
    style="threaded",
    matcher="exact_or_search",
    matcher_field="tool_name",
    event_key="event",
    registration={"matcher": "match", "callback": "id"},
    events={
        "pre_tool_use": make_blocking_event(feed("pre_tool_use", CONTEXT, ends_at=ENDS_AT), tool_input="tool_input"),
        "user_prompt_submit": make_blocking_event(
            feed("user_prompt_submit", CONTEXT, ends_at=ENDS_AT), prompt="prompt", params="params"
        ),
        "permission_request": make_blocking_event(
            feed("permission_request", CONTEXT, ends_at=ENDS_AT),
            tool_input="tool_input",
            permissions="updated_permissions",
        ),
        "subagent_start": make_blocking_event(
            feed("subagent_start", map_keys_with(agent_id="subagent_id"), ends_at=ENDS_AT),
            feed("subagent_started", map_keys_with(agent_id="subagent_id"), flow="sequential", when="passed"),
            prompt="prompt",
        ),
        "pre_compact": make_blocking_event(feed("pre_compact", map_keys_with(trigger="trigger"), ends_at=ENDS_AT)),
        "config_change": make_blocking_event(
            feed("config_change", map_keys_with(source="source"), ends_at=ENDS_AT, fills={"source": "reload_type"})
        ),
        "post_tool_use": make_notifying_event("post_tool_use", map_keys_with(content="tool_response")),
        "post_tool_use_failure": make_notifying_event("post_tool_use_failure", map_keys_with(error="error")),
        "stop": make_notifying_event("stop", CONTEXT),
        "session_start": make_notifying_event("session_start", map_keys_with(source="source")),
        "session_end": make_notifying_event("session_end", CONTEXT),
        "subagent_stop": make_notifying_event("subagent_stop", map_keys_with(agent_id="subagent_id", result="result")),
        "notification": make_notifying_event(
            "notification", map_keys_with(message="message", notification_type="notification_type", title="title")
        ),
        "task_completed": make_notifying_event("task_completed", map_keys_with(task_id="task_id", subject="subject")),
        "teammate_idle": make_notifying_event("teammate_idle", map_keys_with(teammate="teammate")),
    },
)
