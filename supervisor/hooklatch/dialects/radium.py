"""The Radium dialect: thirteen hook types by priority, and a list with one result for each hook as answer."""

from __future__ import annotations

from typing import Any, Final

from hooklatch.dialects.dialect import Answers, Dialect, EventMapping, NativeEvent, feed

__all__ = ["RADIUM"]

MODEL = {"model_id": "model_id"}
REQUEST = {**MODEL, "input": "request.input", "request_modifications": "request.request_modifications"}
RESPONSE = {**MODEL, "response": "response"}
CALL = {"tool_name": "tool_name", "arguments": "tool_input"}
DONE = {**CALL, "result": "tool_response"}
ERROR = {"error_type": "error_type", "error_message": "message", "error_source": "source", "error_data": "data"}
DATA = {"event_type": "event_type", "data": "data", "metadata": "metadata"}
STOP = {"deny": "stop"}  # should_continue = false, which all thirteen types can answer
LAST: Final[dict[str, Any]] = {"view": "original", "combine": "last_wins"}


def make_typed_event(
    name: str, *feeds: EventMapping, words: dict[str, str] = STOP, patch: dict[str, str] | None = None
) -> NativeEvent:
    return NativeEvent(feeds=feeds, answers=Answers(words=words, patch=patch or {}), aliases=(name,))


def make_told_feed(event: str, keys: dict[str, str], **axes: Any) -> EventMapping:
    return feed(event, keys, flow="sequential", **axes)


RADIUM: Final = Dialect(
    name="radium",
    style="results",
    by_priority=True,
    registration={"name": "id", "type": "event"},
    unkept={"script": 'Radium never runs it; write run = "file.py:function", or served = true'},
    events={
        "BeforeModel": make_typed_event(
            "before_model",
            feed("pre_model", REQUEST, **LAST),
            make_told_feed("model_request", REQUEST, when="passed"),
            patch={"request.input": "modified_input", "request.request_modifications": "request_modifications"},
        ),
        "AfterModel": make_typed_event(
            "after_model",
            feed("post_model", RESPONSE, **LAST),
            make_told_feed("model_response", RESPONSE),
            patch={"response": "response"},
        ),
        "BeforeTool": make_typed_event(
            "before_tool", feed("pre_tool_use", CALL, **LAST), patch={"tool_input": "modified_arguments"}
        ),
        "AfterTool": make_typed_event(
            "after_tool",
            feed("tool_result", DONE, **LAST),
            make_told_feed("post_tool_use", DONE),
            patch={"tool_response": "modified_result"},
        ),
        "ToolSelection": make_typed_event(
            "tool_selection", feed("tool_selection", {**CALL, "candidates": "candidates"})
        ),
        "ErrorInterception": make_typed_event(
            "error_interception", feed("error_intercept", ERROR), words={"claim": "stop"}
        ),
        "ErrorTransformation": make_typed_event(
            "error_transformation", feed("error_transform", ERROR), patch={"message": "transformed_error"}
        ),
        "ErrorRecovery": make_typed_event(
            "error_recovery", feed("error_recover", ERROR), words={"claim": "recovered_error"}
        ),
        "ErrorLogging": make_typed_event("error_logging", make_told_feed("error_log", ERROR)),
        "TelemetryCollection": make_typed_event("telemetry_collection", make_told_feed("telemetry", DATA)),
        "CustomLogging": make_typed_event("custom_logging", make_told_feed("custom_log", DATA)),
        "MetricsAggregation": make_typed_event("metrics_aggregation", make_told_feed("metrics", DATA)),
        "PerformanceMonitoring": make_typed_event("performance_monitoring", make_told_feed("performance", DATA)),
    },
)
