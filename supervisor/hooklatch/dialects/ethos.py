"""The Ethos dialect: camelCase keys, three execution models fixed by the point, one merged object as answer."""

from __future__ import annotations

from typing import Any, Final

from hooklatch.dialects.dialect import Answers, Dialect, NativeEvent, feed

__all__ = ["ETHOS"]

SESSION = {"sessionId": "session_id", "sessionKey": "session_key", "personalityId": "personality_id"}
CHILD = {"parentSessionId": "parent_session_id", "childSessionId": "subagent_id", "personalityId": "personality_id"}
CALL = {"sessionId": "session_id", "toolCallId": "tool_use_id", "toolName": "tool_name", "voiceOrigin": "voice_origin"}
MODEL = {"model": "model_id", "turnNumber": "turn", "requestId": "request_id"}
# Each handler receives the original, the first value of a key wins, all handlers run, and then `error` decides.
MODIFYING: Final[dict[str, Any]] = {"view": "original", "combine": "first_wins", "ends_at": frozenset[str]()}


def make_void_event(event: str, keys: dict[str, str], **axes: Any) -> NativeEvent:
    return NativeEvent(feeds=(feed(event, {**SESSION, **keys}, **axes),), model="void")


def make_modifying_event(event: str, keys: dict[str, str], patch: dict[str, str], **axes: Any) -> NativeEvent:
    first = feed(event, {**SESSION, **keys}, **axes)
    words = {"deny": "error"} if first.fails_closed else {}
    return NativeEvent(feeds=(first,), answers=Answers(words=words, patch=patch), model="modifying")


def make_claiming_event(event: str, keys: dict[str, str]) -> NativeEvent:
    answers = Answers(words={"claim": "handled"})
    return NativeEvent(feeds=(feed(event, {**SESSION, **keys}),), answers=answers, model="claiming")


ETHOS: Final = Dialect(
    name="ethos",
    style="merged",
    plugins_without_list="none",
    registration={"name": "event", "handler": "id", "pluginId": "plugin"},
    unkept={"failurePolicy": "the point decides it: a gate that fails denies, any other is skipped; leave it out"},
    events={
        "session_start": make_void_event("session_start", {"platform": "platform"}),
        "before_prompt_build": make_modifying_event(
            "prompt_build",
            {"history": "history"},
            {"prepend_system": "prependSystem", "append_system": "appendSystem", "override_system": "overrideSystem"},
        ),
        "before_llm_call": make_void_event("model_request", MODEL),
        "after_llm_call": make_void_event(
            "model_response", {**MODEL, "usage": "usage", "finishReason": "finish_reason", "durationMs": "duration_ms"}
        ),
        "before_tool_call": make_modifying_event(
            "pre_tool_use", {**CALL, "args": "tool_input"}, {"tool_input": "args"}, **MODIFYING
        ),
        "after_tool_call": make_void_event(
            "post_tool_use", {**CALL, "args": "tool_input", "result": "tool_response", "durationMs": "duration_ms"}
        ),
        "tool_end_with_path": make_void_event(
            "tool_path", {"toolName": "tool_name", "filePath": "file_path", "workingDir": "working_dir"}
        ),
        "agent_done": make_void_event("stop", {"text": "last_assistant_message", "turnCount": "turn"}),
        "subagent_spawning": make_modifying_event(
            "subagent_start",
            {**CHILD, "prompt": "prompt"},
            {"prompt": "prompt", "personality_id": "personalityId"},
            fills={"agent_type": "personality_id"},
            **MODIFYING,
        ),
        "subagent_spawned": make_void_event("subagent_started", CHILD, fills={"agent_type": "personality_id"}),
        "subagent_ended": make_void_event(
            "subagent_stop", {**CHILD, "result": "result"}, fills={"agent_type": "personality_id"}
        ),
        "personality_switched": make_modifying_event(
            "personality_switch", {"from": "from", "to": "to"}, {"personality_id": "personality"}
        ),
        "inbound_claim": make_claiming_event(
            "message_claim",
            {"message": "message", "message.platform": "platform", "message.chatId": "chat_id", "message.text": "text"},
        ),
        "before_dispatch": make_claiming_event(
            "message_dispatch", {"platform": "platform", "chatId": "chat_id", "text": "text", "message": "message"}
        ),
        "message_sending": make_modifying_event(
            "message_send", {"chatId": "chat_id", "message": "message"}, {"message": "message"}
        ),
        "message_received": make_void_event(
            "message_received", {"message": "message", "message.chatId": "chat_id", "message.messageId": "message_id"}
        ),
        "message_sent": make_void_event(
            "message_sent", {"chatId": "chat_id", "messageId": "message_id", "message": "message"}
        ),
    },
)
