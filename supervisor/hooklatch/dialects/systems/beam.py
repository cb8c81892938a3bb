"""The BeamAgent dialect: one context map threaded through every hook; answers are ok, deny or ask with a reason."""

from __future__ import annotations

from typing import Final

from hooklatch.dialects.dialect import Answers, Dialect, Feed, NativeEvent, feed

__all__ = ["BEAM"]

# The context map has the same keys at every event.  All of them are fields, so context from hooks cannot replace any.
CONTEXT = {
    "session_id": "session_id",
    "tool_name": "tool_name",
    "tool_input": "tool_input",
    "tool_use_id": "tool_use_id",
    "agent_id": "agent_id",
    "agent_type": "agent_type",
    "content": "content",
    "stop_reason": "finish_reason",
    "duration_ms": "duration_ms",
    "stop_hook_active": "stop_hook_active",
    "prompt": "prompt",
    "params": "params",
    "permission_prompt_tool_name": "prompt_tool_name",
    "permission_suggestions": "suggestions",
    "updated_permissions": "permissions",
    "interrupt": "interrupt",
    "category": "category",
    "permission_id": "permission_id",
    "metadata": "metadata",
    "agent_transcript_path": "transcript_path",
    "system_info": "system_info",
    "reason": "reason",
    "reload_type": "reload_type",
    "status": "status",
}
ENDS_AT = frozenset({"deny", "ask", "halt"})
REFUSE = {"deny": "deny", "ask": "ask"}


def keys_with(**own: str) -> dict[str, str]:
    return {**CONTEXT, **own}


def blocking(first: Feed, *others: Feed, **patch: str) -> NativeEvent:
    return NativeEvent(feeds=(first, *others), answers=Answers(words=REFUSE, patch=patch))


def notifying(event: str, keys: dict[str, str]) -> NativeEvent:
    return NativeEvent(feeds=(feed(event, keys, flow="sequential"),))


BEAM: Final = Dialect(
    name="beam",
    style="threaded",
    matcher="exact_or_search",
    matcher_field="tool_name",
    event_key="event",
    registration={"matcher": "match", "callback": "id"},
    events={
        "pre_tool_use": blocking(feed("pre_tool_use", CONTEXT, ends_at=ENDS_AT), tool_input="tool_input"),
        "user_prompt_submit": blocking(
            feed("user_prompt_submit", CONTEXT, ends_at=ENDS_AT), prompt="prompt", params="params"
        ),
        "permission_request": blocking(
            feed("permission_request", CONTEXT, ends_at=ENDS_AT),
            tool_input="tool_input",
            permissions="updated_permissions",
        ),
        "subagent_start": blocking(
            feed("subagent_start", keys_with(agent_id="subagent_id"), ends_at=ENDS_AT),
            feed("subagent_started", keys_with(agent_id="subagent_id"), flow="sequential", when="passed"),
            prompt="prompt",
        ),
        "pre_compact": blocking(feed("pre_compact", keys_with(trigger="trigger"), ends_at=ENDS_AT)),
        "config_change": blocking(
            feed("config_change", keys_with(source="source"), ends_at=ENDS_AT, fills={"source": "reload_type"})
        ),
        "post_tool_use": notifying("post_tool_use", keys_with(content="tool_response")),
        "post_tool_use_failure": notifying("post_tool_use_failure", keys_with(error="error")),
        "stop": notifying("stop", CONTEXT),
        "session_start": notifying("session_start", keys_with(source="source")),
        "session_end": notifying("session_end", CONTEXT),
        "subagent_stop": notifying("subagent_stop", keys_with(agent_id="subagent_id", result="result")),
        "notification": notifying(
            "notification", keys_with(message="message", notification_type="notification_type", title="title")
        ),
        "task_completed": notifying("task_completed", keys_with(task_id="task_id", subject="subject")),
        "teammate_idle": notifying("teammate_idle", keys_with(teammate="teammate")),
    },
)
